package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 4: a row that a settlement left untouched is read back.

// F46: a lost answer to a settlement looks like a lost lease.
func TestLostAnswerToASettlementIsNoLostLease(t *testing.T) {
	for _, c := range []struct {
		name      string
		result    error
		status    outbox.Status
		lastError string
	}{
		{"success", nil, outbox.StatusSent, ""},
		{"retry", errors.New("not yet"), outbox.StatusPending, "not yet"},
		{"parked", outbox.Permanent(errors.New("never")), outbox.StatusFailed, "never"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				ids := f.enqueue(t, plainTopic, numbers(5))
				own := f.on(t)
				lost := own.loseAnswers(3, isSettle)
				calls := make(chan struct{}, 100)
				r := own.relay(handling(func(context.Context, outbox.Delivery[order]) error {
					calls <- struct{}{}
					return c.result
				}))
				r.BaseBackoff, r.MaxBackoff = time.Hour, time.Hour
				var seen logs
				r.Logger = seen.logger()
				count := watched(r)
				stop := start(t, r)
				eventually(t, func() bool { return f.count(t, c.status) == 5 && f.unsettled(t) == 0 }, "all is recorded")
				require.NoError(t, stop())
				require.Equal(t, 3, lost())
				require.Len(t, calls, 5, "none was delivered twice")
				require.Zero(t, count("leases_lost"))
				require.Zero(t, seen.count("lease lost"))
				for _, id := range ids {
					m := f.get(t, id)
					require.Equal(t, c.status, m.Status)
					require.Equal(t, 1, m.Attempts)
					require.Equal(t, c.lastError, m.LastError)
				}
				if c.result == nil {
					require.Equal(t, 5, count("sent"))
				}
			})
		})
	}
}

func TestLostAnswerToAReleaseGivesOneAttemptBack(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(3))
		// An earlier attempt of each has failed.
		failing := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return errors.New("not yet") }))
		failing.BaseBackoff = time.Hour
		require.Zero(t, drain(t, failing))
		f.makeDue(t)
		var before []row
		for _, id := range ids {
			before = append(before, f.row(t, id))
		}

		own := f.on(t)
		begun, finish := make(chan outbox.ID, 3), make(gate)
		r := own.deaf(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			begun <- d.Message.ID
			finish.pass(t)
			return nil
		}))
		r.Concurrency = 1
		count := watched(r)
		stop := start(t, r)
		first := receive(t, begun, "the first delivery")
		lost := own.loseAnswers(2, isSettle)
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		eventually(t, func() bool { return lost() == 2 }, "two answers are lost")
		finish.open()
		require.NoError(t, receive(t, stopped, "the end of the relay"))
		require.Zero(t, count("leases_lost"))
		for i, id := range ids {
			m := f.row(t, id)
			if id == first {
				require.Equal(t, outbox.StatusSent, m.Status)
				continue
			}
			require.Equal(t, outbox.StatusPending, m.Status)
			require.Equal(t, 1, m.Attempts)
			require.Equal(t, before[i].AvailableAt, m.AvailableAt)
			require.Equal(t, "not yet", m.LastError)
			require.Empty(t, m.token)
		}
	})
}

func TestLostAnswerToAReleaseOfASuspectGivesOneAttemptBack(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayStayClaimed = true
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		f.abandon(t, 4, id)
		before := f.get(t, id)

		own := f.on(t)
		begun := make(chan struct{}, 1)
		r := own.deaf(handling(func(ctx context.Context, _ outbox.Delivery[order]) error {
			note(begun, struct{}{})
			<-ctx.Done()
			return ctx.Err()
		}))
		r.ShutdownTimeout = 5 * time.Second // also for what is left to record
		var seen logs
		r.Logger = seen.logger()
		count := watched(r)
		stop := start(t, r)
		receive(t, begun, "the suspect's delivery")
		require.Equal(t, 5, f.get(t, id).Attempts)
		lost := own.loseAnswers(2, isSettle)
		require.NoError(t, stop())
		require.Equal(t, 2, lost())
		require.Zero(t, count("leases_lost"))

		m := f.row(t, id)
		require.Equal(t, outbox.StatusClaimed, m.Status, "a released suspect stays a suspect")
		require.Equal(t, 4, m.Attempts)
		require.Equal(t, before.AvailableAt, m.AvailableAt)
		require.NotEmpty(t, m.token)
	})
}

// unsettled counts the rows that somebody holds, and those that nobody has claimed
// yet.
func (f *fixture) unsettled(t *testing.T) int {
	t.Helper()
	var n int
	require.NoError(t, f.db.NewRaw("SELECT count(*) FROM outbox_messages WHERE claim_token IS NOT NULL OR attempts = 0").Scan(t.Context(), &n))
	return n
}
