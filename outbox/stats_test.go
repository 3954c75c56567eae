package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Stats and Unhandled: what is in the table, as the database sees it.

func TestStatsCountByTopicAndStatus(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayStayClaimed = true
		stats, err := f.store.Stats(t.Context())
		require.NoError(t, err)
		require.Empty(t, stats.Topics)
		require.Zero(t, stats.OldestDue())

		f.fill(t, "b.topic", "pending", 3, "attempts", "i")
		f.fill(t, "b.topic", "sent", 2, "attempts", "1")
		f.fill(t, "a.topic", "failed", 1, "attempts", "12")
		f.fill(t, "a.topic", "claimed", 4, "attempts", "2")
		f.fill(t, "a.topic", "discarded", 5)
		f.shift(t, "available_at", time.Hour, "true") // nothing is due
		stats, err = f.store.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, []outbox.TopicStats{
			{Topic: "a.topic", Status: outbox.StatusClaimed, Count: 4, MaxAttempts: 2},
			{Topic: "a.topic", Status: outbox.StatusDiscarded, Count: 5},
			{Topic: "a.topic", Status: outbox.StatusFailed, Count: 1, MaxAttempts: 12},
			{Topic: "b.topic", Status: outbox.StatusPending, Count: 3, MaxAttempts: 3},
			{Topic: "b.topic", Status: outbox.StatusSent, Count: 2, MaxAttempts: 1},
		}, stats.Topics)
		for status, want := range map[outbox.Status]int{
			outbox.StatusPending: 3, outbox.StatusClaimed: 4, outbox.StatusSent: 2, outbox.StatusFailed: 1, outbox.StatusDiscarded: 5,
		} {
			require.Equal(t, want, stats.Count(status))
		}
		require.Zero(t, stats.OldestDue())
	})
}

// F34: nine days of silent backlog, all gauges at zero.
func TestOldestDueGrowsWhileNoRelayRuns(t *testing.T) {
	onEveryClock(t, func(t *testing.T, f *fixture) {
		f.mayStayClaimed = true
		oldest := func() time.Duration {
			stats, err := f.store.Stats(t.Context())
			require.NoError(t, err)
			return stats.OldestDue()
		}
		f.enqueue(t, plainTopic, []string{"later"}, outbox.After(time.Hour))
		require.Zero(t, oldest(), "what is not due has no age")
		f.fill(t, "orders.created", "sent", 1)
		f.fill(t, "orders.created", "failed", 1)
		f.fill(t, "orders.created", "discarded", 1)
		f.shift(t, "available_at", -time.Hour, "status <> 'pending'")
		require.Zero(t, oldest(), "what is done has none either")

		f.enqueue(t, plainTopic, []string{"due"})
		f.shift(t, "available_at", -10*time.Minute, "available_at <= "+f.now()+" AND status = 'pending'")
		first := oldest()
		require.GreaterOrEqual(t, first, 10*time.Minute)
		require.Less(t, first, 11*time.Minute)
		eventually(t, func() bool { return oldest() > first }, "it grows")
		f.fill(t, "invoices.paid", "claimed", 1)
		f.shift(t, "available_at", -20*time.Minute, "status = 'claimed'")
		require.GreaterOrEqual(t, oldest(), 20*time.Minute, "a lease that is over counts")
		f.shift(t, "available_at", time.Hour, "status = 'claimed'")
		require.Less(t, oldest(), 11*time.Minute, "a live one does not")
		require.Equal(t, 1, drain(t, f.relay(handling(acknowledge))))
		require.Zero(t, oldest())
	})
}

func TestUnhandledAreDueRowsThatTheRelayNeverTakes(t *testing.T) {
	newer := topics.New("orders.created", &topics.Options[order]{
		Version: 2, Upcast: map[int]topics.Upcaster{1: topics.Upcast(func(o order) (order, error) { return o, nil })},
	})
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, []string{"handled"})
		f.enqueue(t, newer, []string{"newer", "newer"})
		f.enqueue(t, foreignTopic, []string{"foreign"})
		f.enqueue(t, foreignTopic, []string{"not due"}, outbox.After(time.Hour))
		f.enqueue(t, topics.New[order]("orders.formerly", nil), []string{"under an alias"})
		f.fill(t, "invoices.paid", "failed", 1)
		f.shift(t, "available_at", -time.Minute, "status = 'pending' AND available_at <= "+f.now())
		mux := handling(func(context.Context, outbox.Delivery[order]) error { return errors.New("not now") })
		outbox.Handle(mux, aliasedTopic, acknowledge)
		r := f.relay(mux)
		require.Equal(t, 1, drain(t, r))
		for range 2 { // before and, as well, after it has run
			got, err := r.Unhandled(t.Context())
			require.NoError(t, err)
			require.Len(t, got, 2)
			for i, want := range []outbox.TopicStats{
				{Topic: "invoices.paid", Status: outbox.StatusPending, Count: 1},
				{Topic: "orders.created", Status: outbox.StatusPending, Count: 2},
			} {
				require.GreaterOrEqual(t, got[i].OldestDue, time.Minute)
				want.OldestDue = got[i].OldestDue
				require.Equal(t, want, got[i])
			}
		}
		raw := f.relay(nil)
		raw.Deliver = deliverNothing
		got, err := raw.Unhandled(t.Context())
		require.NoError(t, err)
		require.Empty(t, got, "a relay of every topic leaves nothing out")
	})
}
