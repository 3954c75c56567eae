//go:build linux

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
)

// warmUp is how long nothing is done to the run at first.
const warmUp = 2 * time.Second

// faults does what the settings ask for, spread over the duration: kills at one
// pace, everything else one after the other at another.
func (c *conductor) faults(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait(ctx.Done(), warmUp)
	probes, stop := context.WithCancel(ctx)
	var watching, performing sync.WaitGroup
	watching.Go(func() { c.watch(probes) })
	defer watching.Wait()
	defer stop()

	var once sync.Once
	var failed error
	perform := func(seed uint64, deck []account.Kind) {
		performing.Go(func() {
			rng := rand.New(rand.NewPCG(c.seed, seed))
			rng.Shuffle(len(deck), func(i, k int) { deck[i], deck[k] = deck[k], deck[i] })
			begun := time.Now()
			for i, kind := range deck {
				if d := time.Duration(float64(c.duration)*(float64(i)+rng.Float64())/float64(len(deck))) - time.Since(begun); d > 0 {
					wait(ctx.Done(), d)
				}
				if ctx.Err() != nil {
					return
				}
				if err := c.fault(ctx, rng, kind); err != nil && ctx.Err() == nil {
					once.Do(func() { failed = fmt.Errorf("do %q: %w", kind, err) })
					cancel()
				}
			}
		})
	}
	perform(1, repeat(account.Kill, c.counts[account.Kill]))
	perform(2, repeat(account.Hold, c.counts[account.Hold]))
	var deck []account.Kind
	for _, kind := range account.Kinds {
		if kind != account.Kill && kind != account.Hold {
			deck = append(deck, repeat(kind, c.counts[kind])...)
		}
	}
	perform(3, deck)
	performing.Wait()
	if failed != nil {
		return failed
	}
	return ctx.Err()
}

func repeat(kind account.Kind, n int) []account.Kind {
	kinds := make([]account.Kind, n)
	for i := range kinds {
		kinds[i] = kind
	}
	return kinds
}

// note keeps a fault that is over.
func (c *conductor) note(f account.Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run.Faults = append(c.run.Faults, f)
}

// between returns a duration of that range.
func between(rng *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(rng.Int64N(int64(high-low)+1))
}

// fault does one thing and waits for its end.
func (c *conductor) fault(ctx context.Context, rng *rand.Rand, kind account.Kind) error {
	switch kind {
	case account.Kill, account.Stop, account.Deploy:
		return c.strike(ctx, rng, kind)
	case account.Cut, account.Blackhole, account.Slow:
		return c.disturb(ctx, rng, kind)
	}
	f := account.Fault{Kind: kind, Begin: c.clock.now()}
	var err error
	switch kind {
	case account.Crash:
		err = c.cluster.Crash()
		if err == nil {
			wait(ctx.Done(), between(rng, 0, 1500*time.Millisecond))
			err = c.cluster.Restart()
		}
	case account.Exhaust:
		err = c.exhaust(ctx, between(rng, time.Second, 4*time.Second), c.relays[rng.IntN(len(c.relays))])
	case account.Hold:
		f.IDs, err = c.hold(ctx, between(rng, 5*time.Second, 10*time.Second))
	case account.Lock:
		err = c.lock(ctx, between(rng, time.Second, 4*time.Second))
	}
	f.End = c.clock.now()
	c.note(f)
	return err
}

// strike does something to the process of a relay.
func (c *conductor) strike(ctx context.Context, rng *rand.Rand, kind account.Kind) error {
	order := rng.Perm(len(c.relays))
	pause, stop := between(rng, 0, 300*time.Millisecond), between(rng, claimTimeout+500*time.Millisecond, 2*claimTimeout)
	inFlight := rng.IntN(concurrency)
	for ctx.Err() == nil {
		for _, n := range order {
			s := c.relays[n]
			if !s.busy.TryLock() {
				continue
			}
			defer s.busy.Unlock()
			switch kind {
			case account.Kill:
				return s.kill(ctx, inFlight, pause)
			case account.Stop:
				return s.stop(ctx, stop)
			default:
				return s.deploy(ctx)
			}
		}
		wait(ctx.Done(), 50*time.Millisecond)
	}
	return nil
}

// disturb does something to the connections of a relay or of the producers.
func (c *conductor) disturb(ctx context.Context, rng *rand.Rand, kind account.Kind) error {
	link, name := c.mill, "producers"
	if n := rng.IntN(len(c.relays) + 1); n < len(c.relays) {
		link, name = c.relays[n].link, c.relays[n].name
	}
	reset := rng.IntN(2) == 0
	short, long := between(rng, 100*time.Millisecond, 500*time.Millisecond), between(rng, time.Second, 4*time.Second)
	latency := between(rng, 20*time.Millisecond, 250*time.Millisecond).Milliseconds()
	f := account.Fault{Kind: kind, Slot: name, Begin: c.clock.now()}
	var err error
	switch {
	case kind == account.Cut && !reset:
		err = link.cut()
	case kind == account.Cut:
		err = link.poison(ctx, short, toxicReset)
	case kind == account.Blackhole:
		err = link.poison(ctx, long, fmt.Sprintf(toxicSilence, "upstream"), fmt.Sprintf(toxicSilence, "downstream"))
	default:
		err = link.poison(ctx, long, fmt.Sprintf(toxicSlow, "upstream", latency, latency/2), fmt.Sprintf(toxicSlow, "downstream", latency, latency/2))
	}
	f.End = c.clock.now()
	c.note(f)
	return err
}

// exhaust takes every connection that is left, cuts those of a relay so that it
// needs new ones, and holds on for d.
func (c *conductor) exhaust(ctx context.Context, d time.Duration, victim *slot) error {
	db := c.connect("exhaust")
	db.SetMaxIdleConns(maxConnections)
	var taken []bun.Conn
	defer func() {
		for _, conn := range taken {
			_ = conn.Close()
		}
		_ = db.Close()
	}()
	take := func() {
		for range maxConnections {
			conn, err := db.Conn(ctx)
			if err != nil {
				return // none is left, which is the point
			}
			taken = append(taken, conn)
		}
	}
	take()
	if err := victim.link.cut(); err != nil {
		return err
	}
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; wait(ctx.Done(), 50*time.Millisecond) {
		take()
	}
	return nil
}

// hold keeps an old snapshot and a lock on some rows, as a forgotten psql does. It
// returns the ids of those rows.
func (c *conductor) hold(ctx context.Context, d time.Duration) (ids []string, err error) {
	ids = []string{}
	db := c.connect("hold")
	defer func() { _ = db.Close() }()
	err = db.RunInTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead}, func(ctx context.Context, tx bun.Tx) error {
		err := tx.NewRaw(`SELECT id FROM outbox_messages WHERE status IN ('pending', 'claimed') ORDER BY random()
			LIMIT 3 FOR UPDATE SKIP LOCKED`).Scan(ctx, &ids)
		wait(ctx.Done(), d)
		return err
	})
	return ids, unavailable(err)
}

// lock locks the table as an ALTER does.
func (c *conductor) lock(ctx context.Context, d time.Duration) error {
	db := c.connect("lock")
	defer func() { _ = db.Close() }()
	err := db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.ExecContext(ctx, "SET LOCAL lock_timeout = '2s'; LOCK TABLE outbox_messages IN ACCESS EXCLUSIVE MODE"); err != nil {
			return err
		}
		wait(ctx.Done(), d)
		return nil
	})
	return unavailable(err)
}

// unavailable forgives an error of the database, to which all sorts of things
// happen at once.
func unavailable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
