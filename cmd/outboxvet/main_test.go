package main

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/typedoutbox/typedoutbox/gen"
)

var update = flag.Bool("update", false, "rewrite what testdata wants")

const fixture = "testdata/shop.txtar"

// TestBothWays runs the command alone and under go vet, with several flags.
func TestBothWays(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("type-checks every dependency; run without -short")
	}
	archive, err := txtar.ParseFile(fixture)
	require.NoError(t, err)
	want := map[string]string{}
	dir := shop(t, archive, want)
	binary := build(t)

	for _, flags := range [][]string{
		{},
		{"-outboxeffect", "-outboxhandler"},
	} {
		name := "want/" + strings.TrimPrefix(strings.Join(flags, ""), "-")
		alone := run(t, dir, binary, append(slices.Clone(flags), "./...")...)
		vet := run(t, dir, "go", slices.Concat([]string{"vet", "-vettool=" + binary}, flags, []string{"./..."})...)
		require.Equal(t, alone, vet, "%s", flags)
		if *update {
			archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == name })
			archive.Files = append(archive.Files, txtar.File{Name: name, Data: []byte(alone)})
			continue
		}
		require.Equal(t, want[name], alone, "%s", flags)
	}
	if *update {
		require.NoError(t, os.WriteFile(fixture, txtar.Format(archive), 0o644))
	}
}

// shop writes the module to a directory, but for the files below want/.
func shop(t *testing.T, archive *txtar.Archive, want map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	write := func(name string, text []byte) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, text, 0o644))
	}
	for _, f := range archive.Files {
		if strings.HasPrefix(f.Name, "want/") {
			want[f.Name] = string(f.Data)
		} else {
			write(f.Name, f.Data)
		}
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	const own = "module github.com/typedoutbox/typedoutbox\n"
	text, _, _ := strings.Cut(strings.Replace(string(mod), own, "module example.com/shop\n\n"+
		"require github.com/typedoutbox/typedoutbox v0.0.0\n\n"+
		"replace github.com/typedoutbox/typedoutbox => "+root+"\n", 1), "\ntool ")
	write("go.mod", []byte(text+"\n"))
	write("go.sum", sum)
	files, err := gen.Generate(t.Context(), gen.Config{Dir: dir, Patterns: []string{"./events"}})
	require.NoError(t, err)
	require.NoError(t, gen.Write(files))
	return dir
}

// run returns what a command reports, one a line, sorted, with paths relative
// to dir.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil {
		require.True(t, errors.As(err, &exit), "%v", err)
	}
	var lines []string
	for line := range strings.Lines(string(out)) {
		line = strings.ReplaceAll(line, dir+string(filepath.Separator), "")
		if line = strings.TrimPrefix(line, "./"); !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	require.Equal(t, err != nil, len(lines) > 0, "the exit code says whether there is a report\n%s", out)
	return strings.Join(slices.Compact(lines), "")
}

// TestDoesNotCompile checks that what does not compile is left to the compiler.
func TestDoesNotCompile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	binary := build(t)
	for name, text := range map[string]string{
		"go.mod":       "module example.com/wrong\n\ngo 1.26.0\n",
		"types/a.go":   "package types\n\n//outbox:event a.made key=A\ntype Made struct{ A Missing }\n\nfunc f() { return MadeTopic }\n",
		"syntax/a.go":  "package syntax\n\n// outbox:event a.made\ntype Made struct{ A\n",
		"imports/a.go": "package imports\n\nimport \"example.com/nowhere\"\n\n//outbox:event a.made\ntype Made struct{ nowhere.A }\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for pkg, want := range map[string]string{"types": "undefined: Missing", "syntax": "expected '}'", "imports": "example.com/nowhere"} {
		for _, command := range [][]string{{binary}, {binary, "-outboxeffect", "-outboxhandler"}, {"go", "vet", "-vettool=" + binary}} {
			out := run(t, dir, command[0], append(command[1:], "./"+pkg)...)
			require.Contains(t, out, want)
			require.NotContains(t, out, "panic")
			require.NotContains(t, out, "//outbox:")
		}
	}
}

// build compiles the command.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "outboxvet")
	out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}
