package lock

// Merge returns what is to be recorded of a version whose shape was old and is
// new: the new shape, with what rows of the old one may hold.
func Merge(old, new Shape) Shape {
	null := map[string]bool{}
	for _, f := range old {
		null[f.Path] = f.Null
	}
	out := make(Shape, len(new))
	for i, f := range new {
		f.Null = f.Null || null[f.Path]
		out[i] = f
	}
	return out
}
