package payload

import (
	"cmp"
	"go/types"
	"slices"
	"strings"
	"unicode"
)

// level is a struct whose fields are those of the struct under check: itself,
// or one that it embeds.
type level struct {
	typ         types.Type
	st          *types.Struct
	at          place
	addressable bool
	twins       []place // further embeddings of the type at the same depth
}

// candidate is a field that may become a key.
type candidate struct {
	key         string
	name        string // from the struct under check
	tagged      bool
	depth       int
	typ         types.Type
	at          place
	addressable bool
	tag         tag
}

// collector finds the fields of a struct in the way of encoding/json: breadth
// first, each embedded type once.
type collector struct {
	*walker
	base    place
	depth   int
	next    []*level
	visited map[identity]bool
	found   []candidate
}

// fields checks the fields of a struct, those that it embeds included.
func (w *walker) fields(t types.Type, st *types.Struct, addressable bool, at place) {
	survivors := w.collect(t, st, addressable, at)
	w.folded(survivors)
	for _, f := range survivors {
		w.value(f.typ, f.addressable, f.at)
	}
}

// collect returns the fields that are written.
func (w *walker) collect(t types.Type, st *types.Struct, addressable bool, at place) []candidate {
	c := &collector{walker: w, base: at, visited: map[identity]bool{}}
	c.next = []*level{{typ: t, st: st, at: at, addressable: addressable}}
	for ; len(c.next) > 0; c.depth++ {
		current := c.next
		c.next = nil
		for _, l := range current {
			c.visit(l)
		}
	}
	return w.dominant(c.found)
}

func (c *collector) visit(l *level) {
	id := identify(l.typ)
	if c.visited[id] {
		if l.st.NumFields() > 0 {
			c.repeated(l.typ, l.at)
		}
		return
	}
	c.visited[id] = true
	var hidden []string
	for i := range l.st.NumFields() {
		f, tag := l.st.Field(i), parseTag(l.st.Tag(i))
		if tag.skip || f.Name() == "_" {
			continue
		}
		at := c.walker.field(l.at, f)
		if !f.Exported() && !embedsStruct(f) {
			if c.owns(f) {
				c.problem(at, "encoding/json drops unexported fields; export it, or leave it out with json:\"-\"")
			} else {
				hidden = append(hidden, f.Name())
			}
			continue
		}
		if tag.mistake != "" {
			c.problem(at, "%s", tag.mistake)
		}
		c.add(l, f, tag, at)
	}
	if len(hidden) > 0 {
		c.problem(l.at, "%s has unexported fields (%s), which encoding/json drops; use a type that can be written, or leave the field out with json:\"-\"",
			c.spell(l.typ), strings.Join(hidden, ", "))
	}
}

// add takes a field as a candidate, or the struct that it embeds as one to
// visit.
func (c *collector) add(l *level, f *types.Var, tag tag, at place) {
	typ, addressable := types.Unalias(f.Type()), l.addressable
	ptr, isPointer := typ.(*types.Pointer)
	if isPointer {
		typ = types.Unalias(ptr.Elem())
	}
	if tag.quoted {
		c.quoted(typ, at)
	}
	if f.Embedded() && !f.Exported() {
		c.unexported(f, typ, isPointer, tag, l.addressable, at)
	}
	var twins []place
	for _, twin := range l.twins {
		twins = append(twins, c.walker.field(twin, f))
	}
	if st, ok := typ.Underlying().(*types.Struct); ok && f.Embedded() && tag.name == "" {
		for _, at := range twins {
			c.repeated(typ, at) // here encoding/json counts one, and writes the fields of one
		}
		for _, other := range c.next {
			if identify(other.typ) == identify(typ) {
				other.twins = append(other.twins, at)
				return
			}
		}
		c.next = append(c.next, &level{typ: typ, st: st, at: at, addressable: addressable || isPointer})
		return
	}
	for _, at := range append([]place{at}, twins...) {
		c.found = append(c.found, candidate{
			cmp.Or(tag.name, f.Name()), c.relative(at), tag.name != "", c.depth, f.Type(), at, addressable, tag,
		})
	}
}

// relative is the path from the struct under check.
func (c *collector) relative(at place) string {
	return strings.TrimPrefix(strings.TrimPrefix(at.path, c.base.path), ".")
}

func (c *collector) repeated(t types.Type, at place) {
	c.problem(at, "%s is embedded more than once, and encoding/json drops this one; give the field a name", c.spell(t))
}

// quoted checks the option string, for the type of a field without its
// pointer.
func (c *collector) quoted(t types.Type, at place) {
	basic, ok := t.Underlying().(*types.Basic)
	switch {
	case !ok || basic.Info()&(types.IsBoolean|types.IsInteger|types.IsFloat|types.IsString) == 0:
		c.problem(at, "encoding/json ignores the tag option string on %s; remove it", c.spell(t))
	case writer(t, true).name != "" || reader(t).name != "":
		c.problem(at, "with the tag option string, %s cannot be read back, as it has methods for JSON of its own; remove the option", c.spell(t))
	}
}

// unexported checks an embedded struct whose name is unexported: its exported
// fields are promoted all the same, but reflect does not hand out the struct.
func (c *collector) unexported(f *types.Var, t types.Type, isPointer bool, tag tag, addressable bool, at place) {
	switch {
	case isPointer:
		c.problem(at, "the embedded pointer to the unexported %s cannot be set when it is read back; embed the struct itself, or give the field an exported name", f.Name())
	case tag.name != "" && writer(t, addressable).name != "":
		c.problem(at, "encoding/json cannot call %s of the unexported embedded %s, and Enqueue would panic; give the field an exported name",
			writer(t, addressable).name, f.Name())
	}
}

func embedsStruct(f *types.Var) bool {
	t := types.Unalias(f.Type())
	if ptr, ok := t.(*types.Pointer); ok {
		t = ptr.Elem()
	}
	_, ok := t.Underlying().(*types.Struct)
	return ok && f.Embedded()
}

// dominant returns the fields that are written, one a key: the least deep one,
// among those a tagged one, and none if two remain. It reports the others.
func (w *walker) dominant(all []candidate) []candidate {
	groups := map[string][]candidate{}
	for _, f := range all {
		groups[f.key] = append(groups[f.key], f)
	}
	var out []candidate
	for _, f := range all {
		group := groups[f.key]
		delete(groups, f.key)
		if len(group) == 0 {
			continue
		}
		slices.SortStableFunc(group, func(a, b candidate) int {
			if a.depth == b.depth && a.tagged != b.tagged {
				if a.tagged {
					return -1
				}
				return 1
			}
			return cmp.Compare(a.depth, b.depth)
		})
		first, rest := group[0], group[1:]
		if len(rest) == 0 || first.depth < rest[0].depth || first.tagged != rest[0].tagged {
			out = append(out, first)
			for _, f := range rest {
				w.problem(f.at, "the key %q is taken by %s, so encoding/json drops this field; give it another key", f.key, first.name)
			}
			continue
		}
		for i, f := range group {
			other := first
			if i == 0 {
				other = rest[0]
			}
			w.problem(f.at, "the key %q is also that of %s, so encoding/json drops both fields; give one another key", f.key, other.name)
		}
	}
	return out
}

// folded reports keys that differ only in case. Unmarshal falls back on a
// comparison without case, so that each is read into the field of the other
// by a program that knows only one of them.
func (w *walker) folded(fields []candidate) {
	first := map[string]candidate{}
	for _, f := range fields {
		folded := Fold(f.key)
		other, ok := first[folded]
		if !ok {
			first[folded] = f
			continue
		}
		const text = "the key %q differs from %q, that of %s, only in case, which decoders ignore; give one another key"
		w.problem(other.at, text, other.key, f.key, f.name)
		w.problem(f.at, text, f.key, other.key, other.name)
	}
}

// Fold returns the same text for keys that differ only in case, which decoders
// ignore.
func Fold(key string) string { return strings.Map(foldRune, key) }

// foldRune returns the smallest rune that equals r without case.
func foldRune(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}
