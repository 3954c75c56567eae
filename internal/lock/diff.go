package lock

import (
	"cmp"
	"maps"
	"slices"

	"github.com/typedoutbox/typedoutbox/internal/payload"
)

// Change is how two shapes differ at a value.
type Change string

const (
	Added    Change = "added"    // Old is nil
	Removed  Change = "removed"  // New is nil
	Folded   Change = "folded"   // added, with a key that differs from that of another field, Old, only in case
	Renamed  Change = "renamed"  // the key of what looks like the same field
	Swapped  Change = "swapped"  // the key is now that of another field, and its own that of a third
	Retyped  Change = "retyped"  // another kind, or the option string
	Pointed  Change = "pointed"  // a pointer now, or no longer
	Omitted  Change = "omitted"  // omitempty or omitzero
	Numbered Change = "numbered" // the constants of the type
)

// Difference is what differs at one value. Below a value that is added,
// removed or renamed, or of which the JSON is of another kind, nothing is told.
type Difference struct {
	Path     string // of the value; where the key was changed, the new one
	Old, New *Field
	Change   Change

	old, new *node
}

// Diff returns what differs, sorted by path. It does not judge. Values of
// types that hold themselves are compared as deep as they differ.
func Diff(old, new Shape) []Difference {
	if slices.EqualFunc(old, new, sameField) {
		return nil
	}
	o, n := tree(old), tree(new)
	d := differ{seen: map[[2]*node]bool{}, oldGo: countGo(old), newGo: countGo(new)}
	d.value("", o, n)
	d.renames()
	slices.SortStableFunc(d.out, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Change, b.Change))
	})
	return d.out
}

// sameField reports whether nothing that is stored of two fields differs.
func sameField(a, b Field) bool {
	return a.Path == b.Path && a.Go == b.Go && a.Kind == b.Kind && a.Pointer == b.Pointer && a.Null == b.Null && a.Absent == b.Absent &&
		a.Omit == b.Omit && a.Quoted == b.Quoted && a.Same == b.Same && slices.Equal(a.Enum, b.Enum)
}

type differ struct {
	seen         map[[2]*node]bool
	oldGo, newGo map[string]int // how many values have that path in Go
	gone, come   []*loose
	out          []Difference
}

// loose is a value without a counterpart.
type loose struct {
	*node
	path   string
	within [2]*node // the objects that were compared
	inside []*loose
	match  *loose // found to be the same under another key
}

func countGo(s Shape) map[string]int {
	count := map[string]int{}
	for _, f := range s {
		count[f.Go]++
	}
	return count
}

func (d *differ) tell(path string, change Change, o, n *node) {
	diff := Difference{Path: path, Change: change, old: o, new: n}
	if o != nil {
		diff.Old = o.Field
	}
	if n != nil {
		diff.New = n.Field
	}
	d.out = append(d.out, diff)
}

// value compares what is at one path.
func (d *differ) value(path string, o, n *node) {
	if o.Go != n.Go && d.newGo[o.Go] > 0 && d.oldGo[n.Go] > 0 && o.parent.Go == n.parent.Go {
		d.tell(path, Swapped, o, n)
	}
	if o.Kind != n.Kind || o.Quoted != n.Quoted {
		d.tell(path, Retyped, o, n)
	}
	if o.Pointer != n.Pointer {
		d.tell(path, Pointed, o, n)
	}
	if o.Omit != n.Omit {
		d.tell(path, Omitted, o, n)
	}
	if o.Kind.isInt() == n.Kind.isInt() && !slices.Equal(o.Enum, n.Enum) {
		d.tell(path, Numbered, o, n)
	}
	if o.Kind.container() != n.Kind.container() {
		return
	}
	pair := [2]*node{o.contents, n.contents}
	if d.seen[pair] {
		return
	}
	d.seen[pair] = true
	for _, name := range slices.Sorted(maps.Keys(pair[0].inside)) {
		if n := pair[1].inside[name]; n != nil {
			d.value(join(path, name), pair[0].inside[name], n)
		} else {
			d.gone = append(d.gone, d.loose(join(path, name), pair[0].inside[name], pair))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pair[1].inside)) {
		if pair[0].inside[name] == nil {
			d.come = append(d.come, d.loose(join(path, name), pair[1].inside[name], pair))
		}
	}
}

// loose takes a value and what is inside. All but the first are found nowhere
// else, so that they belong to nothing that was compared.
func (d *differ) loose(path string, n *node, within [2]*node) *loose {
	l := &loose{node: n, path: path, within: within}
	for _, name := range slices.Sorted(maps.Keys(n.inside)) {
		l.inside = append(l.inside, d.loose(join(path, name), n.inside[name], [2]*node{}))
	}
	return l
}

// renames finds which of the values without a counterpart are the same, and
// tells of all.
func (d *differ) renames() {
	gone, come := d.gone, d.come
	pair(flat(gone), flat(come), func(l *loose) any { return l.Go })
	pair(gone, come, func(l *loose) any { return [2]any{l.within, payload.Fold(l.name)} })
	pair(gone, come, func(l *loose) any { return [2]any{l.within, l.Kind} })
	for _, l := range gone {
		d.lost(l)
	}
	for _, l := range come {
		d.won(l)
	}
}

// pair matches those of which exactly one on each side has a key.
func pair(gone, come []*loose, key func(*loose) any) {
	by := func(list []*loose) map[any][]*loose {
		out := map[any][]*loose{}
		for _, l := range list {
			if l.match == nil {
				out[key(l)] = append(out[key(l)], l)
			}
		}
		return out
	}
	ours, theirs := by(gone), by(come)
	for k, l := range ours {
		if len(l) == 1 && len(theirs[k]) == 1 {
			l[0].match, theirs[k][0].match = theirs[k][0], l[0]
		}
	}
}

func flat(list []*loose) []*loose {
	var out []*loose
	for _, l := range list {
		out = append(append(out, l), flat(l.inside)...)
	}
	return out
}

// moved reports whether something inside is found elsewhere.
func (l *loose) moved() bool {
	return slices.ContainsFunc(flat(l.inside), func(l *loose) bool { return l.match != nil })
}

func (d *differ) lost(l *loose) {
	switch {
	case l.match != nil:
		d.tell(l.match.path, Renamed, l.node, l.match.node)
	case l.moved():
		for _, in := range l.inside {
			d.lost(in)
		}
	default:
		d.tell(l.path, Removed, l.node, nil)
	}
}

func (d *differ) won(l *loose) {
	switch {
	case l.match != nil:
	case l.moved():
		for _, in := range l.inside {
			d.won(in)
		}
	default:
		for name, other := range l.within[1].sibling() {
			if name != l.name && payload.Fold(name) == payload.Fold(l.name) {
				d.tell(l.path, Folded, other, l.node)
				return
			}
		}
		d.tell(l.path, Added, nil, l.node)
	}
}

func (n *node) sibling() map[string]*node {
	if n == nil {
		return nil
	}
	return n.inside
}
