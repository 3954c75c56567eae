// Package vet holds what the analyzers of outboxvet share: how they know the
// types that they are about, which functions run in a transaction, and how a
// comment keeps them from reporting.
//
// They match by the path of a package and the name in it, and import neither
// bun nor outbox.
package vet

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// The packages that the analyzers know.
const (
	Bun    = "github.com/uptrace/bun"
	Outbox = "github.com/typedoutbox/typedoutbox/outbox"
	Topics = "github.com/typedoutbox/typedoutbox/topics"
)

// Rules returns the names of the analyzers.
func Rules() []string {
	return []string{"outboxdirective", "outboxpayload", "outboxtx", "outboxescape", "outboxeffect", "outboxhandler"}
}

// Path returns the path of a package, "" if there is none.
func Path(pkg *types.Package) string {
	if pkg == nil {
		return ""
	}
	return pkg.Path()
}

// Imports reports whether pkg imports the package at path.
func Imports(pkg *types.Package, path string) bool {
	for _, imp := range pkg.Imports() {
		if Path(imp) == path {
			return true
		}
	}
	return false
}

// IsType reports whether t is the named type, or a pointer to it.
func IsType(t types.Type, path, name string) bool {
	if t == nil {
		return false
	}
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	named, ok := t.(*types.Named)
	return ok && named.Obj().Name() == name && Path(named.Obj().Pkg()) == path
}

// IsTx reports whether t is bun.Tx, or a pointer to it.
func IsTx(t types.Type) bool { return IsType(t, Bun, "Tx") }

// Callee returns the function or method that a call names, nil if it calls a
// value.
func Callee(info *types.Info, call *ast.CallExpr) *types.Func {
	fn, _ := typeutil.Callee(info, call).(*types.Func)
	if fn == nil {
		return nil
	}
	return fn.Origin()
}

// IsFunc reports whether fn is one of the functions of the package at path.
func IsFunc(fn *types.Func, path string, names ...string) bool {
	return fn != nil && fn.Signature().Recv() == nil && Path(fn.Pkg()) == path && slices.Contains(names, fn.Name())
}

// IsMethod reports whether fn is one of the methods of a named type.
func IsMethod(fn *types.Func, path, typ string, names ...string) bool {
	return fn != nil && fn.Signature().Recv() != nil && IsType(fn.Signature().Recv().Type(), path, typ) && slices.Contains(names, fn.Name())
}

// IsEnqueue reports whether call writes a message; its second argument is the
// transaction.
func IsEnqueue(info *types.Info, call *ast.CallExpr) bool {
	return len(call.Args) > 1 && IsFunc(Callee(info, call), Outbox, "Enqueue", "EnqueueAll")
}

// Root returns the variable at the root of a path such as s.Store.DB, nil if
// the expression is no path of fields and elements.
func Root(info *types.Info, e ast.Expr) *types.Var {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.Ident:
			v, _ := info.ObjectOf(x).(*types.Var)
			return v
		case *ast.SelectorExpr:
			v, _ := info.ObjectOf(x.Sel).(*types.Var)
			if v == nil || !v.IsField() {
				return v // of another package
			}
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// Assigned returns what is set within n.
func Assigned(n ast.Node) []ast.Expr {
	var set []ast.Expr
	ast.Inspect(n, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && a.Tok == token.ASSIGN {
			set = append(set, a.Lhs...)
		}
		return true
	})
	return set
}

// InTest reports whether a position is in a test file.
func InTest(pass *analysis.Pass, pos token.Pos) bool {
	return strings.HasSuffix(pass.Fset.Position(pos).Filename, "_test.go")
}

// Where prints a position without the file's directory, so that it is the same
// wherever a module lies.
func Where(pass *analysis.Pass, pos token.Pos) string {
	p := pass.Fset.Position(pos)
	if i := strings.LastIndexAny(p.Filename, `/\`); i >= 0 {
		p.Filename = p.Filename[i+1:]
	}
	return p.String()
}
