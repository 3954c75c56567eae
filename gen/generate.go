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
	"runtime"
	"sync"
	"sync/atomic"

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

	// Schema is the directory for the schemas of all events together, relative
	// to Dir. Default none.
	Schema string
}

// File is an output: the generated code of a package, its lock, or a schema.
type File struct {
	// Path is absolute.
	Path string

	// Old is the content on disk, nil if there is no file.
	Old []byte

	// New is the content that belongs there, nil if the file is to be
	// deleted because its events are gone. Old code without declarations may
	// stay.
	New []byte

	// Notes are the changes of payloads that the lock lets through and that a
	// reader of its diff may want to think about, each in the form of a problem.
	Notes []string

	schema bool   // whose directory need not exist
	empty  []byte // the code of a package whose events are gone
}

// Changed reports whether the file on disk differs from what belongs there.
func (f File) Changed() bool {
	return (f.Old == nil) != (f.New == nil) || !bytes.Equal(f.Old, f.New)
}

// Generate loads the packages and returns their outputs, sorted by the path
// of the package, the lock before the code, and schemas behind them. It writes
// nothing. Its error holds every problem of all packages, one a line, sorted,
// each in the form path:line:col: what is wrong; what to do.
func Generate(ctx context.Context, cfg Config) ([]File, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the directory %q: %w; name one that exists", cfg.Dir, err)
	}
	cfg.Dir = dir
	if len(cfg.Patterns) == 0 {
		cfg.Patterns = []string{"."}
	}
	r := newReport(dir, token.NewFileSet())
	pkgs, err := load(ctx, cfg, r.fset)
	if err != nil {
		return nil, err
	}
	r.unmatched(cfg.Patterns, pkgs)
	schemas := cfg.Schema
	if schemas != "" && !filepath.IsAbs(schemas) {
		schemas = filepath.Join(dir, schemas)
	}
	return r.generate(pkgs, schemas)
}

// generate returns the outputs of packages that are loaded, their schemas too if
// a directory for them is named.
func (r *report) generate(pkgs []*packages.Package, schemas string) ([]File, error) {
	units := make([]*unit, len(pkgs))
	for i, pkg := range pkgs {
		units[i] = newUnit(r.another(), pkg)
	}
	each(units, func(u *unit) {
		u.read()
		u.check()
		u.lock = openLock(u)
	})
	r.checkUnique(units)
	r.checkRetired(units)
	each(units, func(u *unit) { u.lock.check() })
	if err := r.err(units); err != nil {
		return nil, err
	}
	each(units, func(u *unit) {
		if f, ok := u.lock.file(); ok {
			u.files = append(u.files, f)
		}
		if f, ok := u.file(); ok {
			u.files = append(u.files, f)
		}
	})
	var files []File
	for _, u := range units {
		files = append(files, u.files...)
	}
	if schemas != "" {
		files = append(files, r.publish(schemas, units)...)
	}
	if err := r.err(units); err != nil {
		return nil, err
	}
	return files, nil
}

// each does something to every unit, to several at a time: what they share is
// only read, or safe.
func each(units []*unit, do func(*unit)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(runtime.GOMAXPROCS(0), len(units)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(units)); i = next.Add(1) - 1 {
				do(units[i])
			}
		})
	}
	wg.Wait()
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
	if len(u.events) > 0 {
		f.New = u.render()
		return f, true
	}
	if u.pkg.Name != "" {
		f.empty = u.renderEmpty()
	}
	if f.empty != nil && bytes.Equal(withLF(f.Old), f.empty) {
		f.New = f.Old
	}
	return f, signed(f.Old)
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
