package lock

import (
	"fmt"
	"go/constant"
	"go/types"
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
	name, value, now := strange(d.Old.Enum, d.New.Enum)
	added, addedValue, _ := strange(d.New.Enum, d.Old.Enum)
	v := Verdict{Rule: "J43", Backward: Wrong, Forward: OK, Keep: fmt.Sprintf("keep %s = %s", name, value)}
	if added != "" {
		v.Forward = Wrong
	}
	switch {
	case now != "":
		v.Text = fmt.Sprintf("%s: %s changed from %s to %s: %s with %s would be taken for something else, without an error",
			label(d.Path), name, value, now, stored, value)
	case name != "":
		v.Text = fmt.Sprintf("%s: %s removed: %s with %s would decode to a value that the code does not know, without an error",
			label(d.Path), name, stored, value)
	default:
		v.Rule, v.Backward, v.Note, v.Keep = "J42", OK, true, ""
		v.Text = fmt.Sprintf("%s: its constants are named otherwise, and have the same values", label(d.Path))
		switch {
		case added != "":
			v.Text = fmt.Sprintf("%s: %s = %s added: %s with %s would decode to a value that the code does not know", label(d.Path), added, addedValue, fresh, addedValue)
		case len(d.Old.Enum) == 0 || len(d.New.Enum) == 0:
			v.Text = fmt.Sprintf("%s: its type has constants in only one of old and new code: what others a row may hold is not known", label(d.Path))
		}
	}
	return v
}

// strange is the first of the constants whose value is not known to others, or
// is another one under its name, now. Where there are no others, all is known.
func strange(list, others []string) (name, value, now string) {
	byName, values := map[string]string{}, map[string]bool{}
	for _, c := range others {
		name, value, _ := strings.Cut(c, "=")
		byName[name], values[value] = value, true
	}
	for _, c := range list {
		name, value, _ = strings.Cut(c, "=")
		now, ok := byName[name]
		switch {
		case len(others) == 0:
		case ok && now != value:
			return name, value, now
		case !values[value]:
			return name, value, ""
		}
	}
	return "", "", ""
}
