package outboxtx

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/cfg"

	"github.com/typedoutbox/typedoutbox/internal/vet"
)

// checkEnded reports Enqueue in a transaction that has ended on every way that
// leads there.
func checkEnded(pass *analysis.Pass) {
	for _, f := range pass.Files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil {
					checkBody(pass, n.Body)
				}
			case *ast.FuncLit:
				checkBody(pass, n.Body)
			}
			return true
		})
	}
}

// checkBody looks at one function, without the literals in it.
func checkBody(pass *analysis.Pass, body *ast.BlockStmt) {
	e := &ended{info: pass.TypesInfo, skip: unsure(pass.TypesInfo, body)}
	ends, enqueues := false, false
	inspectCalls(body, func(call *ast.CallExpr) {
		ends = ends || e.ends(call) != nil
		enqueues = enqueues || vet.IsEnqueue(pass.TypesInfo, call)
	})
	if !ends || !enqueues {
		return
	}
	graph := cfg.New(body, func(call *ast.CallExpr) bool {
		id, ok := call.Fun.(*ast.Ident)
		return !ok || pass.TypesInfo.Uses[id] != types.Universe.Lookup("panic")
	})
	out := e.solve(graph)
	for _, b := range graph.Blocks {
		state, known := join(graph, b, out)
		if !known {
			continue
		}
		e.through(b, state, func(call *ast.CallExpr, tx *types.Var) {
			pass.Reportf(call.Pos(), "%s comes after %s of %s, and so fails; enqueue before, in the transaction that the event is about",
				types.ExprString(call.Fun), state[tx], tx.Name())
		})
	}
}

// ended follows which transactions have ended.
type ended struct {
	info *types.Info
	skip map[*types.Var]bool
}

// state holds the transactions that have ended, and by which method.
type state map[*types.Var]string

// solve finds what has ended at the end of each block that can be reached. A
// block is looked at when one that leads to it is known, and again until nothing
// is taken away any more.
func (e *ended) solve(graph *cfg.CFG) map[*cfg.Block]state {
	out := map[*cfg.Block]state{}
	for changed := true; changed; {
		changed = false
		for _, b := range graph.Blocks {
			s, known := join(graph, b, out)
			if !known {
				continue
			}
			e.through(b, s, func(*ast.CallExpr, *types.Var) {})
			if old, seen := out[b]; !seen || len(old) != len(s) {
				out[b], changed = s, true
			}
		}
	}
	return out
}

// join keeps what has ended in every block that leads to at.
func join(graph *cfg.CFG, at *cfg.Block, out map[*cfg.Block]state) (s state, known bool) {
	if at == graph.Blocks[0] {
		return state{}, true
	}
	for _, b := range graph.Blocks {
		before, seen := out[b]
		if !seen || !slices.Contains(b.Succs, at) {
			continue
		}
		if s == nil {
			s = maps.Clone(before)
		}
		maps.DeleteFunc(s, func(v *types.Var, _ string) bool { return before[v] == "" })
	}
	return s, s != nil
}

// through applies a block to the state, and calls found for each Enqueue in a
// transaction that has ended.
func (e *ended) through(b *cfg.Block, s state, found func(*ast.CallExpr, *types.Var)) {
	for _, n := range b.Nodes {
		if _, deferred := n.(*ast.DeferStmt); deferred {
			continue
		}
		inspectCalls(n, func(call *ast.CallExpr) {
			if vet.IsEnqueue(e.info, call) {
				if tx := e.variable(call.Args[1]); tx != nil && s[tx] != "" {
					found(call, tx)
				}
			}
			if tx := e.ends(call); tx != nil {
				s[tx] = ast.Unparen(call.Fun).(*ast.SelectorExpr).Sel.Name
			}
		})
		for _, id := range written(n) {
			if v, ok := e.info.ObjectOf(id).(*types.Var); ok {
				delete(s, v)
			}
		}
	}
}

// ends returns the transaction that a call ends, nil if it ends none.
func (e *ended) ends(call *ast.CallExpr) *types.Var {
	if !vet.IsMethod(vet.Callee(e.info, call), vet.Bun, "Tx", "Commit", "Rollback") {
		return nil
	}
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	return e.variable(sel.X)
}

// variable returns the variable that e names, if what happens to it can be
// told.
func (e *ended) variable(x ast.Expr) *types.Var {
	id, ok := ast.Unparen(x).(*ast.Ident)
	if !ok {
		return nil
	}
	v, _ := e.info.Uses[id].(*types.Var)
	if v == nil || e.skip[v] || v.Pkg() == nil || v.Parent() == v.Pkg().Scope() {
		return nil
	}
	return v
}

// unsure returns the variables that a function literal sets, or that hold a
// savepoint: whose end leaves the transaction around it open.
func unsure(info *types.Info, body *ast.BlockStmt) map[*types.Var]bool {
	skip := map[*types.Var]bool{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			for _, e := range vet.Assigned(n) {
				if v := vet.Root(info, e); v != nil {
					skip[v] = true
				}
			}
		case *ast.UnaryExpr:
			if v := vet.Root(info, n.X); n.Op == token.AND && v != nil {
				skip[v] = true
			}
		case *ast.AssignStmt:
			if len(n.Rhs) != 1 || len(n.Lhs) != 2 {
				break
			}
			call, ok := n.Rhs[0].(*ast.CallExpr)
			if !ok || !vet.IsMethod(vet.Callee(info, call), vet.Bun, "Tx", "Begin", "BeginTx") {
				break
			}
			if v := vet.Root(info, n.Lhs[0]); v != nil {
				skip[v] = true
			}
		}
		return true
	})
	return skip
}

// written returns the names that a node of the graph sets.
func written(n ast.Node) []*ast.Ident {
	var left []ast.Expr
	switch n := n.(type) {
	case *ast.AssignStmt:
		left = n.Lhs
	case *ast.ValueSpec:
		return n.Names
	case ast.Expr:
		left = []ast.Expr{n} // of a range statement
	}
	var ids []*ast.Ident
	for _, e := range left {
		if id, ok := e.(*ast.Ident); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// inspectCalls visits the calls that happen wherever n is evaluated, innermost
// first: none in a function literal or a go statement, nor behind && or ||.
func inspectCalls(n ast.Node, visit func(*ast.CallExpr)) {
	var walk func(n ast.Node)
	walk = func(n ast.Node) {
		ast.Inspect(n, func(inner ast.Node) bool {
			switch x := inner.(type) {
			case *ast.FuncLit, *ast.GoStmt:
				return false
			case *ast.BinaryExpr:
				if x.Op == token.LAND || x.Op == token.LOR {
					walk(x.X)
					return false
				}
			case *ast.CallExpr:
				if x != n {
					walk(x)
					return false
				}
				walk(x.Fun)
				for _, arg := range x.Args {
					walk(arg)
				}
				visit(x)
				return false
			}
			return true
		})
	}
	walk(n)
}
