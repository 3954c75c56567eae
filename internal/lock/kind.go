package lock

import (
	"fmt"
	"go/types"
	"strconv"
	"strings"

	"github.com/typedoutbox/typedoutbox/internal/payload"
)

// Kind is how a value is written: bool, string, int8 to int64, uint8 to uint64
// (int and uint count as 64 bits wide), float32, float64, number (json.Number),
// bytes (base64), time, duration, any, raw (json.RawMessage), object, list,
// "array N", "map KEY" with the kind of its keys, "text TYPE" (a string by
// MarshalText) or "opaque TYPE" (MarshalJSON). A TYPE begins with * if its
// method has a pointer receiver and is not called.
type Kind string

func opaque(name string) Kind { return Kind("opaque " + name) }

// known are types whose JSON is known though they write it themselves, or
// which mean more than their kind.
var known = map[string]Kind{
	"time.Time":                "time",
	"time.Duration":            "duration",
	"encoding/json.Number":     "number",
	"encoding/json.RawMessage": "raw",
}

var basics = map[types.BasicKind]Kind{
	types.Bool: "bool", types.String: "string",
	types.Int: "int64", types.Int8: "int8", types.Int16: "int16", types.Int32: "int32", types.Int64: "int64",
	types.Uint: "uint64", types.Uint8: "uint8", types.Uint16: "uint16", types.Uint32: "uint32", types.Uint64: "uint64", types.Uintptr: "uint64",
	types.Float32: "float32", types.Float64: "float64",
}

// kind is that of a type other than a pointer.
func (w *walker) kind(t types.Type, addressable bool) Kind {
	if named, ok := t.(*types.Named); ok && named.Obj().Pkg() != nil {
		if k := known[named.Obj().Pkg().Path()+"."+named.Obj().Name()]; k != "" {
			return k
		}
	}
	if _, isParam := t.(*types.TypeParam); !isParam && !types.IsInterface(t) {
		if method, called := payload.Self(t, addressable); method != "" {
			name := w.spell(t)
			if !called {
				name = "*" + name
			}
			if strings.HasSuffix(method, "Text") {
				return Kind("text " + name)
			}
			return opaque(name)
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		if k := basics[u.Kind()]; k != "" {
			return k
		}
	case *types.Struct:
		return "object"
	case *types.Slice:
		if payload.IsBytes(u) {
			return "bytes"
		}
		return "list"
	case *types.Array:
		return Kind(fmt.Sprintf("array %d", u.Len()))
	case *types.Map:
		if payload.SelfKey(u.Key()) {
			return Kind("map text " + w.spell(u.Key()))
		}
		if basic, ok := u.Key().Underlying().(*types.Basic); ok && basics[basic.Kind()] != "" {
			return "map " + basics[basic.Kind()]
		}
		return Kind("map opaque " + w.spell(u.Key()))
	case *types.Interface:
		if u.NumMethods() == 0 {
			return "any"
		}
	}
	return opaque(w.spell(t))
}

// word is the kind without what follows it, of.
func (k Kind) word() string {
	word, _, _ := strings.Cut(string(k), " ")
	return word
}

// of is what follows the word: of a map the kind of its keys, of a text or an
// opaque value its type, of an array its length.
func (k Kind) of() string {
	_, of, _ := strings.Cut(string(k), " ")
	return of
}

// container is what a value is that holds others, or "".
func (k Kind) container() string {
	switch word := k.word(); word {
	case "object", "map", "list":
		return word
	case "array":
		return "list"
	}
	return ""
}

// nilable reports whether a value that is no pointer may be nil: written as
// null, and read from it without loss.
func (k Kind) nilable() bool {
	switch k.word() {
	case "list", "map", "bytes", "any", "raw":
		return true
	}
	return false
}

func (k Kind) length() int {
	n, _ := strconv.Atoi(k.of())
	return n
}
