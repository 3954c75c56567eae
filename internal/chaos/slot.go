//go:build linux

package main

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
)

// slot is one of the three relays, a process after the other.
type slot struct {
	conductor *conductor
	name      string
	program   string
	shift     time.Duration // of its clock; every second process has the opposite
	link      *link

	busy sync.Mutex // one fault of the process at a time

	mu      sync.Mutex
	process *child
	n       int
}

func (s *slot) current() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// begin starts the next process.
func (s *slot) begin(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	shift := s.shift
	if s.n%2 == 0 {
		shift = -shift
	}
	t := task{Name: fmt.Sprintf("%s-%d", s.name, s.n), DSN: s.link.dsn, Receiver: s.conductor.receiver.url}
	c, err := s.conductor.nursery.spawn(s.program, "relay", s.name, t, fmt.Sprintf("%s=%d", shiftVar, int(shift.Seconds())))
	if err != nil {
		return err
	}
	s.process = c
	// Not waited for, or a slow start would hold up the schedule.
	go func() {
		select {
		case <-c.ready:
			s.conductor.checkClock(c, c.hello.Shift, shift)
		case <-c.ended:
		case <-ctx.Done():
		}
	}()
	return nil
}

// kill ends the process at a moment when it has something in flight, if there is
// one soon, and starts the next.
func (s *slot) kill(ctx context.Context, inFlight int, pause time.Duration) error {
	c := s.current()
	s.conductor.receiver.busy(ctx, c.Name, inFlight, 300*time.Millisecond)
	f := account.Fault{Kind: account.Kill, Slot: s.name, Process: c.Name, Begin: s.conductor.clock.now()}
	err := c.kill()
	f.End = s.conductor.clock.now()
	s.conductor.note(f)
	if err != nil {
		return fmt.Errorf("it had ended by itself: %w", err)
	}
	wait(ctx.Done(), pause)
	return s.begin(ctx)
}

// stop stops the process for d and continues it.
func (s *slot) stop(ctx context.Context, d time.Duration) error {
	c := s.current()
	s.conductor.receiver.busy(ctx, c.Name, 3, 300*time.Millisecond)
	f := account.Fault{Kind: account.Stop, Slot: s.name, Process: c.Name, Begin: s.conductor.clock.now()}
	if err := c.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	wait(ctx.Done(), d)
	err := c.signal(syscall.SIGCONT)
	f.End = s.conductor.clock.now()
	s.conductor.note(f)
	return err
}

// deploy asks the process to stop, if it can be while a delivery takes longer than
// a shutdown waits, and starts the next.
func (s *slot) deploy(ctx context.Context) error {
	c := s.current()
	s.conductor.receiver.stuck(ctx, c.Name, 3*time.Second)
	f := account.Fault{Kind: account.Deploy, Slot: s.name, Process: c.Name, Begin: s.conductor.clock.now()}
	err := c.stop(20 * time.Second)
	f.End = s.conductor.clock.now()
	s.conductor.note(f)
	if err != nil {
		return err
	}
	return s.begin(ctx)
}
