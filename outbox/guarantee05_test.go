package outbox_test

import (
	"context"
	"database/sql"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 5: leases are short and renewed.

// outlived reports whether each lease has been prolonged beyond d after its
// claim.
func (f *fixture) outlived(t *testing.T, d time.Duration, ids ...outbox.ID) bool {
	t.Helper()
	for _, lease := range f.leases(t, ids) {
		if lease < d {
			return false
		}
	}
	return true
}

// F36: the heartbeat starves behind busy workers, or stops before draining ends.
// A lease that is not renewed ends within 6 s, and somebody else waits for it.
func TestLeasesAreRenewedWhileAllWorkersAreBusy(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(4))
		begun, finish := make(chan outbox.ID, 10), make(gate)
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			begun <- d.Message.ID
			finish.pass(t)
			return nil
		}))
		r.ClaimTimeout, r.Concurrency = 6*time.Second, 2 // a lease that a busy machine does not miss
		count := watched(r)
		stop := start(t, r)
		receive(t, begun, "a delivery")
		receive(t, begun, "another, and all workers are busy")

		var stolen atomic.Int64
		rival := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			stolen.Add(1)
			return nil
		}))
		stopRival := start(t, rival)
		eventually(t, func() bool { return f.outlived(t, r.ClaimTimeout+atScale(6*time.Second, 10*time.Second), ids...) }, "all leases, of running and of waiting rows, are renewed past their end")
		require.Empty(t, begun, "the others still wait")
		finish.open()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == len(ids) }, "all are sent")
		require.NoError(t, stop())
		require.NoError(t, stopRival())
		require.Zero(t, stolen.Load())
		require.Len(t, begun, len(ids)-2, "each was delivered once")
		require.Zero(t, count("leases_lost"))
		for _, id := range ids {
			require.Equal(t, 1, f.get(t, id).Attempts)
		}
	})
}

func TestLeasesAreRenewedWhileAShutdownWaits(t *testing.T) {
	onEveryClock(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, []string{"a"})
		begun, finish := make(chan struct{}, 1), make(gate)
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			note(begun, struct{}{})
			finish.pass(t)
			return nil
		}))
		r.ClaimTimeout = 600 * time.Millisecond
		count := watched(r)
		stop := start(t, r)
		receive(t, begun, "the delivery")
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		eventually(t, func() bool { return f.outlived(t, 3*r.ClaimTimeout, ids...) }, "the lease is renewed during the shutdown")
		finish.open()
		require.NoError(t, receive(t, stopped, "the end of the relay"))
		require.Equal(t, outbox.StatusSent, f.get(t, ids[0]).Status)
		require.Zero(t, count("leases_lost"))
	})
}

func TestLeasesAreRenewedWhileRecordingFails(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, []string{"a"})
		own := f.on(t)
		var calls atomic.Int64
		own.faults.onBefore(func(query string) error {
			if isSettle(query) && calls.Load() > 0 { // before, it may release what it has claimed too late
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		r := own.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			calls.Add(1)
			return nil
		}))
		r.ClaimTimeout = 600 * time.Millisecond
		stop := start(t, r)
		eventually(t, func() bool { return calls.Load() == 1 }, "the delivery")
		eventually(t, func() bool { return f.outlived(t, 3*r.ClaimTimeout, ids...) }, "the lease is renewed until the outcome is recorded")
		own.faults.clear()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "the outcome is recorded")
		require.NoError(t, stop())
		require.EqualValues(t, 1, calls.Load())
	})
}

func TestLeasesAreRenewedWhenThePoolIsExhausted(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, []string{"a"})
		own := f.on(t)
		own.db.SetMaxOpenConns(3)
		begun, finish := make(chan struct{}, 1), make(gate)
		r := own.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			note(begun, struct{}{})
			finish.pass(t)
			return nil
		}))
		r.ClaimTimeout = 8 * time.Second // a lease that a busy machine does not miss
		count := watched(r)
		stop := start(t, r)
		receive(t, begun, "the delivery")
		eventually(t, func() bool { return f.outlived(t, r.ClaimTimeout+time.Millisecond, ids...) }, "a first renewal")

		var held []*sql.Conn
		for range 2 {
			conn, err := own.db.DB.Conn(context.Background())
			require.NoError(t, err)
			held = append(held, conn)
		}
		require.Equal(t, 3, own.db.Stats().InUse, "the application holds every other connection")
		from := f.leases(t, ids)[0]
		var stolen atomic.Int64
		stopRival := start(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			stolen.Add(1)
			return nil
		})))
		eventually(t, func() bool { return f.outlived(t, from+r.ClaimTimeout, ids...) }, "renewals go on")
		for _, conn := range held {
			require.NoError(t, conn.Close())
		}
		finish.open()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "the outcome is recorded")
		require.NoError(t, stop())
		require.NoError(t, stopRival())
		require.Zero(t, stolen.Load())
		require.Zero(t, count("leases_lost"))
	})
}

func TestLeasesNeedAConnectionOfTheirOwnOnPostgresOnly(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, numbers(20))
		own := f.on(t)
		own.db.SetMaxOpenConns(1)
		r := own.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		if f.postgres {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.ErrorContains(t, r.Start(ctx), "SetMaxOpenConns")
			_, err := r.Drain(ctx)
			require.ErrorContains(t, err, "SetMaxOpenConns")
			own.db.SetMaxOpenConns(2)
		}
		stop := start(t, r)
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 20 }, "all are sent")
		require.NoError(t, stop())
	})
}

func TestLeaseKnownToBeLiveOrNoDelivery(t *testing.T) {
	t.Run("the claim's answer comes too late", func(t *testing.T) {
		onEvery(t, func(t *testing.T, f *fixture) {
			f.enqueue(t, plainTopic, []string{"a"})
			own := f.on(t)
			begun := make(chan int64, 10)
			var claims atomic.Int64
			r := own.relay(handling(func(context.Context, outbox.Delivery[order]) error {
				begun <- claims.Load()
				return nil
			}))
			r.ClaimTimeout = 500 * time.Millisecond
			own.afterCommit(isClaim, func() error {
				if claims.Add(1) == 1 {
					claimed := f.clock(t)
					eventually(t, func() bool { return f.clock(t).Sub(claimed) > r.ClaimTimeout }, "the lease ends")
				}
				return nil
			})
			stop := start(t, r)
			eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "it is sent")
			require.NoError(t, stop())
			require.Greater(t, receive(t, begun, "the delivery"), int64(1), "it was delivered under the dead lease")
			require.Empty(t, begun)
		})
	})

	t.Run("the lease ends while the row waits for a slot", func(t *testing.T) {
		onEvery(t, func(t *testing.T, f *fixture) {
			ids := f.enqueue(t, plainTopic, []string{"first", "second"})
			own := f.on(t)
			_, renew := own.holdRenewals(t)
			begun, seen, second := make(chan struct{}, 1), make(gate), make(chan outbox.Message, 10)
			r := own.deaf(handling(func(_ context.Context, d outbox.Delivery[order]) error {
				if d.Message.ID == ids[0] {
					note(begun, struct{}{})
					seen.pass(t)
					eventually(t, func() bool { return f.leaseOver(t, ids[1]) }, "the lease of the second ends")
					return nil
				}
				second <- d.Message
				return nil
			}))
			r.ClaimTimeout, r.Concurrency = 4*time.Second, 1 // so that a lost answer to a claim is known before its lease ends
			stop := start(t, r)
			receive(t, begun, "the first delivery")
			waiting := f.get(t, ids[1])
			require.Equal(t, outbox.StatusClaimed, waiting.Status)
			seen.open()
			eventually(t, func() bool { return f.get(t, ids[0]).Status == outbox.StatusSent }, "the first is sent")
			renew()
			eventually(t, func() bool {
				r.Wake()
				return f.get(t, ids[1]).Status == outbox.StatusSent
			}, "the second is sent")
			require.NoError(t, stop())
			delivered := receive(t, second, "its delivery")
			require.NotEqual(t, waiting.ClaimedAt, delivered.ClaimedAt, "it was delivered under the dead lease")
			require.Equal(t, 1, delivered.Attempts, "the release gave the attempt back")
			require.Empty(t, second)
		})
	})
}
