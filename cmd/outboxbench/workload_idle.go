package main

import (
	"context"
	"time"
)

// idler is a subject that has nothing to do. It runs until ctx ends.
type idler struct {
	name string
	run  func(ctx context.Context, a *arena, handle func(order) error) error
}

// idleWorkload counts the statements of a relay that has nothing to do, once it
// has settled. The waits are those of its looks.
func (b *bench) idleWorkload() []contest {
	c := contest{name: "idle", unit: "statements", atMost: 1}
	for _, i := range []idler{
		{"outbox", consumeOutbox(hookedPgdriver)},
		{"outbox via pgx", consumeOutbox(hookedPgx)},
		{"river", consumeRiver(riverDefault)},
		{"river tuned", consumeRiver(riverTuned)},
		{"watermill", consumeWatermill(0)},
		{"watermill tuned", consumeWatermill(10 * time.Millisecond)},
	} {
		c.contenders = append(c.contenders, contender{name: i.name, workers: 1, trial: func(ctx context.Context) (sample, error) {
			return i.measure(ctx, b.arena, b.idle)
		}})
	}
	return []contest{c}
}

func (i idler) measure(ctx context.Context, a *arena, d time.Duration) (sample, error) {
	if err := a.prepare(ctx, table{}, 0, ""); err != nil {
		return sample{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- i.run(ctx, a, func(order) error { return nil }) }()
	if err := pause(ctx, d/4); err != nil {
		return sample{}, err
	}
	a.watch.take()
	before, begun := a.watch.statements(), time.Now()
	err := pause(ctx, d)
	s := sample{n: a.watch.statements() - before, elapsed: time.Since(begun), waits: a.watch.take()}
	stop()
	if endErr := <-ended; err == nil {
		err = endErr
	}
	return s, err
}
