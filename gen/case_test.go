package gen_test

import (
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite what the cases in testdata want")

// testCase is one txtar file in testdata. Its comment says what it is about,
// followed by settings, one a line:
//
//	args: -diff ./a    arguments, default ./...
//	exit: 1            exit code, default 0
//	crlf: a/b.go       a file whose line ends become CRLF before the run
//	gone: a/b.go       a file that the run deletes
//	broken: reason     why the outcome does not compile
//
// Its files are the module, but for those below want/: want/stdout and
// want/stderr, empty by default, and each file that the run changes. A file that
// is not mentioned there must come out unchanged, and no file may be added.
//
// A new lock counts in the cases that are about locks, whose names begin with
// lock-, and where none may be written.
//
// What the module was before is below 1/, 2/ and so on. It is generated from in
// turn, and each time what it says next takes the place of what it said.
type testCase struct {
	name    string
	archive *txtar.Archive
	args    []string
	exit    int
	crlf    []string
	gone    []string
	broken  bool
}

const wanted = "want/"

var earlier = regexp.MustCompile(`^[1-9]/`)

func cases(t *testing.T) []testCase {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	list := make([]testCase, len(files))
	for i, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		tc := testCase{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), archive: archive, args: []string{"./..."}}
		for line := range strings.Lines(string(archive.Comment)) {
			key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
			if !ok || strings.Contains(key, " ") {
				continue
			}
			switch key {
			case "args":
				tc.args = strings.Fields(value)
			case "exit":
				tc.exit, err = strconv.Atoi(value)
				require.NoError(t, err, file)
			case "crlf":
				tc.crlf = append(tc.crlf, value)
			case "gone":
				tc.gone = append(tc.gone, value)
			case "broken":
				tc.broken = true
			default:
				require.Fail(t, "unknown setting", "%s: %s", file, key)
			}
		}
		list[i] = tc
	}
	return list
}

// inputs returns the files of the module.
func (tc testCase) inputs() map[string]string {
	files := map[string]string{"go.mod": "module example.com/" + tc.name + "\n\ngo 1.26.0\n"}
	for _, f := range tc.archive.Files {
		if strings.HasPrefix(f.Name, wanted) || earlier.MatchString(f.Name) {
			continue
		}
		files[f.Name] = string(f.Data)
		if slices.Contains(tc.crlf, f.Name) {
			files[f.Name] = strings.ReplaceAll(string(f.Data), "\n", "\r\n")
		}
	}
	return files
}

// states returns the files of the module as it was before, in turn.
func (tc testCase) states() []map[string]string {
	var list []map[string]string
	for n := 1; ; n++ {
		files := map[string]string{}
		for _, f := range tc.archive.Files {
			if name, ok := strings.CutPrefix(f.Name, strconv.Itoa(n)+"/"); ok {
				files[name] = string(f.Data)
			}
		}
		if len(files) == 0 {
			return list
		}
		list = append(list, files)
	}
}

// prepare writes the module into dir, having generated from what it was before,
// and returns its files.
func (tc testCase) prepare(t *testing.T, dir string) map[string]string {
	t.Helper()
	inputs := tc.inputs()
	writeTree(t, dir, map[string]string{"go.mod": inputs["go.mod"]})
	for _, files := range tc.states() {
		writeTree(t, dir, files)
		_, stderr, code := outboxgen(t, dir, "./...")
		require.Zero(t, code, stderr)
		for name := range files {
			require.NoError(t, os.Remove(filepath.Join(dir, filepath.FromSlash(name))))
		}
	}
	writeTree(t, dir, inputs)
	return readTree(t, dir)
}

// outcome returns the files after the run, and its output; inputs are those
// before it, which it changes.
func (tc testCase) outcome(inputs map[string]string) (files map[string]string, stdout, stderr string) {
	files = inputs
	for _, name := range tc.gone {
		delete(files, name)
	}
	for _, f := range tc.archive.Files {
		name, ok := strings.CutPrefix(f.Name, wanted)
		switch {
		case !ok:
		case name == "stdout":
			stdout = string(f.Data)
		case name == "stderr":
			stderr = string(f.Data)
		default:
			files[name] = string(f.Data)
		}
	}
	return files, stdout, stderr
}

func TestCases(t *testing.T) {
	t.Parallel()
	for _, tc := range cases(t) {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := tempDir(t)
			inputs := tc.prepare(t, dir)
			args := strings.Split(strings.ReplaceAll(strings.Join(tc.args, " "), "$WORK", dir), " ")
			stdout, stderr, code := outboxgen(t, dir, args...)
			stderr = strings.ReplaceAll(stderr, dir, "$WORK")
			got := readTree(t, dir)
			if tc.exit == 0 && !strings.HasPrefix(tc.name, "lock-") {
				maps.DeleteFunc(got, func(name, _ string) bool { return filepath.Base(name) == "outbox.lock.json" && inputs[name] == "" })
			}
			if *update {
				tc.rewrite(t, inputs, got, stdout, stderr)
				return
			}
			files, wantStdout, wantStderr := tc.outcome(inputs)
			require.Equal(t, wantStderr, stderr)
			require.Equal(t, wantStdout, stdout)
			require.Equal(t, tc.exit, code)
			require.Equal(t, files, got)
			if tc.exit == 0 && len(tc.states()) > 0 {
				stdout, stderr, code = outboxgen(t, dir, "-diff", "./...")
				require.Zero(t, code, "CI finds nothing to do: %s%s", stdout, stderr)
			}
		})
	}
}

// rewrite records what a run did as what the case wants. Settings are left to
// the author.
func (tc testCase) rewrite(t *testing.T, inputs, got map[string]string, stdout, stderr string) {
	t.Helper()
	tc.archive.Files = slices.DeleteFunc(tc.archive.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, wanted) })
	add := func(name, text string) {
		tc.archive.Files = append(tc.archive.Files, txtar.File{Name: wanted + name, Data: []byte(text)})
	}
	if stdout != "" {
		add("stdout", stdout)
	}
	if stderr != "" {
		add("stderr", stderr)
	}
	for _, name := range sortedKeys(got) {
		if got[name] != inputs[name] {
			add(name, got[name])
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join("testdata", tc.name+".txtar"), txtar.Format(tc.archive), 0o644))
}

// tempDir is t.TempDir without symbolic links, so that its path is the one in
// messages.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	}))
	return files
}
