package gen

import (
	"go/token"
	"go/types"
)

// checkEvent resolves an event's type and keys.
func (u *unit) checkEvent(e *event) {
	u.checkExported(e, "key", e.Key)
	u.checkExported(e, "order", e.Order)
	st := u.structOf(e)
	if st == nil {
		e.broken = true
		return
	}
	if u.unresolved(e, st) {
		e.broken = true
		return
	}
	e.lossy = u.checkPayload(e.obj.Type(), e.spec.Name.Pos())
	if e.broken {
		return
	}
	e.key = u.keyFunc(e, "key", e.Key)
	e.order = u.keyFunc(e, "order", e.Order)
}

// structOf returns the struct under an event's type, or nil after reporting
// why there is none.
func (u *unit) structOf(e *event) *types.Struct {
	name, pos := e.typeName(), e.spec.Name.Pos()
	switch {
	case name == "_":
		u.report.addf(pos, "the event's type has no name; give it one")
		return nil
	case e.spec.Assign.IsValid():
		u.report.addf(pos, "%s is an alias; put //outbox:event on a type of its own, written type %s struct", name, name)
		return nil
	case e.spec.TypeParams != nil:
		u.report.addf(pos, "%s is generic; declare one type an event, such as type OrderCreated %s[Order]", name, name)
		return nil
	case e.obj == nil:
		u.report.addf(pos, "%s has no type, most likely since it is declared twice; make the package compile, then generate", name)
		return nil
	}
	switch under := e.obj.Type().Underlying().(type) {
	case *types.Struct:
		return under
	case *types.Basic:
		if under.Kind() == types.Invalid {
			u.report.addf(pos, "the type of %s does not resolve%s; make it compile, then generate", name, u.because(pos))
			return nil
		}
	}
	u.report.addf(pos, "%s is %s; an event is a struct, so that fields can be added later", name, describe(e.obj.Type()))
	return nil
}

// describe names the kind of a type.
func describe(t types.Type) string {
	switch t := types.Unalias(t).Underlying().(type) {
	case *types.Pointer:
		return "a pointer"
	case *types.Interface:
		return "an interface"
	case *types.Map:
		return "a map"
	case *types.Slice:
		return "a slice"
	case *types.Array:
		return "an array"
	case *types.Chan:
		return "a channel"
	case *types.Signature:
		return "a function"
	case *types.Struct:
		return "a struct"
	case *types.Basic:
		return t.Name()
	}
	return "no struct"
}

// because quotes what the type checker said about the rest of the line at pos.
func (u *unit) because(pos token.Pos) string {
	from := u.report.fset.Position(pos)
	why, column := "", 0
	for _, e := range u.pkg.TypeErrors {
		at := e.Fset.Position(e.Pos)
		if at.Filename == from.Filename && at.Line == from.Line && at.Column >= from.Column && (why == "" || at.Column < column) {
			why, column = " ("+e.Msg+")", at.Column
		}
	}
	return why
}
