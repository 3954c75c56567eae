package payload

import (
	"go/token"
	"go/types"
)

// method is one of those by which a type writes or reads itself.
type method struct {
	name  string // empty if there is none
	index []int  // through embedded fields, the method itself last
}

func (m method) promoted() bool { return len(m.index) > 1 }

var (
	bytesType = types.NewSlice(types.Typ[types.Byte])
	errorType = types.Universe.Lookup("error").Type()

	writes = signature(nil, []types.Type{bytesType, errorType})
	reads  = signature([]types.Type{bytesType}, []types.Type{errorType})
)

func signature(params, results []types.Type) *types.Signature {
	tuple := func(list []types.Type) *types.Tuple {
		vars := make([]*types.Var, len(list))
		for i, t := range list {
			vars[i] = types.NewParam(token.NoPos, nil, "", t)
		}
		return types.NewTuple(vars...)
	}
	return types.NewSignatureType(nil, nil, nil, tuple(params), tuple(results), false)
}

// lookup finds a method in the method set of t, or of its pointer if t is
// addressable.
func lookup(t types.Type, addressable bool, name string, want *types.Signature) method {
	obj, index, _ := types.LookupFieldOrMethod(t, addressable, nil, name)
	fn, ok := obj.(*types.Func)
	if !ok || !types.Identical(fn.Signature(), want) {
		return method{}
	}
	return method{name, index}
}

// writer is the method that Marshal calls on a value of t.
func writer(t types.Type, addressable bool) method {
	if m := lookup(t, addressable, "MarshalJSON", writes); m.name != "" {
		return m
	}
	return lookup(t, addressable, "MarshalText", writes)
}

// reader is the method that Unmarshal calls on a value of t, whose address it
// always has.
func reader(t types.Type) method {
	if m := lookup(t, true, "UnmarshalJSON", reads); m.name != "" {
		return m
	}
	return lookup(t, true, "UnmarshalText", reads)
}

// IsBytes reports whether a slice is written, and read, as base64.
func IsBytes(t *types.Slice) bool {
	basic, ok := t.Elem().Underlying().(*types.Basic)
	return ok && basic.Kind() == types.Uint8 && writer(t.Elem(), true).name == ""
}

// self checks a type that writes or reads itself, and reports whether it is
// one: its fields do not matter then.
func (w *walker) self(t types.Type, addressable bool, at place) bool {
	out, in := writer(t, true), reader(t)
	if out.name == "" && in.name == "" {
		return false
	}
	name := w.spell(t)
	for _, m := range []method{out, in} {
		if m.promoted() && w.replaced(t, m, out, in, at) {
			return true
		}
	}
	switch called := writer(t, addressable); {
	case in.name == "":
		w.problem(at, "%s writes itself with %s but does not read itself, so it would not come back as it was; give it the matching Unmarshal method",
			name, out.name)
	case out.name == "":
		w.problem(at, "%s reads itself with %s but does not write itself, so it need not come back as it was; give it the matching Marshal method",
			name, in.name)
	case called.name != out.name:
		w.problem(at, "%s of %s has a pointer receiver and is not called on a value that has no address, as here; use *%s, or a value receiver",
			out.name, name, name)
	}
	return true
}

// replaced reports a method that comes from an embedded field and yet stands
// for the whole struct. A struct that only wraps the field loses nothing by it.
func (w *walker) replaced(t types.Type, m, out, in method, at place) bool {
	st, ok := t.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	f := st.Field(m.index[0])
	here := w.field(at, f)
	switch {
	case throughNil(st, m.index):
		w.problem(here, "%s comes from the embedded %s, which is nil in a new %s, so reading would panic; give the field a name",
			m.name, f.Name(), w.spell(t))
	case out.name != "" && in.name != "" && (!in.promoted() || !out.promoted() || in.index[0] != out.index[0]):
		w.problem(here, "%s comes from the embedded %s, but not its counterpart, so %s would not come back as it was; give the field a name",
			m.name, f.Name(), w.spell(t))
	case hasOthers(st, m.index[0]):
		w.problem(here, "%s of the embedded %s replaces the whole of %s, and the other fields are lost; give the field a name",
			m.name, f.Name(), w.spell(t))
	default:
		return false
	}
	return true
}

// throughNil reports whether a path of embedded fields leads through a
// pointer or an interface.
func throughNil(st *types.Struct, index []int) bool {
	for _, i := range index[:len(index)-1] {
		if st == nil || i >= st.NumFields() {
			return false
		}
		t := st.Field(i).Type().Underlying()
		switch t.(type) {
		case *types.Pointer, *types.Interface:
			return true
		}
		st, _ = t.(*types.Struct)
	}
	return false
}

// hasOthers reports whether a struct has another field that holds data.
func hasOthers(st *types.Struct, but int) bool {
	for i := range st.NumFields() {
		if f := st.Field(i); i != but && f.Name() != "_" && !parseTag(st.Tag(i)).skip {
			return true
		}
	}
	return false
}
