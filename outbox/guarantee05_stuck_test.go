package outbox_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 5: a handler that ignores its context is not renewed for ever.

// stuckRelay returns a relay that soon finds handlers of foreignTopic stuck which
// do not return until the gate opens. Those of other topics have the time that a
// busy machine needs.
func (f *fixture) stuckRelay(mux *outbox.Mux, stuck func(context.Context, outbox.Delivery[order]) error) *outbox.Relay {
	outbox.Handle(mux, foreignTopic, stuck, outbox.Timeout(20*time.Millisecond))
	r := f.relay(mux)
	r.ShutdownTimeout = 300 * time.Millisecond
	return r
}

// sentBy waits until a relay, of which count counts, knows that it has recorded so
// many: a short ShutdownTimeout may be over before the answer is there.
func sentBy(t *testing.T, count func(name string) int, n int, what string) {
	t.Helper()
	eventually(t, func() bool { return count("sent") == n }, "%s", what)
}

// F47: a handler that ignores its context is renewed for ever.
func TestStuckHandlerIsRecordedCountedAndNamed(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, foreignTopic, []string{"stuck"})[0]
		begun, finish := make(chan struct{}, 10), make(gate)
		r := f.stuckRelay(handling(acknowledge), func(context.Context, outbox.Delivery[order]) error {
			begun <- struct{}{}
			finish.pass(t)
			return errors.New("too late to be told")
		})
		r.Concurrency, r.MaxAttempts, r.BaseBackoff = 3, 2, time.Hour
		var seen logs
		r.Logger = seen.logger()
		count := watched(r)
		stop := start(t, r)
		receive(t, begun, "the first attempt")
		eventually(t, func() bool { return f.get(t, id).Status == outbox.StatusPending }, "it is recorded as failed")
		m := f.get(t, id)
		require.Equal(t, 1, m.Attempts)
		require.Contains(t, m.LastError, "stuck")
		require.Equal(t, 1, count("stuck"))
		require.Equal(t, 1, seen.count("a handler is stuck"))

		f.makeDue(t)
		receive(t, begun, "the second attempt")
		eventually(t, func() bool { return f.get(t, id).Status == outbox.StatusFailed }, "it is parked at MaxAttempts")
		parked := f.row(t, id)
		require.Equal(t, 2, parked.Attempts)
		require.Contains(t, parked.LastError, "stuck")
		require.Equal(t, 2, count("stuck"))

		f.enqueue(t, plainTopic, numbers(20))
		sentBy(t, count, 20, "the other slot works on")

		err := stop()
		require.ErrorContains(t, err, "2 handlers ignored their context and still run")
		require.ErrorContains(t, err, foreignTopic.Name()+" "+id.String())
		finish.open()
		eventually(t, func() bool { return seen.count("a stuck handler has returned at last") == 2 }, "the handlers return")
		require.Equal(t, parked, f.row(t, id), "what they return changes nothing")
	})
}

func TestStuckHandlerKeepsItsSlot(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, foreignTopic, []string{"stuck"})[0]
		begun, finish := make(chan struct{}, 1), make(gate)
		var running, most atomic.Int64
		r := f.stuckRelay(handling(func(context.Context, outbox.Delivery[order]) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			f.get(t, id) // takes a while
			return nil
		}), func(context.Context, outbox.Delivery[order]) error {
			note(begun, struct{}{})
			finish.pass(t)
			return nil
		})
		r.Concurrency, r.MaxAttempts = 2, 1
		var seen logs
		r.Logger = seen.logger()
		count := watched(r)
		stop := start(t, r)
		receive(t, begun, "the delivery")
		eventually(t, func() bool { return f.get(t, id).Status == outbox.StatusFailed }, "it is recorded")
		parked := f.row(t, id)
		f.enqueue(t, plainTopic, numbers(40))
		sentBy(t, count, 40, "the others are sent")
		require.EqualValues(t, 1, most.Load(), "deliveries at once, beside the stuck one")
		finish.open()
		eventually(t, func() bool { return seen.count("a stuck handler has returned at last") == 1 }, "it returns")
		require.NoError(t, stop())
		require.Equal(t, parked, f.row(t, id), "what it returned changes nothing")
		require.Equal(t, 40, f.count(t, outbox.StatusSent))
		require.Zero(t, count("leases_lost"), "what it returned is not even tried")
	})
}

// Rows that wait behind stuck handlers must not be kept from other relays by
// leases that are renewed for ever.
func TestStuckRelayLeavesTheRestToOthers(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, foreignTopic, []string{"stuck"})
		ids := f.enqueue(t, plainTopic, numbers(5))
		begun, finish := make(chan struct{}, 1), make(gate)
		r := f.stuckRelay(handling(acknowledge), func(context.Context, outbox.Delivery[order]) error {
			note(begun, struct{}{})
			finish.pass(t)
			return nil
		})
		r.Concurrency, r.MaxAttempts = 1, 1
		count := watched(r)
		stop := start(t, r)
		receive(t, begun, "the delivery, behind which the others wait")
		eventually(t, func() bool { return f.count(t, outbox.StatusPending) == 5 }, "they are given back when it is stuck")
		for _, id := range ids {
			require.Zero(t, f.get(t, id).Attempts)
		}
		stopRival := start(t, f.relay(handling(acknowledge)))
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 5 }, "another relay delivers them")
		require.NoError(t, stopRival())

		f.enqueue(t, plainTopic, []string{"after"})
		finish.open()
		sentBy(t, count, 1, "the relay works again once the handler has returned")
		require.NoError(t, stop())
	})
}

func TestStuckDrainEndsWithAnError(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, foreignTopic, []string{"stuck", "other"})
		finish := make(gate)
		r := f.stuckRelay(outbox.NewMux(), func(context.Context, outbox.Delivery[order]) error {
			finish.pass(t)
			return nil
		})
		r.Concurrency, r.MaxAttempts = 1, 1
		r.ShutdownTimeout = 5 * time.Second // also for what is left to record
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := r.Drain(ctx)
		require.ErrorContains(t, err, "still run: "+foreignTopic.Name()+" "+ids[0].String())
		require.Equal(t, outbox.StatusFailed, f.get(t, ids[0]).Status)
		require.Equal(t, outbox.StatusPending, f.get(t, ids[1]).Status)
		require.Zero(t, f.get(t, ids[1]).Attempts)
		finish.open()
	})
}

// A lost lease does not make a handler that ignores its context return.
func TestStuckHandlerOfALostLeaseIsCountedToo(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"stuck"})[0]
		own := f.on(t)
		_, renew := own.holdRenewals(t)
		begun, finish := make(chan struct{}, 1), make(gate)
		r := own.deaf(handling(func(ctx context.Context, d outbox.Delivery[order]) error {
			note(begun, struct{}{})
			finish.pass(t)
			return nil
		}))
		r.Concurrency, r.DeliverTimeout, r.ShutdownTimeout, r.ClaimTimeout = 1, 6*time.Second, 100*time.Millisecond, 10*time.Second // time to lose the lease
		count := watched(r)
		stop := start(t, r)
		receive(t, begun, "the delivery")
		f.expireLeases(t)
		require.Equal(t, 1, drain(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))))
		sent := f.row(t, id)
		renew()
		eventually(t, func() bool { return count("stuck") == 1 }, "the handler is found stuck")
		require.Equal(t, sent, f.row(t, id))
		require.ErrorContains(t, stop(), id.String())
		finish.open()
	})
}
