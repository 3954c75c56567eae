package main

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"
)

// drainer is a subject that delivers what is pending.
type drainer struct {
	name           string
	batch, workers int
	table          table

	// drain delivers the n rows of its table to t, and returns when they are
	// recorded.
	drain func(ctx context.Context, a *arena, n int, t *tally) error
}

// relayDrainer is this library.
func relayDrainer(name string, relays, batch int, via func(*arena) *bun.DB) drainer {
	return drainer{name, batch, relays, outboxTable, func(ctx context.Context, a *arena, n int, t *tally) error {
		return drainOutbox(ctx, via(a), relays, batch, n, t)
	}}
}

// bunDrainer is by hand through bun on a table.
func bunDrainer(name string, workers, batch int, tbl table, sql handSQL) drainer {
	return drainer{name, batch, workers, tbl, func(ctx context.Context, a *arena, _ int, t *tally) error {
		return drainByHand(ctx, bunClaimer{a.bun, sql}, workers, batch, t)
	}}
}

// pgxDrainer is by hand through pgx.
func pgxDrainer(name string, workers, batch int) drainer {
	return drainer{name, batch, workers, outboxTable, func(ctx context.Context, a *arena, _ int, t *tally) error {
		return drainByHand(ctx, pgxClaimer{a.pgx, outboxSQL}, workers, batch, t)
	}}
}

func viaPgdriver(a *arena) *bun.DB { return a.bun }
func viaPgx(a *arena) *bun.DB      { return a.viaPgx }

// drainersOf are the subjects that drain in batches of a size.
func drainersOf(batch int) []drainer {
	return []drainer{
		bunDrainer("bun", 2, batch, outboxTable, outboxSQL),
		bunDrainer("bun, one worker", 1, batch, outboxTable, outboxSQL),
		bunDrainer("bun, lean table", 2, batch, leanTable, leanSQL),
		bunDrainer("bun, delete", 2, batch, outboxTable, deleteSQL),
		pgxDrainer("pgx", 2, batch),
		relayDrainer("outbox", 1, batch, viaPgdriver),
		relayDrainer("outbox via pgx", 1, batch, viaPgx),
		riverDrainer("river tuned", riverTuned, riverViaPgx),
		riverDrainer("river tuned via pgdriver", riverTuned, riverViaPgdriver),
		watermillDrainer("watermill", batch, false),
		watermillDrainer("watermill, delete", batch, true),
	}
}

// trial fills the table of d with rows of a payload, drains it and checks that
// everything was delivered and recorded.
func (d drainer) trial(a *arena, n, payload int) func(context.Context) (sample, error) {
	return func(ctx context.Context) (sample, error) {
		if err := a.prepare(ctx, d.table, n, encode(newOrder(payload))); err != nil {
			return sample{}, err
		}
		return d.measure(ctx, a, n)
	}
}

// measure drains the n rows that are due.
func (d drainer) measure(ctx context.Context, a *arena, n int) (sample, error) {
	var t tally
	a.watch.take()
	s, err := timed(n, func() error { return d.drain(ctx, a, n, &t) })
	if err != nil {
		return s, err
	}
	s.waits = a.watch.take()
	if len(s.waits) == 0 {
		return s, errNoClaims
	}
	if got := int(t.delivered.Load()); got != n {
		return s, fmt.Errorf("delivered %d times, with %d rows", got, n)
	}
	left, err := a.left(ctx, d.table)
	if err == nil && left > 0 {
		err = fmt.Errorf("%d of %d rows are not recorded as done with", left, n)
	}
	return s, err
}

func (d drainer) contender(trial func(context.Context) (sample, error)) contender {
	return contender{name: d.name, batch: d.batch, workers: d.workers, trial: trial}
}

// drainWorkload empties a queue that was filled beforehand. The waits are those
// of claims, to their last row.
func (b *bench) drainWorkload() []contest {
	var all []contest
	for _, payload := range b.payloads {
		for _, batch := range []int{100, 1000} {
			all = append(all, b.drainContest(b.drain, payload, batch))
		}
	}
	for _, batch := range []int{100, 1000} {
		all = append(all, b.drainContest(b.drainLong, b.payloads[0], batch))
	}
	return append(all, b.defaultsContest())
}

func (b *bench) drainContest(n, payload, batch int) contest {
	c := contest{name: fmt.Sprintf("drain/%dB/%d/b%d", payload, n, batch), baseline: "bun", unit: "rows"}
	for _, d := range drainersOf(batch) {
		c.contenders = append(c.contenders, d.contender(d.trial(b.arena, n, payload)))
	}
	return c
}

// defaultsContest is what one gets who sets nothing, beside the best by hand.
func (b *bench) defaultsContest() contest {
	payload := b.payloads[0]
	c := contest{name: fmt.Sprintf("drain/%dB/%d/defaults", payload, b.drain), baseline: "bun b1000", unit: "rows"}
	for _, d := range []drainer{
		bunDrainer("bun b1000", 2, 1000, outboxTable, outboxSQL),
		relayDrainer("outbox", 1, 0, viaPgdriver),
		relayDrainer("outbox b1000", 1, 1000, viaPgdriver),
		watermillDrainer("watermill", 0, false),
	} {
		c.contenders = append(c.contenders, d.contender(d.trial(b.arena, b.drain, payload)))
	}
	for _, d := range []drainer{
		riverDrainer("river", riverDefault, riverViaPgx),
		riverDrainer("river via pgdriver", riverDefault, riverViaPgdriver),
	} {
		c.contenders = append(c.contenders, d.contender(d.trial(b.arena, b.drainSlow, payload)))
	}
	return c
}
