package gen_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// TestGoldens puts the outcome of every case that succeeds and leaves generated
// code into one module, compiles and vets it, and runs the commands among it:
// a directory with a main.go and a file want.txt, which is its output.
func TestGoldens(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles; run without -short")
	}
	dir := tempDir(t)
	tree := appModule(t, "example.com")
	commands := map[string]string{}
	for _, tc := range cases(t) {
		files, _, _ := tc.outcome(tc.inputs())
		if tc.exit != 0 || tc.broken || len(tc.states()) > 0 || !hasOutput(files) {
			continue
		}
		require.Equal(t, "module example.com/"+tc.name, firstLine(files["go.mod"]), tc.name)
		delete(files, "go.mod")
		for name, text := range files {
			if strings.HasSuffix(name, "/want.txt") {
				commands["./"+tc.name+"/"+filepath.Dir(name)] = text
			}
			tree[tc.name+"/"+name] = text
		}
	}
	require.NotEmpty(t, commands)
	writeTree(t, dir, tree)
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "go %s\n%s", strings.Join(args, " "), out)
		return string(out)
	}
	run("vet", "./...")
	for _, pkg := range sortedKeys(commands) {
		require.Equal(t, commands[pkg], run("run", pkg), pkg)
	}
}

// appModule returns the files of a module that requires this one, and with it
// what this one requires.
func appModule(t *testing.T, name string) map[string]string {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	mod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	sum, err := os.ReadFile("../go.sum")
	require.NoError(t, err)
	own := "module github.com/typedoutbox/typedoutbox\n"
	require.Contains(t, string(mod), own)
	rest := strings.Replace(string(mod), own, "module "+name+"\n\nrequire github.com/typedoutbox/typedoutbox v0.0.0\n\n"+
		"replace github.com/typedoutbox/typedoutbox => "+root+"\n", 1)
	return map[string]string{"go.mod": rest[:strings.Index(rest, "\ntool ")+1], "go.sum": string(sum)}
}

func hasOutput(files map[string]string) bool {
	return slices.ContainsFunc(sortedKeys(files), func(name string) bool {
		return filepath.Base(name) == "outbox_gen.go"
	})
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
