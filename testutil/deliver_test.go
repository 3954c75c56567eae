package testutil_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
	"github.com/typedoutbox/typedoutbox/topics"
)

func TestDeliver(t *testing.T) {
	var got outbox.Delivery[orderCreated]
	mux := outbox.NewMux()
	outbox.Handle(mux, created, func(ctx context.Context, d outbox.Delivery[orderCreated]) error {
		got = d
		return answer(ctx, d)
	}, outbox.MaxAttempts(2))
	wrapped := 0
	mux.Use(func(next outbox.DeliverFunc) outbox.DeliverFunc {
		return func(ctx context.Context, m outbox.Message) error {
			wrapped++
			return next(ctx, m)
		}
	})

	o := testutil.Deliver(t, mux, created, orderCreated{OrderID: "1", note: "not stored"},
		outbox.Key("k"), outbox.Header("trace", "7"), outbox.After(time.Hour))
	o.Require(t, testutil.Sent)
	require.Equal(t, orderCreated{OrderID: "1"}, got.Payload)
	require.Equal(t, "k", got.Message.Key)
	require.Equal(t, "1", got.Message.OrderKey)
	require.Equal(t, map[string]string{"trace": "7"}, got.Message.Headers)
	require.Equal(t, 1, got.Message.Attempts)
	require.Equal(t, 1, wrapped)

	o = testutil.Deliver(t, mux, created, orderCreated{OrderID: "retried"})
	o.Require(t, testutil.Retried)
	require.Equal(t, "the warehouse is out of paper", o.Message.LastError)
	require.InDelta(t, 5*time.Second, o.Wait(), float64(time.Second))

	o = testutil.Deliver(t, mux, created, orderCreated{OrderID: "down"})
	o.Require(t, testutil.Retried)
	require.InDelta(t, time.Minute, o.Wait(), float64(10*time.Millisecond))

	o = testutil.Deliver(t, mux, created, orderCreated{OrderID: "parked"})
	o.Require(t, testutil.Parked)
	require.Equal(t, "no such article", o.Message.LastError)
}

func TestDeliverAnOlderVersion(t *testing.T) {
	type createdV1 struct {
		ID string `json:"id"`
	}
	old := topics.New[createdV1]("order-created", nil) // its name then, too
	newest := topics.New("orders.created", &topics.Options[orderCreated]{
		Version: 2,
		Aliases: []string{"order-created"},
		Upcast: map[int]topics.Upcaster{1: topics.Upcast(func(e createdV1) (orderCreated, error) {
			if e.ID == "" {
				return orderCreated{}, errors.New("no id")
			}
			return orderCreated{OrderID: e.ID}, nil
		})},
	})
	var got orderCreated
	mux := outbox.NewMux()
	outbox.Handle(mux, newest, func(_ context.Context, d outbox.Delivery[orderCreated]) error {
		got = d.Payload
		return nil
	})
	o := testutil.Deliver(t, mux, old, createdV1{ID: "1"})
	o.Require(t, testutil.Sent)
	require.Equal(t, orderCreated{OrderID: "1"}, got)

	o = testutil.Deliver(t, mux, old, createdV1{})
	o.Require(t, testutil.Retried)
	require.Contains(t, o.Message.LastError, "upcast from version 1 to 2: no id")
}

func TestDeliverAPanic(t *testing.T) {
	mux := outbox.NewMux()
	outbox.Handle(mux, paid, func(context.Context, outbox.Delivery[orderPaid]) error { panic("no luck") })
	o := testutil.Deliver(t, mux, paid, orderPaid{})
	require.Equal(t, "the handler panicked: no luck", o.Message.LastError)
}

func TestDrainFollowsCascades(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		first := handling(db, func(ctx context.Context, d outbox.Delivery[orderCreated]) error {
			return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, paid, orderPaid{OrderID: d.Payload.OrderID})
			})
		})
		second := handling(db, succeed)
		second.Mux = outbox.NewMux()
		outbox.Handle(second.Mux, paid, func(context.Context, outbox.Delivery[orderPaid]) error { return nil })

		require.Equal(t, "  sent orders.created {\"order_id\":\"1\",\"cents\":0}\n  unhandled orders.paid {\"order_id\":\"1\"}",
			testutil.Drain(t, first).String())
		testutil.Drain(t, second).RequireSent(t, 1)
		commit(t, db, created, orderCreated{OrderID: "2"})
		all := testutil.Drain(t, second, first) // the one that has nothing to do at first is first
		all.RequireSent(t, 2)
		require.Equal(t, "orders.paid", all[1].Message.Topic)
	})
}

func TestDrainTellsWhatHappened(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		for _, id := range []string{"sent", "retried", "parked"} {
			commit(t, db, created, orderCreated{OrderID: id})
		}
		commit(t, db, created, orderCreated{OrderID: "behind"}, outbox.OrderKey("parked"))
		commit(t, db, created, orderCreated{OrderID: "delayed"}, outbox.After(time.Hour))
		commit(t, db, paid, orderPaid{OrderID: "1"})
		relay := handling(db, answer)

		all := testutil.Drain(t, relay)
		for result, id := range map[testutil.Result]string{
			testutil.Sent: "sent", testutil.Retried: "retried", testutil.Parked: "parked", testutil.Waiting: "behind", testutil.Unhandled: "1",
		} {
			some := all.Of(result)
			require.Len(t, some, 1, all)
			require.Contains(t, string(some[0].Message.Payload), `"`+id+`"`)
		}
		require.Len(t, all, 5)

		// What has not changed is told once.
		require.Equal(t, 2, len(testutil.Drain(t, relay)), "what is due and not delivered")
		testutil.Advance(t, db, 30*time.Minute)
		all = testutil.Drain(t, relay)
		require.Len(t, all.Of(testutil.Retried), 1, all)
		require.Equal(t, 2, all.Of(testutil.Retried)[0].Message.Attempts)
		require.Empty(t, all.Of(testutil.Sent), all)
		testutil.Advance(t, db, 31*time.Minute)
		require.Len(t, testutil.Drain(t, relay).Of(testutil.Sent), 1)
	})
}

// What a relay takes is a matter of the version, too.
func TestDrainTellsVersionsApart(t *testing.T) {
	newer := topics.New("orders.created", &topics.Options[orderCreated]{Version: 2})
	newerAlias := topics.New("order-created", &topics.Options[orderCreated]{Version: 2})
	onEach(t, func(t *testing.T, db *bun.DB) {
		relay := handling(db, answer)
		commit(t, db, created, orderCreated{OrderID: "parked"})
		commit(t, db, newer, orderCreated{})
		commit(t, db, created, orderCreated{}, outbox.OrderKey("parked"))
		commit(t, db, createdOnceNamed, orderCreated{}, outbox.OrderKey("parked"))
		commit(t, db, newerAlias, orderCreated{})
		all := testutil.Drain(t, relay).Require(t, testutil.Parked,
			testutil.Unhandled, testutil.Waiting, testutil.Waiting, testutil.Unhandled)
		require.Equal(t, `unhandled orders.created {"order_id":"","cents":0} version=2`, all[1].String())
		requireSameUnhandled(t, relay, all)

		_, err := db.ExecContext(t.Context(), "UPDATE outbox_messages SET version = 1")
		require.NoError(t, err)
		testutil.Drain(t, relay).Require(t, testutil.Sent, testutil.Waiting, testutil.Waiting, testutil.Sent)
	})
}

func TestDrainTellsPrefixesApart(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		commit(t, db, topics.New[int]("order", nil), 1)
		relay := &outbox.Relay{DB: db, TopicPrefix: "orders.", Deliver: func(context.Context, outbox.Message) error { return nil }}
		requireSameUnhandled(t, relay, testutil.Drain(t, relay).Require(t, testutil.Sent, testutil.Unhandled))
	})
}

// A lease that is over waits for a relay that takes its topic.
func TestDrainTellsOfALeaseThatNobodyTakesOver(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		testutil.Drain(t, handling(db, succeed)).RequireSent(t, 1)
		testutil.LoseOutcomes(t, db)
		other := &outbox.Relay{DB: db, Mux: outbox.NewMux()}
		outbox.Handle(other.Mux, paid, func(context.Context, outbox.Delivery[orderPaid]) error { return nil })
		requireSameUnhandled(t, other, testutil.Drain(t, other).Require(t, testutil.Unhandled))
	})
}

// requireSameUnhandled fails t unless relay itself counts as many.
func requireSameUnhandled(t *testing.T, relay *outbox.Relay, all testutil.Outcomes) {
	t.Helper()
	stats, err := relay.Unhandled(t.Context())
	require.NoError(t, err)
	n := 0
	for _, s := range stats {
		n += s.Count
	}
	require.Len(t, all.Of(testutil.Unhandled), n)
}

// Without a Logger a relay would log to the default.
func TestDrainIsQuiet(t *testing.T) {
	var log strings.Builder
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	db := testutil.SQLite(t)
	relay := handling(db, answer)
	for _, logger := range []*slog.Logger{nil, slog.Default()} {
		relay.Logger = logger
		commit(t, db, created, orderCreated{OrderID: "parked"})
		testutil.Drain(t, relay).Of(testutil.Parked)[0].Require(t, testutil.Parked)
		require.Equal(t, logger, relay.Logger)
		require.Equal(t, logger == nil, log.String() == "", log.String())
		_, err := db.ExecContext(t.Context(), "DELETE FROM outbox_messages")
		require.NoError(t, err)
	}
}

func TestDrainOverTwoDatabases(t *testing.T) {
	here, there := testutil.SQLite(t), testutil.SQLite(t)
	commit(t, here, created, orderCreated{OrderID: "1"})
	var arrived atomic.Int32
	testutil.Drain(t,
		handling(there, func(context.Context, outbox.Delivery[orderCreated]) error { arrived.Add(1); return nil }),
		handling(here, func(_ context.Context, d outbox.Delivery[orderCreated]) error {
			commit(t, there, created, d.Payload)
			return nil
		})).RequireSent(t, 2)
	require.Equal(t, int32(1), arrived.Load())
}

// A handler may enqueue for the relay before it, and then fail for good.
func TestDrainGoesRoundAfterAFailure(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		commit(t, db, paid, orderPaid{OrderID: "1"})
		failing := &outbox.Relay{DB: db, Mux: outbox.NewMux(), Logger: slog.New(slog.DiscardHandler)}
		outbox.Handle(failing.Mux, paid, func(_ context.Context, d outbox.Delivery[orderPaid]) error {
			commit(t, db, created, orderCreated{OrderID: d.Payload.OrderID})
			return outbox.Permanent(errors.New("refused"))
		})
		testutil.Drain(t, handling(db, succeed), failing).Require(t, testutil.Parked, testutil.Sent)
	})
}

func TestDrainOverClonesOfOneDatabase(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		other := handling(db, succeed)
		other.Mux = outbox.NewMux()
		outbox.Handle(other.Mux, paid, func(context.Context, outbox.Delivery[orderPaid]) error { return nil })
		testutil.Drain(t, handling(db.WithQueryHook(&outbox.CommitHook{}), succeed), other).RequireSent(t, 1)
	})
}

// The second time it leaves the same error, and no attempt.
func TestDrainTellsOfAnotherOutage(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		relay := handling(db, func(context.Context, outbox.Delivery[orderCreated]) error {
			return outbox.Unavailable(errors.New("no route to host"))
		})
		testutil.Drain(t, relay).Require(t, testutil.Retried)
		testutil.Advance(t, db, time.Hour)
		testutil.Drain(t, relay).Require(t, testutil.Retried)
	})
}

func TestDeliverAnErrorWithoutText(t *testing.T) {
	mux := outbox.NewMux()
	outbox.Handle(mux, created, func(context.Context, outbox.Delivery[orderCreated]) error { return errors.New("") })
	testutil.Deliver(t, mux, created, orderCreated{}).Require(t, testutil.Retried)
}
