package lock

import (
	"fmt"
	"go/constant"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// constants returns those of a named type, as name=value, sorted. Of another
// package only the exported ones are known, and those of the standard library
// are left out: they may depend on the platform and on the release of Go. Of a
// type that has exported constants the others count for nothing, as they do
// not leave the package.
func (w *walker) constants(t types.Type) []string {
	named, ok := t.(*types.Named)
	if !ok || named.Obj().Pkg() == nil || w.standard(named.Obj().Pkg()) {
		return nil
	}
	pkg := named.Obj().Pkg()
	var exported, others []string
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok || name == "_" || !types.Identical(c.Type(), named) {
			continue
		}
		value := c.Val().ExactString()
		if c.Val().Kind() == constant.String {
			value = constant.StringVal(c.Val())
		}
		if c.Exported() {
			exported = append(exported, name+"="+value)
		} else if w.from != nil && pkg.Path() == w.from.Path() {
			others = append(others, name+"="+value)
		}
	}
	if len(exported) == 0 {
		exported = others
	}
	slices.Sort(exported)
	return exported
}

// standard reports whether a package is one of the standard library: the first
// element of its path has no dot, and is not that of this module.
func (w *walker) standard(pkg *types.Package) bool {
	first, _, _ := strings.Cut(pkg.Path(), "/")
	if w.from != nil {
		if own, _, _ := strings.Cut(w.from.Path(), "/"); own == first {
			return false
		}
	}
	return !strings.Contains(first, ".")
}

// numbered judges a change of the constants of a type. A row holds the value.
func numbered(d Difference) Verdict {
	o, n := enum(d.Old.Enum), enum(d.New.Enum)
	v := Verdict{Rule: "J43", Backward: Wrong, Forward: Wrong}
	for _, c := range d.Old.Enum {
		name, value, _ := strings.Cut(c, "=")
		now, kept := n[name]
		switch {
		case len(n) == 0:
		case kept && now != value:
			v.Text = fmt.Sprintf("%s: %s changed from %s to %s: stored rows with %s would be taken for something else, without an error",
				label(d.Path), name, value, now, value)
		case !kept && !slices.Contains(slices.Collect(maps.Values(n)), value):
			v.Text = fmt.Sprintf("%s: %s removed: stored rows with %s would decode to a value that the code does not know, without an error",
				label(d.Path), name, value)
		default:
			continue
		}
		if v.Text != "" {
			v.Keep = fmt.Sprintf("keep %s = %s", name, value)
			return v
		}
	}
	v = Verdict{Rule: "J42", Backward: OK, Forward: OK, Note: true}
	v.Text = fmt.Sprintf("%s: constants renamed, or those of its type are others: rows decode to the same", label(d.Path))
	for _, c := range d.New.Enum {
		_, value, _ := strings.Cut(c, "=")
		if len(o) > 0 && !slices.Contains(slices.Collect(maps.Values(o)), value) {
			v.Forward = Wrong
			v.Text = fmt.Sprintf("%s: %s added: relays still on the old code do not know the value", label(d.Path), c)
			break
		}
	}
	return v
}

// enum is the values by name.
func enum(list []string) map[string]string {
	out := map[string]string{}
	for _, c := range list {
		name, value, _ := strings.Cut(c, "=")
		out[name] = value
	}
	return out
}
