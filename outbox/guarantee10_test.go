package outbox_test

import (
	"context"
	"errors"
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

// Guarantee 10: order.

var (
	paidTopic    = topics.New[order]("orders.paid", nil)
	shippedTopic = topics.New[order]("orders.shipped", nil)
)

// muxOf returns a Mux with one handler for several topics.
func muxOf(h func(context.Context, outbox.Delivery[order]) error, list ...topics.Topic[order]) *outbox.Mux {
	mux := outbox.NewMux()
	for _, topic := range list {
		outbox.Handle(mux, topic, h)
	}
	return mux
}

// enqueueOrdered commits one row of an ordering key and returns its id.
func (f *fixture) enqueueOrdered(t *testing.T, topic topics.Topic[order], key, id string, opts ...outbox.EnqueueOption) outbox.ID {
	t.Helper()
	return f.enqueue(t, topic, []string{id}, append(opts, outbox.OrderKey(key))...)[0]
}

func TestOrderOldestDueFirst(t *testing.T) {
	onEveryClock(t, func(t *testing.T, f *fixture) {
		day := func(n int) outbox.EnqueueOption { return outbox.At(time.Date(2020, 1, n, 0, 0, 0, 0, time.UTC)) }
		f.enqueue(t, plainTopic, []string{"later"}, outbox.After(time.Hour))
		var j journal
		for _, batch := range []int{1, 2, 100} {
			for _, row := range []struct {
				topic topics.Topic[order]
				day   int
			}{{plainTopic, 5}, {paidTopic, 2}, {plainTopic, 1}, {paidTopic, 4}, {shippedTopic, 3}, {plainTopic, 6}, {paidTopic, 7}} {
				f.enqueue(t, row.topic, []string{fmt.Sprint(row.day)}, day(row.day))
			}
			r := f.relay(muxOf(j.noting(), plainTopic, paidTopic, shippedTopic))
			r.Batch, r.Concurrency = batch, 1
			require.Equal(t, 7, drain(t, r))
			require.Equal(t, []string{"1", "2", "3", "4", "5", "6", "7"}, j.take(), "batch %d", batch)
		}
	})
}

// Rows of one transaction are delivered in the order of their calls, across
// topics, one after the other, whatever the concurrency.
func TestOrderWithinOneTransactionAcrossTopics(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		list := []topics.Topic[order]{shippedTopic, plainTopic, paidTopic, ownKeyTopic}
		want := map[string][]string{}
		f.tx(t, func(ctx context.Context, tx bun.Tx) error {
			for i := range 10 {
				for _, key := range []string{"a", "b", "c"} {
					id := fmt.Sprint(key, i)
					if err := outbox.Enqueue(ctx, tx, list[i%len(list)], order{ID: id}, outbox.OrderKey(key)); err != nil {
						return err
					}
					want[key] = append(want[key], id)
				}
				vs := []order{{ID: fmt.Sprintf("c%d z", i)}, {ID: fmt.Sprintf("c%d y", i)}, {ID: fmt.Sprintf("c%d x", i)}}
				if _, err := outbox.EnqueueAll(ctx, tx, ownKeyTopic, vs, outbox.OrderKey("c")); err != nil {
					return err
				}
				want["c"] = append(want["c"], vs[0].ID, vs[1].ID, vs[2].ID)
			}
			return nil
		})
		var j, running journal
		r := f.relay(muxOf(func(_ context.Context, d outbox.Delivery[order]) error {
			running.note("+" + d.Message.OrderKey)
			j.note(d.Payload.ID)
			running.note("-" + d.Message.OrderKey)
			return nil
		}, list...))
		require.Equal(t, 60, drain(t, r))
		got := map[string][]string{}
		for _, id := range j.take() {
			got[id[:1]] = append(got[id[:1]], id)
		}
		require.Equal(t, want, got)
		open := map[string]int{}
		for _, e := range running.take() {
			if e[0] == '+' {
				open[e[1:]]++
			} else {
				open[e[1:]]--
			}
			require.LessOrEqual(t, open[e[1:]], 1, "two of one key at once")
		}
	})
}

// A predecessor that is delayed, backing off, claimed or parked holds up what
// shares its key, in whatever topic and whoever delivers it, and nothing else.
func TestOrderWaitsForItsPredecessor(t *testing.T) {
	state := func(set string) func(*testing.T, *fixture, outbox.ID) {
		return func(t *testing.T, f *fixture, id outbox.ID) {
			f.exec(t, "UPDATE outbox_messages SET "+set+" WHERE id = ?", id.String())
		}
	}
	for _, tt := range []struct {
		what  string
		topic topics.Topic[order]
		opts  []outbox.EnqueueOption
		bring func(t *testing.T, f *fixture, id outbox.ID) // into its state
	}{
		{"delayed", plainTopic, []outbox.EnqueueOption{outbox.After(time.Hour)}, nil},
		{"delayed in another topic", paidTopic, []outbox.EnqueueOption{outbox.After(time.Hour)}, nil},
		{"of a topic that this relay does not take", shippedTopic, nil, nil},
		{"of a version that this relay does not know", topics.New("orders.created", &topics.Options[order]{Version: 2}), nil, nil},
		{"claimed by another relay", plainTopic, []outbox.EnqueueOption{outbox.After(time.Hour)}, state("status = 'claimed', claim_token = id, attempts = 1")},
		{"backing off", paidTopic, nil, func(t *testing.T, f *fixture, id outbox.ID) {
			r := f.relay(muxOf(failing, paidTopic))
			r.BaseBackoff = time.Hour
			require.Zero(t, drain(t, r))
			require.Equal(t, outbox.StatusPending, f.get(t, id).Status)
			require.Equal(t, 1, f.get(t, id).Attempts)
		}},
		{"parked", paidTopic, nil, func(t *testing.T, f *fixture, id outbox.ID) {
			r := f.relay(muxOf(failing, paidTopic))
			r.MaxAttempts = 1
			require.Zero(t, drain(t, r))
			require.Equal(t, outbox.StatusFailed, f.get(t, id).Status)
		}},
	} {
		for _, end := range []outbox.Status{outbox.StatusSent, outbox.StatusDiscarded} {
			t.Run(tt.what+" until "+string(end), func(t *testing.T) {
				onEvery(t, func(t *testing.T, f *fixture) {
					first := f.enqueueOrdered(t, tt.topic, "k", "first", tt.opts...)
					if tt.bring != nil {
						tt.bring(t, f, first)
					}
					second := f.enqueueOrdered(t, plainTopic, "k", "second")
					f.enqueueOrdered(t, paidTopic, "k", "third")
					f.enqueueOrdered(t, plainTopic, "other", "other key")
					f.enqueue(t, plainTopic, []string{"no key"})
					f.enqueueOrdered(t, paidTopic, "K", "other case")

					var j journal
					r := f.relay(muxOf(j.noting(), plainTopic, paidTopic))
					require.Equal(t, 3, drain(t, r))
					require.ElementsMatch(t, []string{"other key", "no key", "other case"}, j.take(), "others flow")
					require.Zero(t, f.get(t, second).Attempts)

					if end == outbox.StatusDiscarded {
						f.exec(t, "UPDATE outbox_messages SET status = 'failed', claim_token = NULL WHERE id = ?", first.String())
						n, err := f.store.Discard(t.Context(), outbox.Filter{IDs: []outbox.ID{first}}, "reason")
						require.NoError(t, err)
						require.Equal(t, 1, n)
					} else {
						f.exec(t, "UPDATE outbox_messages SET status = 'sent', claim_token = NULL WHERE id = ?", first.String())
					}
					require.Equal(t, 2, drain(t, r))
					require.Equal(t, []string{"second", "third"}, j.take())
				})
			})
		}
	}
}

func failing(context.Context, outbox.Delivery[order]) error { return errors.New("no") }

// A parked predecessor that is retried is delivered before its followers.
func TestOrderARetriedPredecessorGoesFirst(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		first := f.enqueueOrdered(t, plainTopic, "k", "first")
		require.Zero(t, drain(t, f.relay(muxOf(func(context.Context, outbox.Delivery[order]) error {
			return outbox.Permanent(errors.New("no"))
		}, plainTopic))))
		f.enqueueOrdered(t, paidTopic, "k", "second", outbox.At(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))) // due long before
		var j journal
		r := f.relay(muxOf(j.noting(), plainTopic, paidTopic))
		require.Zero(t, drain(t, r))
		n, err := f.store.Retry(t.Context(), outbox.Filter{OrderKey: "k"})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, 2, drain(t, r))
		require.Equal(t, []string{"first", "second"}, j.take())
		require.Equal(t, 1, f.get(t, first).Attempts)
	})
}

// A row that fails holds up nobody without its key, however many there are.
func TestOrderAFailingRowBlocksNobodyElse(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, slices.Repeat([]string{"bad"}, 30))
		f.enqueue(t, plainTopic, slices.Repeat([]string{"good"}, 30))
		f.enqueueOrdered(t, plainTopic, "k", "bad")
		f.enqueueOrdered(t, plainTopic, "k2", "good")
		r := f.relay(muxOf(func(_ context.Context, d outbox.Delivery[order]) error {
			if d.Payload.ID == "bad" {
				return errors.New("no")
			}
			return nil
		}, plainTopic))
		r.Batch, r.Concurrency = 10, 2
		require.Equal(t, 31, drain(t, r))
		require.Equal(t, 31, f.count(t, outbox.StatusPending))
	})
}

// Two relays of different topics keep one order between them.
func TestOrderAcrossRelays(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		list := []topics.Topic[order]{plainTopic, paidTopic, shippedTopic}
		var want []string
		for i := range 9 {
			want = append(want, fmt.Sprint(i))
			f.enqueueOrdered(t, list[i%3], "k", want[i])
		}
		var j journal
		var stops []func() error
		for _, topic := range list {
			r := f.relay(muxOf(j.noting(), topic))
			r.DB = f.connect(t, nil)
			stops = append(stops, start(t, r))
		}
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 9 }, "all are sent")
		for _, stop := range stops {
			require.NoError(t, stop())
		}
		require.Equal(t, want, j.take())
	})
}

// Writers that serialise before they call Enqueue are ordered by their calls,
// though their transactions began in reverse.
func TestOrderOfWritersThatSerialise(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		f.business(t)
		f.exec(t, "INSERT INTO business (id) VALUES ('lock')")
		const writers = 5
		txs := make([]bun.Tx, writers)
		for i := range txs { // they begin in the order 0, 1, 2, ...
			tx, err := f.db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			_, err = tx.ExecContext(t.Context(), "SELECT 1")
			require.NoError(t, err)
			txs[i] = tx
		}
		var want []string
		for i, tx := range slices.Backward(txs) {
			_, err := tx.ExecContext(t.Context(), "SELECT id FROM business WHERE id = 'lock' FOR UPDATE")
			require.NoError(t, err)
			want = append(want, fmt.Sprint(i))
			require.NoError(t, outbox.Enqueue(t.Context(), tx, plainTopic, order{ID: fmt.Sprint(i)}, outbox.OrderKey("k")))
			require.NoError(t, tx.Commit())
		}
		f.committed += writers
		var j journal
		require.Equal(t, writers, drain(t, f.relay(muxOf(j.noting(), plainTopic))))
		require.Equal(t, want, j.take())
	})
}

// Hostile order keys are compared as they are.
func TestOrderKeysAreCompared(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		keys := append(slices.Clone(hostileTexts), strings.Repeat("k", outbox.MaxKeyBytes))
		var first, second []string
		for i, key := range keys {
			f.enqueueOrdered(t, plainTopic, key, fmt.Sprint(i, " first"), outbox.After(time.Hour))
			f.enqueueOrdered(t, paidTopic, key, fmt.Sprint(i, " second"))
			first, second = append(first, fmt.Sprint(i, " first")), append(second, fmt.Sprint(i, " second"))
		}
		var j journal
		r := f.relay(muxOf(j.noting(), plainTopic, paidTopic))
		require.Zero(t, drain(t, r))
		f.makeDue(t)
		require.Equal(t, 2*len(keys), drain(t, r))
		got := j.take()
		require.ElementsMatch(t, append(first, second...), got)
		for i := range keys {
			require.Less(t, slices.Index(got, first[i]), slices.Index(got, second[i]), "key %q", keys[i])
		}
	})
}

func TestOrderDerivedAndReplacedKeys(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		derived := topics.New("derived", &topics.Options[order]{Order: func(o order) string { return o.Note }})
		var one outbox.Receipt
		f.tx(t, func(ctx context.Context, tx bun.Tx) error {
			for _, tt := range []struct {
				opts []outbox.EnqueueOption
				want string
			}{
				{nil, "from the payload"},
				{[]outbox.EnqueueOption{outbox.OrderKey("mine")}, "mine"},
				{[]outbox.EnqueueOption{outbox.OrderKey("")}, ""},
			} {
				v := order{ID: tt.want, Note: "from the payload"}
				require.NoError(t, outbox.Enqueue(ctx, tx, derived, v, append(tt.opts, outbox.Into(&one))...))
				_, err := outbox.EnqueueAll(ctx, tx, derived, []order{v}, tt.opts...)
				require.NoError(t, err)
			}
			return nil
		})
		list := f.stored(t)
		require.Len(t, list, 6)
		for _, m := range list {
			v, err := derived.Decode(1, m.Payload)
			require.NoError(t, err)
			require.Equal(t, v.ID, m.OrderKey)
		}
	})
}

// The next of an ordering key does not wait for the end of an Interval.
func TestOrderTheNextIsTakenAtOnce(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, numbers(5), outbox.OrderKey("k"))
		var j journal
		r := f.relay(handling(j.noting()))
		r.Interval = time.Hour
		stop := start(t, r)
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 5 }, "all are sent")
		require.NoError(t, stop())
		require.Equal(t, numbers(5), j.take())
	})
}
