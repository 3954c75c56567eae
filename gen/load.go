package gen

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"
)

const loadMode = packages.LoadSyntax | packages.NeedModule

// loader loads packages as if our own output had no content, so that it does
// not matter in which state it is, and remembers the package clauses that it
// saw.
type loader struct {
	fset *token.FileSet

	mu      sync.Mutex
	outputs map[string]string // path of an output: the name in its package clause
	names   map[string]string // directory: the name in the other package clauses
}

// load returns the packages sorted by path.
//
// One load serves the whole invocation, but for one case: an output with a
// foreign package clause that go list took for the package's name. Then an
// overlay corrects the clause; as an overlay makes the loader type-check every
// dependency from source, it is not used otherwise.
func load(ctx context.Context, cfg Config, fset *token.FileSet) ([]*packages.Package, error) {
	l := &loader{fset: fset, outputs: map[string]string{}, names: map[string]string{}}
	pkgs, err := l.run(ctx, cfg, nil)
	if err == nil {
		if overlay := l.corrections(); len(overlay) > 0 {
			pkgs, err = l.run(ctx, cfg, overlay)
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("load packages: %w", context.Cause(ctx))
	case err != nil:
		return nil, fmt.Errorf("load packages, for which go list must work here: %w", err)
	}
	slices.SortFunc(pkgs, func(a, b *packages.Package) int { return strings.Compare(a.PkgPath, b.PkgPath) })
	return pkgs, nil
}

func (l *loader) run(ctx context.Context, cfg Config, overlay map[string][]byte) ([]*packages.Package, error) {
	pc := &packages.Config{
		Mode:      loadMode,
		Context:   ctx,
		Dir:       cfg.Dir,
		Fset:      l.fset,
		ParseFile: l.parse,
		Overlay:   overlay,
	}
	if cfg.Tags != "" {
		pc.BuildFlags = []string{"-tags=" + cfg.Tags}
	}
	return packages.Load(pc, cfg.Patterns...)
}

// parse reads only the package clause of our output. The loader calls it from
// several goroutines.
func (l *loader) parse(fset *token.FileSet, path string, src []byte) (*ast.File, error) {
	if isOutput(path) && replaceable(src) {
		f, err := parser.ParseFile(fset, path, src, parser.PackageClauseOnly)
		if err != nil {
			return nil, nil // the loader leaves out a file that is nil
		}
		l.record(l.outputs, path, f)
		return f, nil
	}
	f, err := parser.ParseFile(fset, path, src, parser.ParseComments|parser.SkipObjectResolution|parser.AllErrors)
	if f != nil && f.Name != nil {
		l.record(l.names, filepath.Dir(path), f)
	}
	return f, err
}

func (l *loader) record(in map[string]string, key string, f *ast.File) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in[key] = f.Name.Name
}

// corrections is the overlay for outputs that belong to another package than
// their neighbours.
func (l *loader) corrections() map[string][]byte {
	overlay := map[string][]byte{}
	for path, name := range l.outputs {
		if want := l.names[filepath.Dir(path)]; want != "" && want != name {
			overlay[path] = []byte(header + "\n\npackage " + want + "\n")
		}
	}
	return overlay
}

// loadProblems reports what keeps a package from being generated from: that it
// is not there, or a syntax error in a file that holds a directive. What go
// list and the type checker say besides is left out, since mostly it is about
// our own missing symbols, and the rest is the compiler's business.
func (r *report) loadProblems(pkg *packages.Package) {
	for _, e := range pkg.Errors {
		path := parsePosition(e.Pos).Filename
		switch {
		case e.Kind == packages.ListError && len(pkg.GoFiles) == 0:
			r.addAt(pkg.PkgPath, "%s; name packages that exist", e.Msg)
		case e.Kind == packages.ParseError && holdsDirective(path):
			r.addAt(e.Pos, "%s; correct the syntax, then generate", e.Msg)
		}
	}
}

// syntax reports what the parser said about a file.
func (r *report) syntax(path string, err error) {
	var list scanner.ErrorList
	if !errors.As(err, &list) {
		r.addAt(path, "%v; correct the syntax, then generate", err)
	}
	for _, e := range list {
		r.addAt(e.Pos.String(), "%s; correct the syntax, then generate", e.Msg)
	}
}

func holdsDirective(path string) bool {
	src, err := os.ReadFile(path)
	return err == nil && mentionsDirective(src)
}
