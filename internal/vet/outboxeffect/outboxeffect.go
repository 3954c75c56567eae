// Package outboxeffect reports what a rollback does not take back.
package outboxeffect

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"

	"github.com/typedoutbox/typedoutbox/internal/vet"
)

// Analyzer reports HTTP requests, mails, commands and sleep within a
// transaction.
var Analyzer = &analysis.Analyzer{
	Name: "outboxeffect",
	Doc: `report effects on the world within a transaction (opt-in)

An HTTP request, a mail or a command that a transaction makes has happened when
the transaction rolls back, and keeps its locks and its connection while it
takes its time. Enqueue an event, and do it in the event's handler. Functions of
the same package are looked into.`,
	Run: vet.Allowing(run),
}

// effect is a call that has one.
type effect struct {
	fn   *types.Func
	call *ast.CallExpr
}

func run(pass *analysis.Pass) error {
	if !vet.Imports(pass.Pkg, vet.Outbox) {
		return nil
	}
	transactions := vet.Transactions(pass)
	if len(transactions) == 0 {
		return nil
	}
	known := effects(pass)
	for _, t := range transactions {
		t.Inspect(pass.TypesInfo, func(n ast.Node, _ []ast.Node) {
			call, ok := n.(*ast.CallExpr)
			if !ok || vet.InTest(pass, call.Pos()) {
				return
			}
			fn := vet.Callee(pass.TypesInfo, call)
			const text = "within the transaction, and a rollback does not take it back; enqueue an event, and do it in the handler"
			if hasEffect(fn) {
				pass.Reportf(call.Pos(), "%s is called %s", types.ExprString(call.Fun), text)
			} else if e, ok := known[fn]; ok {
				pass.Reportf(call.Pos(), "%s calls %s (%s) %s", types.ExprString(call.Fun), e.fn.FullName(), vet.Where(pass, e.call.Pos()), text)
			}
		})
	}
	return nil
}

// effects returns the functions of the package that have an effect when they
// are called, directly or through one another.
func effects(pass *analysis.Pass) map[*types.Func]effect {
	known := map[*types.Func]effect{}
	var functions []*ast.FuncDecl
	for _, f := range pass.Files {
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
				functions = append(functions, fn)
			}
		}
	}
	for grown := true; grown; {
		grown = false
		for _, decl := range functions {
			fn, ok := pass.TypesInfo.Defs[decl.Name].(*types.Func)
			if _, seen := known[fn]; seen || !ok {
				continue
			}
			if e, ok := first(pass, decl, known); ok {
				known[fn], grown = e, true
			}
		}
	}
	return known
}

// first returns the first effect of a function, ok being false if it has none.
func first(pass *analysis.Pass, decl *ast.FuncDecl, known map[*types.Func]effect) (e effect, ok bool) {
	vet.Transaction{Body: decl.Body}.Inspect(pass.TypesInfo, func(n ast.Node, _ []ast.Node) {
		call, isCall := n.(*ast.CallExpr)
		if !isCall || ok {
			return
		}
		fn := vet.Callee(pass.TypesInfo, call)
		if hasEffect(fn) {
			e, ok = effect{fn, call}, true
		} else if fn != nil {
			e, ok = known[fn]
		}
	})
	return e, ok
}

// hasEffect reports whether fn sends something, starts something or waits.
func hasEffect(fn *types.Func) bool {
	return vet.IsFunc(fn, "net/http", "Get", "Head", "Post", "PostForm") ||
		vet.IsMethod(fn, "net/http", "Client", "Do", "Get", "Head", "Post", "PostForm") ||
		vet.IsMethod(fn, "net/http", "Transport", "RoundTrip") ||
		vet.IsMethod(fn, "net/http", "RoundTripper", "RoundTrip") ||
		vet.IsFunc(fn, "net/smtp", "SendMail", "Dial", "NewClient") ||
		vet.IsMethod(fn, "net/smtp", "Client", "Mail", "Rcpt", "Data") ||
		vet.IsMethod(fn, "os/exec", "Cmd", "Run", "Start", "Output", "CombinedOutput") ||
		vet.IsFunc(fn, "time", "Sleep")
}
