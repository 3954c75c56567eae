package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
	"github.com/typedoutbox/typedoutbox/topics"
)

func testDelivery(t testing.TB, s *subject) {
	ids := s.enqueue(t, 3)
	relay := s.relay(func(_ context.Context, d outbox.Delivery[event]) error {
		equal(t, "Attempts of a first delivery", d.Message.Attempts, 1)
		switch d.Payload.N {
		case 1:
			return errors.New("try again, it's \\ busy\x00")
		case 2:
			return outbox.Permanent(errors.New("never"))
		}
		return nil
	})
	relay.Name = "relay's"
	equal(t, "the number of messages sent", s.drain(t, relay), 1)

	sent := s.get(t, ids[0])
	equal(t, "the status after a success", sent.Status, outbox.StatusSent)
	equal(t, "the time of recording", sent.SentAt, sent.UpdatedAt)
	equal(t, "ClaimedBy", sent.ClaimedBy, "relay's")
	retried := s.get(t, ids[1])
	equal(t, "the status after an error", retried.Status, outbox.StatusPending)
	equal(t, "the reason", retried.LastError, "try again, it's \\ busy�")
	if wait := retried.AvailableAt.Sub(retried.UpdatedAt); wait < 4*time.Second || wait > 6*time.Second {
		t.Fatalf("the backoff is %v, want about 5s", wait)
	}
	parked := s.get(t, ids[2])
	equal(t, "the status after a permanent error", parked.Status, outbox.StatusFailed)
	equal(t, "the number of messages sent by a second drain", s.drain(t, relay), 0)
}

func testFenced(t testing.TB, s *subject) {
	id := s.enqueue(t, 1)[0]
	relay := s.relay(func(context.Context, outbox.Delivery[event]) error {
		testutil.LoseLeases(t, s.db)
		return nil
	})
	equal(t, "the number of messages recorded under a lost lease", s.drain(t, relay), 0)
	m := s.get(t, id)
	equal(t, "the status", m.Status, outbox.StatusClaimed)
	equal(t, "ClaimedBy", m.ClaimedBy, "another relay")
}

func testLeases(t testing.TB, s *subject) {
	const lease = 2 * time.Second // long beside the pauses of a busy machine
	s.enqueue(t, 1)
	other := s.relay(func(context.Context, outbox.Delivery[event]) error {
		t.Error("another relay delivers under a lease that should have been renewed")
		return nil
	})
	relay := s.relay(func(ctx context.Context, _ outbox.Delivery[event]) error {
		for over := time.After(2 * lease); ; {
			select {
			case <-over:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			default:
				s.drain(t, other)
			}
		}
	})
	relay.ClaimTimeout = lease
	equal(t, "the number of messages sent", s.drain(t, relay), 1)
}

func testCrash(t testing.TB, s *subject) {
	ids := s.enqueue(t, 3)
	var seen []int
	relay := s.relay(func(_ context.Context, d outbox.Delivery[event]) error {
		seen = append(seen, d.Payload.N)
		return nil
	})
	relay.Concurrency = 1
	equal(t, "the number of messages sent", s.drain(t, relay), 3)
	testutil.LoseOutcomes(t, s.db)
	equal(t, "the number of messages sent again", s.drain(t, relay), 3)
	equal(t, "the deliveries", fmt.Sprint(seen), "[0 1 2 0 1 2]")
	equal(t, "Attempts", s.get(t, ids[0]).Attempts, 2)
}

func testTogether(t testing.TB, s *subject) {
	const messages, relays = 120, 3
	vs := make([]event, messages)
	for i := range vs {
		vs[i].N = i
	}
	must(t, s.db.RunInTx(s.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_, err := outbox.EnqueueAll(ctx, tx, topic, vs)
		return err
	}))
	var mu sync.Mutex
	var seen []int
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	errs := make(chan error)
	for range relays {
		relay := s.relay(func(_ context.Context, d outbox.Delivery[event]) error {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, d.Payload.N)
			return nil
		})
		relay.Batch = 5
		go func() {
			_, err := relay.Drain(ctx)
			errs <- err
		}()
	}
	for range relays {
		must(t, <-errs)
	}
	equal(t, "the number of deliveries", len(seen), messages)
	slices.Sort(seen)
	equal(t, "the number of messages delivered", len(slices.Compact(seen)), messages)
}

func testOrder(t testing.TB, s *subject) {
	s.enqueue(t, 12, outbox.OrderKey("k"))
	s.enqueue(t, 1)
	var seen []int
	failed := false
	relay := s.relay(func(_ context.Context, d outbox.Delivery[event]) error {
		seen = append(seen, d.Payload.N)
		if d.Payload.N == 2 && !failed {
			failed = true
			return errors.New("not yet")
		}
		return nil
	})
	relay.Concurrency = 1
	relay.BaseBackoff, relay.MaxBackoff = time.Hour, time.Hour
	equal(t, "the number of messages sent while one fails", s.drain(t, relay), 3)
	testutil.Advance(t, s.db, 2*time.Hour)
	equal(t, "the number of messages sent after that", s.drain(t, relay), 10)
	keyed := slices.DeleteFunc(slices.Clone(seen), func(n int) bool { return n == 0 })
	equal(t, "the order", fmt.Sprint(keyed), "[1 2 2 3 4 5 6 7 8 9 10 11]")
}

func testLeft(t testing.TB, s *subject) {
	newer := topics.New("storetest", &topics.Options[event]{Version: 2})
	other := topics.New[event]("storetest.other", nil)
	must(t, s.db.RunInTx(s.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		return errors.Join(outbox.Enqueue(ctx, tx, newer, event{}), outbox.Enqueue(ctx, tx, other, event{}))
	}))
	relay := s.relay(func(context.Context, outbox.Delivery[event]) error {
		t.Error("a relay delivers what it has no handler for")
		return nil
	})
	equal(t, "the number of messages sent", s.drain(t, relay), 0)
	left, err := relay.Unhandled(s.ctx)
	must(t, err)
	equal(t, "the number of topics left", len(left), 2)
	equal(t, "a topic left", left[1].Topic, "storetest.other")
	equal(t, "its number of messages", left[1].Count, 1)
}

func testUnlocked(t testing.TB, s *subject) {
	s.enqueue(t, 2)
	relay := s.relay(func(ctx context.Context, d outbox.Delivery[event]) error {
		return s.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			// The row is nobody's business while it is delivered, but it is not
			// locked either.
			_, err := tx.ExecContext(ctx, "UPDATE outbox_messages SET headers = '{}' WHERE id = ?", d.Message.ID.String())
			return err
		})
	})
	relay.DeliverTimeout = patience / 2
	equal(t, "the number of messages sent by a handler that writes", s.drain(t, relay), 2)
}

func testOperations(t testing.TB, s *subject) {
	s.enqueue(t, 4)
	relay := s.relay(func(_ context.Context, d outbox.Delivery[event]) error {
		if d.Payload.N < 2 {
			return outbox.Permanent(fmt.Errorf("100%% _ of %d", d.Payload.N))
		}
		return nil
	})
	s.drain(t, relay)
	failed := outbox.Filter{Status: []outbox.Status{outbox.StatusFailed}, ErrorContains: "0% _ of"}
	list, err := s.store.List(s.ctx, failed)
	must(t, err)
	equal(t, "the number of parked messages listed", len(list), 2)
	n, err := s.store.Retry(s.ctx, outbox.Filter{IDs: []outbox.ID{list[0].ID}})
	must(t, err)
	equal(t, "the number of messages retried", n, 1)
	n, err = s.store.Discard(s.ctx, failed, "given up")
	must(t, err)
	equal(t, "the number of messages discarded", n, 1)
	stats, err := s.store.Stats(s.ctx)
	must(t, err)
	for status, want := range map[outbox.Status]int{outbox.StatusPending: 1, outbox.StatusSent: 2, outbox.StatusDiscarded: 1} {
		equal(t, fmt.Sprintf("the number of %s messages", status), stats.Count(status), want)
	}
	testutil.Advance(t, s.db, 48*time.Hour)
	n, err = s.store.Sweep(s.ctx, 24*time.Hour)
	must(t, err)
	equal(t, "the number of messages swept", n, 3)
	equal(t, "the number of messages left", s.count(t, "outbox_messages"), 1)
}
