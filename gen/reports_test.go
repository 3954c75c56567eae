package gen_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What users of other generators reported of them, and no other test here has.

// A failure leaves no file behind where none was, and no temporary one either.
func TestFailureLeavesNoEmptyFile(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	tree := map[string]string{
		"go.mod": "module example.com/failure\n\ngo 1.26.0\n",
		"a/p.go": source("a"),
		"b/p.go": source("b") + "\n//outbox:event b.int\ntype Int int\n",
	}
	writeTree(t, dir, tree)
	for _, pattern := range []string{"./...", "./b"} {
		_, stderr, code := outboxgen(t, dir, pattern)
		require.Equal(t, 1, code)
		require.Contains(t, stderr, "b/p.go:9:6: ")
		require.Equal(t, tree, readTree(t, dir))
	}
}

// The output says nothing of when, where, with what arguments and by which
// version it was made, so that it changes only with the source.
func TestOutputDependsOnSourceAlone(t *testing.T) {
	t.Parallel()
	var first map[string]string
	for _, run := range []struct {
		at   string
		args []string
	}{
		{".", []string{"./..."}},
		{"deep/er", []string{"-v", "-tags=x", "."}},
		{"other", []string{"example.com/same"}},
	} {
		dir := filepath.Join(tempDir(t), run.at)
		writeTree(t, dir, map[string]string{"go.mod": "module example.com/same\n\ngo 1.26.0\n", "p.go": source("a")})
		_, stderr, code := outboxgen(t, dir, run.args...)
		require.Zero(t, code, stderr)
		got := readTree(t, dir)
		require.True(t, strings.HasPrefix(got["outbox_gen.go"], generatedBy+"\npackage p\n\nimport "), got["outbox_gen.go"])
		require.NotContains(t, got["outbox_gen.go"], dir)
		require.NotContains(t, got["outbox_gen.go"], runtime.Version())
		if first == nil {
			first = got
		}
		require.Equal(t, first, got)
	}
}

// Source with the line ends of another system, with or without a byte order
// mark, generates the same bytes, and its positions are those of an editor.
func TestLineEndsOfAnotherSystem(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	text := "package p\n\n//outbox:event NAME.made key=ID\ntype Made struct {\n\tID string `json:\"id\"`\n\tRaw []byte `json:\"raw\"`\n}\n"
	tree := map[string]string{"go.mod": "module example.com/ends\n\ngo 1.26.0\n"}
	for name, edit := range map[string]func(string) string{
		"lf":   func(s string) string { return s },
		"crlf": func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"bom":  func(s string) string { return "\ufeff" + strings.ReplaceAll(s, "\n", "\r\n") },
	} {
		tree[name+"/p.go"] = edit(strings.ReplaceAll(text, "NAME", name))
		tree["bad"+name+"/p.go"] = edit(strings.ReplaceAll(text, "NAME.made key=ID", "bad"+name+" key=ID,No"))
	}
	writeTree(t, dir, tree)

	_, stderr, code := outboxgen(t, dir, "./lf", "./crlf", "./bom")
	require.Zero(t, code, stderr)
	output := func(name string) string {
		content, err := os.ReadFile(filepath.Join(dir, name, "outbox_gen.go"))
		require.NoError(t, err)
		require.NotContains(t, string(content), "\r")
		return strings.ReplaceAll(string(content), name+".made", "NAME.made")
	}
	require.Equal(t, output("lf"), output("crlf"))
	require.Equal(t, output("lf"), output("bom"))

	_, stderr, code = outboxgen(t, dir, "./badlf", "./badcrlf", "./badbom")
	require.Equal(t, 1, code)
	const problem = "/p.go:3:COL: key=No: Made has no field No; name an exported one: ID, Raw\n"
	line := func(name, col string) string { return "bad" + name + strings.Replace(problem, "COL", col, 1) }
	require.Equal(t, line("bom", "30")+line("crlf", "31")+line("lf", "29"), stderr)
}
