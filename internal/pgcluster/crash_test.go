//go:build unix

package pgcluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/pgcluster"
)

func TestCrashAndRestart(t *testing.T) {
	temp := tempDir(t)
	t.Setenv("TMPDIR", temp)
	c, err := pgcluster.Start("fsync=on", "full_page_writes=on", "work_mem=5 MB")
	require.NoError(t, err)
	db := open(t, c.URL())
	_, err = db.ExecContext(t.Context(), "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
	require.NoError(t, err)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "INSERT INTO kept VALUES (8)")
	require.NoError(t, err)

	first := postmaster(t, temp)
	require.NoError(t, c.Crash())
	requireEnds(t, first)
	require.Error(t, tx.Commit(), "its connection is cut")
	require.ErrorContains(t, open(t, c.URL()).PingContext(t.Context()), "refused")
	require.ErrorContains(t, c.Crash(), "find the server to crash")

	// Twice: the second one is started by this process already.
	for i := range 2 {
		require.NoError(t, c.Restart())
		log, err := os.ReadFile(filepath.Join(serverDirs(t, temp)[0], "log"))
		require.NoError(t, err)
		require.Equal(t, 1+i, strings.Count(string(log), "was not properly shut down"))
		require.Equal(t, "7", show(t, c.URL(), "SELECT sum(n) FROM kept"))
		require.Equal(t, "5MB", show(t, c.URL(), "SHOW work_mem"), "the same settings")
		again := postmaster(t, temp)
		require.NotEqual(t, first, again)
		require.NoError(t, c.Crash())
		requireEnds(t, again)
	}

	require.NoError(t, c.Restart())
	last := postmaster(t, temp)
	require.NoError(t, c.Close())
	requireEnds(t, last) // Close ends also the one that was restarted
	require.Empty(t, serverDirs(t, temp))
}

// requireEnds checks that a server ends which has removed the file that names it,
// the last thing that it does.
func requireEnds(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return !alive(pid) }, patience, 10*time.Millisecond)
}

func TestCloseAfterCrash(t *testing.T) {
	temp := tempDir(t)
	t.Setenv("TMPDIR", temp)
	c, err := pgcluster.Start()
	require.NoError(t, err)
	require.NoError(t, c.Crash())
	require.NoError(t, c.Close())
	require.Empty(t, serverDirs(t, temp))
}

func TestRestartedServerEndsWithItsUser(t *testing.T) {
	t.Parallel()
	temp := tempDir(t)
	user := spawn(t, "crash", temp)
	user.url()
	server := postmaster(t, temp)
	user.kill()
	requireGone(t, temp, server)
}

func TestOnlyPrivateServersCrash(t *testing.T) {
	needPrograms(t)
	c, err := pgcluster.Shared()
	require.NoError(t, err)
	require.ErrorContains(t, c.Crash(), "not private")
	require.ErrorContains(t, c.Restart(), "not private")
	require.Equal(t, "1", show(t, c.URL(), "SELECT 1"))
}
