package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/pgtest"
)

// asProgram makes the test binary the program. It starts itself again for its
// relays, and they inherit it. So the program that is tested has the race
// detector in it if the test has.
const asProgram = "ORDERS_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program returns the program, with its temporary files in tmp.
func program(ctx context.Context, tmp string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+tmp)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

// TestDemonstration is the whole program, as in the package comment, with the
// race detector where the test has it. CI also runs the documented command.
func TestDemonstration(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes as long as the demonstration")
	}
	for name, args := range map[string]func(*testing.T) []string{
		"sqlite":   func(*testing.T) []string { return nil },
		"postgres": func(t *testing.T) []string { return []string{"-dsn", pgtest.Open(t, pgtest.Options{})} },
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			out, err := program(t.Context(), tmp, args(t)...).CombinedOutput()
			require.NoError(t, err, "%s", out)
			for _, row := range []string{
				"orders placed +200", "rolled back +20", "orders committed +180", "distinct orders picked +180",
				"duplicates recognised +[1-9][0-9]*", "lost +0", "never committed, yet picked +0", "parked +0",
			} {
				require.Regexp(t, `(?m)^ +`+row+`\b`, string(out))
			}
			require.Regexp(t, `relay-[12] \(pid \d+\) was killed with SIGKILL`, string(out))
			requireNothingLeft(t, tmp, string(out))
		})
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes half as long as the demonstration")
	}
	tmp := t.TempDir()
	cmd := program(t.Context(), tmp)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	var out strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		out.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "was killed") {
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
		}
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "%s%s", out.String(), stderr.String())
	require.Equal(t, exitError, exit.ExitCode())
	require.Contains(t, stderr.String(), "interrupt")
	requireNothingLeft(t, tmp, out.String())
}

var relayPIDs = regexp.MustCompile(`two relays, pids (\d+) and (\d+)`)

// requireNothingLeft checks that the relays have ended and their files are gone.
func requireNothingLeft(t *testing.T, tmp, out string) {
	t.Helper()
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
	pids := relayPIDs.FindStringSubmatch(out)
	require.Len(t, pids, 3, out)
	for _, text := range pids[1:] {
		pid, err := strconv.Atoi(text)
		require.NoError(t, err)
		process, err := os.FindProcess(pid)
		require.NoError(t, err)
		require.ErrorIs(t, process.Signal(syscall.Signal(0)), os.ErrProcessDone, "relay %d still runs", pid)
	}
}

func TestRun(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		want   int
		stdout string
		stderr string
	}{
		"help":             {[]string{"-h"}, exitOK, "allowed to create a schema", ""},
		"help of relay":    {[]string{"relay", "-h"}, exitOK, "WAREHOUSE_URL", ""},
		"unknown flag":     {[]string{"-x"}, exitUsage, "", "see orders -h"},
		"unknown command":  {[]string{"deliver"}, exitUsage, "", `unexpected argument "deliver"`},
		"no warehouse":     {[]string{"relay"}, exitError, "", "WAREHOUSE_URL is not set"},
		"no URL":           {[]string{"-dsn", "orders.db"}, exitError, "", "leave it out for SQLite"},
		"bad URL":          {[]string{"-dsn", "postgres://u:p%zz@127.0.0.1/db"}, exitError, "", "escape special characters"},
		"nobody listening": {[]string{"-dsn", "postgres://u:secret@127.0.0.1:1/db?sslmode=disable"}, exitError, "", "check that the server of -dsn answers"},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			t.Setenv("WAREHOUSE_URL", "")
			var stdout, stderr strings.Builder
			require.Equal(t, tc.want, run(t.Context(), tc.args, &stdout, &stderr))
			require.Contains(t, stdout.String(), tc.stdout)
			require.Contains(t, stderr.String(), tc.stderr)
			require.NotContains(t, stderr.String(), "secret")
			left, err := os.ReadDir(tmp)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func TestRelayStops(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("told to stop"))
	t.Setenv("WAREHOUSE_URL", "http://127.0.0.1:1")
	t.Setenv("DATABASE_URL", t.TempDir()+"/orders.db")
	var out strings.Builder
	require.Equal(t, exitOK, run(ctx, []string{"relay"}, &out, &out))
}
