package payload

import "go/types"

// form is how the key of a map is spelled.
type form int

const (
	impossible form = iota
	plain           // a string or a decimal, as the kind has it
	custom          // by a method
)

// key checks the key of a map, for which encoding/json has rules of its own: a
// string is written as it is even if it has a method, but read by the method.
func (w *walker) key(t types.Type, at place) {
	t = types.Unalias(t)
	out, in := keyWritten(t), impossible
	basic, _ := t.Underlying().(*types.Basic)
	isPlain := basic != nil && basic.Info()&(types.IsString|types.IsInteger) != 0
	_, isPointer := t.Underlying().(*types.Pointer)
	switch {
	case !isPointer && !types.IsInterface(t) && lookup(t, true, "UnmarshalText", reads).name != "":
		in = custom
	case isPlain:
		in = plain
	}
	const remedy = "use a string or an integer as the key"
	if _, ok := t.(*types.TypeParam); ok {
		return
	}
	switch name := w.spell(t); {
	case out == impossible:
		w.problem(at, "%s cannot be the key of a JSON object, and Enqueue would fail; %s", name, remedy)
	case in == impossible:
		w.problem(at, "the key %s writes itself but cannot be read back; %s", name, remedy)
	case out == plain && in == custom:
		w.problem(at, "as a key, %s is written without MarshalText but read with UnmarshalText; %s", name, remedy)
	case out == custom && in == plain:
		w.problem(at, "as a key, %s is written with MarshalText but read without UnmarshalText; %s", name, remedy)
	}
}

func keyWritten(t types.Type) form {
	basic, _ := t.Underlying().(*types.Basic)
	switch {
	case basic != nil && basic.Info()&types.IsString != 0:
		return plain
	case lookup(t, false, "MarshalText", writes).name != "":
		return custom
	case basic != nil && basic.Info()&types.IsInteger != 0:
		return plain
	}
	return impossible
}
