package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

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

// stopwatch is a bun.QueryHook that takes the time of the claims of a *bun.DB,
// ours and those by hand: until the first row is back, and so to the end of an
// empty one. The search for rows is before that, and it is what grows.
type stopwatch struct {
	mu     sync.Mutex
	claims []time.Duration
	others int // statements, also without BEGIN, COMMIT and ROLLBACK
}

// BeforeQuery implements bun.QueryHook.
func (w *stopwatch) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

// AfterQuery implements bun.QueryHook.
func (w *stopwatch) AfterQuery(_ context.Context, event *bun.QueryEvent) {
	took := time.Since(event.StartTime)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case strings.Contains(event.Query, "SET status = 'claimed'"):
		w.claims = append(w.claims, took)
	case event.Query != "BEGIN" && event.Query != "COMMIT" && event.Query != "ROLLBACK":
		w.others++
	}
}

// take returns what there is and begins anew.
func (w *stopwatch) take() (claims []time.Duration, others int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	claims, others = w.claims, w.others
	w.claims, w.others = nil, 0
	return claims, others
}

// seen is how many claims there were.
func (w *stopwatch) seen() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.claims)
}

// statements is how many statements there were, claims included.
func (w *stopwatch) statements() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.claims) + w.others
}
