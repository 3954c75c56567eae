package gen_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/gen"
)

// module returns a module of n packages, in each of which two files hold
// events whose order on disk is not that of their names.
func module(n int) map[string]string {
	files := map[string]string{"go.mod": "module example.com/many\n\ngo 1.26.0\n"}
	for i := range n {
		files[fmt.Sprintf("p%d/a.go", i)] = fmt.Sprintf(`package p

//outbox:event p%[1]d.zeta key=N alias=p%[1]d.y,p%[1]d.x reserved=z,y
type Zeta struct {
	N     int
	Lines []Line
	Sizes map[string]*Line
}

type Line struct {
	Zeta  *Zeta
	Count Count
}

type Count int

const (
	Two Count = 2
	One Count = 1
)

//outbox:event p%[1]d.mu version=2
type Mu struct{}

//outbox:upcast Mu from=1
func up(map[string]string) (m Mu, err error) { return m, err }

//outbox:retired p%[1]d.old for good
//outbox:retired p%[1]d.gone too
`, i)
		files[fmt.Sprintf("p%d/b.go", i)] = fmt.Sprintf(`package p

//outbox:event p%[1]d.beta
type Beta struct{}

//outbox:event p%[1]d.alpha order=all:ID
type Alpha struct{ ID string }
`, i)
	}
	return files
}

// TestGenerateTwentyTimes has nothing to compare with at first, and then what
// was written for other source.
func TestGenerateTwentyTimes(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	tree := module(3)
	writeTree(t, dir, tree)
	generate := func() (first []gen.File) {
		for i := range 20 {
			patterns := []string{"./p2", "./p0", "./p1"}
			if i%2 > 0 {
				slices.Reverse(patterns)
			}
			files, err := gen.Generate(context.Background(), gen.Config{Dir: dir, Patterns: patterns})
			require.NoError(t, err)
			if first == nil {
				first = files
			}
			require.Equal(t, first, files)
		}
		require.Len(t, first, 6)
		for i, f := range first {
			name := []string{"outbox.lock.json", "outbox_gen.go"}[i%2]
			require.Equal(t, filepath.Join(dir, fmt.Sprintf("p%d", i/2), name), f.Path)
			require.True(t, f.Changed())
		}
		return first
	}
	first := generate()
	require.Len(t, readTree(t, dir), len(tree), "nothing is written")

	require.NoError(t, gen.Write(first))
	for name, text := range tree {
		tree[name] = strings.NewReplacer("N     int", "N     int `json:\",omitempty\"`", "Two Count", "Three Count = 3\n\tTwo Count",
			"reserved=z,y", "reserved=x", "key=N", "key=n:N",
			"type Zeta struct", "//outbox:allow J52 it does no harm\ntype Zeta struct").Replace(text)
	}
	writeTree(t, dir, tree)
	generate()
}

// TestGenerateTwice writes, and then finds nothing to do.
func TestGenerateTwice(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	writeTree(t, dir, module(2))
	for run, changed := range []bool{true, false} {
		files, err := gen.Generate(context.Background(), gen.Config{Dir: dir, Patterns: []string{"./..."}})
		require.NoError(t, err)
		require.Len(t, files, 4)
		for _, f := range files {
			require.Equal(t, changed, f.Changed(), "run %d", run)
		}
		require.NoError(t, gen.Write(files))
	}
}

func TestGenerateCancelled(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	writeTree(t, dir, module(1))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := gen.Generate(ctx, gen.Config{Dir: dir, Patterns: []string{"./..."}})
	require.ErrorIs(t, err, context.Canceled)
}

// TestImports keeps the runtime and the test libraries out of the generator.
func TestImports(t *testing.T) {
	t.Parallel()
	const module = "github.com/typedoutbox/typedoutbox/"
	out, err := exec.Command("go", "list", "-deps", ".", "../cmd/outboxgen").Output()
	require.NoError(t, err)
	deps := strings.Fields(string(out))
	require.Contains(t, deps, module+"topics")
	for _, dep := range deps {
		require.False(t, dep == module+"outbox" || strings.HasPrefix(dep, module+"outbox/"), dep)
		require.NotContains(t, dep, "testify")
		require.NotContains(t, dep, "uptrace")
	}
}

// TestLoadOnce counts how often the go command is asked for packages: the
// number must not grow with packages or directives.
func TestLoadOnce(t *testing.T) { // not parallel: it sets PATH
	if runtime.GOOS == "windows" {
		t.Skip("the counting go command is a shell script")
	}
	goCommand, err := exec.LookPath("go")
	require.NoError(t, err)
	bin := tempDir(t)
	log := filepath.Join(bin, "log")
	script := fmt.Sprintf("#!/bin/sh\necho \"$*\" >> '%s'\nexec '%s' \"$@\"\n", log, goCommand)
	require.NoError(t, os.WriteFile(filepath.Join(bin, "go"), []byte(script), 0o755))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))

	loads := func(packages int) int {
		dir := tempDir(t)
		writeTree(t, dir, module(packages))
		require.NoError(t, os.WriteFile(log, nil, 0o644))
		files, err := gen.Generate(context.Background(), gen.Config{Dir: dir, Patterns: []string{"./..."}})
		require.NoError(t, err)
		require.Len(t, files, 2*packages)
		text, err := os.ReadFile(log)
		require.NoError(t, err)
		return strings.Count(string(text), " -json=")
	}
	require.Equal(t, 1, loads(1))
	require.Equal(t, 1, loads(6))
}
