//go:build linux

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
)

// nursery starts children that die with this process, also if they are stopped.
type nursery struct {
	clock clock
	logs  string // directory, "" for none
	start chan func()

	mu       sync.Mutex
	children []*child
	heard    func(*child, line)
}

// newNursery tells heard every line that a child writes; each child has a
// goroutine of its own for that.
func newNursery(c clock, logs string, heard func(*child, line)) *nursery {
	n := &nursery{clock: c, logs: logs, start: make(chan func()), heard: heard}
	go func() {
		// The kernel counts the thread that starts a child as its parent.
		runtime.LockOSThread()
		for f := range n.start {
			f()
		}
	}()
	return n
}

// child is a relay or a producer.
type child struct {
	task
	slot     string
	cmd      *exec.Cmd
	lifeline io.Closer
	ready    chan struct{} // closed when it handles signals; hello can be read then
	hello    line
	ended    chan struct{}

	// To be read once it has ended.
	begin, end time.Duration
	err        error
	stderr     tail

	mu     sync.Mutex
	killed bool
	asked  bool
}

func (n *nursery) spawn(program, role, slot string, t task, env ...string) (*child, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	c := &child{task: t, slot: slot, ready: make(chan struct{}), ended: make(chan struct{})}
	c.cmd = exec.Command(program, role)
	c.cmd.Env = append(append(os.Environ(), env...), roleVar+"="+string(text))
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	c.cmd.Stderr = &c.stderr
	if c.lifeline, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(cmp.Or(n.logPath(t.Name), os.DevNull))
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	n.start <- func() { started <- c.cmd.Start() }
	c.begin = n.clock.now()
	if err := <-started; err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("start %s: %w", t.Name, err)
	}
	n.mu.Lock()
	n.children = append(n.children, c)
	n.mu.Unlock()
	go n.listen(c, stdout, log)
	return c, nil
}

// logPath is where to keep what a child writes, "" for nowhere.
func (n *nursery) logPath(name string) string {
	if n.logs == "" {
		return ""
	}
	return filepath.Join(n.logs, name+".log")
}

// listen reads what c writes, to the end: what a killed process had written is
// still there.
func (n *nursery) listen(c *child, stdout io.Reader, log io.WriteCloser) {
	defer close(c.ended)
	defer func() { _ = log.Close() }()
	lines := bufio.NewScanner(io.TeeReader(stdout, log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l line
		if json.Unmarshal(lines.Bytes(), &l) == nil { // the last one may be torn
			if l.Message == eventReady {
				c.hello = l
				close(c.ready)
			}
			n.heard(c, l)
		}
	}
	c.err = c.cmd.Wait()
	c.end = n.clock.now()
}

func (c *child) pid() string { return strconv.Itoa(c.cmd.Process.Pid) }

func (c *child) signal(s syscall.Signal) error {
	if err := c.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("send %v to %s (pid %s): %w", s, c.Name, c.pid(), err)
	}
	return nil
}

// kill ends the process as a crash does and waits for its end.
func (c *child) kill() error {
	c.mu.Lock()
	c.killed = true
	c.mu.Unlock()
	err := c.signal(syscall.SIGKILL)
	<-c.ended
	return err
}

// stop asks the process to end, once it can be asked, and waits for that, at
// most for d. Then it kills it, which is an error.
func (c *child) stop(d time.Duration) error {
	select {
	case <-c.ready:
	case <-c.ended:
	case <-time.After(d):
	}
	c.mu.Lock()
	c.asked = true
	c.mu.Unlock()
	if err := c.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-c.ended:
		return nil
	case <-time.After(d):
	}
	_ = c.signal(syscall.SIGKILL)
	<-c.ended
	return fmt.Errorf("%s did not stop within %v", c.Name, d)
}

// process is what the account is told of the child, which has ended.
func (c *child) process() account.Process {
	<-c.ended
	c.mu.Lock()
	defer c.mu.Unlock()
	p := account.Process{Name: c.Name, Slot: c.slot, Start: c.begin, End: c.end, Killed: c.killed, Asked: c.asked}
	if c.err != nil && !c.killed {
		p.Error = fmt.Sprintf("%v; the end of its standard error: %s", c.err, c.stderr.text)
	}
	return p
}

// killAll ends whatever still runs.
func (n *nursery) killAll() {
	n.mu.Lock()
	children := append([]*child(nil), n.children...)
	n.mu.Unlock()
	for _, c := range children {
		_ = c.cmd.Process.Kill()
		_ = c.lifeline.Close()
	}
	for _, c := range children {
		select {
		case <-c.ended:
		case <-time.After(5 * time.Second):
		}
	}
}

// tail keeps the end of what is written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	const kept = 4 << 10
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-kept):]
	return len(p), nil
}
