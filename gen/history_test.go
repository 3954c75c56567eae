package gen_test

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/gen"
)

// generate returns the outputs for packages of a module.
func generate(t *testing.T, dir string, patterns ...string) []gen.File {
	t.Helper()
	files, err := gen.Generate(context.Background(), gen.Config{Dir: dir, Patterns: patterns})
	require.NoError(t, err)
	return files
}

// TestInterrupted stops between the two files of a package, where the lock has
// come to know of a change that the code does not show yet. The next run ends
// up where an undisturbed one does.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	const before = "package a\n\n//outbox:event a.made\ntype Made struct {\n\tID string\n}\n"
	for name, after := range map[string]string{
		"a field more": strings.Replace(before, "}", "\tMore int\n}", 1),
		"a new version": strings.Replace(before, "a.made", "a.made version=2", 1) +
			"\n//outbox:upcast Made from=1\nfunc from1(old struct{ ID string }) (m Made, err error) { return m, err }\n",
		"allowed":    strings.Replace(before, "ID string", "Number string //outbox:allow J06 no rows yet", 1),
		"the last":   "package a\n\n//outbox:retired a.made no rows are left\n",
		"the first":  before,
		"not at all": before + "\ntype Other struct{}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dirs := []string{tempDir(t), tempDir(t)}
			for _, dir := range dirs {
				writeTree(t, dir, map[string]string{"go.mod": "module example.com/a\n\ngo 1.26.0\n", "a.go": before})
				if name != "the first" {
					require.NoError(t, gen.Write(generate(t, dir)))
				}
				writeTree(t, dir, map[string]string{"a.go": after})
			}
			undisturbed, disturbed := generate(t, dirs[0]), generate(t, dirs[1])
			require.Equal(t, "outbox.lock.json", filepath.Base(disturbed[0].Path))
			require.NoError(t, gen.Write(undisturbed))

			require.NoError(t, gen.Write(disturbed[:1]))
			rest := generate(t, dirs[1])
			require.False(t, rest[0].Changed(), "the lock is as it is to be")
			require.NoError(t, gen.Write(rest))
			require.Equal(t, readTree(t, dirs[0]), readTree(t, dirs[1]))
		})
	}
}

// TestGenerateOneByOne has each package on its own, whose imports then come from
// export data, and all together.
func TestGenerateOneByOne(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	writeTree(t, dir, map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26.0\n",
		"money/money.go": `package money

type Currency string

const (
	EUR   Currency = "EUR"
	other Currency = "other"
)

type amount struct{ Cents int64 }

type Price struct {
	amount
	Currency Currency
	Parts    []*Price
}

//outbox:event money.moved
type Moved struct{ Price Price }
`,
		"shop/shop.go": `package shop

import "example.com/m/money"

//outbox:event shop.sold
type Sold struct {
	Price  money.Price
	Others map[money.Currency]money.Price
}
`,
	})
	together := map[string]string{}
	for _, f := range generate(t, dir, "./...") {
		together[f.Path] = string(f.New)
	}
	single := map[string]string{}
	for _, f := range slices.Concat(generate(t, dir, "./money"), generate(t, dir, "./shop")) {
		single[f.Path] = string(f.New)
	}
	require.Len(t, single, 4)
	require.True(t, maps.Equal(together, single), "%s\n%s", together, single)
}
