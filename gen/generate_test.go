package gen_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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

//outbox:event p%[1]d.zeta key=N alias=p%[1]d.y,p%[1]d.x
type Zeta struct{ N int }

//outbox:event p%[1]d.mu version=2
type Mu struct{}

//outbox:upcast Mu from=1
func up(map[string]string) (m Mu, err error) { return m, err }
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

func TestGenerateTwentyTimes(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	writeTree(t, dir, module(3))
	var first []gen.File
	for range 20 {
		files, err := gen.Generate(context.Background(), gen.Config{Dir: dir, Patterns: []string{"./p2", "./p0", "./p1"}})
		require.NoError(t, err)
		if first == nil {
			first = files
		}
		require.Equal(t, first, files)
	}
	require.Len(t, first, 3)
	for i, f := range first {
		require.Equal(t, filepath.Join(dir, fmt.Sprintf("p%d", i), "outbox_gen.go"), f.Path)
		require.Nil(t, f.Old)
		require.True(t, f.Changed())
	}
	require.Len(t, readTree(t, dir), len(module(3)), "nothing is written")
}

// TestGenerateTwice writes, and then finds nothing to do.
func TestGenerateTwice(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	writeTree(t, dir, module(2))
	for run, changed := range []bool{true, false} {
		files, err := gen.Generate(context.Background(), gen.Config{Dir: dir, Patterns: []string{"./..."}})
		require.NoError(t, err)
		require.Len(t, files, 2)
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
		require.Len(t, files, packages)
		text, err := os.ReadFile(log)
		require.NoError(t, err)
		return strings.Count(string(text), " -json=")
	}
	require.Equal(t, 1, loads(1))
	require.Equal(t, 1, loads(6))
}
