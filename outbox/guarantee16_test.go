package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 16: Drain ends at the first look that finds nothing due.

func TestDrainEndsAtTheFirstEmptyLook(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		seen := &queryLog{}
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		r.DB, r.Interval, r.Batch = f.db.WithQueryHook(seen), time.Hour, 4
		require.Zero(t, drain(t, r))
		require.Equal(t, 1, seen.looks(), "an empty table is looked at once")
		f.enqueue(t, plainTopic, numbers(10))
		f.enqueue(t, plainTopic, []string{"later"}, outbox.After(time.Hour))
		require.Equal(t, 10, drain(t, r), "several batches")
		require.Equal(t, 1, f.count(t, outbox.StatusPending))
		require.Zero(t, drain(t, r))
	})
}

func TestDrainDeliversWhatItsHandlersEnqueue(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, []string{"0"})
		r := f.relay(nil)
		r.Mux = handling(func(ctx context.Context, d outbox.Delivery[order]) error {
			if len(d.Payload.ID) == 6 {
				return nil
			}
			return f.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, plainTopic, order{ID: d.Payload.ID + "0"})
			})
		})
		require.Equal(t, 6, drain(t, r))
	})
}

func TestDrainCountsWhatItRecordedAsSent(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, []string{"good", "bad", "worse", "panics", "fine"})
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			switch d.Payload.ID {
			case "bad":
				return errors.New("not now")
			case "worse":
				return outbox.Permanent(errors.New("never"))
			case "panics":
				panic("out of range")
			}
			return nil
		}))
		require.Equal(t, 2, drain(t, r), "a failed delivery is no error")
		require.Equal(t, 2, f.count(t, outbox.StatusPending))
		require.Equal(t, 1, f.count(t, outbox.StatusFailed))
	})
}

func TestRelayRunsOnceAtATime(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		begun, held := make(chan struct{}, 1), make(chan struct{}, 1)
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			begun <- struct{}{}
			<-held
			return nil
		}))
		for _, c := range []struct {
			name string
			run  func(ctx context.Context) error
		}{
			{"Start", r.Start},
			{"Drain", func(ctx context.Context) error {
				_, err := r.Drain(ctx)
				return err
			}},
		} {
			f.enqueue(t, plainTopic, []string{c.name})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.run(ctx) }()
			receive(t, begun, "a delivery")
			const running = "this Relay is running already"
			require.ErrorContains(t, r.Start(t.Context()), running, "Start during %s", c.name)
			n, err := r.Drain(t.Context())
			require.ErrorContains(t, err, running, "Drain during %s", c.name)
			require.Zero(t, n)
			require.Empty(t, ended, "the first goes on")
			held <- struct{}{}
			if c.name == "Start" {
				eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "it is recorded")
				cancel()
			}
			require.NoError(t, receive(t, ended, c.name))
			cancel()
			require.Zero(t, drain(t, r), "it may run again")
		}
	})
}

func TestDrainEndsWithItsContext(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, numbers(30))
		begun, held := make(chan struct{}, 30), make(chan struct{})
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			begun <- struct{}{}
			<-held
			return nil
		}))
		r.Concurrency = 2
		ctx, cancel := context.WithCancel(t.Context())
		type result struct {
			n   int
			err error
		}
		ended := make(chan result, 1)
		go func() {
			n, err := r.Drain(ctx)
			ended <- result{n, err}
		}()
		receive(t, begun, "a delivery")
		receive(t, begun, "a delivery")
		cancel()
		eventually(t, func() bool { return f.count(t, outbox.StatusPending) == 28 }, "the rest is released")
		close(held)
		got := receive(t, ended, "the end of Drain")
		require.ErrorIs(t, got.err, context.Canceled)
		require.Equal(t, 2, got.n, "what was under way is recorded")

		n, err := r.Drain(ctx)
		require.ErrorIs(t, err, context.Canceled, "a context that has ended")
		require.Zero(t, n)
		expired, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
		defer cancel()
		_, err = r.Drain(expired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 28, f.queryInt(t, "SELECT count(*) FROM outbox_messages WHERE status = 'pending' AND attempts = 0"))
	})
}

func TestDrainReturnsDatabaseErrors(t *testing.T) {
	broken := errors.New("the disk is on fire")
	for _, c := range []struct {
		name  string
		fails func(query string) bool
	}{
		{"before the first look", func(string) bool { return true }},
		{"of a look", isClaimLook},
		{"of a settlement", isSettle},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				f.mayStayClaimed = true
				f.enqueue(t, plainTopic, []string{"a"})
				f.faults.onBefore(func(query string) error {
					if c.fails(query) {
						return broken
					}
					return nil
				})
				r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
				r.ShutdownTimeout = 100 * time.Millisecond
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				n, err := r.Drain(ctx)
				require.ErrorIs(t, err, broken)
				require.NoError(t, ctx.Err(), "it did not wait for its context")
				require.Zero(t, n)
			})
		})
	}
}

func TestDrainRecordsWhatItCanAfterAnError(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, []string{"a"})
		var once atomic.Bool
		f.faults.onBefore(func(query string) error {
			if isSettle(query) && once.CompareAndSwap(false, true) {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		n, err := r.Drain(t.Context())
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, 1, n, "it records what it can all the same")
		require.Equal(t, 1, f.count(t, outbox.StatusSent))
	})
}

func TestDrainFollowsOrderKeysToTheirEnd(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		// Two chains that cross topics, in one transaction each.
		for _, chain := range []string{"x", "y"} {
			f.tx(t, func(ctx context.Context, tx bun.Tx) error {
				for i := range 8 {
					topic := plainTopic
					if i%2 == 1 {
						topic = foreignTopic
					}
					if err := outbox.Enqueue(ctx, tx, topic, order{ID: fmt.Sprint(chain, i)}, outbox.OrderKey(chain)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		var mu sync.Mutex
		got := map[string][]string{}
		handler := func(_ context.Context, d outbox.Delivery[order]) error {
			if d.Payload.ID == "y3" && d.Message.Attempts == 1 {
				return errors.New("not now")
			}
			mu.Lock()
			defer mu.Unlock()
			got[d.Message.OrderKey] = append(got[d.Message.OrderKey], d.Payload.ID)
			return nil
		}
		r := f.relay(handling(handler))
		r.BaseBackoff = time.Hour
		outbox.Handle(r.Mux, foreignTopic, handler)
		require.Equal(t, 8+3, drain(t, r), "a failed row holds its own chain up")
		require.Equal(t, []string{"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7"}, got["x"])
		require.Equal(t, []string{"y0", "y1", "y2"}, got["y"])
		f.makeDue(t)
		require.Equal(t, 5, drain(t, r))
		require.Equal(t, []string{"y0", "y1", "y2", "y3", "y4", "y5", "y6", "y7"}, got["y"])
	})
}

func TestDrainLeavesLockedRows(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(6))
		unlock := f.lockRows(t, fmt.Sprintf("id IN ('%s', '%s')", ids[0], ids[3]))
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		require.Equal(t, 4, drain(t, r))
		require.Equal(t, 2, f.count(t, outbox.StatusPending))
		unlock()
		require.Equal(t, 2, drain(t, r))
	})
}

// F04: however many rows in front somebody else holds, those behind are taken.
func TestDrainReachesBehindLockedRows(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(21))
		unlock := f.lockRows(t, fmt.Sprintf("id <> '%s'", ids[20]))
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		r.Batch = 3
		require.Equal(t, 1, drain(t, r))
		require.Equal(t, outbox.StatusSent, f.get(t, ids[20]).Status)
		unlock()
		require.Equal(t, 20, drain(t, r))
	})
}

func TestDrainWaitsForARowThatIsLockedAtTheEnd(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(3))
		begun, held := make(chan struct{}, 3), make(chan struct{})
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			begun <- struct{}{}
			<-held
			return nil
		}))
		sent := make(chan int, 1)
		go func() {
			n, _ := r.Drain(t.Context())
			sent <- n
		}()
		for range ids {
			receive(t, begun, "a delivery")
		}
		unlock := f.lockRows(t, "id = '"+ids[1].String()+"'")
		close(held)
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 2 }, "the others are recorded")
		require.Empty(t, sent)
		unlock()
		require.Equal(t, 3, receive(t, sent, "the end of Drain"))
	})
}
