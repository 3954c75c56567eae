package outbox_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// What a delivery holds on to, and what it is known by.

// F32: a delivery is completed by the text of its payload, which is not unique
// and may be written differently.
func TestDeliveryIsSettledByItsIDAndTokenOnly(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, []string{"same", "same", "same"}, outbox.OrderKey("k")) // one after the other
		twins := []row{f.row(t, ids[1]), f.row(t, ids[2])}
		r, seen := f.relay(nil), &queryLog{}
		first := true
		r.Mux = handling(func(_ context.Context, d outbox.Delivery[order]) error {
			if !first {
				return nil
			}
			first = false
			require.Equal(t, ids[0], d.Message.ID)
			// Somebody rewrites all that is not its identity.
			f.exec(t, `UPDATE outbox_messages SET payload = '{ "id" : "same" }', headers = '{"a":"b"}', topic = 'orders.other', version = 7,
				claimed_by = 'somebody', key = 'k', last_error = 'x' WHERE id = ?`, ids[0].String())
			return outbox.Permanent(errors.New("its own"))
		})
		r.DB = f.db.WithQueryHook(seen)
		require.Zero(t, drain(t, r))
		m := f.get(t, ids[0])
		require.Equal(t, outbox.StatusFailed, m.Status)
		require.Equal(t, "its own", m.LastError)
		require.Equal(t, `{ "id" : "same" }`, string(m.Payload))
		require.Equal(t, "orders.other", m.Topic)
		require.Equal(t, twins, []row{f.row(t, ids[1]), f.row(t, ids[2])}, "those with the same text")

		_, err := f.store.Discard(t.Context(), outbox.Filter{IDs: ids[:1]}, "done with")
		require.NoError(t, err)
		require.Equal(t, 2, drain(t, r))
		settlements, _ := seen.that(isSettle)
		for _, query := range settlements {
			sets := query[strings.Index(query, "json"):]
			require.Regexp(t, regexp.MustCompile(`^[^{}]*\[\{"id":"[^"]*","token":"[^"]*","status":`), sets)
			require.NotContains(t, query, "same")
			require.NotContains(t, query, "orders.")
		}
	})
}

// F35: a slow handler holds a lock that blocks every other delivery, and every
// producer.
func TestSlowHandlerHoldsNoLock(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		slow := f.enqueue(t, plainTopic, []string{"slow"}, outbox.OrderKey("k"))[0]
		begun, finish := make(chan struct{}, 1), make(gate)
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			if d.Message.ID == slow {
				note(begun, struct{}{})
				finish.pass(t)
			}
			return nil
		}))
		r.DB = f.pool(t, "relay", nil)
		r.Retention, r.Interval = -1, time.Hour
		stop := start(t, r)
		receive(t, begun, "the slow delivery")
		f.enqueue(t, plainTopic, numbers(30))
		f.enqueue(t, plainTopic, []string{"next"}, outbox.OrderKey("k"))
		r.Wake()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 30 }, "the others flow, but for the next in order")
		if f.postgres {
			// It may renew a lease at any time, but not for long.
			eventually(t, func() bool {
				return f.queryInt(t, `SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
						AND application_name = 'relay' AND (xact_start IS NOT NULL OR state LIKE 'idle in transaction%'))
					+ (SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
						WHERE a.datname = current_database() AND a.application_name = 'relay' AND l.relation = 'outbox_messages'::regclass)`) == 0
			}, "no transaction and no lock is left")
		}
		// Whoever asks for any lock on the row gets it, unless it is just being renewed.
		eventually(t, func() bool {
			return f.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				if f.postgres {
					_, err := tx.ExecContext(ctx, "SELECT 1 FROM outbox_messages WHERE id = ? FOR UPDATE NOWAIT", slow.String())
					return err
				}
				_, err := tx.ExecContext(ctx, "UPDATE outbox_messages SET headers = headers WHERE id = ?", slow.String())
				return err
			}) == nil
		}, "the row can be locked")
		require.Equal(t, outbox.StatusClaimed, f.get(t, slow).Status)
		finish.open()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 32 }, "the slow one and the next are recorded")
		require.NoError(t, stop())
	})
}

// renamed is order after somebody has renamed the Go type.
type renamed struct {
	ID string `json:"id"`
}

// F38: names that are made of Go types orphan the rows of a type that is
// renamed.
func TestRenamedGoTypeOrphansNoRow(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, []string{"before"})
		after := topics.New[renamed]("orders.created", nil)
		f.tx(t, func(ctx context.Context, tx bun.Tx) error {
			return outbox.Enqueue(ctx, tx, after, renamed{ID: "after"})
		})
		f.committed++
		for _, m := range f.stored(t) {
			require.Equal(t, "orders.created", m.Topic)
			require.NotContains(t, string(m.Payload), "renamed")
		}
		var got journal
		mux := outbox.NewMux()
		outbox.Handle(mux, after, func(_ context.Context, d outbox.Delivery[renamed]) error {
			got.note(d.Payload.ID)
			return nil
		})
		require.Equal(t, 2, drain(t, f.relay(mux)))
		require.ElementsMatch(t, []string{"before", "after"}, got.take())
	})
}

// F48: producers and relays whose role has another default isolation collide.
func TestDefaultIsolationOfTheRoleCausesNoCollision(t *testing.T) {
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			onPostgres(t, func(t *testing.T, f *fixture) {
				f.business(t)
				f.exec(t, "ALTER DATABASE "+f.databaseName(t)+" SET default_transaction_isolation = '"+level+"'")
				own := f.on(t) // whose sessions begin only now
				const rows = 200
				f.enqueue(t, plainTopic, numbers(rows))
				var calls atomic.Int64
				handler, _ := counted(&calls)
				var stops []func() error
				log := &logs{}
				for range 3 {
					r := own.relay(handling(handler))
					r.Batch, r.Concurrency, r.Interval, r.Logger = 10, 5, time.Millisecond, log.logger()
					stops = append(stops, start(t, r))
				}
				eventually(t, func() bool { return f.count(t, outbox.StatusSent) == rows }, "all are sent")
				for _, stop := range stops {
					require.NoError(t, stop())
				}
				require.EqualValues(t, rows, calls.Load())
				require.Zero(t, log.count("40001"))
				require.Zero(t, log.count(outageLine))
				require.Zero(t, f.queryInt(t, "SELECT sum(attempts) - count(*) FROM outbox_messages"), "no claim was rolled back")

				// A producer with that default and a key that was committed after
				// its snapshot is told so, and its retry succeeds.
				tries := 0
				var receipt outbox.Receipt
				produce := func() error {
					tries++
					return own.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) (err error) {
						if err := act(ctx, tx, "mine"); err != nil { // takes the snapshot
							return err
						}
						if tries == 1 {
							f.enqueue(t, plainTopic, []string{"theirs"}, outbox.Key("k"))
						}
						receipt, err = enqueueKey(ctx, tx, "k", "mine")
						return err
					})
				}
				require.ErrorIs(t, produce(), outbox.ErrSerialization)
				require.NoError(t, produce())
				require.True(t, receipt.Duplicate)
				require.Equal(t, []string{"mine"}, f.acts(t))
			})
		})
	}
}
