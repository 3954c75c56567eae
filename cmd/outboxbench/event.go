package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/typedoutbox/typedoutbox/topics"
)

// order is the event that everybody enqueues, decodes and handles.
type order struct {
	ID   string `json:"id"`
	Note string `json:"note"`
}

const topicName = "bench.orders"

var (
	orderTopic = topics.New[order](topicName, nil)
	keyedTopic = topics.New("bench.keyed", &topics.Options[order]{Key: func(o order) string { return o.ID }})
)

// newOrder returns an order whose payload has so many bytes, of text that does
// not compress.
func newOrder(bytes int) order {
	o := order{ID: "order-0000001"}
	text := make([]byte, max(0, bytes-len(encode(o))))
	_, _ = rand.NewChaCha8([32]byte{}).Read(text)
	o.Note = base64.RawURLEncoding.EncodeToString(text)[:len(text)]
	return o
}

// encode is what an outbox by hand does.
func encode(o order) string {
	payload, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("outboxbench: an order is a plain struct: %v", err))
	}
	return string(payload)
}

var errEmptyOrder = errors.New("an order without an id was delivered")

// tally is the handler that everybody has: it counts, and perhaps does more.
type tally struct {
	delivered atomic.Int64
	handler   func(order) error // nil: nothing
}

func (t *tally) handle(o order) error {
	if o.ID == "" {
		return errEmptyOrder
	}
	t.delivered.Add(1)
	if t.handler != nil {
		return t.handler(o)
	}
	return nil
}

// decode is for those whose library does not.
func (t *tally) decode(payload []byte) error {
	var o order
	if err := json.Unmarshal(payload, &o); err != nil {
		return err
	}
	return t.handle(o)
}
