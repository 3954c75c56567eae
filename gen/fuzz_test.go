package gen

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/txtar"
)

// fuzzImports are what fuzzed source and its output may import.
var fuzzImports = []string{"context", "encoding/json", "fmt", "math/big", "net/netip", "strconv", "time", topicsPath, outboxPath}

// importer knows the packages of fuzzImports.
type importer map[string]*types.Package

func (im importer) Import(path string) (*types.Package, error) {
	if pkg := im[path]; pkg != nil {
		return pkg, nil
	}
	return nil, fmt.Errorf("no package %s here", path)
}

// FuzzGenerate takes any file for the one file of a package. The generator does
// not panic; what it says has a place and a remedy; what it writes is formatted,
// and compiles beside a file that compiles.
func FuzzGenerate(f *testing.F) {
	archives, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	require.NoError(f, err)
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		require.NoError(f, err)
		for _, file := range archive.Files {
			if strings.HasSuffix(file.Name, ".go") && !strings.HasPrefix(file.Name, "want/") && !isOutput(file.Name) {
				f.Add(file.Data)
			}
		}
	}
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadTypes}, fuzzImports...)
	require.NoError(f, err)
	imports := importer{}
	for _, pkg := range loaded {
		require.Empty(f, pkg.Errors)
		imports[pkg.PkgPath] = pkg.Types
	}
	dir := f.TempDir()
	path := filepath.Join(dir, "p.go")
	line := regexp.MustCompile(`^p\.go:[1-9]\d*:[1-9]\d*: [^\n]+; [^\n]+$`)

	f.Fuzz(func(t *testing.T, src []byte) {
		if bytes.Contains(src, []byte("//line ")) || bytes.Contains(src, []byte("/*line ")) { // they name any position
			return
		}
		require.NoError(t, os.WriteFile(path, src, 0o600))
		r := newReport(dir, token.NewFileSet())
		pkg := imports.load(r, path, src)
		if pkg == nil {
			return
		}
		files, err := r.generate([]*packages.Package{pkg}, filepath.Join(dir, "schemas"))
		if err != nil {
			var list problems
			require.ErrorAs(t, err, &list)
			for _, p := range list {
				require.Regexp(t, line, p.String())
			}
			return
		}
		for _, file := range files {
			if !isOutput(file.Path) || file.New == nil {
				continue
			}
			formatted, err := format.Source(file.New)
			require.NoError(t, err)
			require.Equal(t, string(formatted), string(file.New))
			if len(pkg.Errors)+len(pkg.TypeErrors) == 0 {
				imports.compile(t, pkg, file.New)
			}
		}
	})
}

// load does what packages.Load does with a file, nil if that has no package.
func (im importer) load(r *report, path string, src []byte) *packages.Package {
	l := &loader{fset: r.fset, outputs: map[string]string{}, names: map[string]string{}}
	file, err := l.parse(r.fset, path, src)
	if file == nil || file.Name == nil || file.Name.Name == "_" || !token.IsIdentifier(file.Name.Name) {
		return nil
	}
	pkg := &packages.Package{
		PkgPath: "example.com/p", Name: file.Name.Name, Dir: filepath.Dir(path), Fset: r.fset, Syntax: []*ast.File{file},
		GoFiles: []string{path}, CompiledGoFiles: []string{path},
		TypesInfo: &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Instances: map[*ast.Ident]types.Instance{},
			Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}, Implicits: map[ast.Node]types.Object{},
			Selections: map[*ast.SelectorExpr]*types.Selection{}, Scopes: map[ast.Node]*types.Scope{},
		},
	}
	pkg.Errors = parseErrors(err)
	conf := types.Config{Importer: im, Error: func(err error) {
		var e types.Error
		if errors.As(err, &e) {
			pkg.TypeErrors = append(pkg.TypeErrors, e)
		}
	}}
	pkg.Types, _ = conf.Check(pkg.PkgPath, r.fset, pkg.Syntax, pkg.TypesInfo)
	return pkg
}

func parseErrors(err error) (out []packages.Error) {
	var list scanner.ErrorList
	if errors.As(err, &list) {
		for _, e := range list {
			out = append(out, packages.Error{Pos: e.Pos.String(), Msg: e.Msg, Kind: packages.ParseError})
		}
	}
	return out
}

func (im importer) compile(t *testing.T, pkg *packages.Package, output []byte) {
	t.Helper()
	file, err := parser.ParseFile(pkg.Fset, outputName, output, parser.SkipObjectResolution)
	require.NoError(t, err)
	conf := types.Config{Importer: im}
	_, err = conf.Check(pkg.PkgPath, pkg.Fset, append([]*ast.File{file}, pkg.Syntax...), nil)
	require.NoError(t, err, "%s", output)
}
