package outbox_test

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// What hangs, and what it must not cost. See guarantee12_outage_test.go for
// what a relay does about a database that fails.

// F03: the database stalls when finished work is to be recorded, and the work
// runs again. A stall that outlasts the lease and several tries is as bad as one
// of 20 s, which is what it lasts at full scale.
func TestFinishedWorkIsNotRunAgainWhenItsRecordingStalls(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		const rows = 20
		ids := f.enqueue(t, plainTopic, numbers(rows))
		own := f.on(t)
		back := make(gate)
		var tries atomic.Int64
		own.faults.onStall(func(ctx context.Context, query string) error {
			if !isSettle(query) {
				return nil
			}
			tries.Add(1)
			select {
			case <-back:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Second):
				return io.ErrUnexpectedEOF
			}
		})
		var calls, stolen atomic.Int64
		r, log := own.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			calls.Add(1)
			return nil
		})), &logs{}
		r.ClaimTimeout, r.Logger = 8*time.Second, log.logger() // a lease that a busy machine does not miss
		count := watched(r)
		stop := start(t, r)
		eventually(t, func() bool { return calls.Load() == rows }, "all are delivered")
		stopRival := start(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			stolen.Add(1)
			return nil
		})))
		require.Eventually(t, func() bool {
			return f.outlived(t, r.ClaimTimeout+atScale(r.ClaimTimeout, 20*time.Second), ids...) && tries.Load() > 2
		},
			patience, 20*time.Millisecond, "the stall outlasts the leases, which are renewed")
		require.Equal(t, rows, f.count(t, outbox.StatusClaimed))
		back.open()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == rows }, "all are recorded once it is back")
		require.NoError(t, stop())
		require.NoError(t, stopRival())
		require.EqualValues(t, rows, calls.Load(), "none was delivered again")
		require.Zero(t, stolen.Load(), "nor by another relay")
		require.Zero(t, count("leases_lost"))
		require.Equal(t, rows, count("sent"))
		for _, id := range ids {
			require.Equal(t, 1, f.get(t, id).Attempts)
		}
		require.Positive(t, log.count(outageLine))
	})
}

// A settlement that hangs in the server locks its rows there, so that their
// leases cannot be renewed; it must be over before they are.
func TestFinishedWorkIsNotRunAgainWhenASettlementHangsInTheServer(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		const lease = 10 * time.Second // of which a settlement may take a quarter
		f.exec(t, `CREATE SEQUENCE settlements; CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN IF nextval('settlements') = 1 THEN PERFORM pg_sleep(60); END IF; RETURN NEW; END $$;
			CREATE TRIGGER hang BEFORE UPDATE ON outbox_messages FOR EACH ROW WHEN (NEW.status = 'sent') EXECUTE FUNCTION hang()`)
		var calls atomic.Int64
		handler := func(context.Context, outbox.Delivery[order]) error { calls.Add(1); return nil }
		for range 2 {
			r := f.on(t).relay(handling(handler))
			r.ClaimTimeout, r.Interval = lease, 2*time.Millisecond
			start(t, r)
		}
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		eventually(t, func() bool { return f.get(t, id).Status == outbox.StatusSent }, "it is recorded")
		require.EqualValues(t, 1, calls.Load())
		m := f.get(t, id)
		require.Equal(t, 1, m.Attempts)
		require.Less(t, m.SentAt.Sub(m.ClaimedAt), lease, "before its lease could end")
	})
}

// F17: a statement without a deadline freezes the relay. Each one of ours has
// one, whatever it waits for: a connection of the pool, the network or a lock.
func TestNoStatementOfOursWaitsForEver(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayVanish = true
		own := f.on(t)
		seen := make(map[string]time.Duration) // by kind, the longest
		var mu journal                         // for its lock
		var endless []string
		own.faults.onStall(func(ctx context.Context, query string) error {
			kind := ""
			for name, is := range map[string]func(string) bool{
				"look": func(query string) bool { return isLook(query) && !isClaim(query) }, "claim": isClaim, "settlement": isSettle, "renewal": isRenewal, "sweep": isDelete,
				"operation": func(query string) bool { return strings.Contains(query, "UPDATE outbox_messages SET status = ") },
				"stats":     func(query string) bool { return strings.Contains(query, "GROUP BY m.topic, m.status") },
			} {
				if is(query) {
					kind = name
				}
			}
			deadline, ok := ctx.Deadline()
			mu.mu.Lock()
			defer mu.mu.Unlock()
			if !ok {
				endless = append(endless, query)
			}
			seen[kind] = max(seen[kind], time.Until(deadline))
			return nil
		})
		f.fill(t, plainTopic.Name(), "sent", 3)
		f.age(t, "status = 'sent'", month)
		ids := f.enqueue(t, plainTopic, []string{"sent", "retried", "parked", "waits", "waits"})
		f.abandon(t, 1, ids[4])
		begun, finish := make(chan struct{}, 10), make(gate)
		r := own.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			begun <- struct{}{}
			finish.pass(t)
			switch d.Payload.ID {
			case "retried":
				return io.ErrUnexpectedEOF
			case "parked":
				return outbox.Permanent(io.ErrUnexpectedEOF)
			}
			return nil
		}))
		r.Concurrency, r.Retention, r.ClaimTimeout = 3, 10*time.Second, 8*time.Second
		stop := start(t, r)
		receive(t, begun, "a delivery")
		eventually(t, func() bool {
			return f.rowsOf(t, plainTopic.Name(), "sent") == 0 && f.outlived(t, r.ClaimTimeout+time.Second, ids[0])
		}, "a sweep and a renewal")
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		eventually(t, func() bool { return f.count(t, outbox.StatusPending) > 0 }, "a release")
		finish.open()
		require.NoError(t, receive(t, stopped, "the end of the relay"))
		_, err := own.store.Retry(t.Context(), outbox.Filter{All: true})
		require.NoError(t, err)
		_, err = own.store.Discard(t.Context(), outbox.Filter{IDs: ids}, "enough")
		require.NoError(t, err)
		_, err = own.store.Stats(t.Context())
		require.NoError(t, err)
		_, err = own.store.List(t.Context(), outbox.Filter{})
		require.NoError(t, err)
		_, err = r.Unhandled(t.Context())
		require.NoError(t, err)
		require.NoError(t, own.store.Validate(t.Context()))

		require.Empty(t, endless)
		for kind, most := range map[string]time.Duration{
			"look": 6 * time.Second, "claim": 6 * time.Second, "renewal": 4 * time.Second, "settlement": 4 * time.Second,
			"sweep": 7 * time.Second, "operation": 62 * time.Second, "stats": 62 * time.Second,
		} {
			if kind == "look" && f.postgres { // which is the claim
				continue
			}
			require.NotZero(t, seen[kind], kind)
			require.LessOrEqual(t, seen[kind], most, kind)
		}
		f.exec(t, "DELETE FROM outbox_messages")
	})
}
