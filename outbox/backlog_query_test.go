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

// The table is ordinary SQL: both queries of the guide run word for word.

const anythingStuck = `-- Anything stuck?
SELECT topic, status, count(*), max(attempts)
FROM outbox_messages
GROUP BY topic, status;`

const parkedMessages = `-- Parked messages, with the reason.
SELECT topic, key, attempts, last_error
FROM outbox_messages
WHERE status = 'failed'
ORDER BY updated_at DESC;`

func TestBacklogQueriesOfTheGuide(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		otherTopic := topics.New[order]("users.created", nil)
		keyed := f.enqueue(t, plainTopic, []string{"first"}, outbox.Key("order:1"))
		f.enqueue(t, plainTopic, []string{"second", "third"})
		f.enqueue(t, plainTopic, []string{"fourth"}, outbox.After(time.Hour))
		f.enqueue(t, otherTopic, []string{"user"})
		mux := handling(func(_ context.Context, d outbox.Delivery[order]) error {
			switch d.Payload.ID {
			case "first", "second":
				return errors.New("no " + d.Payload.ID)
			}
			return nil
		}, outbox.MaxAttempts(2))
		r := f.relay(mux)
		for range 2 {
			drain(t, r)
			f.shift(t, "available_at", -24*time.Hour, "attempts > 0 AND status = 'pending'")
		}
		f.shift(t, "updated_at", -time.Minute, "id = '"+keyed[0].String()+"'")

		type stuck struct {
			topic, status   string
			count, attempts int
		}
		var all []stuck
		rows, err := f.db.QueryContext(t.Context(), anythingStuck)
		require.NoError(t, err)
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var s stuck
			require.NoError(t, rows.Scan(&s.topic, &s.status, &s.count, &s.attempts))
			all = append(all, s)
		}
		require.NoError(t, rows.Err())
		require.ElementsMatch(t, []stuck{
			{"orders.created", "failed", 2, 2},
			{"orders.created", "sent", 1, 1},
			{"orders.created", "pending", 1, 0},
			{"users.created", "pending", 1, 0},
		}, all)

		type parked struct {
			topic    string
			key      *string
			attempts int
			reason   string
		}
		var list []parked
		rows, err = f.db.QueryContext(t.Context(), parkedMessages)
		require.NoError(t, err)
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var p parked
			require.NoError(t, rows.Scan(&p.topic, &p.key, &p.attempts, &p.reason))
			list = append(list, p)
		}
		require.NoError(t, rows.Err())
		key := "order:1"
		require.Equal(t, []parked{
			{"orders.created", nil, 2, "no second"},
			{"orders.created", &key, 2, "no first"},
		}, list, "the latest first")
	})
}
