package outbox_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Guarantee 6: a row whose lease expired is a suspect.

func TestSuspectsAreDeliveredAloneAndOldestFirst(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		suspects := f.enqueue(t, plainTopic, numbers(5))
		oldest := []outbox.ID{suspects[3], suspects[0], suspects[4], suspects[1], suspects[2]}
		f.abandon(t, 1, oldest...)
		healthy := f.enqueue(t, plainTopic, numbers(20))

		var mu sync.Mutex
		inFlight := 0
		begun, next := make(chan outbox.ID, 10), make(chan struct{})
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			if d.Message.Attempts == 1 {
				return nil
			}
			mu.Lock()
			inFlight++
			require.Equal(t, 1, inFlight, "suspects in flight")
			mu.Unlock()
			begun <- d.Message.ID
			<-next
			mu.Lock()
			defer mu.Unlock()
			inFlight--
			return nil
		}))
		r.Concurrency = 5
		stop := start(t, r)
		require.Equal(t, oldest[0], receive(t, begun, "the first suspect"))
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == len(healthy) }, "the healthy rows are sent while a suspect's handler blocks")
		for _, id := range f.enqueue(t, plainTopic, []string{"later"}) {
			eventually(t, func() bool { return f.get(t, id).Status == outbox.StatusSent }, "later ones, too")
		}
		require.Empty(t, begun)
		require.Equal(t, 5, f.count(t, outbox.StatusClaimed), "the other suspects are untouched")
		for _, want := range oldest[1:] {
			require.Equal(t, 1, f.get(t, want).Attempts)
			next <- struct{}{}
			require.Equal(t, want, receive(t, begun, "the next suspect"))
		}
		next <- struct{}{}
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 26 }, "all are sent")
		require.NoError(t, stop())
		for _, id := range suspects {
			require.Equal(t, 2, f.get(t, id).Attempts)
		}
	})
}

func TestSuspectsAreOneInFlightForEachRelay(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.abandon(t, 1, f.enqueue(t, plainTopic, numbers(4))...)
		begun, finish := make(chan outbox.ID, 10), make(gate)
		handler := func(_ context.Context, d outbox.Delivery[order]) error {
			begun <- d.Message.ID
			finish.pass(t)
			return nil
		}
		stop1, stop2 := start(t, f.relay(handling(handler))), start(t, f.relay(handling(handler)))
		require.NotEqual(t, receive(t, begun, "a suspect"), receive(t, begun, "another, of the other relay"))
		f.enqueue(t, plainTopic, []string{"healthy"})
		receive(t, begun, "a healthy row, and so another look")
		require.Empty(t, begun)
		require.Equal(t, 5, f.count(t, outbox.StatusClaimed))
		finish.open()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 5 }, "all are sent")
		require.NoError(t, stop1())
		require.NoError(t, stop2())
	})
}

func TestSuspectsWithoutAttemptsLeftAreParkedUndelivered(t *testing.T) {
	fewTopic, otherTopic := topics.New[order]("few.attempts", nil), topics.New[order]("not.handled", nil)
	for _, c := range []struct {
		name string
		raw  bool
	}{{"Mux", false}, {"Deliver", true}} {
		t.Run(c.name, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				plain := f.enqueue(t, plainTopic, numbers(3))
				few := f.enqueue(t, fewTopic, numbers(2))
				other := f.enqueue(t, otherTopic, numbers(1))
				f.abandon(t, 4, plain[0], other[0])
				f.abandon(t, 3, plain[1])
				f.abandon(t, 2, few[0])
				f.abandon(t, 1, few[1])
				f.exec(t, "UPDATE outbox_messages SET last_error = 'an earlier one' WHERE id = ?", few[0])
				f.mayStayClaimed = true // the row of the topic that is not handled

				var mu sync.Mutex
				calls := map[outbox.ID]int{}
				deliver := func(_ context.Context, m outbox.Message) error {
					mu.Lock()
					defer mu.Unlock()
					calls[m.ID] = m.Attempts
					return nil
				}
				typed := func(ctx context.Context, d outbox.Delivery[order]) error { return deliver(ctx, d.Message) }
				r := f.relay(nil)
				r.MaxAttempts = 4
				want := map[outbox.ID]int{plain[1]: 4, plain[2]: 1, few[1]: 2}
				if c.raw {
					r.Deliver = deliver
					r.TopicPrefix = "orders"
					delete(want, few[1])
				} else {
					r.Mux = handling(typed)
					outbox.Handle(r.Mux, fewTopic, typed, outbox.MaxAttempts(2))
				}
				var seen logs
				r.Logger = seen.logger()
				count := watched(r)
				require.Equal(t, len(want), drain(t, r))
				require.Equal(t, want, calls, "deliveries and their attempts")

				parked := []outbox.ID{plain[0]}
				if !c.raw {
					parked = append(parked, few[0])
				}
				for _, id := range parked {
					m := f.get(t, id)
					require.Equal(t, outbox.StatusFailed, m.Status)
					require.Equal(t, "lease expired on the last attempt", m.LastError)
					if id == plain[0] {
						require.Equal(t, 4, m.Attempts)
					} else {
						require.Equal(t, 2, m.Attempts)
					}
				}
				require.Equal(t, len(parked), count("parked"))
				require.Equal(t, len(parked), seen.count("level=ERROR"))
				m := f.get(t, other[0])
				require.Equal(t, outbox.StatusClaimed, m.Status, "a relay without its topic leaves a suspect alone")
				require.Equal(t, "the dead", m.ClaimedBy)
			})
		})
	}
}

func TestSuspectsStaySuspectsWhenReleased(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		f.abandon(t, 3, id)
		before := f.get(t, id)
		begun := make(chan struct{}, 1)
		r := f.deaf(handling(func(ctx context.Context, _ outbox.Delivery[order]) error {
			note(begun, struct{}{})
			<-ctx.Done()
			return ctx.Err()
		}))
		r.ShutdownTimeout = 5 * time.Second // also for what is left to record
		stop := start(t, r)
		receive(t, begun, "its delivery")
		require.Equal(t, 4, f.get(t, id).Attempts)
		require.NoError(t, stop())
		m := f.get(t, id)
		require.Equal(t, outbox.StatusClaimed, m.Status)
		require.Equal(t, 3, m.Attempts)
		require.Equal(t, before.AvailableAt, m.AvailableAt)

		last := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		last.MaxAttempts = 3
		require.Zero(t, drain(t, last), "it is judged as a suspect, by its attempts")
		require.Equal(t, outbox.StatusFailed, f.get(t, id).Status)
	})
}

// A renewal that was on its way when a suspect was released must not give it a
// lease that nobody holds.
func TestSuspectsStaySuspectsWhenARenewalCrossesTheirRelease(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayStayClaimed = true
		own := f.on(t)
		begun, finish := make(chan struct{}, 1), make(gate)
		r := own.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			note(begun, struct{}{})
			finish.pass(t)
			return nil
		}))
		r.Concurrency, r.ClaimTimeout = 1, 4*time.Second
		count := watched(r)
		busy := f.enqueue(t, plainTopic, []string{"busy"})[0]
		stop := start(t, r)
		receive(t, begun, "a delivery, behind which the suspect waits")
		id := f.enqueue(t, plainTopic, []string{"suspect"}, outbox.After(time.Hour))[0]
		renewing, renewed := make(chan struct{}, 1), make(gate)
		renew := sync.OnceFunc(renewed.open)
		t.Cleanup(renew)
		own.faults.onBefore(func(query string) error {
			if isRenew(query) && strings.Contains(query, id.String()) {
				note(renewing, struct{}{})
				renewed.pass(t)
			}
			return nil
		})
		f.exec(t, "UPDATE outbox_messages SET topic = 'hidden' WHERE id = ?", id)
		f.abandon(t, 3, id)
		before := f.get(t, id)
		f.exec(t, "UPDATE outbox_messages SET topic = ? WHERE id = ?", plainTopic.Name(), id)
		receive(t, renewing, "a renewal of both")
		require.Equal(t, 4, f.get(t, id).Attempts)
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		eventually(t, func() bool { return f.get(t, id).Attempts == 3 }, "it is released")
		lease := f.get(t, busy).AvailableAt
		renew()
		eventually(t, func() bool { return f.get(t, busy).AvailableAt.After(lease) }, "the renewal is through")
		finish.open()
		require.NoError(t, receive(t, stopped, "the end of the relay"))
		m := f.get(t, id)
		require.Equal(t, outbox.StatusClaimed, m.Status)
		require.Equal(t, before.AvailableAt, m.AvailableAt)
		require.Zero(t, count("leases_lost"))
	})
}

// Rows whose lease has expired during an outage may well be in good hands.
func TestSuspectsWaitUntilRenewalsAreThroughAfterAnOutage(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, []string{"busy", "suspect"})
		f.exec(t, "UPDATE outbox_messages SET topic = 'hidden' WHERE id = ?", ids[1])
		own := f.on(t)
		begun, finish := make(chan struct{}, 1), make(gate)
		suspectAt := make(chan time.Time, 1)
		r := own.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			switch d.Payload.ID {
			case "busy":
				note(begun, struct{}{})
				finish.pass(t)
			case "suspect":
				suspectAt <- time.Now()
			}
			return nil
		}))
		r.ClaimTimeout = 1500 * time.Millisecond
		stop := start(t, r)
		receive(t, begun, "the busy delivery")

		// Everything fails. No look that began before is under way once one has
		// failed.
		var claimsFailed atomic.Int64
		own.faults.onBefore(func(query string) error {
			if query == "BEGIN" || strings.HasPrefix(query, "SET ") && !strings.Contains(query, "outbox_messages") {
				return nil
			}
			if isLook(query) {
				claimsFailed.Add(1)
			}
			return io.ErrUnexpectedEOF
		})
		eventually(t, func() bool { return claimsFailed.Load() >= 2 }, "claims fail")
		f.exec(t, "UPDATE outbox_messages SET topic = ? WHERE id = ?", plainTopic.Name(), ids[1])
		f.abandon(t, 1, ids[1])

		// All but renewals work again.
		var refused atomic.Int64
		own.faults.onBefore(func(query string) error {
			if isRenew(query) {
				refused.Add(1)
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		f.enqueue(t, plainTopic, numbers(3))
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 3 }, "healthy rows are sent")
		eventually(t, func() bool { return refused.Load() >= 2 }, "renewals fail")
		require.Empty(t, suspectAt, "the suspect waits")

		var mu sync.Mutex
		var renewed time.Time
		own.faults.onAfter(func(query string) error {
			mu.Lock()
			defer mu.Unlock()
			if isRenew(query) && renewed.IsZero() {
				renewed = time.Now()
			}
			return nil
		})
		own.faults.onBefore(nil)
		taken := receive(t, suspectAt, "the suspect's delivery")
		mu.Lock()
		require.False(t, renewed.IsZero())
		require.GreaterOrEqual(t, taken.Sub(renewed), r.ClaimTimeout/2)
		mu.Unlock()
		finish.open()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 5 }, "all are sent")
		require.NoError(t, stop())
	})
}

// A sweep that always fails, for want of the privilege, is no outage that keeps
// suspects waiting for ever.
func TestSuspectsDoNotWaitForSweeps(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		own := f.on(t)
		var swept, claims atomic.Int64
		own.faults.onBefore(func(query string) error {
			switch {
			case isDelete(query):
				swept.Add(1)
				return io.ErrUnexpectedEOF
			case swept.Load() > 0 && claims.Load() == 0 && isLook(query):
				claims.Add(1)
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		r := own.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		r.Retention, r.ClaimTimeout = 10*time.Second, time.Second
		stop := start(t, r)
		eventually(t, func() bool { return claims.Load() == 1 }, "a sweep and a claim have failed")
		f.abandon(t, 1, f.enqueue(t, plainTopic, []string{"a"}, outbox.After(time.Hour))...) // which it takes only as a suspect
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "the suspect is taken")
		require.NoError(t, stop())
	})
}
