package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// childVar tells a process that it is a child, and with what task.
const childVar = "OUTBOXBENCH_TASK"

// task is what a child does on the arena of its parent.
type task struct {
	Role    string // a key of roles
	Subject string
	URL     string
	N       int
}

// roles are what a child can do. They write one JSON value a line.
func roles() map[string]func(context.Context, *arena, task, *json.Encoder) error {
	return map[string]func(context.Context, *arena, task, *json.Encoder) error{
		"drain":   drainInChild,
		"consume": consumeInChild,
	}
}

// runChild is a child process. It ends with its parent, whose pipe is its
// standard input.
func runChild(ctx context.Context) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := doTask(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "outboxbench child:", err)
		return exitError
	}
	return exitOK
}

func doTask(ctx context.Context) (err error) {
	var t task
	if err := json.Unmarshal([]byte(os.Getenv(childVar)), &t); err != nil {
		return fmt.Errorf("read %s: %w", childVar, err)
	}
	role := roles()[t.Role]
	if role == nil {
		return fmt.Errorf("there is no role %q", t.Role)
	}
	a, err := openArena(ctx, t.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	return role(ctx, a, t, json.NewEncoder(os.Stdout))
}

// child is a process of this program with a task.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
}

func startChild(t task) (*child, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVar+"="+string(text))
	cmd.Stderr = os.Stderr
	c := &child{cmd: cmd}
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.lines = bufio.NewScanner(stdout)
	return c, cmd.Start()
}

// next reads a line of the child into v; io.EOF when there are no more.
func (c *child) next(v any) error {
	if !c.lines.Scan() {
		return errors.Join(c.lines.Err(), io.EOF)
	}
	return json.Unmarshal(c.lines.Bytes(), v)
}

// stop lets the child end and waits for it.
func (c *child) stop() error {
	_ = c.stdin.Close()
	for c.lines.Scan() { // what it still says
	}
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("child: %w", err)
	}
	return nil
}

// stopWith kills the child when ctx ends first, so that a read of its lines
// ends too. The caller calls the returned function when it is done.
func (c *child) stopWith(ctx context.Context) (done func() bool) {
	return context.AfterFunc(ctx, func() { _ = c.cmd.Process.Kill() })
}
