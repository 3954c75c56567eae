package lock

// Change is how two shapes differ at a value.
type Change string

const (
	Added    Change = "added"      // Old is nil
	Removed  Change = "removed"    // New is nil
	Renamed  Change = "renamed"    // the key of a field, by the name of the field or what else is the same
	Swapped  Change = "swapped"    // two fields have each other's key
	Retyped  Change = "retyped"    // another kind, or the option string
	Pointed  Change = "pointed"    // a pointer now, or no longer
	Omitted  Change = "omitted"    // omitempty or omitzero
	Numbered Change = "enumerated" // the constants of the type
)

// Difference is what differs at one value. Below a value that is added,
// removed or of another kind, nothing is told.
type Difference struct {
	Path     string // in the new shape, or in the old one if it is removed
	Old, New *Field
	Change   Change
}

// Diff returns what differs, sorted by path. It does not judge.
func Diff(old, new Shape) []Difference {
	var out []Difference
	byPath := map[string]*Field{}
	for i := range old {
		byPath[old[i].Path] = &old[i]
	}
	for i := range new {
		n := &new[i]
		o := byPath[n.Path]
		delete(byPath, n.Path)
		switch {
		case o == nil:
			out = append(out, Difference{n.Path, nil, n, Added})
		case o.Kind != n.Kind || o.Quoted != n.Quoted:
			out = append(out, Difference{n.Path, o, n, Retyped})
		}
	}
	for i := range old {
		if o := byPath[old[i].Path]; o != nil {
			out = append(out, Difference{o.Path, o, nil, Removed})
		}
	}
	return out
}

// Merge returns what is to be recorded of a version whose shape was old and is
// new: the new shape, with what rows of the old may hold.
func Merge(old, new Shape) Shape {
	was := map[string]Field{}
	for _, f := range old {
		was[f.Path] = f
	}
	out := make(Shape, len(new))
	for i, f := range new {
		f.Null = f.Null || was[f.Path].Null
		out[i] = f
	}
	return out
}
