package vet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/packages"

	"github.com/typedoutbox/typedoutbox/gen"
)

// Declared reports what the generator says of the directives of a package, and
// of the payloads of its events.
func Declared(pass *analysis.Pass, directives, payloads func(pos token.Pos, text string)) {
	gen.Check(&packages.Package{
		PkgPath:    pass.Pkg.Path(),
		Name:       pass.Pkg.Name(),
		Fset:       pass.Fset,
		Types:      pass.Pkg,
		TypesInfo:  pass.TypesInfo,
		TypeErrors: pass.TypeErrors,
		Syntax:     append(pass.Files[:len(pass.Files):len(pass.Files)], ignored(pass)...),
	}, directives, payloads)
}

// ignored parses the files that this build leaves out. One that cannot be read,
// or is no Go, is passed over.
func ignored(pass *analysis.Pass) []*ast.File {
	var files []*ast.File
	for _, path := range pass.IgnoredFiles {
		name := filepath.Base(path)
		if !strings.HasSuffix(name, ".go") || name[0] == '_' || name[0] == '.' {
			continue
		}
		src, err := pass.ReadFile(path)
		if err != nil {
			continue
		}
		f, err := parser.ParseFile(pass.Fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
		if err == nil {
			files = append(files, f)
		}
	}
	return files
}
