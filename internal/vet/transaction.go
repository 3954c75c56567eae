package vet

import (
	"go/ast"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
)

// Transaction is a function that somebody calls with a transaction which ends
// when it returns.
type Transaction struct {
	Params *ast.FieldList
	Body   *ast.BlockStmt
	Tx     *types.Var // the parameter
}

// Transactions returns the function literals of the package that take one
// bun.Tx, and the functions and methods that do and are passed on by name, as to
// RunInTx. What is declared and called as any other function is not among them:
// who knows when its transaction ends?
func Transactions(pass *analysis.Pass) []Transaction {
	byName := passedByName(pass)
	var found []Transaction
	add := func(sig *ast.FuncType, body *ast.BlockStmt) {
		if txs := TxParams(pass.TypesInfo, sig); len(txs) == 1 && body != nil {
			found = append(found, Transaction{Params: sig.Params, Body: body, Tx: txs[0]})
		}
	}
	for _, f := range pass.Files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if byName[pass.TypesInfo.Defs[n.Name]] {
					add(n.Type, n.Body)
				}
			case *ast.FuncLit:
				add(n.Type, n.Body)
			}
			return true
		})
	}
	return found
}

// TxParams returns the parameters of a function that are transactions. One
// without a name is a variable that nothing uses.
func TxParams(info *types.Info, sig *ast.FuncType) []*types.Var {
	var txs []*types.Var
	for _, field := range sig.Params.List {
		if !IsTx(info.TypeOf(field.Type)) {
			continue
		}
		for _, name := range field.Names {
			if v, ok := info.Defs[name].(*types.Var); ok {
				txs = append(txs, v)
			}
		}
		if len(field.Names) == 0 {
			txs = append(txs, types.NewParam(token.NoPos, nil, "_", info.TypeOf(field.Type)))
		}
	}
	return txs
}

// passedByName returns the functions that are arguments of a call. What a test
// passes says nothing of the program, and is seen by some drivers only.
func passedByName(pass *analysis.Pass) map[types.Object]bool {
	passed := map[types.Object]bool{}
	for _, f := range pass.Files {
		if InTest(pass, f.Package) {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, arg := range call.Args {
				switch arg := ast.Unparen(arg).(type) {
				case *ast.Ident:
					passed[pass.TypesInfo.Uses[arg]] = true
				case *ast.SelectorExpr:
					passed[pass.TypesInfo.Uses[arg.Sel]] = true
				}
			}
			return true
		})
	}
	return passed
}

// Outside reports whether v is declared outside of the transaction: a variable
// around it, of the package or of another one, or the receiver of its method.
func (t Transaction) Outside(v *types.Var) bool {
	within := func(n ast.Node) bool { return n.Pos() <= v.Pos() && v.Pos() < n.End() }
	return v != t.Tx && !within(t.Params) && !within(t.Body)
}

// Inspect visits what runs before the transaction ends, with the nodes around
// it, outermost first. That leaves out what a go statement starts, and function
// literals, which may run later, but for those that are called on the spot or
// deferred; those that are transactions are visited on their own.
func (t Transaction) Inspect(info *types.Info, visit func(n ast.Node, around []ast.Node)) {
	var around []ast.Node
	called := map[ast.Node]bool{}
	ast.Inspect(t.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case nil:
			around = around[:len(around)-1]
			return true
		case *ast.GoStmt:
			return false
		case *ast.FuncLit:
			if !called[n] || len(TxParams(info, n.Type)) > 0 {
				return false
			}
		case *ast.CallExpr:
			called[ast.Unparen(n.Fun)] = true
		}
		visit(n, around)
		around = append(around, n)
		return true
	})
}
