package pgcluster_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/pgcluster"
)

func TestFindBinaries(t *testing.T) {
	both := []string{"initdb", "postgres"}
	tests := []struct {
		name  string
		files map[string][]string // programs by directory
		want  string              // "" for none
	}{
		{"nothing", nil, ""},
		{"on PATH first", map[string][]string{"path1": both, "path2": both, "root/17/bin": both}, "path1"},
		{"both are needed", map[string][]string{"path1": {"initdb"}, "path2": both}, "path2"},
		{"not one here and one there", map[string][]string{"path1": {"initdb"}, "path2": {"postgres"}}, ""},
		{"the newest version", map[string][]string{"root/9.6/bin": both, "root/15/bin": both, "root/17/bin": both}, "root/17/bin"},
		{"the newest that is whole", map[string][]string{"root/9.6/bin": both, "root/15/bin": both, "root/17/bin": {"postgres"}}, "root/15/bin"},
		{"numbers, not text", map[string][]string{"root/9.6/bin": both, "root/10/bin": both}, "root/10/bin"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := t.TempDir()
			for dir, programs := range tt.files {
				require.NoError(t, os.MkdirAll(filepath.Join(base, dir), 0o700))
				for _, name := range programs {
					require.NoError(t, os.WriteFile(filepath.Join(base, dir, name), nil, 0o700))
				}
			}
			path := filepath.Join(base, "path1") + string(filepath.ListSeparator) + filepath.Join(base, "path2")
			got, err := pgcluster.FindBinaries(path, filepath.Join(base, "root"))
			if tt.want == "" {
				require.ErrorIs(t, err, pgcluster.ErrUnavailable)
				require.ErrorContains(t, err, "apt-get install postgresql")
				require.ErrorContains(t, err, "OUTBOX_TEST_DSN")
				return
			}
			require.NoError(t, err)
			require.Equal(t, filepath.Join(base, tt.want), got)
		})
	}
}

func TestFindBinariesTakesPrograms(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "initdb"), nil, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "postgres"), nil, 0o600))
	_, err := pgcluster.FindBinaries(dir, "")
	require.ErrorIs(t, err, pgcluster.ErrUnavailable, "not executable")
	require.NoError(t, os.Chmod(filepath.Join(dir, "postgres"), 0o700))
	_, err = pgcluster.FindBinaries(dir, "")
	require.NoError(t, err)
}
