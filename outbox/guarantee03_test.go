package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Guarantee 3: a key enqueues once.

// joinedTopic derives its key in the way that generated code does.
var joinedTopic = topics.New("orders.joined", &topics.Options[order]{
	Key: func(o order) string { return topics.JoinKey("orders.joined", o.ID, o.Note) },
})

// enqueueKey enqueues an order under a key and returns the receipt.
func enqueueKey(ctx context.Context, tx bun.Tx, key, id string) (r outbox.Receipt, err error) {
	err = outbox.Enqueue(ctx, tx, plainTopic, order{ID: id}, outbox.Key(key), outbox.Into(&r))
	return r, err
}

// patient opens a pool whose writers wait for each other for as long as it takes,
// on SQLite too: one of many that write at once may not have its turn within the
// usual 5 s of a busy machine.
func (f *fixture) patient(t *testing.T) *bun.DB {
	t.Helper()
	other := *f
	if !f.postgres {
		other.url += "?_pragma=busy_timeout(60000)&_txlock=immediate&x=" // the first wins
	}
	return other.connect(t, nil)
}

func TestOnceInOneTransactionAndAgainstCommittedRows(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		otherTopic := topics.New[order]("another", nil)
		var first outbox.Receipt
		again := func(ctx context.Context, tx bun.Tx) error {
			for _, topic := range []topics.Topic[order]{plainTopic, otherTopic} {
				r := outbox.Receipt{ID: outbox.ID{1}}
				require.NoError(t, outbox.Enqueue(ctx, tx, topic, order{ID: "second"}, outbox.Key("k"), outbox.Into(&r)))
				require.Equal(t, outbox.Receipt{Duplicate: true}, r, "keys are unique over all topics")
			}
			return outbox.Enqueue(ctx, tx, topics.New("derived", &topics.Options[order]{
				Key: func(order) string { return "k" },
			}), order{ID: "third"})
		}
		f.tx(t, func(ctx context.Context, tx bun.Tx) (err error) {
			if first, err = enqueueKey(ctx, tx, "k", "first"); err != nil {
				return err
			}
			require.False(t, first.Duplicate)
			require.False(t, first.ID.IsZero())
			return again(ctx, tx)
		})
		f.tx(t, again)
		list := f.stored(t)
		require.Len(t, list, 1)
		require.Equal(t, first.ID, list[0].ID)
		require.JSONEq(t, `{"id":"first"}`, string(list[0].Payload), "the first stays as it was")
		require.Equal(t, "k", list[0].Key)
	})
}

func TestOnceAfterARollbackTheKeyIsFree(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.rolledBack(t, func(ctx context.Context, tx bun.Tx) error {
			_, err := enqueueKey(ctx, tx, "k", "first")
			return err
		})
		f.tx(t, func(ctx context.Context, tx bun.Tx) error {
			r, err := enqueueKey(ctx, tx, "k", "second")
			require.False(t, r.Duplicate)
			return err
		})
		require.Len(t, f.stored(t), 1)
	})
}

// F12: every transaction of a race commits its business write.
func TestDuplicateKeyInARaceCostsNoBusinessWrite(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		const racers = 50
		f.business(t)
		db := f.patient(t)
		for _, many := range []bool{false, true} {
			key := fmt.Sprint("key ", many)
			receipts := make([]outbox.Receipt, racers)
			errs := make([]error, racers)
			gate := make(chan struct{})
			var wg sync.WaitGroup
			for i := range racers {
				wg.Go(func() {
					<-gate
					errs[i] = db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
						if err := act(ctx, tx, fmt.Sprintf("%s %02d", key, i)); err != nil {
							return err
						}
						if !many {
							var err error
							receipts[i], err = enqueueKey(ctx, tx, key, fmt.Sprint(i))
							return err
						}
						all, err := outbox.EnqueueAll(ctx, tx, ownKeyTopic, []order{{ID: key, Note: fmt.Sprint(i)}})
						if err == nil {
							receipts[i] = all[0]
						}
						return err
					})
				})
			}
			close(gate)
			wg.Wait()
			for _, err := range errs {
				require.NoError(t, err)
			}
			won := slices.IndexFunc(receipts, func(r outbox.Receipt) bool { return !r.Duplicate })
			require.GreaterOrEqual(t, won, 0)
			m := f.get(t, receipts[won].ID)
			require.Equal(t, key, m.Key)
			require.Contains(t, string(m.Payload), fmt.Sprintf(`"%d"`, won), "the winner's payload")
			for i, r := range receipts {
				if i != won {
					require.Equal(t, outbox.Receipt{Duplicate: true}, r)
				}
			}
		}
		require.Len(t, f.acts(t), 2*racers, "every business write is committed")
		require.Len(t, f.stored(t), 2)
	})
}

// F48: producers above READ COMMITTED.
func TestOnceAboveReadCommittedIsASerializationError(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		f.business(t)
		enqueues := map[string]func(ctx context.Context, tx bun.Tx, key string) (outbox.Receipt, error){
			"one": func(ctx context.Context, tx bun.Tx, key string) (outbox.Receipt, error) {
				return enqueueKey(ctx, tx, key, "loser")
			},
			"many": func(ctx context.Context, tx bun.Tx, key string) (outbox.Receipt, error) {
				all, err := outbox.EnqueueAll(ctx, tx, ownKeyTopic, []order{{ID: key}})
				if err != nil {
					return outbox.Receipt{}, err
				}
				return all[0], nil
			},
		}
		for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
			for what, enqueue := range enqueues {
				key := level.String() + what
				tries := 0
				var receipt outbox.Receipt
				try := func() error {
					tries++
					return f.db.RunInTx(t.Context(), &sql.TxOptions{Isolation: level}, func(ctx context.Context, tx bun.Tx) (err error) {
						if err := act(ctx, tx, key); err != nil { // takes the snapshot
							return err
						}
						if tries == 1 {
							f.enqueue(t, plainTopic, []string{"winner"}, outbox.Key(key))
						}
						receipt, err = enqueue(ctx, tx, key)
						return err
					})
				}
				err := try()
				require.ErrorIs(t, err, outbox.ErrSerialization, key)
				require.NotContains(t, f.acts(t), key)
				require.NoError(t, try(), "running the whole transaction again")
				require.Equal(t, outbox.Receipt{Duplicate: true}, receipt)
				require.Contains(t, f.acts(t), key)
			}
		}
		require.Len(t, f.stored(t), 4)
	})
}

// A keyed Enqueue waits for an open transaction that holds the same key.
func TestOnceWaitsForAnOpenTransactionWithTheKey(t *testing.T) {
	for _, tt := range []struct {
		what   string
		commit bool
	}{{"which commits", true}, {"which rolls back", false}} {
		t.Run(tt.what, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				f.business(t)
				holder, err := f.db.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				_, err = enqueueKey(t.Context(), holder, "k", "holder")
				require.NoError(t, err)

				type result struct {
					receipt outbox.Receipt
					err     error
				}
				done := make(chan result, 1)
				begun := make(chan struct{})
				go func() {
					var r result
					close(begun)
					r.err = f.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) (err error) {
						if err := act(ctx, tx, "waiter"); err != nil {
							return err
						}
						r.receipt, err = enqueueKey(ctx, tx, "k", "waiter")
						return err
					})
					done <- r
				}()
				receive(t, begun, "the waiter")
				if f.postgres { // on SQLite it waits at BEGIN, unseen
					eventually(t, func() bool {
						var n int
						require.NoError(t, f.db.NewRaw("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(t.Context(), &n))
						return n == 1
					}, "the waiter waits for a lock")
				}
				require.Empty(t, done)
				if tt.commit {
					require.NoError(t, holder.Commit())
				} else {
					require.NoError(t, holder.Rollback())
				}
				r := receive(t, done, "the waiter's result")
				require.NoError(t, r.err)
				require.Equal(t, tt.commit, r.receipt.Duplicate)
				require.Equal(t, []string{"waiter"}, f.acts(t))
				list := f.stored(t)
				require.Len(t, list, 1)
				want := map[bool]string{true: `{"id":"holder"}`, false: `{"id":"waiter"}`}[tt.commit]
				require.JSONEq(t, want, string(list[0].Payload))
			})
		})
	}
}

// F49: two calls with the same keys in opposite order deadlock. Both begin at the
// same instant and dawdle between their rows, so that the first rounds would; at
// full scale there are 10,000.
func TestKeysInOppositeOrdersDoNotDeadlock(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		rounds := atScale(100, 10_000)
		db := f.patient(t)
		if f.postgres {
			f.exec(t, "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.001); RETURN NEW; END $$")
			f.exec(t, "CREATE TRIGGER dawdle BEFORE INSERT ON outbox_messages FOR EACH ROW EXECUTE FUNCTION dawdle()")
		} else { // which has one writer at a time, and makes them wait longer
			rounds = 40
		}
		keys := []string{"c", "a", "d", "b"}
		gates := make([]sync.WaitGroup, rounds)
		receipts := [2][][]outbox.Receipt{make([][]outbox.Receipt, rounds), make([][]outbox.Receipt, rounds)}
		var errs [2]error
		var wg sync.WaitGroup
		for i := range gates {
			gates[i].Add(2)
		}
		for side := range 2 {
			wg.Go(func() {
				for i := range rounds {
					vs := make([]order, 0, len(keys))
					for _, k := range keys {
						vs = append(vs, order{ID: fmt.Sprint(i, k)})
					}
					if side == 1 {
						slices.Reverse(vs)
					}
					gates[i].Done()
					gates[i].Wait() // both at once
					err := db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) (err error) {
						receipts[side][i], err = outbox.EnqueueAll(ctx, tx, ownKeyTopic, vs)
						return err
					})
					if err != nil && errs[side] == nil {
						errs[side] = fmt.Errorf("round %d: %w", i, err)
					}
				}
			})
		}
		wg.Wait()
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		for i := range rounds {
			for k := range keys {
				a, b := receipts[0][i][k], receipts[1][i][len(keys)-1-k]
				require.NotEqual(t, a.Duplicate, b.Duplicate, "round %d, key %q", i, keys[k])
			}
		}
		require.Equal(t, rounds*len(keys), f.rows(t))
	})
}

func TestOnceWithinOneCallTheFirstWins(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		receipts := f.enqueueAll(t, ownKeyTopic, []order{
			{ID: "b", Note: "0"},
			{ID: "a", Note: "1"},
			{ID: "b", Note: "2"},
			{ID: "", Note: "3"},
			{ID: "a", Note: "4"},
			{ID: "b", Note: "5"},
			{ID: "", Note: "6"},
		})
		for i, want := range []bool{false, false, true, false, true, true, false} {
			require.Equal(t, want, receipts[i].Duplicate, "receipt %d", i)
		}
		for i, m := range f.stored(t) {
			require.Contains(t, string(m.Payload), fmt.Sprintf(`"note":"%d"`, []int{0, 1, 3, 6}[i]))
		}

		// The second of a key stands in another statement than the first.
		keys := make([]string, 0, 2002)
		for range 2 {
			keys = append(keys, numbers(1001)...)
		}
		receipts = f.enqueueAll(t, ownKeyTopic, ordersOf(keys))
		for i, r := range receipts {
			require.Equal(t, i >= 1001, r.Duplicate, "receipt %d", i)
		}
		for _, r := range f.enqueueAll(t, ownKeyTopic, ordersOf(numbers(1001))) {
			require.True(t, r.Duplicate, "against committed rows")
		}
	})
}

// F13: an empty key is no key, and drops a derived one.
func TestEmptyKeyIsNoKey(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		for range 2 {
			f.enqueue(t, ownKeyTopic, []string{"same"}, outbox.Key(""))   // drops the derived key
			f.enqueue(t, plainTopic, []string{"same"}, outbox.Key(""))    // drops nothing
			f.enqueue(t, ownKeyTopic, []string{""}, outbox.OrderKey(""))  // derives ""
			f.enqueueAll(t, ownKeyTopic, []order{{}, {}})                 // likewise
			f.enqueueAll(t, plainTopic, []order{{}}, outbox.OrderKey("")) // derives nothing
		}
		require.Equal(t, 12, f.rows(t))
		var nulls int
		require.NoError(t, f.db.NewRaw("SELECT count(*) FROM outbox_messages WHERE key IS NULL AND order_key IS NULL").Scan(t.Context(), &nulls))
		require.Equal(t, 12, nulls)
	})
}

func TestOnceDerivedAndReplacedKeys(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		duplicate := func(v order, opts ...outbox.EnqueueOption) bool {
			var r outbox.Receipt
			f.tx(t, func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, joinedTopic, v, append(opts, outbox.Into(&r))...)
			})
			return r.Duplicate
		}
		require.False(t, duplicate(order{ID: "7", Note: "a,b"}))
		require.True(t, duplicate(order{ID: "7", Note: "a,b"}))
		require.False(t, duplicate(order{ID: "7,a", Note: "b"}), "other parts with the same text")
		require.False(t, duplicate(order{ID: "7", Note: "a,b"}, outbox.Key("mine")), "Key replaces the derived one")
		require.True(t, duplicate(order{ID: "other"}, outbox.Key("mine")))
		require.True(t, duplicate(order{ID: "other"}, outbox.Key(`orders.joined#7,a\,b`)), "a derived key is stored as it is")
		require.False(t, duplicate(order{}))
		require.False(t, duplicate(order{}), "all parts empty: no key")
		require.Equal(t, 5, f.rows(t))
	})
}

// A key is held in every state of its row, and free once the row is swept.
func TestOnceTheKeyIsHeldUntilTheRowIsSwept(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayVanish = true
		result := outbox.Permanent(fmt.Errorf("no"))
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return result }))
		duplicate := func() bool {
			var receipt outbox.Receipt
			f.rolledBack(t, func(ctx context.Context, tx bun.Tx) (err error) {
				receipt, err = enqueueKey(ctx, tx, "k", "again")
				return err
			})
			return receipt.Duplicate
		}
		sweep := func() int {
			f.shift(t, "updated_at", -2*time.Hour, "true")
			n, err := f.store.Sweep(t.Context(), time.Hour)
			require.NoError(t, err)
			return n
		}
		ids := f.enqueue(t, plainTopic, []string{"a"}, outbox.Key("k"))
		require.True(t, duplicate(), "pending")
		require.Zero(t, drain(t, r))
		require.Equal(t, outbox.StatusFailed, f.get(t, ids[0]).Status)
		require.True(t, duplicate(), "failed")
		require.Zero(t, sweep())
		require.True(t, duplicate(), "failed for long")

		n, err := f.store.Retry(t.Context(), outbox.Filter{IDs: ids})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.True(t, duplicate(), "retried")
		result = nil
		require.Equal(t, 1, drain(t, r))
		require.True(t, duplicate(), "sent")
		require.Equal(t, 1, sweep())
		require.False(t, duplicate(), "swept")

		ids = f.enqueue(t, plainTopic, []string{"b"}, outbox.Key("k"))
		n, err = f.store.Discard(t.Context(), outbox.Filter{IDs: ids, Status: []outbox.Status{outbox.StatusPending}}, "test")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.True(t, duplicate(), "discarded")
		require.Equal(t, 1, sweep())
		require.False(t, duplicate(), "swept")
	})
}
