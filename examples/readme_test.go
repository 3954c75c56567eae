package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// block is a file of the README's tour: its name in backquotes on a line of its
// own, then the code.
var block = regexp.MustCompile("(?ms)^`([a-z_/]+\\.go)`\n\n```go\n(.*?)^```$")

// TestREADMETour does what the README says, in a module of its own that
// replaces this one, as a new user would.
func TestREADMETour(t *testing.T) {
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	files := block.FindAllStringSubmatch(string(readme), -1)
	require.Len(t, files, 4, "the files of the tour")

	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f[1]))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(f[2]), 0o644))
	}
	// The module's own go.mod, so that nothing has to be looked up.
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	const path = "github.com/typedoutbox/typedoutbox"
	text := strings.Replace(string(mod), "module "+path, "module example.com/shop", 1)
	text = regexp.MustCompile(`(?m)^tool (\((?s:.*?)^\)|.*$)`).ReplaceAllString(text, "")
	text += "\nrequire " + path + " v0.0.0\nreplace " + path + " => " + root + "\ntool " + path + "/cmd/outboxgen\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644))
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o644))

	for _, args := range [][]string{
		{"generate", "./..."}, {"mod", "tidy"}, {"vet", "./..."}, {"test", "./..."}, {"tool", "outboxgen", "-diff", "./..."},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "go %s\n%s", strings.Join(args, " "), out)
	}
}
