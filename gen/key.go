package gen

import (
	"fmt"
	"go/token"
	"go/types"
	"reflect"
	"slices"
	"strings"

	"github.com/typedoutbox/typedoutbox/internal/directive"
)

// keyFunc is a derived key: topics.JoinKey(scope, parts...).
type keyFunc struct {
	scope string
	parts []keyPart
}

// keyPart is one field of a key.
type keyPart struct {
	path  string // from the event, "Customer.ID"
	kind  partKind
	plain bool // the field's type is the predeclared one, so no conversion is needed
}

type partKind int

const (
	partString partKind = iota
	partInt
	partUint
	partStringer
)

// keyFunc resolves the value of key= or order=.
func (u *unit) keyFunc(e *event, name string, k *directive.Key) *keyFunc {
	if k == nil {
		return nil
	}
	out := &keyFunc{scope: k.Scope.Text}
	if out.scope == "" {
		out.scope = e.Scope()
	}
	for _, f := range k.Fields {
		part, why := u.keyPart(e.obj.Type(), f.Text)
		if why != "" {
			u.report.addf(f.Pos, "%s=%s: %s", name, f.Text, why)
			e.broken = true
			continue
		}
		out.parts = append(out.parts, part)
	}
	return out
}

// checkExported reports the paths of a key with a name that is not exported, such
// as the key that a field has in JSON.
func (u *unit) checkExported(e *event, name string, k *directive.Key) {
	if k == nil {
		return
	}
	for _, f := range k.Fields {
		parts := strings.Split(f.Text, ".")
		if slices.ContainsFunc(parts, func(s string) bool { return !token.IsIdentifier(s) }) || // which is reported
			!slices.ContainsFunc(parts, func(s string) bool { return !token.IsExported(s) }) {
			continue
		}
		e.broken = true
		if path := goPath(e, parts); path != "" {
			u.report.addf(f.Pos, "%s= names %q, which is a key in JSON; %s= takes names of fields in Go, so write %s", name, f.Text, name, path)
			continue
		}
		u.report.addf(f.Pos, "%s= names %q, which is not exported; use exported fields", name, f.Text)
	}
}

// goPath returns the path in Go for one whose parts may be keys in JSON, "" if
// there is none.
func goPath(e *event, parts []string) string {
	if e.obj == nil {
		return ""
	}
	t, path := e.obj.Type(), make([]string, len(parts))
	for i, part := range parts {
		f := fieldOf(t, part)
		if f == nil {
			return ""
		}
		t, path[i] = f.Type(), f.Name()
	}
	return strings.Join(path, ".")
}

// fieldOf returns the exported field of a struct that has a name in Go, or else in
// JSON.
func fieldOf(t types.Type, name string) *types.Var {
	st, ok := t.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	var found *types.Var
	for i := range st.NumFields() {
		f := st.Field(i)
		key, _, _ := strings.Cut(reflect.StructTag(st.Tag(i)).Get("json"), ",")
		switch {
		case !f.Exported():
		case f.Name() == name:
			return f
		case key == name:
			found = f
		}
	}
	return found
}

// keyPart follows a path of fields. It says why a field cannot be part of a
// key, and what to do.
func (u *unit) keyPart(root types.Type, path string) (part keyPart, why string) {
	t, at := root, u.spell(root)
	for name := range strings.SplitSeq(path, ".") {
		if _, ok := t.Underlying().(*types.Struct); !ok {
			return part, fmt.Sprintf("%s is %s and has no field %s; name fields of structs", at, describe(t), name)
		}
		obj, index, indirect := types.LookupFieldOrMethod(t, false, u.pkg.Types, name)
		field, ok := obj.(*types.Var)
		if !ok {
			if obj == nil && index != nil {
				return part, fmt.Sprintf("%s has two fields %s at one depth; name the embedded struct first", at, name)
			}
			return part, u.noField(t, at, name)
		}
		if indirect {
			return part, fmt.Sprintf("%s is reached through an embedded pointer, which may be nil; embed the struct itself", name)
		}
		t, at = types.Unalias(field.Type()), name
		if _, ok := t.Underlying().(*types.Pointer); ok {
			return part, fmt.Sprintf("%s is a pointer, which may be nil; use a field that is none", name)
		}
	}
	part.path = path
	part.kind, part.plain, why = u.partKind(t)
	return part, why
}

func (u *unit) noField(t types.Type, at, name string) string {
	var fields []string
	if st, ok := t.Underlying().(*types.Struct); ok {
		for f := range st.Fields() {
			if f.Exported() {
				fields = append(fields, f.Name())
			}
		}
	}
	if f := fieldOf(t, name); f != nil {
		return fmt.Sprintf("%s has no field %s, which is a key in JSON; write %s", at, name, f.Name())
	}
	if near := directive.Nearest(name, fields); near != "" {
		return fmt.Sprintf("%s has no field %s; did you mean %s?", at, name, near)
	}
	const most = 12
	switch {
	case len(fields) == 0:
		return fmt.Sprintf("%s has no field %s, and none that is exported; export one", at, name)
	case len(fields) > most:
		fields = append(fields[:most-1], fmt.Sprintf("%s and %d more", fields[most-1], len(fields)-most))
	}
	return fmt.Sprintf("%s has no field %s; name an exported one: %s", at, name, strings.Join(fields, ", "))
}

const keyTypes = "use a string, an integer, or a comparable type whose String method has a value receiver"

func (u *unit) partKind(t types.Type) (kind partKind, plain bool, why string) {
	if basic, ok := t.Underlying().(*types.Basic); ok {
		switch info := basic.Info(); {
		case info&types.IsString != 0:
			return partString, isPredeclared(t, types.String), ""
		case info&types.IsUnsigned != 0:
			return partUint, isPredeclared(t, types.Uint64), ""
		case info&types.IsInteger != 0:
			return partInt, isPredeclared(t, types.Int64), ""
		case info&types.IsFloat != 0:
			return 0, false, "a float has no one spelling; " + keyTypes
		}
	}
	if isTime(t) {
		return 0, false, "a time.Time prints its monotonic clock too, so that equal times differ; " + keyTypes
	}
	if types.IsInterface(t) {
		return 0, false, fmt.Sprintf("%s is an interface, which may be nil; %s", u.spell(t), keyTypes)
	}
	if why := stringer(t, u.pkg.Types); why != "" {
		return 0, false, fmt.Sprintf("%s %s; %s", u.spell(t), why, keyTypes)
	}
	if !hasZeroTest(t) {
		return 0, false, fmt.Sprintf("%s cannot be compared with its zero value; %s", u.spell(t), keyTypes)
	}
	return partStringer, false, ""
}

func isPredeclared(t types.Type, kind types.BasicKind) bool {
	basic, ok := t.(*types.Basic)
	return ok && basic.Kind() == kind
}

func isTime(t types.Type) bool {
	named, ok := t.(*types.Named)
	return ok && named.Obj().Name() == "Time" && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == "time"
}

// stringer says why t has no String method that is safe to call on any value.
func stringer(t types.Type, from *types.Package) string {
	obj, _, indirect := types.LookupFieldOrMethod(t, false, from, "String")
	method, ok := obj.(*types.Func)
	if !ok && indirect {
		return "has a String method only on its pointer"
	}
	if !ok {
		return "is neither a string nor an integer, and has no String method"
	}
	sig := method.Signature()
	if sig.Params().Len() != 0 || sig.Results().Len() != 1 || !isPredeclared(types.Unalias(sig.Results().At(0).Type()), types.String) {
		return "has a method String of another signature than func() string"
	}
	recv := types.Unalias(sig.Recv().Type())
	switch {
	case indirect:
		return "has its String method from an embedded pointer, which may be nil"
	case types.IsInterface(recv):
		return "has its String method from an embedded interface, which may be nil"
	case isTime(recv):
		return "has its String method from time.Time, which prints its monotonic clock too"
	}
	return ""
}

// hasZeroTest reports whether == on t compiles and never panics.
func hasZeroTest(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Basic, *types.Pointer, *types.Chan:
		return true
	case *types.Array:
		return hasZeroTest(u.Elem())
	case *types.Struct:
		for f := range u.Fields() {
			if !hasZeroTest(f.Type()) {
				return false
			}
		}
		return true
	}
	return false
}
