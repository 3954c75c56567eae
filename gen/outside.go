package gen

import (
	"bytes"
	"go/ast"
	"go/parser"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/typedoutbox/typedoutbox/internal/directive"
)

// readSiblings reads the files of the directory that are not part of the
// package as it was loaded: tests and what build constraints exclude. A
// directive in them is a mistake, and their names can still collide with
// generated ones.
func (u *unit) readSiblings() {
	entries, err := os.ReadDir(u.dir())
	if u.dir() == "" || err != nil {
		return
	}
	for _, entry := range entries {
		path := filepath.Join(u.dir(), entry.Name())
		if !u.isSibling(entry, path) {
			continue
		}
		src, err := os.ReadFile(path)
		if err != nil || len(u.events) == 0 && !bytes.Contains(bytes.ToLower(src), []byte("outbox")) {
			continue
		}
		f, err := parser.ParseFile(u.report.fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
		if f == nil || f.Name == nil {
			continue
		}
		if err != nil && mentionsDirective(src) {
			u.report.syntax(path, err)
			continue
		}
		u.outside(f, constraintOf(f, path))
		if f.Name.Name == u.pkg.Name {
			u.takeNames(f)
		}
	}
}

func (u *unit) isSibling(entry os.DirEntry, path string) bool {
	name := entry.Name()
	return strings.HasSuffix(name, ".go") && !isOutput(name) && entry.Type().IsRegular() &&
		!strings.HasPrefix(name, "_") && !strings.HasPrefix(name, ".") &&
		!(slices.Contains(u.pkg.GoFiles, path) && slices.Contains(u.pkg.CompiledGoFiles, path))
}

// outside reports the directives of a file that is not in every build.
func (u *unit) outside(f *ast.File, why string) {
	if why == "" {
		why = "a file that this build leaves out"
	}
	for _, group := range f.Comments {
		for _, c := range group.List {
			d, bad := directive.Parse(c)
			u.report.add(bad)
			if d != nil && (d.Allow == nil || ofLock(d.Allow.Rule.Text)) {
				u.report.addf(d.Pos, "//outbox:%s stands in %s; move it to a file that is in every build", d.Verb, why)
			}
		}
	}
}

// takeNames records the names that a file declares at package level, or
// imports.
func (u *unit) takeNames(f *ast.File) {
	take := func(id *ast.Ident) { u.taken[id.Name] = id.Pos() }
	for _, decl := range f.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				take(decl.Name)
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					take(spec.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						take(name)
					}
				case *ast.ImportSpec:
					if spec.Name != nil {
						u.imported[spec.Name.Name] = spec.Pos()
					}
				}
			}
		}
	}
}
