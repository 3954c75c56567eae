package lock

// Merge returns what is to be recorded of a version whose shape was old and is
// new: the new shape, with what rows of the old one may hold or lack.
func Merge(old, new Shape) Shape {
	former := map[string]Field{}
	for _, f := range old {
		former[f.Path] = f
	}
	out := make(Shape, len(new))
	for i, f := range new {
		was, ok := former[f.Path]
		f.Null = f.Null || was.Null
		f.Absent = was.Absent || was.Omit != "" && f.Omit == "" || !ok && addedTo(former, f.Path)
		out[i] = f
	}
	return out
}

// addedTo reports whether a path that is new is a key of an object that is not.
func addedTo(former map[string]Field, path string) bool {
	parent, name, _ := split(path)
	object, ok := former[parent]
	return ok && object.Kind == "object" && name != elements && name != values
}
