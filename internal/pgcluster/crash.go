//go:build unix

package pgcluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// statePoll is how often the file that says how the server is doing is read.
const statePoll = 10 * time.Millisecond

// crash ends the server and waits for its end, which removes the file that
// names it.
func (s *server) crash() error {
	text, err := s.state()
	if err != nil {
		return fmt.Errorf("find the server to crash: %w", err)
	}
	first, _, _ := strings.Cut(text, "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return fmt.Errorf("find the server to crash: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		return fmt.Errorf("crash the server: %w", err)
	}
	err = s.await(func(_ string, err error) bool { return errors.Is(err, fs.ErrNotExist) })
	if err != nil {
		return fmt.Errorf("the server did not end: %w", err)
	}
	return nil
}

// restart starts the server anew. It is a child of this process, but the
// supervisor ends it as it would have ended the first one.
func (s *server) restart() error {
	account, err := serverAccount()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	// The supervisor must not miss it, whenever this process ends.
	args := append([]string{"-c", `echo $$ >restarted && exec "$@"`, "restart"}, s.program...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = account.process()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("restart the server: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	isOver := func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	err = s.await(func(text string, _ error) bool {
		return isOver() || strings.HasPrefix(text, strconv.Itoa(cmd.Process.Pid)+"\n") && strings.Contains(text, "\nready")
	})
	if err == nil && isOver() {
		err = errors.New("it ended")
	}
	if err != nil {
		return fmt.Errorf("restart the server: %w; see %s", err, log.Name())
	}
	return nil
}

// state returns the text of the file that the server keeps while it runs.
func (s *server) state() (string, error) {
	text, err := os.ReadFile(filepath.Join(s.dir, "data", "postmaster.pid"))
	return string(text), err
}

// await waits until the state of the server meets a condition.
func (s *server) await(condition func(text string, err error) bool) error {
	for deadline := time.Now().Add(startPatience); !condition(s.state()); time.Sleep(statePoll) {
		if time.Now().After(deadline) {
			return os.ErrDeadlineExceeded
		}
	}
	return nil
}
