package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Guarantee 1: atomic.

func TestAtomicCommitKeepsBothRollbackNeither(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.business(t)
		both := func(id string) func(context.Context, bun.Tx) error {
			return func(ctx context.Context, tx bun.Tx) error {
				if err := act(ctx, tx, id); err != nil {
					return err
				}
				return outbox.Enqueue(ctx, tx, plainTopic, order{ID: id})
			}
		}
		f.rolledBack(t, both("rolled back"))
		require.Zero(t, f.rows(t))
		f.tx(t, both("committed"))

		require.Equal(t, []string{"committed"}, f.acts(t))
		list := f.stored(t)
		require.Len(t, list, 1)
		m := list[0]
		require.JSONEq(t, `{"id":"committed"}`, string(m.Payload))
		require.Equal(t, "orders.created", m.Topic)
		require.Equal(t, 1, m.Version)
		require.Equal(t, outbox.StatusPending, m.Status)
		require.Zero(t, m.Attempts)
		require.Empty(t, m.Key+m.OrderKey+m.LastError+m.ClaimedBy)
		require.Empty(t, m.Headers)
		require.False(t, m.CreatedAt.IsZero())
		require.Equal(t, m.CreatedAt, m.AvailableAt)
		require.Equal(t, m.CreatedAt, m.UpdatedAt)
		require.True(t, m.ClaimedAt.IsZero() && m.SentAt.IsZero())
	})
}

func TestAtomicNothingIsDeliveredBeforeTheCommit(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		delivered := make(chan string, 1)
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			delivered <- d.Payload.ID
			return nil
		}))
		looks := make(chan struct{}, 100)
		f.faults.onBefore(func(query string) error {
			if strings.Contains(query, "m.status = 'pending'") {
				select {
				case looks <- struct{}{}:
				default:
				}
			}
			return nil
		})
		stop := start(t, r)
		receive(t, looks, "a look of the relay")
		f.tx(t, func(ctx context.Context, tx bun.Tx) error {
			if err := outbox.Enqueue(ctx, tx, plainTopic, order{ID: "a"}); err != nil {
				return err
			}
			for len(looks) > 0 {
				<-looks
			}
			for range 3 {
				receive(t, looks, "a look while the transaction is open")
			}
			require.Empty(t, delivered)
			return nil
		})
		require.Equal(t, "a", receive(t, delivered, "the delivery"))
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "it is recorded")
		require.NoError(t, stop())
	})
}

func TestAtomicASavepointIsATransaction(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.tx(t, func(ctx context.Context, tx bun.Tx) error {
			for _, id := range []string{"kept", "given up"} {
				inner, err := tx.BeginTx(ctx, nil)
				require.NoError(t, err)
				require.NoError(t, outbox.Enqueue(ctx, inner, plainTopic, order{ID: id}))
				if id == "kept" {
					require.NoError(t, inner.Commit())
				} else {
					require.NoError(t, inner.Rollback())
				}
			}
			return nil
		})
		list := f.stored(t)
		require.Len(t, list, 1)
		require.JSONEq(t, `{"id":"kept"}`, string(list[0].Payload))
	})
}

func TestAtomicNoTransaction(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		plain, err := f.db.DB.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		committed, err := f.db.BeginTx(t.Context(), nil)
		if f.postgres { // on SQLite a second writer would wait for the first
			require.NoError(t, err)
			require.NoError(t, committed.Commit())
		}
		wrapped := bun.Tx{Tx: plain}
		check := func(what string, tx bun.Tx) {
			seen := f.watch()
			err := outbox.Enqueue(t.Context(), tx, plainTopic, order{ID: "a"})
			require.ErrorIs(t, err, outbox.ErrNoTransaction, what)
			receipts, err := outbox.EnqueueAll(t.Context(), tx, plainTopic, []order{{ID: "a"}})
			require.ErrorIs(t, err, outbox.ErrNoTransaction, what)
			require.Nil(t, receipts)
			require.Empty(t, seen.take(), what)
		}
		check("the zero bun.Tx", bun.Tx{})
		check("a bun.Tx around a plain transaction", wrapped)
		require.NoError(t, plain.Rollback())
		if !f.postgres {
			committed, err = f.db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, committed.Commit())
		}
		check("a committed transaction", committed)
		rolledBack, err := f.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, rolledBack.Rollback())
		check("a transaction that was rolled back", rolledBack)
		require.Zero(t, f.rows(t))
	})
}

// refusals is every reason to refuse an Enqueue before it sends SQL.
func refusals() []refusal {
	rawTopic := topics.New[json.RawMessage]("raw", nil)
	keyTopic := topics.New("derived.key", &topics.Options[string]{Key: func(s string) string { return s }})
	orderTopic := topics.New("derived.order", &topics.Options[string]{Order: func(s string) string { return s }})
	long := strings.Repeat("k", outbox.MaxKeyBytes+1)
	now := time.Now()
	var encode *topics.EncodeError
	return []refusal{
		refused("a payload that cannot be marshalled", topics.New[float64]("f", nil), math.NaN(), asEncodeError),
		refused("a payload above the limit", topics.New("s", &topics.Options[string]{MaxBytes: 10}), "123456789", func(t *testing.T, err error) {
			require.ErrorIs(t, err, outbox.ErrPayloadTooLarge)
			require.ErrorAs(t, err, &encode)
		}),
		refused("a payload above the default limit", topics.New[string]("s", nil), strings.Repeat("x", 1<<20), func(t *testing.T, err error) {
			require.ErrorIs(t, err, outbox.ErrPayloadTooLarge)
		}),
		refused("invalid UTF-8 in a RawMessage", rawTopic, json.RawMessage("\"a\xff\""), asEncodeError),
		refused("invalid UTF-8 in a string", plainTopic, order{ID: "a\xff"}, asEncodeError),
		refused("the zero Topic", topics.Topic[order]{}, order{ID: "a"}, asEncodeError),
		ofOne(refused("invalid UTF-8 in the key", plainTopic, order{}, asInvalidKey, outbox.Key("a\xff"))),
		ofOne(refused("NUL in the key", plainTopic, order{}, asInvalidKey, outbox.Key("a\x00b"))),
		ofOne(refused("a key that is too long", plainTopic, order{}, asInvalidKey, outbox.Key(long))),
		refused("NUL in a derived key", keyTopic, "a\x00", asInvalidKey),
		refused("a derived key that is too long", keyTopic, long, asInvalidKey),
		refused("invalid UTF-8 in the order key", plainTopic, order{}, asInvalidKey, outbox.OrderKey("\xff")),
		refused("NUL in the order key", plainTopic, order{}, asInvalidKey, outbox.OrderKey("\x00")),
		refused("an order key that is too long", plainTopic, order{}, asInvalidKey, outbox.OrderKey(long)),
		refused("NUL in a derived order key", orderTopic, "\x00", asInvalidKey),
		refused("a header without a name", plainTopic, order{}, asInvalidKey, outbox.Header("", "v")),
		refused("invalid UTF-8 in a header's name", plainTopic, order{}, asInvalidKey, outbox.Header("\xff", "v")),
		refused("NUL in a header's name", plainTopic, order{}, asInvalidKey, outbox.Header("a\x00", "v")),
		refused("invalid UTF-8 in a header's value", plainTopic, order{}, asInvalidKey, outbox.Header("n", "\xff")),
		refused("NUL in a header's value", plainTopic, order{}, asInvalidKey, outbox.Header("n", "\x00")),
		refused("year 0", plainTopic, order{}, saying("At(year 0)"), outbox.At(time.Date(0, 12, 31, 23, 59, 59, 0, time.UTC))),
		refused("year 10000", plainTopic, order{}, saying("At(year 10000)"), outbox.At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))),
		refused("year 10000 in UTC", plainTopic, order{}, saying("At(year 10000)"),
			outbox.At(time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -2*60*60)))),
		refused("After and At", plainTopic, order{}, saying("After and At contradict"), outbox.After(time.Second), outbox.At(now)),
		refused("At and After", plainTopic, order{}, saying("After and At contradict"), outbox.At(now), outbox.After(0)),
		refused("After and the zero time", plainTopic, order{}, saying("After and At contradict"), outbox.After(time.Second), outbox.At(time.Time{})),
		{
			what: "Into(nil)", check: saying("Into(nil)"),
			one: func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, plainTopic, order{}, outbox.Into(nil))
			},
		},
	}
}

type refusal struct {
	what      string
	one, many func(ctx context.Context, tx bun.Tx) error
	check     func(t *testing.T, err error)
}

func refused[T any](what string, topic topics.Topic[T], v T, check func(*testing.T, error), opts ...outbox.EnqueueOption) refusal {
	return refusal{
		what: what, check: check,
		one: func(ctx context.Context, tx bun.Tx) error {
			receipt := outbox.Receipt{Duplicate: true}
			err := outbox.Enqueue(ctx, tx, topic, v, append(opts, outbox.Into(&receipt))...)
			if receipt != (outbox.Receipt{Duplicate: true}) {
				return fmt.Errorf("a receipt was written: %w", err)
			}
			return err
		},
		many: func(ctx context.Context, tx bun.Tx) error {
			receipts, err := outbox.EnqueueAll(ctx, tx, topic, []T{v}, opts...)
			if receipts != nil {
				return fmt.Errorf("receipts came back: %w", err)
			}
			return err
		},
	}
}

// ofOne is a refusal that EnqueueAll, which takes no Key, has not.
func ofOne(r refusal) refusal {
	r.many = nil
	return r
}

func asEncodeError(t *testing.T, err error) {
	var encode *topics.EncodeError
	require.ErrorAs(t, err, &encode)
}

func asInvalidKey(t *testing.T, err error) { require.ErrorIs(t, err, outbox.ErrInvalidKey) }

func saying(text string) func(*testing.T, error) {
	return func(t *testing.T, err error) { require.ErrorContains(t, err, text) }
}

// F30: NUL in a string aborts the business write. A refusal sends no SQL, so what
// stands in the same transaction commits.
func TestRefusedTextLeavesTheTransactionUsable(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.business(t)
		for _, tt := range refusals() {
			before := f.rows(t)
			seen := f.watch()
			f.tx(t, func(ctx context.Context, tx bun.Tx) error {
				require.NoError(t, act(ctx, tx, tt.what))
				seen.take()
				err := tt.one(ctx, tx)
				require.Error(t, err, tt.what)
				tt.check(t, err)
				if tt.many != nil {
					tt.check(t, tt.many(ctx, tx))
				}
				require.Empty(t, seen.take(), "%s: it sent SQL", tt.what)
				return outbox.Enqueue(ctx, tx, plainTopic, order{ID: "good"})
			})
			require.Equal(t, before+1, f.rows(t), tt.what)
			require.Contains(t, f.acts(t), tt.what)
		}
	})
}

func TestAtomicLimitsAreExact(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		key := strings.Repeat("k", outbox.MaxKeyBytes)
		last := time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
		first := time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)
		ids := f.enqueue(t, plainTopic, []string{"a"}, outbox.Key(key), outbox.OrderKey(key), outbox.At(first))
		require.Equal(t, key, f.get(t, ids[0]).Key)
		require.Equal(t, key, f.get(t, ids[0]).OrderKey)
		require.Equal(t, 1, f.get(t, ids[0]).AvailableAt.Year())

		far := f.enqueue(t, plainTopic, []string{"b"}, outbox.At(last))
		require.Equal(t, 9999, f.get(t, far[0]).AvailableAt.Year())
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		require.Equal(t, 1, drain(t, r), "the first is due, the last is not")
		require.Equal(t, outbox.StatusSent, f.get(t, ids[0]).Status)
		require.Equal(t, outbox.StatusPending, f.get(t, far[0]).Status)
	})
}

func TestAtomicEnqueueIsOneStatement(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		keyed := topics.New("keyed", &topics.Options[order]{
			Key:   func(o order) string { return o.ID },
			Order: func(o order) string { return o.Note },
		})
		var receipt outbox.Receipt
		for _, tt := range []struct {
			what string
			call func(ctx context.Context, tx bun.Tx) error
		}{
			{"plain", func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, plainTopic, order{ID: "a"})
			}},
			{"with a key", func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, plainTopic, order{ID: "a"}, outbox.Key("k"))
			}},
			{"a duplicate", func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, plainTopic, order{ID: "a"}, outbox.Key("k"), outbox.Into(&receipt))
			}},
			{"derived", func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, keyed, order{ID: "d", Note: "o"})
			}},
			{"with every option", func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, plainTopic, order{ID: "a"}, outbox.Key("all"), outbox.OrderKey("o"),
					outbox.After(time.Hour), outbox.Header("a", "1"), outbox.Header("b", "2"), outbox.Into(&receipt))
			}},
			{"at a time", func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, plainTopic, order{ID: "a"}, outbox.At(time.Now()))
			}},
			{"many", func(ctx context.Context, tx bun.Tx) error {
				_, err := outbox.EnqueueAll(ctx, tx, plainTopic, make([]order, 1000))
				return err
			}},
			{"many with keys", func(ctx context.Context, tx bun.Tx) error {
				_, err := outbox.EnqueueAll(ctx, tx, keyed, []order{{ID: "x"}, {ID: "y"}, {ID: "d"}}, outbox.After(time.Hour), outbox.Header("a", "1"))
				return err
			}},
		} {
			seen := f.watch()
			f.tx(t, func(ctx context.Context, tx bun.Tx) error {
				seen.take()
				require.NoError(t, tt.call(ctx, tx), tt.what)
				require.Len(t, seen.take(), 1, tt.what)
				return nil
			})
		}
		require.False(t, receipt.Duplicate)
		require.Equal(t, map[string]string{"a": "1", "b": "2"}, f.get(t, receipt.ID).Headers)
	})
}

func TestAtomicAMissingTableIsNotMigrated(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.business(t)
		f.exec(t, "ALTER TABLE outbox_messages RENAME TO elsewhere")
		defer f.exec(t, "ALTER TABLE elsewhere RENAME TO outbox_messages")
		for _, enqueue := range []func(context.Context, bun.Tx) error{
			func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, plainTopic, order{ID: "a"})
			},
			func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, plainTopic, order{ID: "a"}, outbox.Key("k"))
			},
			func(ctx context.Context, tx bun.Tx) error {
				_, err := outbox.EnqueueAll(ctx, tx, plainTopic, []order{{ID: "a"}})
				return err
			},
		} {
			err := f.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				require.NoError(t, act(ctx, tx, "lost"))
				return enqueue(ctx, tx)
			})
			require.ErrorIs(t, err, outbox.ErrNotMigrated)
			require.NotErrorIs(t, err, outbox.ErrNoTransaction)
			require.Empty(t, f.acts(t), "the transaction is lost")
		}
	})
}

// A cancelled context is the caller's own doing: whatever comes of it, never
// one half of the transaction.
func TestAtomicACancelledContextCommitsNothing(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.business(t)
		ctx, cancel := context.WithCancel(t.Context())
		err := f.db.RunInTx(ctx, &sql.TxOptions{}, func(ctx context.Context, tx bun.Tx) error {
			require.NoError(t, act(ctx, tx, "a"))
			require.NoError(t, outbox.Enqueue(ctx, tx, plainTopic, order{ID: "a"}))
			cancel()
			return outbox.Enqueue(ctx, tx, plainTopic, order{ID: "b"})
		})
		require.Error(t, err)
		eventually(t, func() bool { return len(f.acts(t)) == 0 }, "the business write is rolled back")
		require.Zero(t, f.rows(t))
	})
}
