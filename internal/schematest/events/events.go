// Package events has payloads of every kind that a published schema tells
// apart.
package events

import (
	"encoding/json"
	"net/netip"
	"time"
)

//go:generate go tool outboxgen -schema schemas

//outbox:package handlers=off

// Status is what an order has come to.
type Status string

// What an order may have come to.
const (
	Open Status = "open"
	Paid Status = "paid"
)

// Everything has a field of each kind.
//
//outbox:event shop/test:everything
type Everything struct {
	Base
	Bool     bool             `json:"bool"`
	Int8     int8             `json:"int8"`
	Int      int              `json:"int"`
	Uint64   uint64           `json:"uint64"`
	Float32  float32          `json:"float32"`
	Float64  float64          `json:"float64"`
	String   string           `json:"string"`
	Bytes    []byte           `json:"bytes"`
	Time     time.Time        `json:"time"`
	Duration time.Duration    `json:"duration"`
	Number   json.Number      `json:"number"`
	Any      any              `json:"any"`
	Raw      json.RawMessage  `json:"raw"`
	Text     netip.Addr       `json:"text"`
	Opaque   Opaque           `json:"opaque"`
	Status   Status           `json:"status"`
	Object   Item             `json:"object"`
	Pointer  *Item            `json:"pointer"`
	List     []Item           `json:"list"`
	Array    [2]int           `json:"array"`
	Map      map[string]*Item `json:"map"`
	ByID     map[int64]string `json:"by_id"`
	Tree     *Tree            `json:"tree/~ %"`
	Empty    struct{}         `json:"empty"`

	QuotedBool  bool    `json:"quoted_bool,string"`
	QuotedInt   *int    `json:"quoted_int,string"`
	QuotedFloat float64 `json:"quoted_float,string"`
	QuotedText  string  `json:"quoted_text,string"`

	OmitEmpty *int      `json:"omit_empty,omitempty"`
	OmitZero  time.Time `json:"omit_zero,omitzero"`
}

// Base is embedded.
type Base struct {
	ID string `json:"id"`
}

// Item is part of others.
type Item struct {
	SKU   string `json:"sku"`
	Count uint8  `json:"count"`
}

// Tree holds itself.
type Tree struct {
	Name     string          `json:"name"`
	Children []Tree          `json:"children"`
	ByName   map[string]Tree `json:"by name"`
}

// Opaque writes itself.
type Opaque struct{ X, Y int }

// MarshalJSON writes a pair.
func (o Opaque) MarshalJSON() ([]byte, error) { return json.Marshal([]int{o.X, o.Y}) }

// UnmarshalJSON reads one.
func (o *Opaque) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]*int{&o.X, &o.Y})
}

// Grown is at its second version.
//
//outbox:event grown version=2 alias=small
type Grown struct {
	Cents int64 `json:"cents"`
}

type grownV1 struct {
	Euros float64 `json:"euros"`
}

//outbox:upcast Grown from=1
func grownFromV1(old grownV1) (Grown, error) { return Grown{Cents: int64(old.Euros * 100)}, nil }
