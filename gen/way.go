package gen

import (
	"go/token"
	"go/types"
	"strings"

	"github.com/typedoutbox/typedoutbox/internal/lock"
)

// way returns the positions that lead from an event to a difference: the event's
// type, the fields of the package on the way, and, last, where the difference is
// to be reported. What is removed is missing from a struct, and is reported there.
func (h *history) way(e *event, shape lock.Shape, d lock.Difference) []token.Pos {
	way := []token.Pos{e.spec.Name.Pos()}
	for _, f := range shape { // sorted, so that a value comes before what is in it
		if f.Pos.IsValid() && leadsTo(f.Path, d.Path) {
			way = append(way, f.Pos)
		}
	}
	if d.New != nil {
		if d.New.Pos.IsValid() {
			way = append(way, d.New.Pos)
		}
		return way
	}
	parent := d.Old.Go[:max(strings.LastIndexByte(d.Old.Go, '.'), 0)]
	if named, ok := structAt(e.obj.Type(), parent).(*types.Named); ok && named.Obj().Pkg() == h.pkg.Types {
		way = append(way, named.Obj().Pos())
	}
	return way
}

// leadsTo reports whether the value at a path is within that at another.
func leadsTo(outer, path string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (outer == "" || rest != "" && strings.ContainsRune(".[{", rune(rest[0])))
}

// structAt follows the names of fields from a type, as the lock has them, as far
// as they are still there.
func structAt(t types.Type, path string) types.Type {
	name, rest, _ := strings.Cut(strings.NewReplacer("[]", ".[]", "{}", ".{}").Replace(path), ".")
	t = types.Unalias(t)
	if ptr, ok := t.Underlying().(*types.Pointer); ok {
		return structAt(ptr.Elem(), path)
	}
	if path == "" {
		return t
	}
	switch under := t.Underlying().(type) {
	case *types.Struct:
		for f := range under.Fields() {
			if f.Name() == name {
				return structAt(f.Type(), rest)
			}
		}
	case interface{ Elem() types.Type }:
		return structAt(under.Elem(), rest)
	}
	return t
}
