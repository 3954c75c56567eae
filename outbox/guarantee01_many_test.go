package outbox_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Guarantee 1: atomic, for many messages in one call.

// ownKeyTopic takes its key from the payload.
var ownKeyTopic = topics.New("orders.keyed", &topics.Options[order]{
	Key:      func(o order) string { return o.ID },
	MaxBytes: 4 << 20,
})

// enqueueAll commits orders in one call.
func (f *fixture) enqueueAll(t *testing.T, topic topics.Topic[order], vs []order, opts ...outbox.EnqueueOption) []outbox.Receipt {
	t.Helper()
	var receipts []outbox.Receipt
	f.tx(t, func(ctx context.Context, tx bun.Tx) (err error) {
		receipts, err = outbox.EnqueueAll(ctx, tx, topic, vs, opts...)
		return err
	})
	require.Len(t, receipts, len(vs))
	for _, r := range receipts {
		require.Equal(t, r.Duplicate, r.ID.IsZero())
		if !r.Duplicate {
			f.committed++
		}
	}
	return receipts
}

func ordersOf(ids []string) []order {
	out := make([]order, len(ids))
	for i, id := range ids {
		out[i] = order{ID: id}
	}
	return out
}

func TestAtomicEnqueueAllWritesNothingIfOnePayloadIsRefused(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.business(t)
		vs := ordersOf(numbers(2500))
		vs[2400].ID = "a\xff"
		for i, topic := range []topics.Topic[order]{plainTopic, ownKeyTopic} {
			seen := f.watch()
			f.tx(t, func(ctx context.Context, tx bun.Tx) error {
				require.NoError(t, act(ctx, tx, fmt.Sprint(i)))
				seen.take()
				receipts, err := outbox.EnqueueAll(ctx, tx, topic, vs)
				asEncodeError(t, err)
				require.ErrorContains(t, err, "payload 2401 of 2500")
				require.Nil(t, receipts)
				require.Empty(t, seen.take())
				return outbox.Enqueue(ctx, tx, topic, order{ID: fmt.Sprint("good ", i)})
			})
		}
		require.Len(t, f.stored(t), 2)
		require.Len(t, f.acts(t), 2)
	})
}

func TestAtomicEnqueueAllRefusesKeyAndInto(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		seen := f.watch()
		f.tx(t, func(ctx context.Context, tx bun.Tx) error {
			seen.take()
			var receipt outbox.Receipt
			for _, opt := range []outbox.EnqueueOption{outbox.Key("k"), outbox.Key(""), outbox.Into(&receipt)} {
				for _, vs := range [][]order{nil, {{ID: "a"}}} {
					_, err := outbox.EnqueueAll(ctx, tx, plainTopic, vs, opt)
					require.ErrorContains(t, err, "neither Key nor Into")
				}
			}
			require.Empty(t, seen.take())
			return outbox.Enqueue(ctx, tx, plainTopic, order{ID: "good"})
		})
		require.Len(t, f.stored(t), 1)
	})
}

func TestAtomicEnqueueAllOfNothing(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		seen := f.watch()
		f.tx(t, func(ctx context.Context, tx bun.Tx) error {
			seen.take()
			for _, vs := range [][]order{nil, {}} {
				receipts, err := outbox.EnqueueAll(ctx, tx, plainTopic, vs)
				require.NoError(t, err)
				require.Empty(t, receipts)
			}
			require.Empty(t, seen.take())
			return nil
		})
		require.Zero(t, f.rows(t))
	})
}

func TestAtomicEnqueueAllRollsBackAsAWhole(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.rolledBack(t, func(ctx context.Context, tx bun.Tx) error {
			_, err := outbox.EnqueueAll(ctx, tx, plainTopic, ordersOf(numbers(2001)))
			return err
		})
		require.Zero(t, f.rows(t))
	})
}

// Rows come back in the order of the call by (created_at, id), which is also
// the order of their ids, across several statements and several calls.
func TestAtomicEnqueueAllKeepsTheOrderOfTheCall(t *testing.T) {
	shuffled := func(n int) []string { // in another order than their keys'
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprintf("%05d", (i*7919)%n)
		}
		return ids
	}
	fat := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		what       string
		topic      topics.Topic[order]
		ids        []string
		note       string
		statements int
	}{
		{"1001 rows", plainTopic, numbers(1001), "", 2},
		{"2500 rows with keys", ownKeyTopic, shuffled(2500), "", 3},
		{"5 MiB with keys", ownKeyTopic, shuffled(5), fat, 2},
	} {
		t.Run(tt.what, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				vs := ordersOf(tt.ids)
				for i := range vs {
					vs[i].Note = tt.note
				}
				seen := f.watch()
				var receipts []outbox.Receipt
				f.tx(t, func(ctx context.Context, tx bun.Tx) (err error) {
					if err := outbox.Enqueue(ctx, tx, plainTopic, order{ID: "first"}); err != nil {
						return err
					}
					seen.take()
					receipts, err = outbox.EnqueueAll(ctx, tx, tt.topic, vs)
					require.Len(t, seen.take(), tt.statements)
					if err != nil {
						return err
					}
					return outbox.Enqueue(ctx, tx, plainTopic, order{ID: "last"})
				})
				var got []string
				var ids []outbox.ID
				var created []time.Time
				for _, m := range f.stored(t) {
					v, err := tt.topic.Decode(1, m.Payload)
					require.NoError(t, err)
					got = append(got, v.ID)
					ids = append(ids, m.ID)
					created = append(created, m.CreatedAt)
				}
				require.Equal(t, slices.Concat([]string{"first"}, tt.ids, []string{"last"}), got, "by id")
				require.True(t, slices.IsSortedFunc(created, time.Time.Compare), "created_at agrees with the ids")
				require.Len(t, receipts, len(vs))
				for i, r := range receipts {
					require.Equal(t, outbox.Receipt{ID: ids[i+1]}, r, "receipt %d", i)
				}
			})
		})
	}
}

func TestAtomicEnqueueAllAppliesItsOptionsToEveryRow(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		at := time.Date(2100, 2, 3, 4, 5, 6, 7_000_000, time.UTC)
		f.enqueueAll(t, plainTopic, ordersOf(numbers(1500)), outbox.At(at), outbox.OrderKey("o"), outbox.Header("h", "v"))
		for _, m := range f.stored(t) {
			require.Equal(t, at, m.AvailableAt)
			require.Equal(t, "o", m.OrderKey)
			require.Equal(t, map[string]string{"h": "v"}, m.Headers)
			require.Empty(t, m.Key)
			require.Equal(t, "orders.created", m.Topic)
			require.Equal(t, m.CreatedAt, m.UpdatedAt)
		}
		f.enqueueAll(t, ownKeyTopic, ordersOf(numbers(1500)), outbox.After(time.Hour))
		list, err := f.store.List(t.Context(), outbox.Filter{Topic: "orders.keyed", Limit: 2000})
		require.NoError(t, err)
		require.Len(t, list, 1500)
		for _, m := range list {
			require.WithinRange(t, m.AvailableAt, m.CreatedAt.Add(time.Hour), m.CreatedAt.Add(time.Hour+time.Minute))
		}
	})
}

// After counts from the call, on the database's clock: not from the beginning
// of the transaction, in which the rows may be older than their delay.
func TestAtomicAfterCountsFromTheCall(t *testing.T) {
	onEveryClock(t, func(t *testing.T, f *fixture) {
		f.tx(t, func(ctx context.Context, tx bun.Tx) error {
			clock := func() (now string) {
				query := "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')"
				if f.postgres {
					query = "SELECT (clock_timestamp() AT TIME ZONE 'UTC')::text"
				}
				require.NoError(t, tx.NewRaw(query).Scan(ctx, &now))
				return now
			}
			begun := clock()
			eventually(t, func() bool { return clock() > begun }, "the database's clock goes on")
			before, err := time.Parse("2006-01-02 15:04:05.999999", clock())
			require.NoError(t, err)
			var receipt outbox.Receipt
			require.NoError(t, outbox.Enqueue(ctx, tx, plainTopic, order{ID: "a"}, outbox.After(1500*time.Microsecond), outbox.Into(&receipt)))
			receipts, err := outbox.EnqueueAll(ctx, tx, plainTopic, []order{{ID: "b"}}, outbox.After(1500*time.Microsecond))
			require.NoError(t, err)
			for _, id := range []outbox.ID{receipt.ID, receipts[0].ID} {
				var due string
				query := "SELECT available_at FROM outbox_messages WHERE id = ?"
				if f.postgres {
					query = "SELECT (available_at AT TIME ZONE 'UTC')::text FROM outbox_messages WHERE id = ?"
				}
				require.NoError(t, tx.NewRaw(query, id.String()).Scan(ctx, &due))
				at, err := time.Parse("2006-01-02 15:04:05.999999", due)
				require.NoError(t, err)
				require.False(t, at.Before(before.Add(1500*time.Microsecond)), "%v is too early after %v", at, before)
			}
			return nil
		})
		f.committed += 2
	})
}
