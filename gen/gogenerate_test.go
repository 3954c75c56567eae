package gen_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goGenerate runs go generate, whose directives name this binary with
// $OUTBOXGEN.
func goGenerate(t *testing.T, dir string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command("go", "generate", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "OUTBOXGEN="+self, asCommand+"=1", "GOFLAGS=", "GOWORK=off", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
}

// TestGoGenerateLastEvent has the last event go. The go command opens the files
// that it has listed, after the directive of one of them has run: of the same
// package, which sort before and after the output, and of another.
func TestGoGenerateLastEvent(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	const (
		before = "//outbox:package handlers=off\n\npackage p\n\n//outbox:event NAME.made\ntype Made struct{ ID string }\n"
		after  = "package p\n\n//outbox:retired NAME.made no rows are left\n"
	)
	sources := []string{"early/a.go", "late/z.go", "z/other/a.go"}
	put := func(text string) {
		for _, path := range sources {
			name, _, _ := strings.Cut(path, "/")
			text := strings.ReplaceAll(text, "NAME", name)
			if name != "z" {
				text = strings.Replace(text, "package p", "package p\n\n//go:generate $OUTBOXGEN", 1)
			}
			writeTree(t, dir, map[string]string{path: text})
		}
	}
	upToDate := func() {
		t.Helper()
		stdout, stderr, code := outboxgen(t, dir, "-diff", "./...")
		require.Zero(t, code, stdout+stderr)
	}
	writeTree(t, dir, map[string]string{
		"go.mod": "module example.com/last\n\ngo 1.26.0\n",
		"a.go":   "package last\n\n//go:generate $OUTBOXGEN ./z/...\n",
	})
	put(before)
	goGenerate(t, dir)
	upToDate()

	put(after)
	for range 2 {
		goGenerate(t, dir)
		upToDate()
	}
	for _, path := range sources {
		output := filepath.Join(dir, filepath.Dir(path), "outbox_gen.go")
		text, err := os.ReadFile(output)
		require.NoError(t, err)
		require.Equal(t, generatedBy+"\npackage p\n\n// No events are left here, and this file may be deleted.\n", string(text))
		require.NoError(t, os.Remove(output))
	}
	goGenerate(t, dir)
	upToDate()
	for _, path := range sources {
		require.NoFileExists(t, filepath.Join(dir, filepath.Dir(path), "outbox_gen.go"))
	}
}
