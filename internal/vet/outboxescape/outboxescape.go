// Package outboxescape reports transactions that are used when they may have
// ended.
package outboxescape

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"

	"github.com/typedoutbox/typedoutbox/internal/vet"
)

// Analyzer reports a bun.Tx, given to a function by who ends it, that a goroutine
// uses or that is kept.
var Analyzer = &analysis.Analyzer{
	Name: "outboxescape",
	Doc: `report transactions that leave the function they are given to

A transaction ends when the function that RunInTx calls returns, and it is one
connection, which runs one statement after the other. A goroutine, a timer, a
channel, a field or a variable of the package can carry it past that end, where an
Enqueue fails and the event is lost.`,
	Run: vet.Allowing(run),
}

func run(pass *analysis.Pass) error {
	if !vet.Imports(pass.Pkg, vet.Outbox) {
		return nil
	}
	for _, f := range pass.Files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil {
					checkGoroutines(pass, n.Type, n.Body)
				}
			case *ast.FuncLit:
				checkGoroutines(pass, n.Type, n.Body)
			}
			return true
		})
	}
	for _, t := range vet.Transactions(pass) {
		checkKept(pass, t)
	}
	return nil
}

// checkGoroutines looks for other goroutines that use a parameter. A function
// that ends the transaction itself knows when it does.
func checkGoroutines(pass *analysis.Pass, sig *ast.FuncType, body *ast.BlockStmt) {
	for _, tx := range vet.TxParams(pass.TypesInfo, sig) {
		if ends(pass.TypesInfo, body, tx) {
			continue
		}
		report := func(n ast.Node, how string) {
			pass.Reportf(n.Pos(), "%s uses %s, which may have ended by then, and runs one statement at a time; do it before the function returns, or begin a transaction there",
				how, tx.Name())
		}
		ast.Inspect(body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				if uses(pass.TypesInfo, n.Call, tx) {
					report(n, "this goroutine")
					return false
				}
			case *ast.CallExpr:
				if fn := vet.Callee(pass.TypesInfo, n); startsLater(fn) && slices.ContainsFunc(n.Args, func(arg ast.Expr) bool {
					return uses(pass.TypesInfo, arg, tx)
				}) {
					report(n, "what "+types.ExprString(n.Fun)+" runs")
					return false
				}
			}
			return true
		})
	}
}

// startsLater reports whether fn runs its argument in a goroutine.
func startsLater(fn *types.Func) bool {
	return vet.IsMethod(fn, "golang.org/x/sync/errgroup", "Group", "Go", "TryGo") ||
		vet.IsMethod(fn, "sync", "WaitGroup", "Go") ||
		vet.IsFunc(fn, "time", "AfterFunc") || vet.IsFunc(fn, "context", "AfterFunc")
}

func uses(info *types.Info, n ast.Node, tx *types.Var) (yes bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		yes = yes || ok && info.Uses[id] == tx
		return !yes
	})
	return yes
}

func ends(info *types.Info, body *ast.BlockStmt, tx *types.Var) (yes bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && vet.IsMethod(vet.Callee(info, call), vet.Bun, "Tx", "Commit", "Rollback") {
			sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
			yes = yes || ok && vet.Root(info, sel.X) == tx
		}
		return !yes
	})
	return yes
}

// checkKept looks for a transaction that is put where it outlives the function:
// on a channel, in a variable of a package, or in a field or an element of what
// was there before. One that is set twice is taken to be set back.
func checkKept(pass *analysis.Pass, t vet.Transaction) {
	set := map[string]int{}
	for _, e := range vet.Assigned(t.Body) {
		set[types.ExprString(e)]++
	}
	report := func(at ast.Node, where string) {
		pass.Reportf(at.Pos(), "%s keeps %s, which ends when this function returns; pass the transaction to who needs it, and keep what it is for",
			where, t.Tx.Name())
	}
	ast.Inspect(t.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SendStmt:
			if holds(pass.TypesInfo, n.Value, t.Tx) {
				report(n, types.ExprString(n.Chan))
			}
		case *ast.AssignStmt:
			if n.Tok != token.ASSIGN || len(n.Lhs) != len(n.Rhs) {
				break
			}
			for i, left := range n.Lhs {
				v := vet.Root(pass.TypesInfo, left)
				if v == nil || !t.Outside(v) || set[types.ExprString(left)] > 1 || !holds(pass.TypesInfo, n.Rhs[i], t.Tx) {
					continue
				}
				if _, plain := ast.Unparen(left).(*ast.Ident); !plain || v.Parent() == v.Pkg().Scope() {
					report(left, types.ExprString(left))
				}
			}
		}
		return true
	})
}

// holds reports whether the value of e has the transaction in it: itself, its
// address, in a literal, or appended.
func holds(info *types.Info, e ast.Expr, tx *types.Var) bool {
	in := func(e ast.Expr) bool { return holds(info, e, tx) }
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return info.Uses[e] == tx
	case *ast.UnaryExpr:
		return e.Op == token.AND && in(e.X)
	case *ast.KeyValueExpr:
		return in(e.Value)
	case *ast.CompositeLit:
		return slices.ContainsFunc(e.Elts, in)
	case *ast.CallExpr:
		id, ok := e.Fun.(*ast.Ident)
		return ok && info.Uses[id] == types.Universe.Lookup("append") && slices.ContainsFunc(e.Args, in)
	}
	return false
}
