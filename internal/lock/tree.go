package lock

// node is a field of a shape among the others.
type node struct {
	*Field
	name     string // the last of its path
	parent   *node
	inside   map[string]*node // by name
	contents *node            // itself, or the one whose contents it has
}

// tree links the fields of a shape, and returns the whole payload. A field
// whose parent is missing is left out.
func tree(s Shape) *node {
	top := &node{Field: &Field{}, inside: map[string]*node{}}
	byPath := map[string]*node{}
	for i := range s {
		if s[i].Path == "" {
			top.Field = &s[i]
			continue
		}
		byPath[s[i].Path] = &node{Field: &s[i], inside: map[string]*node{}}
	}
	byPath[""] = top
	for i := range s {
		n := byPath[s[i].Path]
		if n == top {
			continue
		}
		parent, name, ok := split(n.Path)
		if n.parent = byPath[parent]; ok && n.parent != nil {
			n.name = name
			n.parent.inside[name] = n
		}
	}
	for _, n := range byPath {
		n.contents = n
		if same := byPath[n.same()]; n.Same != "" && same != nil && same.Same == "" {
			n.contents = same
		}
	}
	return top
}

// same is the path that Same spells.
func (f *Field) same() string {
	if f.Same == root {
		return ""
	}
	return f.Same
}
