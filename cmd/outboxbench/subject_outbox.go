package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/uptrace/bun"
	"golang.org/x/sync/errgroup"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// newRelay is a relay of this library with default settings, but for batch
// unless that is 0.
func newRelay(db *bun.DB, batch int, handle func(order) error) *outbox.Relay {
	mux := outbox.NewMux()
	outbox.Handle(mux, orderTopic, func(_ context.Context, d outbox.Delivery[order]) error { return handle(d.Payload) })
	return &outbox.Relay{DB: db, Mux: mux, Batch: batch, Logger: slog.New(slog.DiscardHandler)}
}

// drainOutbox lets relays deliver until none of them finds anything due.
func drainOutbox(ctx context.Context, db *bun.DB, relays, batch, want int, t *tally) error {
	group, ctx := errgroup.WithContext(ctx)
	sent := make([]int, relays)
	for i := range relays {
		group.Go(func() (err error) {
			sent[i], err = newRelay(db, batch, t.handle).Drain(ctx)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	total := 0
	for _, n := range sent {
		total += n
	}
	if total != want {
		return fmt.Errorf("relays recorded %d rows as sent, not %d", total, want)
	}
	return nil
}
