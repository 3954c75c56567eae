package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Rows that fail, and what they must not cost the others.

// F07: a dead topic blocks all the others. Of the 10,000 rows that always fail,
// those in front have their turn once, and those behind have none before the
// good ones. At full scale all of them are in front.
func TestDeadTopicDoesNotBlockTheOthers(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		const good = 100
		rows, front := 10_000, atScale(1000, 10_000)
		if !f.postgres { // it is slow under the race detector
			rows, front = 1000, 300
		}
		f.fill(t, "invoices.paid", "pending", front, "available_at", f.ago(time.Hour))
		f.fill(t, "invoices.paid", "pending", rows-front, "available_at", f.ago(time.Minute))
		f.fill(t, plainTopic.Name(), "pending", good, "available_at", f.ago(time.Hour/2))
		var sent atomic.Int64
		done := make(chan struct{})
		mux := handling(func(context.Context, outbox.Delivery[order]) error {
			if sent.Add(1) == good {
				close(done)
			}
			return nil
		})
		outbox.Handle(mux, foreignTopic, func(context.Context, outbox.Delivery[order]) error {
			return errors.New("nobody is there")
		})
		r := f.relay(mux)
		r.BaseBackoff, r.MaxBackoff = time.Hour, time.Hour
		stop := start(t, r)
		receive(t, done, "the delivery of the good ones")
		require.NoError(t, stop())
		require.Equal(t, 1, f.queryInt(t, "SELECT max(attempts) FROM outbox_messages WHERE topic = ?", foreignTopic.Name()), "a turn of a bad one")
		require.LessOrEqual(t, f.queryInt(t, `SELECT count(*) FROM outbox_messages WHERE topic = ?
			AND claimed_at < (SELECT max(claimed_at) FROM outbox_messages WHERE topic = ?)`, foreignTopic.Name(), plainTopic.Name()),
			front, "bad ones that were claimed before")
		require.Equal(t, good, f.rowsOf(t, plainTopic.Name(), "sent"))
	})
}

// F21: a full batch of failing rows is tried again in a tight loop. The waits
// between attempts are at least 100 ms however short the backoff, and in between
// the relay looks once an Interval.
func TestFailingRowsAreNoTightLoop(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		const rows, attempts = 20, 4
		seen := &queryLog{}
		var mu sync.Mutex
		var calls int
		tries := map[outbox.ID][]time.Time{} // when it was claimed, on the database's clock
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			mu.Lock()
			defer mu.Unlock()
			calls++
			tries[d.Message.ID] = append(tries[d.Message.ID], d.Message.ClaimedAt)
			if d.Payload.ID == "0" {
				return outbox.RetryAfter(time.Nanosecond, errors.New("not now"))
			}
			return errors.New("not now")
		}))
		r.DB, r.Interval, r.Batch = f.db.WithQueryHook(seen), 100*time.Millisecond, rows
		r.BaseBackoff, r.MaxBackoff, r.MaxAttempts, r.Retention = 1, leastBackoff, attempts, -1
		f.unhooked(t).enqueue(t, plainTopic, numbers(rows))
		begun := time.Now()
		stop := start(t, r)
		eventually(t, func() bool { return f.count(t, outbox.StatusFailed) == rows }, "all are parked")
		require.NoError(t, stop())
		elapsed := time.Since(begun) // after its last look
		require.Equal(t, rows*attempts, calls)
		for id, at := range tries {
			for i := 1; i < len(at); i++ {
				require.GreaterOrEqual(t, at[i].Sub(at[i-1]), leastBackoff, "attempts %d and %d of %s", i, i+1, id)
			}
		}
		// A look that finds something is followed by another at once.
		intervals := int(elapsed/(90*time.Millisecond)) + 1
		require.LessOrEqual(t, seen.looks(), calls+intervals+5, "looks in %v", elapsed)
		settlements, _ := seen.that(isSettle)
		require.LessOrEqual(t, len(settlements), calls)
		all, _ := seen.that(func(string) bool { return true })
		require.LessOrEqual(t, len(all), 4*(seen.looks()+len(settlements)+intervals)+20, "statements in %v", elapsed)
	})
}

// F44: one NUL in one last_error makes the whole settlement invalid, and healthy
// rows run again.
func TestNULInOneReasonSpoilsNoOtherOutcome(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		const rows = 50
		ids := f.enqueue(t, plainTopic, numbers(rows))
		var calls atomic.Int64
		all := make(chan struct{})
		r, log := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			if calls.Add(1) == rows {
				close(all)
			}
			<-all // so that outcomes come in batches
			switch d.Payload.ID {
			case "7":
				return errors.New("NUL \x00, not UTF-8 \xff, \u2028 and ' \\ \"")
			case "8":
				return outbox.Permanent(fmt.Errorf("\x00"))
			}
			return nil
		})), &logs{}
		r.Concurrency, r.BaseBackoff, r.Logger = rows, time.Hour, log.logger()
		seen := &queryLog{}
		r.DB = f.db.WithQueryHook(seen)
		require.Equal(t, rows-2, drain(t, r))
		require.EqualValues(t, rows, calls.Load(), "none is delivered again")
		for i, id := range ids {
			m := f.get(t, id)
			require.Equal(t, 1, m.Attempts)
			switch i {
			case 7:
				require.Equal(t, outbox.StatusPending, m.Status)
				require.Equal(t, "NUL �, not UTF-8 �, \u2028 and ' \\ \"", m.LastError)
			case 8:
				require.Equal(t, outbox.StatusFailed, m.Status)
				require.Equal(t, "�", m.LastError)
			default:
				require.Equal(t, outbox.StatusSent, m.Status)
			}
		}
		require.Zero(t, log.count("the database refuses to record an outcome"), "it is cleaned before it is sent")
		settlements, _ := seen.that(isSettle)
		require.Less(t, len(settlements), rows, "they are recorded in batches")
	})
}
