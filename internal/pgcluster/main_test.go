//go:build unix

package pgcluster_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/pgcluster"
)

// roleVar makes this test binary another process of a test run.
const roleVar = "PGCLUSTER_TEST_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch role := os.Getenv(roleVar); role {
	case "":
		m.Run() // m.Run's code is the exit code when TestMain returns
		return
	case "user":
		err = useServer()
	case "run":
		err = runUser()
	case "crash":
		err = crashServer()
	default:
		err = fmt.Errorf("unknown role %q", role)
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// useServer prints the URL of the server of the run and holds it until standard
// input ends.
func useServer() error {
	c, err := pgcluster.Shared()
	if err != nil {
		return err
	}
	fmt.Println(c.URL())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// runUser is a test run with one user of the server, which outlives it if it is
// killed.
func runUser() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVar+"=user")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// crashServer prints the URL of a server that it has restarted and holds it
// until standard input ends.
func crashServer() error {
	c, err := pgcluster.Start()
	if err != nil {
		return err
	}
	if err := errors.Join(c.Crash(), c.Restart()); err != nil {
		return err
	}
	fmt.Println(c.URL())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// process is this test binary in another role.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Reader
}

// spawn starts a process whose temporary directory is temp.
func spawn(t *testing.T, role, temp string, env ...string) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleVar+"="+role, "TMPDIR="+temp, "OUTBOX_TEST_DSN=")
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{t: t, cmd: cmd, stdin: stdin, lines: bufio.NewReader(stdout)}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_, _ = p.cmd.Process.Wait()
		_, _ = stdin.Close(), stdout.Close()
	})
	return p
}

// says returns the next line that the process prints.
func (p *process) says() string {
	p.t.Helper()
	line, err := p.lines.ReadString('\n')
	require.NoError(p.t, err)
	return strings.TrimSuffix(line, "\n")
}

// url returns the URL that the process prints.
func (p *process) url() string {
	p.t.Helper()
	line := p.says()
	require.True(p.t, strings.HasPrefix(line, "postgres://"), line)
	return line
}

// end lets the process end by itself.
func (p *process) end() {
	p.t.Helper()
	require.NoError(p.t, p.stdin.Close())
	state, err := p.cmd.Process.Wait()
	require.NoError(p.t, err)
	require.True(p.t, state.Success(), state)
}

// kill ends the process as the OOM killer would. Its standard input stays open,
// for a child that has inherited it.
func (p *process) kill() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Kill())
	state, err := p.cmd.Process.Wait()
	require.NoError(p.t, err)
	require.False(p.t, state.Exited(), state)
}

// tempDir returns a directory for temporary files that the user of the server
// can get into, unlike t.TempDir, and checks at the end that nothing is left.
func tempDir(t *testing.T) string {
	t.Helper()
	needPrograms(t)
	dir, err := os.MkdirTemp("", "pgcluster-test-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o1777))
	t.Cleanup(func() {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries, "left in the temporary directory")
		require.NoError(t, os.RemoveAll(dir))
	})
	return dir
}

// needPrograms skips t where no server can be started.
func needPrograms(t *testing.T) {
	t.Helper()
	_, err := pgcluster.FindBinaries(os.Getenv("PATH"), "/usr/lib/postgresql")
	if err == nil {
		return
	}
	if os.Getenv("OUTBOX_TEST_REQUIRE") == "postgres" && os.Getenv("OUTBOX_TEST_DSN") == "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// serverDirs returns the directories of the servers below temp.
func serverDirs(t *testing.T, temp string) []string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(temp, "typedoutbox-postgres-*", "server-*"))
	require.NoError(t, err)
	return dirs
}

// postmaster returns the process id of the only server below temp.
func postmaster(t *testing.T, temp string) int {
	t.Helper()
	dirs := serverDirs(t, temp)
	require.Len(t, dirs, 1)
	text, err := os.ReadFile(filepath.Join(dirs[0], "data", "postmaster.pid"))
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(first)
	require.NoError(t, err)
	return pid
}

// alive reports whether a process runs; one that nobody has waited for does not.
func alive(pid int) bool {
	state := ps(pid, "stat")
	return state != "" && state[0] != 'Z'
}

// parent returns the process id of the parent of a process.
func parent(t *testing.T, pid int) int {
	t.Helper()
	id, err := strconv.Atoi(ps(pid, "ppid"))
	require.NoError(t, err)
	return id
}

// ps returns a column of the process table, "" if there is no such process.
func ps(pid int, column string) string {
	text, _ := exec.Command("ps", "-o", column+"=", "-p", strconv.Itoa(pid)).Output()
	return strings.TrimSpace(string(text))
}

// requireGone waits until a server and everything below temp are gone.
func requireGone(t *testing.T, temp string, pid int) {
	t.Helper()
	requireEmpty(t, temp)
	require.False(t, alive(pid), "the server outlives its files")
}

// requireEmpty waits until all servers have removed themselves from temp.
func requireEmpty(t *testing.T, temp string) {
	t.Helper()
	require.Eventually(t, func() bool {
		entries, err := os.ReadDir(temp)
		return err == nil && len(entries) == 0
	}, patience, 20*time.Millisecond, "servers outlive their users")
}

// patience is far more than anything here takes on a busy machine.
const patience = time.Minute
