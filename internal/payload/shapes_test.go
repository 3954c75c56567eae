package payload_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"net/url"
	"time"
	"unsafe"
)

// The types of the table in oracle_test.go. Its test reads this file a second
// time, with go/types, so it imports the standard library only.

type (
	Plain struct {
		S  string `json:"s"`
		P  *int   `json:",omitempty"`
		L  []Item
		M  map[int8]Item `json:"m,omitzero"`
		A  [2]float32
		B  []byte
		N  json.Number
		R  json.RawMessage
		T  time.Time
		D  time.Duration
		I  *big.Int
		IP netip.Addr
		X  any
		Q  *int `json:",string"`
		_  [0]func()
		z  func()   `json:"-"`
		Ch chan int `json:"-"`
	}
	Item struct{ N uint }

	Recursive struct {
		Next *Recursive
		All  map[string][]Recursive
	}
	Pair[A, B any] struct {
		A A
		B B
	}
	Instances struct {
		P Pair[int, Pair[string, []Item]]
		L list
	}
	list = []Pair[int, int]

	Chan          struct{ C chan int }
	Func          struct{ F func() }
	Complex       struct{ C []complex64 }
	Pointer       struct{ P unsafe.Pointer }
	EmptyArray    struct{ F [0]func() }
	Interface     struct{ E error }
	InterfaceDeep struct{ M map[string][]*fmt.Stringer }
	FuncElement   struct{ P Pair[int, map[string]func()] }

	Unexported struct{ a int }
	names      []string
	EmbedNames struct{ names }
	EmbedSkip  struct {
		names `json:"-"`
	}
	Foreign     struct{ U url.URL }
	ForeignFine struct{ Q url.Values }
	Buffer      struct{ B bytes.Buffer }

	base        struct{ ID int }
	Base        struct{ ID int }
	Other       struct{ ID int }
	Promoted    struct{ base }
	PromotedPtr struct{ *Base }
	NamedEmbed  struct {
		base `json:"base"`
		ID   int
	}
	PtrUnexported    struct{ *base }
	PtrUnexportedTag struct {
		*base `json:"base"`
	}
	Annihilated struct {
		Base
		Other
	}
	Shadowed struct {
		Base
		ID int
	}
	TagWins struct {
		Base
		TaggedID
	}
	TaggedID struct {
		Key int `json:"ID"`
	}
	Saved struct {
		Base
		Other
		ID int `json:"-"`
	}
	Level1a struct{ Base }
	Level1b struct{ Base }
	Twice   struct {
		Level1a
		Level1b
	}
	Wrap      struct{ Level1a }
	Wraps1    struct{ Wrap }
	Wraps2    struct{ Wrap }
	TwiceDeep struct {
		Wraps1
		Wraps2
	}
	Again struct {
		N int
		*Again
	}
	Folds struct {
		ID int `json:"id"`
		Id int `json:"ID"`
	}
	Kelvin struct {
		A int `json:"k"`
		B int `json:"\u212a"`
	}
	LongS struct {
		A int `json:"s"`
		B int `json:"ſ"`
	}

	Option struct {
		A time.Time `json:"a,format:unix"`
	}
	Quoted struct {
		A *int    `json:",string"`
		B float64 `json:"b,string,omitempty"`
		C string  `json:",string"`
	}
	QuotedSelf struct {
		A Level `json:",string"`
	}

	BoolKey     struct{ M map[bool]int }
	ArrayKey    struct{ M map[[2]int]int }
	AnyKey      struct{ M map[any]int }
	TextKey     struct{ M map[netip.Addr]int }
	BigKey      struct{ M map[*big.Int]int }
	NameKey     struct{ M map[Name]int }
	LevelKey    struct{ M map[Level]int }
	WriteKey    struct{ M map[WriteInt]int }
	PtrWriteKey struct{ M map[PtrInt]int }

	BigValue   struct{ I big.Int }
	BigSlice   struct{ I []big.Int }
	BigMap     struct{ I map[string]big.Int }
	BigArray   struct{ I [1]big.Int }
	BigArrayIn struct{ I *[1]big.Int }
	PtrWhole   struct{ Opaque }
	WriteOnly  struct{ W WriteInt }
	ReadOnly   struct{ R ReadInt }
	Replaced   struct {
		time.Time
		Note string
	}
	ReplacedSkip struct {
		time.Time
		Note string `json:"-"`
	}
	NilEmbed   struct{ *time.Time }
	IfaceEmbed struct{ json.Marshaler }
	HalfOwn    struct {
		Level
		Note string
	}
	HalfAlone   struct{ Level }
	PtrEmbedBig struct{ *HoldsBig }
	HoldsBig    struct{ I big.Int }
	ReadBytes   struct{ B []ReadOctet }
	ReadOctet   byte // reads itself only
	OtherText   struct {
		time.Time
		Level
	}
	Cancel struct {
		Opaque
		json.RawMessage
	}
	hidden       struct{ N int }
	HiddenPanics struct {
		hidden `json:"hidden"`
		Level
	}
	Bytes       struct{ B []Octet }
	TextBytes   struct{ B []TextOctet }
	Octet       byte
	TextOctet   byte
	Level       int    // writes and reads itself as text
	Name        string // likewise
	WriteInt    int    // writes itself only
	ReadInt     int    // reads itself only
	PtrInt      int    // writes itself, by pointer
	Opaque      struct{ n int }
	WithRawRoot struct{ Opaque Opaque }
)

var errNotOurs = errors.New("not ours")

func mark(n int) ([]byte, error) { return fmt.Appendf(nil, "#%d", n), nil }

func unmark(text []byte) (n int, err error) {
	if _, err := fmt.Sscanf(string(text), "#%d", &n); err != nil {
		return 0, errNotOurs
	}
	return n, nil
}

func (l Level) MarshalText() ([]byte, error) { return mark(int(l)) }
func (l *Level) UnmarshalText(text []byte) error {
	n, err := unmark(text)
	*l = Level(n)
	return err
}

func (n Name) MarshalText() ([]byte, error)     { return []byte("#" + n), nil }
func (n *Name) UnmarshalText(text []byte) error { *n = Name(text[1:]); return nil }

func (n WriteInt) MarshalText() ([]byte, error) { return mark(int(n)) }

func (r *ReadInt) UnmarshalJSON(text []byte) error { return errNotOurs }

func (n *PtrInt) MarshalText() ([]byte, error) { return mark(int(*n)) }
func (n *PtrInt) UnmarshalText(text []byte) error {
	got, err := unmark(text)
	*n = PtrInt(got)
	return err
}

func (o TextOctet) MarshalText() ([]byte, error) { return mark(int(o)) }
func (o *TextOctet) UnmarshalText(text []byte) error {
	n, err := unmark(text)
	*o = TextOctet(n)
	return err
}

func (o *Opaque) MarshalJSON() ([]byte, error)    { return fmt.Append(nil, o.n), nil }
func (o *Opaque) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &o.n) }

func (o *ReadOctet) UnmarshalText(text []byte) error { return errNotOurs }

func (h HalfAlone) MarshalText() ([]byte, error) { return []byte("alone"), nil }
func (h HalfOwn) MarshalText() ([]byte, error)   { return []byte(h.Note), nil }

func (h hidden) MarshalText() ([]byte, error)     { return mark(h.N) }
func (h *hidden) UnmarshalText(text []byte) error { n, err := unmark(text); h.N = n; return err }
