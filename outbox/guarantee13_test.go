package outbox_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 13: shutdown.

// stopping runs a relay whose handlers the test steers, and stops it.
type stopping struct {
	begun  chan string           // the ids of deliveries that have begun
	result map[string]chan error // what each is to return
	ended  chan error            // what Start returned
	cancel context.CancelFunc
}

// stoppable starts a relay whose handler of each order waits for a result, on a
// context that it is given; nil results are made for ids.
func stoppable(t *testing.T, r *outbox.Relay, ids []string, ignoreContext ...string) *stopping {
	t.Helper()
	s := &stopping{begun: make(chan string, 1000), result: map[string]chan error{}, ended: make(chan error, 1)}
	for _, id := range ids {
		s.result[id] = make(chan error, 1)
	}
	r.Mux = handling(func(ctx context.Context, d outbox.Delivery[order]) error {
		s.begun <- d.Payload.ID
		done := ctx.Done()
		if slices.Contains(ignoreContext, d.Payload.ID) {
			done = nil
		}
		select {
		case err := <-s.result[d.Payload.ID]:
			return err
		case <-done:
			switch d.Payload.ID {
			case "permanent":
				return outbox.Permanent(errors.New("for good"))
			case "done":
				return nil
			case "later":
				return outbox.RetryAfter(time.Hour, ctx.Err())
			}
			return ctx.Err()
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() { s.ended <- r.Start(ctx) }()
	t.Cleanup(cancel)
	return s
}

func TestShutdownReleasesWhatNeverStarted(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(4))
		f.exec(t, "UPDATE outbox_messages SET attempts = 2, last_error = 'earlier' WHERE id = ?", ids[2].String())
		f.shift(t, "available_at", -time.Minute, "id = '"+ids[3].String()+"'") // the first
		f.shift(t, "available_at", -time.Millisecond, "id = '"+ids[1].String()+"'")
		var before []outbox.Message
		for _, id := range ids {
			before = append(before, f.get(t, id))
		}
		r := f.relay(nil)
		r.Concurrency = 1
		s := stoppable(t, r, numbers(4))
		require.Equal(t, "3", receive(t, s.begun, "the first delivery"))
		require.Equal(t, 4, f.count(t, outbox.StatusClaimed), "all are claimed")
		s.cancel()
		eventually(t, func() bool { return f.count(t, outbox.StatusPending) == 3 }, "the rest is released while a handler runs")
		s.result["3"] <- nil
		require.NoError(t, receive(t, s.ended, "the end of Start"))
		for i := range 3 {
			got := f.get(t, ids[i])
			require.Equal(t, outbox.StatusPending, got.Status)
			require.Equal(t, before[i].AvailableAt, got.AvailableAt, "row %d is due as before", i)
			require.Equal(t, before[i].Attempts, got.Attempts, "row %d has its attempt back", i)
			require.Equal(t, before[i].LastError, got.LastError)
		}
		require.Equal(t, outbox.StatusSent, f.get(t, ids[3]).Status)
		require.Empty(t, s.begun, "no other delivery began")
	})
}

func TestShutdownWakesOthersForWhatItReleases(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, numbers(3))
		r := f.relay(nil)
		r.Concurrency = 1
		s := stoppable(t, r, numbers(3))
		require.Equal(t, "0", receive(t, s.begun, "the first delivery"))

		// In another process: no CommitHook, and a look in an hour.
		var calls atomic.Int64
		handler, delivered := counted(&calls)
		other, seen := f.relay(handling(handler)), &queryLog{}
		other.DB, other.Interval = f.pool(t, "other", nil).WithQueryHook(seen), time.Hour
		stop := start(t, other)
		f.waitForListener(t, "other")
		eventually(t, func() bool { return seen.looks() >= 2 }, "it has looked since it listens")

		s.cancel()
		require.ElementsMatch(t, []string{"1", "2"}, []string{
			receive(t, delivered, "a released row, while a handler of the other relay runs"), receive(t, delivered, "another"),
		})
		s.result["0"] <- nil
		require.NoError(t, receive(t, s.ended, "the end of Start"))
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 3 }, "all are recorded")
		require.NoError(t, stop())
	})
}

func TestShutdownWakesOthersOfItsProcess(t *testing.T) {
	for _, c := range []struct {
		name string
		rows int
		want string // what the other relay delivers
	}{
		{"for what never started", 2, "1"},
		{"for what it cancels", 1, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				f.enqueue(t, plainTopic, numbers(c.rows))
				r := f.relay(nil)
				r.Concurrency = 1
				if c.want == "0" {
					r.ShutdownTimeout = 5 * time.Second // also for what is left to record
				}
				s := stoppable(t, r, numbers(c.rows))
				require.Equal(t, "0", receive(t, s.begun, "the first delivery"))
				var calls atomic.Int64
				handler, delivered := counted(&calls)
				other, seen := f.relay(handling(handler)), &queryLog{}
				other.DB, other.Interval = f.db.WithQueryHook(seen), time.Hour
				stop := start(t, other)
				eventually(t, func() bool { return seen.looks() > 0 }, "the other relay has looked")
				s.cancel()
				require.Equal(t, c.want, receive(t, delivered, "the released row"))
				s.result["0"] <- nil
				require.NoError(t, receive(t, s.ended, "the end of Start"))
				eventually(t, func() bool { return f.count(t, outbox.StatusSent) == c.rows }, "all are recorded")
				require.NoError(t, stop())
			})
		})
	}
}

// waitForListener waits until a session with this name listens.
func (f *fixture) waitForListener(t *testing.T, name string) {
	t.Helper()
	eventually(t, func() bool { return f.listeners(t, name) == 1 }, "%s listens", name)
}

// listeners counts the sessions with this name that listen.
func (f *fixture) listeners(t *testing.T, name string) int {
	t.Helper()
	return f.queryInt(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = ?
		AND query LIKE 'LISTEN%' AND state = 'idle'`, name)
}

func TestShutdownLetsDeliveriesFinish(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, []string{"good", "bad", "waiting"})
		r := f.relay(nil)
		r.Concurrency = 2
		s := stoppable(t, r, []string{"good", "bad", "waiting"})
		receive(t, s.begun, "a delivery")
		receive(t, s.begun, "a delivery")
		s.cancel()
		eventually(t, func() bool { return f.get(t, ids[2]).Status == outbox.StatusPending }, "the shutdown has begun")
		s.result["good"] <- nil
		s.result["bad"] <- errors.New("of its own")
		require.NoError(t, receive(t, s.ended, "the end of Start"))
		good, bad := f.get(t, ids[0]), f.get(t, ids[1])
		require.Equal(t, outbox.StatusSent, good.Status)
		require.Equal(t, 1, good.Attempts)
		require.Equal(t, outbox.StatusPending, bad.Status)
		require.Equal(t, 1, bad.Attempts, "a failure in the grace is a failure")
		require.Equal(t, "of its own", bad.LastError)
		require.True(t, bad.AvailableAt.After(bad.ClaimedAt.Add(4*time.Second)), "it backs off")
	})
}

func TestShutdownCancelsTheRest(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		names := []string{"cancelled", "permanent", "done", "later"}
		ids := f.enqueue(t, plainTopic, names)
		before := f.get(t, ids[0])
		r := f.relay(nil)
		r.ShutdownTimeout = 5 * time.Second // also for what is left to record
		s := stoppable(t, r, names)
		for range names {
			receive(t, s.begun, "a delivery")
		}
		s.cancel()
		require.NoError(t, receive(t, s.ended, "the end of Start"))
		for _, i := range []int{0, 3} {
			released := f.get(t, ids[i])
			require.Equal(t, outbox.StatusPending, released.Status)
			require.Zero(t, released.Attempts, "its attempt is back")
			require.Empty(t, released.LastError)
		}
		require.Equal(t, before.AvailableAt, f.get(t, ids[0]).AvailableAt)
		parked := f.get(t, ids[1])
		require.Equal(t, outbox.StatusFailed, parked.Status)
		require.Equal(t, 1, parked.Attempts)
		require.Equal(t, "for good", parked.LastError)
		require.Equal(t, outbox.StatusSent, f.get(t, ids[2]).Status)
	})
}

func TestShutdownLeavesAHandlerThatIgnoresItsContext(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, []string{"deaf", "fine"})
		r := f.relay(nil)
		r.ShutdownTimeout = 5 * time.Second // also for what is left to record
		s := stoppable(t, r, []string{"deaf", "fine"}, "deaf")
		receive(t, s.begun, "a delivery")
		receive(t, s.begun, "a delivery")
		s.cancel()
		err := receive(t, s.ended, "the end of Start")
		require.ErrorContains(t, err, plainTopic.Name())
		require.ErrorContains(t, err, ids[0].String())
		require.NotContains(t, err.Error(), ids[1].String())
		left := f.get(t, ids[0])
		require.Equal(t, outbox.StatusClaimed, left.Status, "it keeps its lease")
		require.Equal(t, 1, left.Attempts, "and its attempt")
		require.Equal(t, outbox.StatusPending, f.get(t, ids[1]).Status)

		// Its lease ends, since nobody renews it, and whoever is next takes it
		// over; what the handler returns then changes nothing.
		require.Equal(t, 1, f.expireLeases(t))
		var calls atomic.Int64
		handler, _ := counted(&calls)
		r.Mux = handling(handler)
		require.Equal(t, 2, drain(t, r), "the relay can be started again")
		s.result["deaf"] <- errors.New("late")
		sent := f.get(t, ids[0])
		require.Equal(t, outbox.StatusSent, sent.Status)
		require.Equal(t, 2, sent.Attempts)
		require.Empty(t, sent.LastError)
	})
}

func TestShutdownRenewsUntilTheEnd(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		// A delivery in its grace may take longer than its lease.
		ids := f.enqueue(t, plainTopic, []string{"slow", "waiting"})
		r, seen := f.relay(nil), &queryLog{}
		r.DB = f.db.WithQueryHook(seen)
		r.Concurrency, r.ClaimTimeout = 1, 4*time.Second // which a claim does not outlast, however late its answer
		s := stoppable(t, r, []string{"slow", "waiting"})
		receive(t, s.begun, "the delivery")
		s.cancel()
		eventually(t, func() bool { return f.get(t, ids[1]).Status == outbox.StatusPending }, "the shutdown has begun")
		renewals := func() int {
			queries, _ := seen.that(isRenewal)
			return len(queries)
		}
		already := renewals()
		eventually(t, func() bool { return renewals() >= already+5 }, "the lease outlasts its first term")
		s.result["slow"] <- nil
		require.NoError(t, receive(t, s.ended, "the end of Start"))
		require.Equal(t, outbox.StatusSent, f.get(t, ids[0]).Status)
		require.Equal(t, 1, f.get(t, ids[0]).Attempts)
	})
}

func TestStartedAgainAfterAStop(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		var calls atomic.Int64
		handler, delivered := counted(&calls)
		r := f.relay(handling(handler))
		for _, id := range numbers(3) {
			stop := start(t, r)
			f.enqueue(t, plainTopic, []string{id})
			require.Equal(t, id, receive(t, delivered, "a delivery"))
			require.NoError(t, stop())
		}
		require.Equal(t, 3, f.count(t, outbox.StatusSent))
	})
}

func TestShutdownDuringAnOutageEnds(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayStayClaimed = true
		f.enqueue(t, plainTopic, numbers(5))
		r := f.relay(nil)
		r.Concurrency, r.ShutdownTimeout = 1, 50*time.Millisecond
		s := stoppable(t, r, numbers(5))
		receive(t, s.begun, "the first delivery")
		f.faults.onBefore(func(string) error { return context.DeadlineExceeded })
		s.cancel()
		require.ErrorContains(t, receive(t, s.ended, "the end of Start"), "5 outcomes could not be recorded")
	})
}
