package testutil

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
)

const (
	maxPatience = 10 * time.Second // for anything that a test waits for
	maxCascade  = 10_000           // messages that the handlers of one drain enqueue
	lookEvery   = 50 * time.Millisecond

	// stopGrace is how long a relay may take to stop that has been given up.
	stopGrace = 2 * time.Second
)

// patience is how long t may wait for something, with time left to say that it
// has not come.
func patience(t testing.TB) time.Duration {
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := d.Deadline(); ok {
			return max(min(maxPatience, time.Until(deadline)-stopGrace-time.Second), 100*time.Millisecond)
		}
	}
	return maxPatience
}

var errCascade = fmt.Errorf("its handlers have enqueued more than %d messages", maxCascade)

// settle drains relays until none of them finds anything to do, since what the
// handlers of one enqueue may be for another. It fails t if that does not come to
// an end.
func settle(t testing.TB, before map[*bun.DB]snapshot, relays ...*outbox.Relay) {
	t.Helper()
	limit := patience(t)
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	defer cancel(nil)
	late := time.AfterFunc(limit, func() { cancel(fmt.Errorf("it is not done after %v", limit)) })
	defer late.Stop()
	done := make(chan error, 1)
	go func() { done <- drainAll(ctx, relays) }()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("the relay cannot drain: %v", explainLocked(t, relays[0].DB, err))
			}
			return
		case <-tick.C:
			if growth(ctx, before) > maxCascade {
				cancel(errCascade)
			}
		case <-ctx.Done():
			says := unsettled(t, before, context.Cause(ctx)) // before handlers hear of it
			select {
			case <-done:
			case <-time.After(stopGrace):
			}
			t.Fatal(says)
		}
	}
}

// drainAll goes round until nothing is delivered or enqueued in a round: a
// handler that fails may have enqueued for another relay, too.
func drainAll(ctx context.Context, relays []*outbox.Relay) error {
	for before := ""; ; {
		after := ""
		for _, r := range relays {
			if err := drainQuietly(ctx, r); err != nil {
				return err
			}
		}
		if len(relays) == 1 {
			return nil
		}
		for _, group := range byDatabase(relays) {
			var rows, sent, attempts int
			err := group[0].DB.NewRaw("SELECT count(*), coalesce(sum(CASE WHEN status = 'sent' THEN 1 ELSE 0 END), 0), "+
				"coalesce(sum(attempts), 0) FROM outbox_messages").Scan(ctx, &rows, &sent, &attempts)
			if err != nil {
				return err
			}
			after += fmt.Sprintln(rows, sent, attempts)
		}
		if after == before {
			return nil
		}
		before = after
	}
}

// drainQuietly drains r, without a word unless it has a Logger of its own: what
// it would log are the outcomes, which the test sees anyway.
func drainQuietly(ctx context.Context, r *outbox.Relay) error {
	if r.Logger == nil { // a Relay must not be copied
		r.Logger = slog.New(slog.DiscardHandler)
		defer func() { r.Logger = nil }()
	}
	_, err := r.Drain(ctx)
	return err
}

// growth is how many messages have been enqueued since before.
func growth(ctx context.Context, before map[*bun.DB]snapshot) int {
	grown := 0
	for db, old := range before {
		count, err := db.NewSelect().Table("outbox_messages").Count(ctx)
		if err == nil { // else the drain meets the error itself
			grown += int(count) - len(old)
		}
	}
	return grown
}

// unsettled says what keeps a drain from coming to an end.
func unsettled(t testing.TB, before map[*bun.DB]snapshot, cause error) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "the drain does not settle: %v", cause)
	enqueued, open := map[string]int{}, map[string]int{}
	var running []string
	for db, old := range before {
		for id, m := range takeSnapshot(t, db) {
			if _, existed := old[id]; !existed {
				enqueued[m.Topic]++
			}
			switch m.Status {
			case outbox.StatusPending:
				open[m.Topic]++
			case outbox.StatusClaimed:
				running = append(running, "a handler has not returned, or its outcome cannot be recorded: "+describe(m))
			}
		}
	}
	if !errors.Is(cause, errCascade) {
		slices.Sort(running)
		writeLines(&b, "\n  ", running)
	}
	for _, topic := range slices.Sorted(maps.Keys(enqueued)) {
		fmt.Fprintf(&b, "\n  topic %q: %d enqueued meanwhile, %d to be delivered", topic, enqueued[topic], open[topic])
	}
	return b.String()
}
