package gen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/tools/go/packages"
)

// Config says what to generate from. The zero value means the package in the
// current directory.
type Config struct {
	// Dir is the directory that patterns and the positions in errors are
	// relative to. Default the current directory.
	Dir string

	// Patterns name packages, in the way of go list. Default ".".
	Patterns []string

	// Tags is a comma-separated list of build tags. Default none.
	Tags string
}

// File is the output of one package.
type File struct {
	// Path is absolute.
	Path string

	// Old is the content on disk, nil if there is no file.
	Old []byte

	// New is the content that belongs there, nil if the file is to be
	// deleted because the package has no events left.
	New []byte
}

// Changed reports whether the file on disk differs from what belongs there.
func (f File) Changed() bool {
	return (f.Old == nil) != (f.New == nil) || !bytes.Equal(f.Old, f.New)
}

// Generate loads the packages and returns their outputs, sorted by the path
// of the package. It writes nothing. Its error holds every problem of all
// packages, one a line, sorted, each in the form path:line:col: what is wrong;
// what to do.
func Generate(ctx context.Context, cfg Config) ([]File, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the directory %q: %w; name one that exists", cfg.Dir, err)
	}
	cfg.Dir = dir
	if len(cfg.Patterns) == 0 {
		cfg.Patterns = []string{"."}
	}
	r := &report{dir: dir, fset: token.NewFileSet()}
	pkgs, err := load(ctx, cfg, r.fset)
	if err != nil {
		return nil, err
	}
	r.unmatched(cfg.Patterns, pkgs)
	return r.generate(pkgs)
}

// generate returns the outputs of packages that are loaded.
func (r *report) generate(pkgs []*packages.Package) ([]File, error) {
	units := make([]*unit, len(pkgs))
	for i, pkg := range pkgs {
		units[i] = newUnit(r, pkg)
		units[i].read()
		units[i].check()
	}
	r.checkUnique(units)
	if err := r.err(); err != nil {
		return nil, err
	}
	var files []File
	for _, u := range units {
		if f, ok := u.file(); ok {
			files = append(files, f)
		}
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return files, nil
}

// file returns the output of the unit, ok being false if there is none and
// should be none.
func (u *unit) file() (f File, ok bool) {
	if u.dir() == "" {
		return File{}, false
	}
	f.Path = u.output()
	if f.Old, ok = u.report.read(f.Path); !ok {
		return File{}, false
	}
	if len(u.events) == 0 {
		return f, signed(f.Old)
	}
	f.New = u.render()
	return f, true
}

// read returns the content of a file on disk, nil if there is none. It reports
// one that cannot be read.
func (r *report) read(path string) (content []byte, ok bool) {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.addAt(path, "%v; make it readable", err)
		return nil, false
	}
	return content, true
}
