package gen

import (
	"go/ast"
	"go/build"
	"go/build/constraint"
	"io"
	"path/filepath"
	"strings"
)

// constraintOf says what keeps a file out of some builds, "" if nothing does. A
// topic must exist wherever rows are relayed, so events stay out of such files.
func constraintOf(f *ast.File, path string) string {
	name := filepath.Base(path)
	if strings.HasSuffix(name, "_test.go") {
		return "a test file"
	}
	for _, group := range f.Comments {
		if group.Pos() > f.Package {
			break
		}
		for _, c := range group.List {
			if constraint.IsGoBuild(c.Text) {
				return "a file with the constraint " + c.Text
			}
		}
	}
	if namesPlatform(name) {
		return "a file for one platform"
	}
	for _, imp := range f.Imports {
		if imp.Path.Value == `"C"` {
			return `a file that imports "C", and is left out where cgo is off`
		}
	}
	return ""
}

// namesPlatform reports whether a file's name ends in a system or processor.
// It asks go/build for a platform that does not exist, so that there is no
// list to keep.
func namesPlatform(name string) bool {
	nowhere := build.Context{
		GOOS: "nowhere", GOARCH: "nowhere", Compiler: "gc", CgoEnabled: true,
		OpenFile: func(string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("package p\n")), nil
		},
	}
	match, err := nowhere.MatchFile("", name)
	return err == nil && !match
}
