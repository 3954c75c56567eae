package lock_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The standard library, of which each package is read once.
var (
	loading  sync.Mutex
	fset     = token.NewFileSet()
	standard = importer.ForCompiler(fset, "source", nil)
)

// load checks a source file of a package.
func load(t *testing.T, source string) *types.Package {
	t.Helper()
	file, err := parser.ParseFile(fset, "p.go", source, parser.SkipObjectResolution)
	require.NoError(t, err)
	loading.Lock()
	defer loading.Unlock()
	conf := types.Config{Importer: standard}
	pkg, err := conf.Check("example.com/p", fset, []*ast.File{file}, nil)
	require.NoError(t, err)
	return pkg
}
