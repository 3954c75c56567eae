package gen

import (
	"cmp"
	"fmt"
	"go/types"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// guard is an assignment that compiles only while a struct has the fields and
// tags that it had when the code was generated. Its type is an alias, whose name
// is what the compiler says.
type guard struct {
	name    string // of the alias
	subject string // the struct, as it is spelled here
	fields  string // the struct as a literal
}

// guards returns the guards of the events, of what their upcasts take, and of the
// structs of this package that those reach, sorted. A struct that cannot be spelled here has none.
func (u *unit) guards(w *writer) []guard {
	var out []guard
	seen := map[string]bool{}
	var visit func(t types.Type, within []*types.Named)
	visit = func(t types.Type, within []*types.Named) {
		named, ok := types.Unalias(t).(*types.Named)
		if !ok || seen[named.String()] || grows(named, within) {
			return
		}
		seen[named.String()] = true
		s := &speller{unit: u}
		subject := s.typ(named)
		if st, ok := named.Underlying().(*types.Struct); ok {
			fields := s.structType(st)
			if !s.failed {
				w.knows(s.imports)
				out = append(out, guard{name: subject, subject: subject, fields: fields})
			}
		}
		for _, part := range ownParts(u, named.Underlying()) {
			visit(part, append(within, named))
		}
	}
	for _, e := range u.events {
		visit(e.obj.Type(), nil)
		for _, n := range slices.Sorted(maps.Keys(e.steps)) {
			visit(e.steps[n].from, nil)
		}
	}
	slices.SortFunc(out, func(a, b guard) int { return cmp.Compare(a.subject, b.subject) })
	used := map[string]bool{}
	for i := range out {
		base := "stale" + strings.Map(identifierRune, strings.ReplaceAll(out[i].subject, importMark, "_"))
		for n := 1; ; n++ {
			out[i].name = base + "_runGoGenerate"
			if n > 1 {
				out[i].name = base + strconv.Itoa(n) + "_runGoGenerate"
			}
			if !used[out[i].name] && !u.taken[out[i].name].IsValid() {
				break
			}
		}
		used[out[i].name] = true
	}
	return out
}

// grows reports whether instances of a generic type hold larger ones of it, and
// so without end. The compiler refuses that, but only where nothing else is
// wrong.
func grows(t *types.Named, within []*types.Named) bool {
	const most = 3
	size, grown := len(t.String()), 0
	for _, outer := range within {
		if outer.Origin() == t.Origin() && len(outer.String()) < size {
			grown++
		}
	}
	return grown >= most
}

// identifierRune turns what is in a type but not in an identifier into "_".
func identifierRune(r rune) rune {
	if r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r > 127 {
		return r
	}
	return '_'
}

// ownParts returns the types of the unit's package that t is made of.
func ownParts(u *unit, t types.Type) (out []types.Type) {
	seen := map[types.Type]bool{}
	var walk func(t types.Type)
	walk = func(t types.Type) {
		if seen[t] {
			return
		}
		seen[t] = true
		switch t := types.Unalias(t).(type) {
		case *types.Named:
			for arg := range t.TypeArgs().Types() {
				walk(arg)
			}
			if pkg := t.Obj().Pkg(); pkg != nil && pkg.Path() == u.pkg.PkgPath {
				out = append(out, t)
			}
		case *types.Struct:
			for f := range t.Fields() {
				walk(f.Type())
			}
		case *types.Map:
			walk(t.Key())
			walk(t.Elem())
		case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
			walk(t.Elem())
		}
	}
	walk(t)
	return out
}

// speller writes types as they are spelled in the generated file. An alias is
// written as what it stands for, so that a change of it shows.
type speller struct {
	unit    *unit
	imports []*types.Package
	failed  bool // a type cannot be spelled here
}

func (s *speller) fail() string {
	s.failed = true
	return ""
}

func (s *speller) typ(t types.Type) string {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		if t.Kind() == types.Invalid || t.Kind() == types.UnsafePointer || s.unit.taken[t.Name()].IsValid() {
			return s.fail()
		}
		return t.Name()
	case *types.Named:
		return s.named(t.Obj(), t.TypeArgs())
	case *types.Pointer:
		return "*" + s.typ(t.Elem())
	case *types.Slice:
		return "[]" + s.typ(t.Elem())
	case *types.Array:
		return fmt.Sprintf("[%d]%s", t.Len(), s.typ(t.Elem()))
	case *types.Map:
		return "map[" + s.typ(t.Key()) + "]" + s.typ(t.Elem())
	case *types.Struct:
		return s.structType(t)
	case *types.Interface:
		if t.Empty() {
			return "interface{}"
		}
	}
	return s.fail() // a function or a channel, which no payload holds
}

func (s *speller) named(obj *types.TypeName, args *types.TypeList) string {
	name := obj.Name()
	switch pkg := obj.Pkg(); {
	case pkg == nil: // error
		if s.unit.taken[name].IsValid() {
			return s.fail()
		}
	case obj.Parent() != pkg.Scope(): // within a function
		return s.fail()
	case pkg.Path() == s.unit.pkg.PkgPath:
	case !obj.Exported() || !importable(s.unit.pkg.PkgPath, pkg.Path()):
		return s.fail()
	default:
		s.imports = append(s.imports, pkg)
		name = marked(pkg.Path()) + "." + name
	}
	if args.Len() == 0 {
		return name
	}
	list := make([]string, args.Len())
	for i := range list {
		list[i] = s.typ(args.At(i))
	}
	return name + "[" + strings.Join(list, ", ") + "]"
}

// structType writes a struct, one field a line.
func (s *speller) structType(st *types.Struct) string {
	var b strings.Builder
	b.WriteString("struct {\n")
	for i := range st.NumFields() {
		f := st.Field(i)
		if !f.Exported() && f.Pkg() != nil && f.Pkg().Path() != s.unit.pkg.PkgPath {
			return s.fail()
		}
		if f.Embedded() {
			b.WriteString(s.embedded(f.Type()))
		} else {
			b.WriteString(f.Name() + " " + s.typ(f.Type()))
		}
		if tag := st.Tag(i); strconv.CanBackquote(tag) && tag != "" {
			b.WriteString(" `" + tag + "`")
		} else if tag != "" {
			b.WriteString(" " + strconv.Quote(tag))
		}
		b.WriteString("\n")
	}
	return b.String() + "}"
}

// embedded writes an embedded type. An alias gives the field its name, so it
// stays.
func (s *speller) embedded(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		return "*" + s.embedded(p.Elem())
	}
	if alias, ok := t.(*types.Alias); ok {
		return s.named(alias.Obj(), alias.TypeArgs())
	}
	return s.typ(t)
}

// importable reports whether a package may import another: not if that is
// internal to something else, or a command.
func importable(from, path string) bool {
	for _, sep := range []string{"/internal/", "internal/"} {
		i := strings.LastIndex("/"+path+"/", sep)
		if sep == "internal/" && !strings.HasPrefix(path+"/", sep) {
			continue
		}
		if i < 0 {
			continue
		}
		parent := strings.TrimSuffix(strings.TrimPrefix(("/" + path + "/")[:i], "/"), "/")
		return parent != "" && (from == parent || strings.HasPrefix(from, parent+"/"))
	}
	return true
}

// guards writes the guards.
func (w *writer) guards(guards []guard) {
	if len(guards) == 0 {
		return
	}
	w.printf("\n// These do not compile when a payload has changed and this file has not: run go generate.\n")
	for _, g := range guards {
		w.printf("var _ %s = %s{}\n", g.name, g.subject)
	}
	for _, g := range guards {
		w.printf("\ntype %s = %s\n", g.name, g.fields)
	}
}
