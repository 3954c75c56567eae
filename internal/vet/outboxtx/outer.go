package outboxtx

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/typedoutbox/typedoutbox/internal/vet"
)

// outer looks in one transaction for what belongs to another, or to none.
type outer struct {
	pass     *analysis.Pass
	tx       vet.Transaction
	assigned []ast.Expr
	pending  []query
}

// query is a variable that holds one, which does not run where it is built.
type query struct {
	v         *types.Var
	db        ast.Expr // on which it is built
	ran, told bool     // told where to run
}

func checkOuter(pass *analysis.Pass, t vet.Transaction) {
	o := &outer{pass: pass, tx: t, assigned: vet.Assigned(t.Body)}
	t.Inspect(pass.TypesInfo, func(n ast.Node, around []ast.Node) {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return
		}
		if vet.IsEnqueue(pass.TypesInfo, call) {
			o.enqueue(call)
			return
		}
		if vet.InTest(pass, call.Pos()) {
			return // tests look from outside on purpose, and fail or hang where it is not
		}
		if fn := vet.Callee(pass.TypesInfo, call); fn != nil && fn.Signature().Recv() != nil {
			sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
			if ok && (isDB(pass.TypesInfo.TypeOf(sel.X)) || isDB(fn.Signature().Recv().Type())) && o.isOuter(sel.X) {
				o.method(sel, call, around)
			}
		}
		o.arguments(call)
	})
	o.built()
}

// enqueue reports a transaction from outside.
func (o *outer) enqueue(call *ast.CallExpr) {
	arg := call.Args[1]
	if o.isOuter(arg) {
		o.pass.Reportf(arg.Pos(), "%s is given %s, which is not the transaction of this function; %s",
			types.ExprString(call.Fun), types.ExprString(arg), o.remedy("pass"))
	}
}

// remedy says what to do with the transaction.
func (o *outer) remedy(do string) string {
	if name := o.tx.Tx.Name(); name != "_" {
		return do + " " + name
	}
	return "give the parameter of type bun.Tx a name, and " + do + " it"
}

// isDB reports whether t is a database. A bun.IDB is one, or a transaction. A
// bun.Conn is not among them: it may be the connection of the transaction.
func isDB(t types.Type) bool {
	return vet.IsType(t, vet.Bun, "DB") || vet.IsType(t, vet.Bun, "IDB") || vet.IsType(t, "database/sql", "DB")
}

// isOuter reports whether e leads to something that was there before the
// transaction. What is set within may by then be the transaction.
func (o *outer) isOuter(e ast.Expr) bool {
	v := vet.Root(o.pass.TypesInfo, e)
	return v != nil && o.tx.Outside(v) && !slices.ContainsFunc(o.assigned, func(set ast.Expr) bool {
		return vet.Root(o.pass.TypesInfo, set) == v && strings.HasPrefix(types.ExprString(e)+".", types.ExprString(set)+".")
	})
}

// sends are the methods of a database that send something to it.
var sends = map[string]bool{
	"Exec": true, "ExecContext": true, "Query": true, "QueryContext": true, "QueryRow": true, "QueryRowContext": true,
	"Prepare": true, "PrepareContext": true, "Begin": true, "BeginTx": true, "RunInTx": true, "ResetModel": true,
}

// runs are the methods of a query that send it.
var runs = map[string]bool{"Exec": true, "Scan": true, "Rows": true, "Count": true, "Exists": true, "ScanAndCount": true}

// method looks at a method of an outer database. A query that is built with it
// counts where it runs: as part of another query it is harmless.
func (o *outer) method(sel *ast.SelectorExpr, call *ast.CallExpr, around []ast.Node) {
	name := sel.Sel.Name
	if sends[name] {
		o.report(sel.X)
		return
	}
	if !strings.HasPrefix(name, "New") {
		return
	}
	methods, end, around := chain(call, around)
	switch {
	case methods["Conn"]: // is told where to run
	case runsQuery(methods):
		o.report(sel.X)
	default:
		if v := target(o.pass.TypesInfo, end, around); v != nil {
			o.pending = append(o.pending, query{v: v, db: sel.X})
		}
	}
}

func (o *outer) report(db ast.Expr) {
	o.pass.Reportf(db.Pos(), "%s is not in the transaction: what it does stays after a rollback, and it may wait for ever for what the transaction holds; %s",
		types.ExprString(db), o.remedy("use"))
}

// arguments reports an outer database that is passed where a transaction could
// be. A function that is given both may know why.
func (o *outer) arguments(call *ast.CallExpr) {
	sig, ok := o.pass.TypesInfo.TypeOf(call.Fun).(*types.Signature)
	if !ok {
		return
	}
	for _, arg := range call.Args {
		if vet.IsTx(o.pass.TypesInfo.TypeOf(arg)) {
			return
		}
	}
	for i, arg := range call.Args {
		if i < sig.Params().Len() && vet.IsType(sig.Params().At(i).Type(), vet.Bun, "IDB") && isDB(o.pass.TypesInfo.TypeOf(arg)) && o.isOuter(arg) {
			o.report(arg)
		}
	}
}

// built reports the pending queries that run, unless they are told where.
func (o *outer) built() {
	if len(o.pending) == 0 {
		return
	}
	o.tx.Inspect(o.pass.TypesInfo, func(n ast.Node, around []ast.Node) {
		id, ok := n.(*ast.Ident)
		if !ok {
			return
		}
		for i := range o.pending {
			if q := &o.pending[i]; o.pass.TypesInfo.Uses[id] == q.v {
				methods, _, _ := chain(id, around)
				q.ran = q.ran || runsQuery(methods)
				q.told = q.told || methods["Conn"]
			}
		}
	})
	for _, q := range o.pending {
		if q.ran && !q.told {
			o.report(q.db)
		}
	}
}

func runsQuery(methods map[string]bool) bool {
	for name := range methods {
		if runs[name] {
			return true
		}
	}
	return false
}

// chain returns the methods that are called on e, as in e.Where().Scan(), the
// whole expression, and what is around that.
func chain(e ast.Expr, around []ast.Node) (methods map[string]bool, end ast.Expr, rest []ast.Node) {
	methods = map[string]bool{}
	for len(around) > 0 {
		switch n := around[len(around)-1].(type) {
		case *ast.ParenExpr:
			e, around = n, around[:len(around)-1]
			continue
		case *ast.SelectorExpr:
			if len(around) < 2 {
				return methods, e, around
			}
			if call, ok := around[len(around)-2].(*ast.CallExpr); ok && call.Fun == n && n.X == e {
				methods[n.Sel.Name] = true
				e, around = call, around[:len(around)-2]
				continue
			}
		}
		break
	}
	return methods, e, around
}

// target returns the variable that e is assigned to, nil if it is not.
func target(info *types.Info, e ast.Expr, around []ast.Node) *types.Var {
	if len(around) == 0 {
		return nil
	}
	var names []ast.Expr
	var values []ast.Expr
	switch n := around[len(around)-1].(type) {
	case *ast.AssignStmt:
		names, values = n.Lhs, n.Rhs
	case *ast.ValueSpec:
		for _, name := range n.Names {
			names = append(names, name)
		}
		values = n.Values
	}
	for i, value := range values {
		if value == e && len(names) == len(values) {
			if id, ok := names[i].(*ast.Ident); ok {
				v, _ := info.ObjectOf(id).(*types.Var)
				return v
			}
		}
	}
	return nil
}
