package outboxhandler

import (
	"go/ast"
	"go/constant"
	"go/types"
	"path/filepath"

	"golang.org/x/tools/go/analysis"

	"github.com/typedoutbox/typedoutbox/internal/vet"
)

// The functions that outboxgen writes, and its file.
const (
	infosFunc  = "OutboxTopics"
	handleFunc = "HandleOutbox"
	output     = "outbox_gen.go"
)

// read adds what the package itself says. Tests do not count: they are not part
// of the program.
func (p *program) read(pass *analysis.Pass) {
	var uses []ast.Node // what may register something
	promised := map[*types.Var]bool{}
	for _, f := range pass.Files {
		if vet.InTest(pass, f.Package) {
			continue
		}
		generated := filepath.Base(pass.Fset.Position(f.Package).Filename) == output
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !generated || !ok || fn.Recv != nil {
				uses = append(uses, decl)
			} else if fn.Name.Name == handleFunc {
				topicsIn(pass.TypesInfo, fn, promised)
			}
		}
	}
	for _, decl := range uses {
		if decl, ok := decl.(*ast.GenDecl); ok {
			p.declared(pass, decl, promised)
		}
	}
	for _, decl := range uses {
		p.used(pass.TypesInfo, decl)
	}
	p.sort()
}

func topicsIn(info *types.Info, n ast.Node, found map[*types.Var]bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if v, ok := info.Uses[id].(*types.Var); ok && isTopic(v) {
				found[v] = true
			}
		}
		return true
	})
}

// declared adds the variables that are made with topics.New.
func (p *program) declared(pass *analysis.Pass, decl *ast.GenDecl, promised map[*types.Var]bool) {
	for _, spec := range decl.Specs {
		spec, ok := spec.(*ast.ValueSpec)
		if !ok || len(spec.Names) != len(spec.Values) {
			continue
		}
		for i, id := range spec.Names {
			v, _ := pass.TypesInfo.Defs[id].(*types.Var)
			call, ok := ast.Unparen(spec.Values[i]).(*ast.CallExpr)
			if !ok || !isTopic(v) || !vet.IsFunc(vet.Callee(pass.TypesInfo, call), vet.Topics, "New") || len(call.Args) == 0 {
				continue
			}
			t := topic{Package: vet.Path(v.Pkg()), Var: v.Name(), Promised: promised[v]}
			if name := pass.TypesInfo.Types[call.Args[0]].Value; name != nil && name.Kind() == constant.String {
				t.Name = constant.StringVal(name)
			}
			p.Topics = append(p.Topics, t)
		}
	}
}

// used looks at each mention of a topic, a generated function or a relay.
func (p *program) used(info *types.Info, decl ast.Node) {
	var around []ast.Node
	ast.Inspect(decl, func(n ast.Node) bool {
		if n == nil {
			around = around[:len(around)-1]
			return true
		}
		if id, ok := n.(*ast.Ident); ok {
			p.mention(info, id, around)
		}
		around = append(around, n)
		return true
	})
}

func (p *program) mention(info *types.Info, id *ast.Ident, around []ast.Node) {
	switch obj := info.Uses[id].(type) {
	case *types.Var:
		if obj.IsField() && vet.Path(obj.Pkg()) == vet.Outbox && (obj.Name() == "Deliver" || obj.Name() == "TopicPrefix") {
			p.Unsure = true
		}
		if isTopic(obj) && registers(info, id, around) {
			p.Handled = append(p.Handled, vet.Path(obj.Pkg())+"."+obj.Name())
		}
	case *types.Func:
		switch {
		case vet.IsMethod(obj, vet.Outbox, "Relay", "Start", "Drain"):
			p.Relays = true
		case obj.Signature().Recv() != nil || obj.Pkg() == nil:
		case obj.Name() == handleFunc:
			p.handlePackage(vet.Path(obj.Pkg()), true)
		case obj.Name() == infosFunc && registers(info, id, around):
			p.handlePackage(vet.Path(obj.Pkg()), false)
		}
	}
}

// registers reports whether what is done with a topic, or with a list of them,
// may be to handle or to skip it. It is not if messages are enqueued, a method
// other than Info is called, or handlers are required.
func registers(info *types.Info, id *ast.Ident, around []ast.Node) bool {
	var e ast.Expr = id
	up := func() ast.Node {
		if len(around) == 0 {
			return nil
		}
		return around[len(around)-1]
	}
	pop := func() { around = around[:len(around)-1] }
	if sel, ok := up().(*ast.SelectorExpr); ok && sel.Sel == id { // of another package
		e = sel
		pop()
	}
	if sel, ok := up().(*ast.SelectorExpr); ok && sel.X == e { // a method of the topic
		if sel.Sel.Name != "Info" {
			return false
		}
		e = sel
		pop()
	}
	if call, ok := up().(*ast.CallExpr); ok && call.Fun == e { // of Info, or of OutboxTopics
		e = call
		pop()
	}
	call, ok := up().(*ast.CallExpr)
	if !ok {
		return true
	}
	return !vet.IsEnqueue(info, call) && !vet.IsMethod(vet.Callee(info, call), vet.Outbox, "Mux", "Require")
}
