package outboxdirective

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/typedoutbox/typedoutbox/internal/vet"
)

// The generated names that a call goes by.
const (
	handleFunc  = "HandleOutbox"
	handlerType = "OutboxHandler"
)

// checkHidden reports calls of a generated HandleOutbox which cannot see what a
// handler skips, since it is wrapped in another: a struct that embeds the
// interface has its methods only, and not the mark of a Skip type.
func checkHidden(pass *analysis.Pass) {
	for _, f := range pass.Files {
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				checkCall(pass, call)
			}
			return true
		})
	}
}

func checkCall(pass *analysis.Pass, call *ast.CallExpr) {
	fn := vet.Callee(pass.TypesInfo, call)
	if fn == nil || fn.Name() != handleFunc || fn.Signature().Recv() != nil {
		return
	}
	for i, arg := range call.Args {
		if i >= fn.Signature().Params().Len() || !isHandler(fn.Signature().Params().At(i).Type(), fn.Pkg()) {
			continue
		}
		w := wrapping{pass.TypesInfo, fn.Pkg()}
		if event := w.hides(arg); event != "" {
			pass.Reportf(arg.Pos(), "%s does not see what is skipped by a handler within another, such as %s here; "+
				"give it struct{ OUTER; %s.Skip%s }, OUTER being the type of the outer one, without a method Handle%s of its own",
				handleFunc, event, fn.Pkg().Name(), event, event)
		}
	}
}

// isHandler reports whether t is the generated interface of a package.
func isHandler(t types.Type, pkg *types.Package) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Name() == handlerType && named.Obj().Pkg() == pkg && types.IsInterface(t)
}

// wrapping looks for handlers of one package within others.
type wrapping struct {
	info *types.Info
	pkg  *types.Package
}

// hides returns an event that a handler within e skips, or may skip if nothing is
// known of the handler, but not e itself.
func (w wrapping) hides(e ast.Expr) string {
	outer := w.info.TypeOf(e)
	if types.IsInterface(outer) { // what made it is all there is to see
		call, ok := ast.Unparen(e).(*ast.CallExpr)
		if !ok {
			return ""
		}
		for _, arg := range call.Args {
			if t := w.info.TypeOf(arg); t != nil && !types.IsInterface(t) {
				if events := w.skipped(t); len(events) > 0 {
					return events[0]
				}
			}
		}
		return ""
	}
	inner := w.embedded(e, outer)
	if inner == nil {
		return ""
	}
	methods := w.methods(outer)
	for _, event := range w.skipped(inner) {
		handle := methods.Lookup(w.pkg, "Handle"+event)
		if handle == nil || methods.Lookup(w.pkg, "skips"+event) != nil {
			continue
		}
		if types.IsInterface(handle.Obj().(*types.Func).Signature().Recv().Type()) { // or else the outer one handles it
			return event
		}
	}
	return ""
}

// embedded returns what e, of type t, embeds as the generated interface: the type
// of the value where e shows it, or else the interface. It returns nil if there is
// none.
func (w wrapping) embedded(e ast.Expr, t types.Type) types.Type {
	if p, ok := types.Unalias(t).Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	st, ok := t.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	for i := range st.NumFields() {
		f := st.Field(i)
		if !f.Embedded() {
			continue
		}
		value := w.element(e, f, i)
		switch inner := w.embedded(value, f.Type()); {
		case inner != nil:
			return inner
		case !isHandler(f.Type(), w.pkg):
		case value != nil:
			return w.info.TypeOf(value)
		default:
			return f.Type()
		}
	}
	return nil
}

// element returns the value of a field in a literal, nil if e is none or leaves
// it out.
func (w wrapping) element(e ast.Expr, f *types.Var, i int) ast.Expr {
	if e == nil {
		return nil
	}
	e = ast.Unparen(e)
	if address, ok := e.(*ast.UnaryExpr); ok {
		e = ast.Unparen(address.X)
	}
	lit, ok := e.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	for j, elt := range lit.Elts {
		if kv, ok := elt.(*ast.KeyValueExpr); !ok && i == j {
			return elt
		} else if ok {
			if id, isName := kv.Key.(*ast.Ident); isName && id.Name == f.Name() {
				return kv.Value
			}
		}
	}
	return nil
}

// skipped returns the events that a handler skips: those whose mark it has, and of
// the interface, of which nothing is known, all that can be skipped.
func (w wrapping) skipped(t types.Type) (events []string) {
	prefix := "skips"
	if types.IsInterface(t) {
		prefix = "Handle"
	}
	for m := range w.methods(t).Methods() {
		if event, ok := strings.CutPrefix(m.Obj().Name(), prefix); ok && w.pkg.Scope().Lookup("Skip"+event) != nil && m.Obj().Pkg() == w.pkg {
			events = append(events, event)
		}
	}
	return events
}

// methods returns those that a value has, or one that a pointer leads to.
func (wrapping) methods(t types.Type) *types.MethodSet {
	if _, ok := t.Underlying().(*types.Pointer); !ok && !types.IsInterface(t) {
		t = types.NewPointer(t)
	}
	return types.NewMethodSet(t)
}
