package payload_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/payload"
)

// TestAnyType checks the types of packages that were not written as payloads,
// in a package of their own and from another, generic ones and parameters
// included: no type makes Check panic or run without end.
func TestAnyType(t *testing.T) {
	t.Parallel()
	imp := importer.ForCompiler(token.NewFileSet(), "source", nil)
	elsewhere := types.NewPackage("example.com/elsewhere", "elsewhere")
	count, done := 0, map[*types.Package]bool{}
	for _, path := range []string{"go/ast", "go/types", "reflect", "sync/atomic", "iter", "encoding/xml", "math/big", "log/slog", "unique"} {
		pkg, err := imp.Import(path)
		require.NoError(t, err)
		for _, p := range append(pkg.Imports(), pkg) {
			if done[p] {
				continue
			}
			done[p] = true
			for _, name := range p.Scope().Names() {
				obj := p.Scope().Lookup(name)
				for _, from := range []*types.Package{p, elsewhere, nil} {
					for _, problem := range payload.Check(from, obj.Type()) {
						require.Contains(t, problem.Text, "; ")
						require.NotContains(t, problem.Text, "%!")
					}
				}
				count++
			}
		}
	}
	require.Greater(t, count, 1000)
}

const endless = `package p

type Grow[T any] struct{ Next *Grow[*T]; Two *Grow[[]T]; Bad map[string]chan T }

type Ping[A, B any] struct{ Next *Pong[B, []A] }
type Pong[A, B any] struct{ Next *Ping[B, map[string]A] }

type Turn[A, B any] struct{ Next *Turn[B, A]; Last A }

type Self[T any] struct{ All []Self[T]; *Self[T] }

type P *P
type S []S
type M map[string]M
type F func(F) F

type Deep struct{ L List[List[List[List[List[chan int]]]]] }
type List[T any] struct{ Items []T }

type Params[T any, U interface{ M() }] struct{ T T; U U; M map[string]T }

type Event struct {
	Grow Grow[int]
	Ping Ping[int, string]
	Turn Turn[int, chan int]
	Self Self[int]
	P    P
	S    S
	M    M
	F    F
	Undefined map[Missing]Missing
}

type WrongMethods struct{ N Wrong; M Odd }
type Odd int
func (*Odd) UnmarshalText(text string, _ ...int) {}
type Wrong int
func (Wrong) MarshalJSON() (string, error)         { return "", nil }
`

func TestEndlessTypes(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", endless, 0)
	require.NoError(t, err)
	conf := types.Config{Error: func(error) {}}
	pkg, _ := conf.Check("p", fset, []*ast.File{f}, nil)
	for _, name := range pkg.Scope().Names() {
		payload.Check(pkg, pkg.Scope().Lookup(name).Type())
	}
	var paths []string
	for _, p := range payload.Check(pkg, pkg.Scope().Lookup("Event").Type()) {
		require.True(t, p.Pos.IsValid())
		paths = append(paths, p.Path)
	}
	for _, want := range []string{"Grow.Bad[]", "Turn.Next.Last", "Self.Self", "F"} {
		require.Contains(t, paths, want)
	}
	require.Less(t, len(paths), 40, strings.Join(paths, "\n"))

	require.Empty(t, payload.Check(pkg, pkg.Scope().Lookup("WrongMethods").Type()), "they do not count by name alone")

	deep := payload.Check(pkg, pkg.Scope().Lookup("Deep").Type())
	require.Len(t, deep, 1)
	require.Equal(t, "L.Items[].Items[].Items[].Items[].Items[]", deep[0].Path)
}
