package outbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// What another hand has written wrongly must not stop the others.
func TestOddRowOfAnotherHandStopsNobodyElse(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		odd := map[string]string{ // column: value
			"available_at": "'2026-01-02 03:04:05'", "created_at": "'2026-01-02 03:04:05'", "claimed_at": "'yesterday'", "id": "'not an id'",
		}
		unreadable := 1
		if f.postgres {
			odd = map[string]string{"available_at": "'-infinity'", "created_at": "'-infinity'", "claimed_at": "'infinity'", "headers": "'[7]'"}
			unreadable = 0
		}
		for column, value := range odd {
			id := f.enqueue(t, plainTopic, []string{column})[0]
			f.exec(t, fmt.Sprintf("UPDATE outbox_messages SET %s = %s WHERE id = ?", column, value), id)
		}
		good := f.enqueue(t, plainTopic, numbers(5))
		var l logs
		r := f.relay(handling(acknowledge))
		r.Logger = l.logger()
		require.Equal(t, len(odd)+len(good)-unreadable, drain(t, r))
		require.Equal(t, unreadable, l.count("cannot be read"))
		for _, id := range good {
			require.Equal(t, outbox.StatusSent, f.get(t, id).Status)
		}
		_, err := f.store.Stats(t.Context())
		require.NoError(t, err)
		f.exec(t, "DELETE FROM outbox_messages WHERE status = 'claimed'")
		f.mayVanish = true
	})
}

// Each of these once kept a relay from claiming anything, or from ending.
func TestOddRowsOneByOneStopNobodyElse(t *testing.T) {
	for name, c := range map[string]struct {
		set       string
		databases []kind
		delivered bool // all the same
	}{
		"attempts that cannot be counted up":  {"attempts = 2147483647", everywhere, false},
		"a beginning at the end of the world": {"created_at = '294276-12-31'", everywhere[1:], true},
		"an outage at the end of the world":   {"unavailable_since = '294276-12-31'", everywhere[1:], true},
		"an id in capitals":                   {"id = upper(id)", everywhere[:1], false},
		"a topic that is no name":             {"topic = 'it''s not one'", everywhere, true},
	} {
		t.Run(name, func(t *testing.T) {
			on(t, c.databases, func(t *testing.T, f *fixture) {
				odd := f.enqueue(t, plainTopic, []string{"odd"})[0]
				f.exec(t, "UPDATE outbox_messages SET "+c.set+" WHERE id = ?", odd)
				good := f.enqueue(t, plainTopic, []string{"good"})[0]
				calls := map[outbox.ID]int{}
				r := f.relay(nil)
				r.Concurrency = 1
				r.Deliver = func(_ context.Context, m outbox.Message) error { calls[m.ID]++; return nil }
				drain(t, r)
				require.Equal(t, outbox.StatusSent, f.get(t, good).Status)
				if c.delivered {
					require.Equal(t, map[outbox.ID]int{odd: 1, good: 1}, calls)
				}
				f.mayStayClaimed = !c.delivered
			})
		})
	}
}

// Somebody holds a message back with a time that never comes.
func TestRowOnHoldBlindsNoGauge(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, topics.New[order]("due", nil), []string{"due"})
		held := f.enqueue(t, plainTopic, []string{"held"})[0]
		never := "''"
		if f.postgres {
			never = "'infinity'"
		}
		f.exec(t, "UPDATE outbox_messages SET available_at = "+never+" WHERE id = ?", held)
		f.fill(t, "parked", "failed", 2)
		f.shift(t, "available_at", -time.Hour, "topic = 'due'")
		var g gauges
		_, err := f.store.Observe(&g)
		require.NoError(t, err)
		values := g.collect(t)
		require.InDelta(t, 3600, values["outbox.oldest_due due"], 60)
		require.Zero(t, values["outbox.oldest_due orders.created"])
		require.EqualValues(t, 2, values["outbox.parked parked"])
		_, err = f.store.Stats(t.Context())
		require.NoError(t, err)
	})
}

// A drain whose outcome the database refuses ends with that error.
func TestDrainReturnsWhatTheDatabaseRefuses(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayStayClaimed = true
		ids := f.enqueue(t, plainTopic, numbers(2))
		f.refuse(t, "id = '"+ids[0].String()+"' AND status = 'sent'")
		r := f.relay(handling(acknowledge))
		r.ShutdownTimeout = 3 * time.Second // for the other
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		n, err := r.Drain(ctx)
		require.ErrorContains(t, err, "record: ")
		require.NoError(t, ctx.Err())
		require.Equal(t, 1, n, "the other is recorded")
	})
}
