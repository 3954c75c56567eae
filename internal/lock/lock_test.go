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

	"github.com/typedoutbox/typedoutbox/internal/lock"
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

func TestFormat(t *testing.T) {
	t.Parallel()
	pkg := load(t, `package p
import "time"
type Status string
const New Status = "new"
type E struct {
	ID int `+"`json:\"id,string\"`"+`
	At time.Time
	Next *E
	S Status
	L []struct{ A string }
}`)
	f := &lock.File{
		Events: []lock.Event{{
			Topic: "a", Type: "E", Aliases: []string{"b", "c"}, Key: "a#ID", Version: 1,
			Versions: []lock.Version{{
				N: 1, Reserved: []string{"x"}, Accepted: []lock.Accepted{{"J06", "id", "because, \"so\""}},
				Shape: lock.ShapeOf(pkg, pkg.Scope().Lookup("E").Type()),
			}},
		}},
		Retired: []lock.Retired{{"d", "gone"}},
	}
	text := f.Format()
	back, err := lock.Parse(text)
	require.NoError(t, err)
	require.Equal(t, string(text), string(back.Format()))
}
