package gen

import (
	"go/token"
	"go/types"
)

// unresolved reports the fields, reachable from an event, whose type the type
// checker could not make out, and whether there are any.
func (u *unit) unresolved(e *event, st *types.Struct) bool {
	w := &resolver{seen: map[types.Type]bool{e.obj.Type(): true}}
	w.fields(st)
	for _, pos := range w.bad {
		u.report.addf(pos, "the type of this field of %s does not resolve%s; make it compile, then generate",
			e.typeName(), u.because(pos))
	}
	return len(w.bad) > 0
}

// resolver walks types. It looks into type arguments and into the generic
// type, never into its instances, of which there may be no end.
type resolver struct {
	seen  map[types.Type]bool
	field token.Pos // the innermost one
	bad   []token.Pos
}

func (w *resolver) fields(st *types.Struct) {
	outer := w.field
	for f := range st.Fields() {
		w.field = f.Pos()
		w.visit(f.Type())
	}
	w.field = outer
}

func (w *resolver) visit(t types.Type) {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		if t.Kind() == types.Invalid {
			w.bad = append(w.bad, w.field)
		}
	case *types.Named:
		for arg := range t.TypeArgs().Types() {
			w.visit(arg)
		}
		if origin := t.Origin(); !w.seen[origin] {
			w.seen[origin] = true
			w.visit(origin.Underlying())
		}
	case *types.Struct:
		w.fields(t)
	case *types.Map:
		w.visit(t.Key())
		w.visit(t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		w.visit(t.Elem())
	}
}
