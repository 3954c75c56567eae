package outboxdirective

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/typedoutbox/typedoutbox/internal/vet"
)

// checkSkipped reports a struct that has both the mark of a generated Skip type
// and a handler of its own for the same event: HandleOutbox passes over the
// handler. Two that are embedded side by side do not compile, and need no
// report.
func checkSkipped(pass *analysis.Pass) {
	for _, f := range pass.Files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if obj, ok := pass.TypesInfo.Defs[n.Name].(*types.TypeName); ok && !obj.IsAlias() {
					checkStruct(pass, obj.Type(), n.Name)
				}
				_, isStruct := n.Type.(*ast.StructType)
				return !isStruct
			case *ast.StructType:
				checkStruct(pass, pass.TypesInfo.TypeOf(n), n)
			}
			return true
		})
	}
}

func checkStruct(pass *analysis.Pass, t types.Type, at ast.Node) {
	if t == nil {
		return
	}
	if _, ok := t.Underlying().(*types.Struct); !ok {
		return
	}
	methods := types.NewMethodSet(types.NewPointer(t))
	for m := range methods.Methods() {
		event, ok := strings.CutPrefix(m.Obj().Name(), "skips")
		skip := receiver(m.Obj())
		if !ok || skip == nil || skip.Name() != "Skip"+event || skip.Type() == t {
			continue
		}
		handler := methods.Lookup(skip.Pkg(), "Handle"+event)
		if handler == nil || receiver(handler.Obj()) == skip {
			continue
		}
		pos := at.Pos()
		if own := receiver(handler.Obj()); own != nil && own.Type() == t {
			pos = handler.Obj().Pos()
		}
		name := "this struct"
		if id, ok := at.(*ast.Ident); ok {
			name = id.Name
		}
		pass.Reportf(pos, "Handle%s of %s is never called, since %s embeds %s.%s; remove one of the two",
			event, name, name, skip.Pkg().Name(), skip.Name())
	}
}

// receiver returns the name of the type that declares a method, nil if it has
// none.
func receiver(method types.Object) *types.TypeName {
	recv := method.(*types.Func).Signature().Recv().Type()
	if p, ok := types.Unalias(recv).(*types.Pointer); ok {
		recv = p.Elem()
	}
	if named, ok := types.Unalias(recv).(*types.Named); ok && vet.Path(named.Obj().Pkg()) != "" {
		return named.Obj()
	}
	return nil
}
