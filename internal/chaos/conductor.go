//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
	"github.com/typedoutbox/typedoutbox/internal/pgcluster"
	"github.com/typedoutbox/typedoutbox/outbox"
)

// maxConnections of the server: enough for everybody, few enough to use up.
const maxConnections = 80

// conductor runs everything and keeps what it sees.
type conductor struct {
	settings
	clock    clock
	cluster  *pgcluster.Cluster
	db       *bun.DB // straight to the server
	receiver *receiver
	nursery  *nursery
	relays   []*slot
	mill     *link // of the producers
	crew     []*child

	committed atomic.Int64 // messages whose commit was answered

	mu          sync.Mutex
	run         account.Run
	shifts      map[time.Duration]int // relays by how far their clock is off
	wrongClocks []string
}

// conduct does a whole run and reports whether every promise was kept.
func conduct(ctx context.Context, s settings) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Printf("seed %d; building a relay with a clock that can be shifted\n", s.seed)
	shifted, err := buildShifted(ctx, dir)
	if err != nil {
		return false, err
	}
	if s.logs != "" {
		if err := os.MkdirAll(s.logs, 0o755); err != nil {
			return false, err
		}
	}

	c := &conductor{settings: s, clock: clock{realTime()}, run: account.Run{Lease: claimTimeout, Longest: deliverTimeout + shutdownTimeout, MaxAttempts: maxAttempts}, shifts: map[time.Duration]int{}}
	ctx, cancel := context.WithTimeout(ctx, s.deadline)
	defer cancel()
	// Should even the tidying up hang: the server and the children notice the end
	// of this process.
	over := time.AfterFunc(s.deadline+time.Minute, func() {
		fmt.Fprintln(os.Stderr, "chaos: still not at the end a minute after the deadline; giving up")
		os.Exit(2)
	})
	defer over.Stop()
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.setUp(ctx, shifted); err != nil {
		return false, err
	}
	if err := c.perform(ctx); err != nil {
		return false, err
	}
	return c.conclude(ctx)
}

// setUp starts everything.
func (c *conductor) setUp(ctx context.Context, shifted string) (err error) {
	c.cluster, err = pgcluster.Start("fsync=on", "full_page_writes=on", fmt.Sprintf("max_connections=%d", maxConnections),
		"shared_buffers=256MB", "max_wal_size=2GB", "log_lock_waits=off")
	if err != nil {
		return err
	}
	c.db = c.connect("conductor")
	if err := (outbox.Store{DB: c.db}).Migrate(ctx); err != nil {
		return err
	}
	if _, err := c.db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("create the tables of the run: %w", err)
	}
	if c.receiver, err = newReceiver(c.clock); err != nil {
		return err
	}
	c.nursery = newNursery(c.clock, c.logs, c.hear)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for n := range slots {
		s := &slot{conductor: c, name: fmt.Sprintf("relay%d", n+1), program: self}
		if n == slots-1 {
			s.program, s.shift = shifted, 2*time.Hour
		}
		if s.link, err = newLink(s.name, c.cluster.URL()); err != nil {
			return err
		}
		c.relays = append(c.relays, s)
		if err := s.begin(ctx); err != nil {
			return err
		}
	}
	if c.mill, err = newLink("producers", c.cluster.URL()); err != nil {
		return err
	}
	for n := range producers {
		t := task{Name: fmt.Sprintf("producer%d", n+1), DSN: c.mill.dsn, Seed: c.seed + uint64(n), Rate: 1.05 * float64(c.rows) / c.duration.Seconds() / producers}
		child, err := c.nursery.spawn(self, "producer", "", t)
		if err != nil {
			return err
		}
		c.crew = append(c.crew, child)
	}
	return nil
}

// hear takes a line that a child has written.
func (c *conductor) hear(child *child, l line) {
	at := c.clock.at(time.Unix(0, l.At))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch l.Message {
	case eventReturn:
		c.run.Returns = append(c.run.Returns, account.Return{ID: l.ID, Process: child.Name, Claim: l.Claim, At: at, Error: l.Error, Cause: l.Cause})
	case eventLeaseLost:
		c.run.Losses = append(c.run.Losses, account.Report{ID: l.ID, Process: child.Name, At: at})
	case eventStuck:
		c.run.Stuck = append(c.run.Stuck, account.Report{ID: l.ID, Process: child.Name, At: at})
	case eventCommitted:
		c.run.Committed = append(c.run.Committed, l.IDs...)
		c.committed.Add(int64(len(l.IDs)))
	case eventWithdrawn:
		c.run.Withdrawn = append(c.run.Withdrawn, l.IDs...)
	}
}

// perform lets faults happen until the time is up and enough was committed.
func (c *conductor) perform(ctx context.Context) error {
	if err := c.faults(ctx); err != nil {
		return err
	}
	for c.committed.Load() < int64(c.rows) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the deadline came with %d messages committed", c.committed.Load())
		case <-time.After(100 * time.Millisecond):
		}
	}
	return ctx.Err()
}

// conclude stops the producers, drains the table, stops the relays, and judges.
func (c *conductor) conclude(ctx context.Context) (bool, error) {
	for _, p := range c.crew {
		if err := p.stop(20 * time.Second); err != nil {
			return false, err
		}
	}
	_ = c.db.Close() // its connections are those of before the last restart
	c.db = c.connect("conductor")
	drained := c.clock.now()
	if err := c.drain(ctx); err != nil {
		return false, err
	}
	drained = c.clock.now() - drained
	for _, s := range c.relays {
		if err := s.current().stop(10 * time.Second); err != nil {
			return false, err
		}
	}
	if err := c.collect(ctx); err != nil {
		return false, err
	}
	return c.report(drained)
}

// drain waits until nothing is pending or claimed. If something stays, the
// account tells what.
func (c *conductor) drain(ctx context.Context) error {
	const bound = 2 * time.Minute
	for begun := time.Now(); ; {
		var left int
		err := c.db.NewRaw("SELECT count(*) FROM outbox_messages WHERE status IN ('pending', 'claimed')").Scan(ctx, &left)
		if err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
		if time.Since(begun) > bound {
			fmt.Printf("%d rows are left after %v\n", left, bound)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the deadline came with %d rows left", left)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (c *conductor) close() error {
	if c.nursery != nil {
		c.nursery.killAll()
	}
	for _, s := range c.relays {
		if s.link != nil {
			s.link.close()
		}
	}
	if c.mill != nil {
		c.mill.close()
	}
	if c.receiver != nil {
		c.receiver.close()
	}
	var err error
	if c.db != nil {
		err = c.db.Close()
	}
	if c.cluster != nil {
		err = errors.Join(err, c.cluster.Close())
	}
	return err
}
