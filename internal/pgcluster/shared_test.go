//go:build unix

package pgcluster_test

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProcessesOfARunShareOneServer(t *testing.T) {
	t.Parallel()
	temp := tempDir(t)
	var users []*process
	for range 4 {
		users = append(users, spawn(t, "user", temp))
	}
	url := users[0].url()
	for _, u := range users[1:] {
		require.Equal(t, url, u.url())
	}
	server := postmaster(t, temp)

	// Who started it has no special part, and it survives all but its last user.
	for _, u := range users[:3] {
		u.kill()
	}
	require.Equal(t, "postgres", show(t, url, "SELECT current_database()"))
	require.True(t, alive(server))

	// A package of the same run that comes a moment later finds it.
	users[3].end()
	free := time.Now()
	late := spawn(t, "user", temp)
	lateURL := late.url()
	if time.Since(free) < 2*time.Second { // of the three; this machine may be busy
		require.Equal(t, url, lateURL)
		require.True(t, alive(server))
	}
	require.Equal(t, "postgres", show(t, lateURL, "SELECT current_database()"))

	late.kill()
	requireGone(t, temp, server)
}

func TestServerEndsWithItsRun(t *testing.T) {
	t.Parallel()
	temp := tempDir(t)
	run := spawn(t, "run", temp)
	url := run.url()
	server := postmaster(t, temp)

	// The user of a run that is killed can go on.
	run.kill()
	require.Equal(t, "postgres", show(t, url, "SELECT current_database()"))
	require.NoError(t, run.stdin.Close())
	requireGone(t, temp, server)
}

func TestStarterIsKilledHalfWay(t *testing.T) {
	t.Parallel()
	temp := tempDir(t)
	starter := spawn(t, "user", temp)
	require.Eventually(t, func() bool {
		for _, dir := range serverDirs(t, temp) {
			if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
				return true // the supervisor is there and has begun initdb
			}
		}
		return false
	}, patience, time.Millisecond)
	starter.kill()

	// The next one need not wait for that one's server to go.
	next := spawn(t, "run", temp)
	require.Equal(t, "postgres", show(t, next.url(), "SELECT current_database()"))
	next.end()
	requireEmpty(t, temp)
}

func TestNextRunClearsUpAfterAKilledSupervisor(t *testing.T) {
	t.Parallel()
	temp := tempDir(t)
	first := spawn(t, "user", temp)
	first.url()
	server, dir := postmaster(t, temp), serverDirs(t, temp)[0]
	supervisor := parent(t, server)
	require.NoError(t, syscall.Kill(supervisor, syscall.SIGKILL))
	first.kill()

	// Nobody looks after the server now. It ends once its files are gone; here
	// without that minute.
	require.NoError(t, syscall.Kill(server, syscall.SIGQUIT))
	require.Eventually(t, func() bool { return !alive(server) }, patience, 20*time.Millisecond)
	require.DirExists(t, dir)

	second := spawn(t, "run", temp)
	second.url()
	require.DirExists(t, dir, "it may be about to start")
	second.end()
	pointer := filepath.Join(filepath.Dir(dir), "run-"+strconv.Itoa(os.Getpid()))
	long := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(dir, long, long))
	require.NoError(t, os.Chtimes(pointer, long, long))
	third := spawn(t, "run", temp)
	third.url()
	require.NoDirExists(t, dir)
	require.NoFileExists(t, pointer)
	third.end()
	requireEmpty(t, temp)
}

func TestBrokenPrograms(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, initdb, postgres, says string }{
		{"initdb", "echo no space left >&2; exit 1", "exit 0", "it ended; its log: no space left"},
		{"postgres", "mkdir data", "echo no memory left >&2; exit 1", "it ended; its log: no memory left"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			temp, bin := tempDir(t), tempDir(t)
			for name, script := range map[string]string{"initdb": tt.initdb, "postgres": tt.postgres} {
				file := filepath.Join(bin, name)
				require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o600))
				require.NoError(t, os.Chmod(file, 0o755)) // whatever the umask
				t.Cleanup(func() { require.NoError(t, os.Remove(file)) })
			}
			p := spawn(t, "user", temp, "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
			says := p.says()
			require.Contains(t, says, "error: start a throwaway Postgres with the programs in "+bin)
			require.Contains(t, says, tt.says)
			requireEmpty(t, temp)
		})
	}
}

func TestServerOfTheEnvironment(t *testing.T) {
	t.Parallel()
	temp := tempDir(t)
	c := start(t)
	admin := open(t, c.URL())
	for _, name := range []string{
		"outbox_test_1_abcdefghijkl",          // of a test that was killed long ago
		"outbox_test_1_mnopqrstuvwx",          // likewise, but in use
		"outbox_test_template_1",              // not of one test
		"outbox_test_x_abcdefghijkl",          // of somebody else
		"outbox_test_9999999999_abcdefghijkl", // of a running test
	} {
		_, err := admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
		require.NoError(t, err)
	}
	used, err := open(t, databaseURL(t, c, "outbox_test_1_mnopqrstuvwx")).Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, used.Close()) }()

	p := spawn(t, "user", temp, "OUTBOX_TEST_DSN="+c.URL())
	require.Equal(t, c.URL(), p.url())
	p.end()
	require.Empty(t, serverDirs(t, temp))
	require.Equal(t, "outbox_test_1_mnopqrstuvwx,outbox_test_9999999999_abcdefghijkl,outbox_test_template_1,outbox_test_x_abcdefghijkl",
		show(t, c.URL(), "SELECT string_agg(datname, ',' ORDER BY datname COLLATE \"C\") FROM pg_database WHERE datname LIKE 'outbox%'"))
}

func TestServerOfTheEnvironmentIsNoUse(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, dsn, says string }{
		{"no URL", "host=127.0.0.1 password=secret", "error: OUTBOX_TEST_DSN is not a postgres:// URL; write it as postgres://user:password@host:port/database"},
		{"unreadable", "postgres://u:secret@[/db", "error: OUTBOX_TEST_DSN is not a postgres:// URL"},
		{"nobody there", "postgres://u:secret@127.0.0.1:1/db?sslmode=disable", "error: use the server of OUTBOX_TEST_DSN: connect to postgres://u:xxxxx@127.0.0.1:1/db"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line := spawn(t, "user", t.TempDir(), "OUTBOX_TEST_DSN="+tt.dsn).says()
			require.Contains(t, line, tt.says)
			require.NotContains(t, line, "secret")
		})
	}
}
