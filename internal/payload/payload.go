// Package payload says what encoding/json would do to the values of a type,
// from the type alone: what it cannot write, drops or replaces without a word,
// and what it writes but cannot read back.
//
// It works on go/types and nothing else, so that a generator and an analyzer
// can share it.
package payload

import (
	"cmp"
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// Problem is something that would be lost between Marshal and Unmarshal.
type Problem struct {
	// Pos is that of the innermost field of the checked package on the way to
	// the problem: what other packages declare cannot be edited there. Without
	// such a field it is where the type is declared, or NoPos.
	Pos token.Pos

	// Path leads from the type to the problem through the names of fields, with
	// [] for an element and [key] for the key of a map: "Lines[].Price". It is
	// empty for the type itself.
	Path string

	// Text says what is wrong; what to do.
	Text string
}

// Check walks everything that json.Marshal reaches from a value of type t, and
// returns what would not come back from json.Unmarshal, sorted by position.
// The value is one that Marshal cannot take the address of, as topics do.
//
// An empty interface is taken for what its author wants: any JSON. What cannot
// be resolved is passed over. A field of the blank name holds nothing.
func Check(from *types.Package, t types.Type) []Problem {
	w := &walker{from: from, seen: map[visit]bool{}, told: map[told]int{}}
	var at place
	if named, ok := types.Unalias(t).(*types.Named); ok && w.owns(named.Obj()) {
		at.pos = named.Obj().Pos()
	}
	w.value(t, false, at)
	slices.SortStableFunc(w.found, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Pos, b.Pos), strings.Compare(a.Text, b.Text))
	})
	return w.found
}

// walker carries what one Check has seen.
type walker struct {
	from  *types.Package
	seen  map[visit]bool
	told  map[told]int   // index in found
	stack []*types.Named // the types being walked
	found []Problem
}

// place is where the walk is.
type place struct {
	pos  token.Pos
	path string
	tail string // of the path, behind the field at pos
}

// told tells apart the problems of one field. The ways that lead to the field
// do not count; the shortest is reported.
type told struct {
	pos        token.Pos
	tail, text string
}

// visit is a type as it is met at a place. The same type may be fine at one
// place and not at another.
type visit struct {
	identity
	addressable bool
	pos         token.Pos
}

// identity is the same for identical types.
type identity struct {
	name *types.TypeName // nil if the type has none
	text string          // the type arguments, or the whole type
}

func identify(t types.Type) identity {
	named, ok := types.Unalias(t).(*types.Named)
	switch {
	case !ok:
		return identity{text: types.TypeString(t, nil)}
	case named.TypeArgs().Len() == 0:
		return identity{name: named.Obj()}
	}
	return identity{named.Origin().Obj(), types.TypeString(named, nil)}
}

func (w *walker) owns(obj types.Object) bool {
	return obj.Pkg() != nil && w.from != nil && obj.Pkg().Path() == w.from.Path() && obj.Pos().IsValid()
}

func (w *walker) problem(at place, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	key := told{at.pos, at.tail, text}
	i, ok := w.told[key]
	switch {
	case !ok:
		w.told[key] = len(w.found)
		w.found = append(w.found, Problem{at.pos, at.path, text})
	case len(at.path) < len(w.found[i].Path):
		w.found[i].Path = at.path
	}
}

// field is the place of a field of what is here.
func (w *walker) field(at place, f *types.Var) place {
	at = at.within("." + f.Name())
	at.path = strings.TrimPrefix(at.path, ".")
	if w.owns(f) {
		at.pos, at.tail = f.Pos(), ""
	}
	return at
}

func (at place) within(mark string) place {
	at.path += mark
	at.tail += mark
	return at
}

// value checks a value, of which Marshal can take the address or not: it
// decides whether methods with a pointer receiver are called.
func (w *walker) value(t types.Type, addressable bool, at place) {
	t = types.Unalias(t)
	if named, ok := t.(*types.Named); ok {
		if !w.enter(named, addressable, at) {
			return
		}
		defer func() { w.stack = w.stack[:len(w.stack)-1] }()
	}
	switch u := t.Underlying().(type) {
	case *types.Interface:
		w.iface(t, u, at)
		return
	case *types.Pointer: // has the methods of its element, of which it is the address
		w.value(u.Elem(), true, at)
		return
	}
	if w.self(t, addressable, at) {
		return
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		if u.Info()&types.IsComplex != 0 || u.Kind() == types.UnsafePointer {
			w.unsupported(t, at)
		}
	case *types.Chan, *types.Signature:
		w.unsupported(t, at)
	case *types.Slice:
		if !IsBytes(u) {
			w.value(u.Elem(), true, at.within("[]"))
		}
	case *types.Array:
		if u.Len() > 0 {
			w.value(u.Elem(), addressable, at.within("[]"))
		}
	case *types.Map:
		w.key(u.Key(), at.within("[key]"))
		w.value(u.Elem(), false, at.within("[]"))
	case *types.Struct:
		w.fields(t, u, addressable, at)
	}
}

func (w *walker) unsupported(t types.Type, at place) {
	w.problem(at, "%s cannot be written as JSON, and Enqueue would fail; leave the field out with json:\"-\", or change its type", w.spell(t))
}

func (w *walker) iface(t types.Type, u *types.Interface, at place) {
	if _, ok := t.(*types.TypeParam); ok || u.NumMethods() == 0 {
		return
	}
	w.problem(at, "%s is an interface with methods, which cannot be read back: JSON does not say which type to make; use a concrete type, or json.RawMessage",
		w.spell(t))
}

// enter reports whether a type is still to be walked here, and puts it on the
// stack if so.
func (w *walker) enter(t *types.Named, addressable bool, at place) bool {
	v := visit{identify(t), addressable, at.pos}
	if w.seen[v] || Grows(t, w.stack) {
		return false
	}
	w.seen[v] = true
	w.stack = append(w.stack, t)
	return true
}

// Grows reports whether an instance of a generic type, within others, is one
// of those that grow with each step, and so have no end. Those that do not are
// finitely many.
func Grows(t *types.Named, within []*types.Named) bool {
	const most = 3
	if t.TypeArgs().Len() == 0 {
		return false
	}
	size, grown := weigh(t), 0
	for _, outer := range within {
		if outer.Origin() == t.Origin() && weigh(outer) < size {
			grown++
		}
	}
	return grown >= most
}

// weigh counts what a type is built of, which grows with its arguments.
func weigh(t types.Type) int {
	n := 0
	for _, c := range types.TypeString(t, nil) {
		if strings.ContainsRune("[*({ ", c) {
			n++
		}
	}
	return n
}

// spell prints a type for a message.
func (w *walker) spell(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if w.from != nil && p.Path() == w.from.Path() {
			return ""
		}
		return p.Name()
	})
}
