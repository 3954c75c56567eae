package lock

import (
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
