//go:build linux

package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
)

const (
	watchEvery = 50 * time.Millisecond

	// stalled is how long this process was not scheduled, or the server took for
	// nothing at all, before the machine is said to stand still.
	stalled = 700 * time.Millisecond
)

// connect opens a pool straight to the server, past the proxies.
func (c *conductor) connect(name string) *bun.DB {
	return bun.NewDB(sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(c.cluster.URL()), pgdriver.WithApplicationName(name),
		pgdriver.WithTimeout(30*time.Second))), pgdialect.New())
}

// watch notes when the machine stands still, which nobody did on purpose: leases
// may end of it all the same.
func (c *conductor) watch(ctx context.Context) {
	last := c.clock.now()
	lastLine := last
	for ctx.Err() == nil {
		wait(ctx.Done(), watchEvery)
		now := c.clock.now()
		if now-last > stalled {
			c.note(account.Fault{Kind: account.Stall, Begin: last, End: now})
		}
		last = now
		if now-lastLine > 10*time.Second {
			lastLine = now
			c.progress(now)
		}
	}
}

func (c *conductor) progress(now time.Duration) {
	c.mu.Lock()
	kinds := map[account.Kind]int{}
	for _, f := range c.run.Faults {
		kinds[f.Kind]++
	}
	c.mu.Unlock()
	c.receiver.mu.Lock()
	requests := len(c.receiver.requests)
	c.receiver.mu.Unlock()
	fmt.Printf("%4.0fs  %7d committed  %7d requests  %s\n", now.Seconds(), c.committed.Load(), requests, summary(kinds))
}

// summary lists kinds with their numbers in the order of the report.
func summary(kinds map[account.Kind]int) (text string) {
	for _, kind := range append(account.Kinds[:], account.Stall) {
		if n := kinds[kind]; n > 0 {
			text += fmt.Sprintf("%s %d  ", kind, n)
		}
	}
	return text
}

// checkClock keeps account of relays whose clock is really off.
func (c *conductor) checkClock(child *child, got, want time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if (got - want).Abs() > 2*time.Second {
		c.wrongClocks = append(c.wrongClocks, fmt.Sprintf("%s: %v instead of %v", child.Name, got, want))
	}
	if want != 0 {
		c.shifts[want]++
	}
}
