package gen_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/gen"
)

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	writeTree(t, dir, map[string]string{"same.go": "same", "old.go": "old", "gone.go": "gone"})
	require.NoError(t, os.Chmod(path("old.go"), 0o600))
	before, err := os.Stat(path("same.go"))
	require.NoError(t, err)

	require.NoError(t, gen.Write([]gen.File{
		{Path: path("same.go"), Old: []byte("same"), New: []byte("same")},
		{Path: path("old.go"), Old: []byte("old"), New: []byte("new")},
		{Path: path("gone.go"), Old: []byte("gone")},
		{Path: path("added.go"), New: []byte("added")},
	}))

	require.Equal(t, map[string]string{"same.go": "same", "old.go": "new", "added.go": "added"}, readTree(t, dir))
	after, err := os.Stat(path("same.go"))
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after), "an unchanged file is not replaced")
	for name, mode := range map[string]os.FileMode{"old.go": 0o600, "added.go": 0o644} {
		info, err := os.Stat(path(name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
}

// TestWriteFails has a second file that cannot be written: the first stays as
// it was, and no temporary file is left.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	writeTree(t, dir, map[string]string{"a.go": "old", "gone.go": "gone"})
	err := gen.Write([]gen.File{
		{Path: filepath.Join(dir, "gone.go"), Old: []byte("gone")},
		{Path: filepath.Join(dir, "a.go"), Old: []byte("old"), New: []byte("new")},
		{Path: filepath.Join(dir, "nowhere", "b.go"), New: []byte("new")},
	})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, filepath.Join(dir, "nowhere", "b.go"))
	require.Equal(t, map[string]string{"a.go": "old", "gone.go": "gone"}, readTree(t, dir))
}

// TestWriteFailsToReplace has a directory in the place of a file.
func TestWriteFailsToReplace(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	writeTree(t, dir, map[string]string{"a.go/x.txt": "x"})
	err := gen.Write([]gen.File{{Path: filepath.Join(dir, "a.go"), New: []byte("new")}})
	require.ErrorContains(t, err, "replace "+filepath.Join(dir, "a.go"))
	require.Equal(t, map[string]string{"a.go/x.txt": "x"}, readTree(t, dir))
}

func TestFileChanged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		old, now []byte
		want     bool
	}{
		{nil, nil, false},
		{nil, []byte("x"), true},
		{[]byte("x"), nil, true},
		{[]byte{}, nil, true},
		{[]byte("x"), []byte("x"), false},
		{[]byte("x\r\n"), []byte("x\n"), true},
	} {
		require.Equal(t, tt.want, gen.File{Old: tt.old, New: tt.now}.Changed(), "%q %q", tt.old, tt.now)
	}
}
