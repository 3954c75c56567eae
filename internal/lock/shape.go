package lock

import (
	"cmp"
	"go/token"
	"go/types"
	"slices"

	"github.com/typedoutbox/typedoutbox/internal/payload"
)

// Shape is what the JSON of a type is made of, sorted by path. The first field
// is the whole payload.
type Shape []Field

// Field is a value in a payload.
type Field struct {
	// Path leads to the value through the keys: "customer.name", with [] for
	// the elements of a list and {} for the values of a map. It is empty for
	// the whole payload. Keys other than of letters, digits, _ and - are
	// quoted.
	Path string

	// Go is the path through the fields of Go, for messages and to tell a
	// renamed field.
	Go string

	Kind    Kind
	Pointer bool     // the value is a pointer in Go, so that null is not the zero value
	Null    bool     // null may be stored
	Absent  bool     // it may be missing, since the version was once stored without it
	Omit    string   // omitempty and omitzero as far as the tag has them, comma between
	Quoted  bool     // the option string of the tag
	Enum    []string // the constants of the type, as name=value
	Same    string   // the path of the value with the fields of this one, "." for the whole payload: of recursion

	Pos token.Pos // of the field in Go; not stored
}

func (f Field) stored() fieldJSON {
	return fieldJSON{f.Path, f.Go, f.Kind, f.Pointer, f.Null, f.Absent, f.Omit, f.Quoted, f.Enum, f.Same}
}

func (f fieldJSON) field() Field {
	return Field{f.Path, f.Go, f.Kind, f.Pointer, f.Null, f.Absent, f.Omit, f.Quoted, f.Enum, f.Same, token.NoPos}
}

func (s Shape) sort() {
	slices.SortFunc(s, func(a, b Field) int { return cmp.Compare(a.Path, b.Path) })
}

// root is how Same spells the path of the whole payload.
const root = "."

// ShapeOf returns the shape of a type, the positions being those of the fields
// that from declares. What encoding/json cannot write is opaque.
func ShapeOf(from *types.Package, t types.Type) Shape {
	w := &walker{from: from, first: map[seen]string{}}
	pos := token.NoPos
	if named, ok := types.Unalias(t).(*types.Named); ok && named.Obj().Pkg() == from {
		pos = named.Obj().Pos()
	}
	w.value(t, Field{Pos: pos}, false)
	w.out.sort()
	return w.out
}

// walker carries what one ShapeOf has seen.
type walker struct {
	from  *types.Package
	stack []*types.Named
	first map[seen]string // the path of a type that is on the stack, or was walked
	out   Shape
}

// seen tells apart the types that have a name. Where one is written in another
// way because Marshal can take its address, package payload refuses it.
type seen struct {
	name *types.TypeName
	text string
}

// value adds a value of type t, of which f says where it is.
func (w *walker) value(t types.Type, f Field, addressable bool) {
	t = types.Unalias(t)
	for depth := 0; ; depth++ {
		ptr, ok := t.Underlying().(*types.Pointer)
		if !ok {
			break
		}
		f.Pointer, f.Null, addressable = true, true, true
		if t = types.Unalias(ptr.Elem()); depth == maxPointers {
			f.Kind = opaque(w.spell(t))
			w.add(f)
			return
		}
	}
	f.Kind = w.kind(t, addressable)
	named, _ := t.(*types.Named)
	if named != nil && payload.Grows(named, w.stack) {
		f.Kind = opaque(w.spell(t))
	}
	f.Null = f.Null || f.Kind.nilable()
	if f.Omit != "" {
		f.Null = false
	}
	if f.Kind == "string" || f.Kind.isInt() {
		f.Enum = w.constants(t)
	}
	if named != nil && f.Kind.container() != "" {
		id := seen{named.Origin().Obj(), types.TypeString(named, nil)}
		if path, ok := w.first[id]; ok {
			f.Same = cmp.Or(path, root)
			w.add(f)
			return
		}
		w.first[id] = f.Path
		w.stack = append(w.stack, named)
		defer func() {
			w.stack = w.stack[:len(w.stack)-1]
			if len(w.out) < maxFields {
				delete(w.first, id)
			}
		}()
	}
	w.add(f)
	switch u := t.Underlying().(type) {
	case *types.Struct:
		if f.Kind != "object" {
			return
		}
		for _, c := range payload.Fields(w.from, t, addressable, f.Pos) {
			w.value(c.Type, Field{Path: join(f.Path, spellKey(c.Key)), Go: join(f.Go, c.Name), Omit: c.Omit, Quoted: c.Quoted, Pos: c.Pos}, c.Addressable)
		}
	case *types.Slice:
		if f.Kind == "list" {
			w.value(u.Elem(), Field{Path: f.Path + elements, Go: f.Go + elements, Pos: f.Pos}, true)
		}
	case *types.Array:
		if f.Kind.container() != "" {
			w.value(u.Elem(), Field{Path: f.Path + elements, Go: f.Go + elements, Pos: f.Pos}, addressable)
		}
	case *types.Map:
		if f.Kind.container() != "" {
			w.value(u.Elem(), Field{Path: f.Path + values, Go: f.Go + values, Pos: f.Pos}, false)
		}
	}
}

const (
	maxPointers = 10   // to a pointer: more are a type without end
	maxFields   = 1000 // from there on each type is walked once
)

func (w *walker) add(f Field) { w.out = append(w.out, f) }

// spell prints a type without the path of its package if that is the one that
// declares the event, which may move.
func (w *walker) spell(t types.Type) string {
	return types.TypeString(t, func(p *types.Package) string {
		if w.from != nil && p.Path() == w.from.Path() {
			return ""
		}
		return p.Path()
	})
}
