// Package outboxhandler reports topics that no relay of a program delivers.
package outboxhandler

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"

	"github.com/typedoutbox/typedoutbox/internal/vet"
)

// Analyzer reports, for a program that starts a relay, the topics of all packages
// in it for which there is no handler.
var Analyzer = &analysis.Analyzer{
	Name: "outboxhandler",
	Doc: `report topics without a handler in programs that relay (opt-in)

A message whose topic has no handler waits for ever. In a main package whose
imports start a relay, each topic that a package among them declares needs a
handler, or a Skip that leaves it to another program. A topic that is passed to a
function which is not known counts as handled, and a relay with Deliver or
TopicPrefix keeps the analyzer silent.`,
	Run:       vet.Allowing(run),
	FactTypes: []analysis.Fact{new(program)},
}

func run(pass *analysis.Pass) error {
	if path := vet.Path(pass.Pkg); path == vet.Outbox || path == vet.Topics {
		return nil
	}
	p := &program{}
	for _, imp := range pass.Pkg.Imports() {
		var fact program
		if pass.ImportPackageFact(imp, &fact) {
			p.add(fact)
		}
	}
	if vet.Imports(pass.Pkg, vet.Outbox) || vet.Imports(pass.Pkg, vet.Topics) {
		p.read(pass)
	}
	if pass.Pkg.Name() == "main" {
		report(pass, p)
	} else if len(p.Topics) > 0 || len(p.Handled) > 0 || p.Relays || p.Unsure {
		pass.ExportPackageFact(p)
	}
	return nil
}

// report names the topics at function main, but not at that of the package which
// go test makes.
func report(pass *analysis.Pass, p *program) {
	if !p.Relays || p.Unsure {
		return
	}
	for _, f := range pass.Files {
		if vet.InTest(pass, f.Package) || ast.IsGenerated(f) {
			continue
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || fn.Name.Name != "main" {
				continue
			}
			for _, t := range p.unhandled() {
				pass.Reportf(fn.Name.Pos(), "topic %q (%s) has no handler in this program, which starts a relay; register one with outbox.Handle, or leave it to another program with Skip(%s.Info())",
					t.Name, t.spell(), t.spell())
			}
		}
	}
}

// isTopic reports whether v is a topic at package level.
func isTopic(v *types.Var) bool {
	return v != nil && v.Pkg() != nil && v.Parent() == v.Pkg().Scope() && vet.IsType(v.Type(), vet.Topics, "Topic")
}
