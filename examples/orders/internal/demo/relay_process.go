package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// relayGrace is how long a relay has to stop by itself.
const relayGrace = 10 * time.Second

// relayProcess is a relay in a process of its own: this program once more, with
// the subcommand relay.
type relayProcess struct {
	name string
	cmd  *exec.Cmd
	log  string // path of what it writes

	lifeline io.Closer     // the process ends itself when this is closed, by us or by our death
	ended    chan struct{} // closed when the process has
	err      error         // how it ended; to be read after that
}

// startRelay starts a process that ends when it is told to, when ctx ends or
// when this process does, whichever comes first.
func startRelay(ctx context.Context, name, dir string, env ...string) (*relayProcess, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to start it again: %w", err)
	}
	p := &relayProcess{name: name, log: filepath.Join(dir, name+".log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.CommandContext(ctx, program, "relay", "-lifeline")
	p.cmd.Env = append(append(os.Environ(), env...), "RELAY_NAME="+name)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = relayGrace
	if p.lifeline, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// kill ends the process as a crash does: it has no chance to tidy up.
func (p *relayProcess) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s (pid %d): %w", p.name, p.cmd.Process.Pid, err)
	}
	<-p.ended
	return nil
}

// stop asks the process to end, waits for that and returns how it went.
func (p *relayProcess) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		_ = p.lifeline.Close() // where there are no signals
	}
	select {
	case <-p.ended:
	case <-time.After(relayGrace):
		if err := p.kill(); err != nil {
			return err
		}
		return fmt.Errorf("%s did not stop within %v and was killed", p.name, relayGrace)
	}
	if p.err != nil {
		return p.failure()
	}
	return nil
}

// failure says how the process ended and what it wrote last.
func (p *relayProcess) failure() error {
	err := p.err
	if err == nil {
		err = errors.New("it stopped")
	}
	text, readErr := os.ReadFile(p.log)
	if readErr != nil {
		return fmt.Errorf("%s ended early: %w", p.name, errors.Join(err, readErr))
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("%s ended early: %w; the last that it wrote:\n%s", p.name, err, strings.Join(lines[max(0, len(lines)-5):], "\n"))
}
