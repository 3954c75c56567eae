package testutil_test

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/internal/faketb"
	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
	"github.com/typedoutbox/typedoutbox/topics"
)

var update = flag.Bool("update", false, "write testdata/messages")

// varies are the parts of a message that differ from run to run.
var varies = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`_test\.go:\d+`), "_test.go:LINE"},
	{regexp.MustCompile(`delay=\d{4,}h\S+`), "delay=YEARS"},
	{regexp.MustCompile(`, in [0-9.]+s:`), ", in WAIT:"},
	{regexp.MustCompile(`not done after [0-9.]+s`), "not done after TIME"},
	{regexp.MustCompile(`\d{5,} enqueued meanwhile, \d+ to be`), "MANY enqueued meanwhile, SOME to be"},
}

// handling returns a relay on db whose handler of created is h.
func handling(db *bun.DB, h func(context.Context, outbox.Delivery[orderCreated]) error) *outbox.Relay {
	mux := outbox.NewMux()
	outbox.Handle(mux, created, h)
	return &outbox.Relay{DB: db, Mux: mux, Logger: slog.New(slog.DiscardHandler)}
}

func succeed(context.Context, outbox.Delivery[orderCreated]) error { return nil }

// commit enqueues in a transaction that commits.
func commit[T any](t testing.TB, db *bun.DB, topic topics.Topic[T], v T, opts ...outbox.EnqueueOption) {
	t.Helper()
	require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		return outbox.Enqueue(ctx, tx, topic, v, opts...)
	}))
}

// failures are all ways in which a helper fails a test, with what it says in
// testdata/messages.
var failures = []struct {
	name string
	test func(t testing.TB, db *bun.DB)
}{
	{"enqueued-none", func(t testing.TB, db *bun.DB) { testutil.RequireEnqueued(t, db, created) }},
	{"enqueued-several", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		commit(t, db, created, orderCreated{OrderID: "2"}, outbox.Header("trace", "7"), outbox.After(time.Minute))
		testutil.RequireEnqueued(t, db, created)
	}},
	{"enqueued-match", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1", Cents: 1})
		commit(t, db, created, orderCreated{OrderID: "2", Cents: 2})
		testutil.RequireEnqueued(t, db, created, order("2"), cents(3))
	}},
	{"enqueued-match-other-topic", func(t testing.TB, db *bun.DB) {
		commit(t, db, paid, orderPaid{OrderID: "1"})
		commit(t, db, topics.New[int]("numbers", nil), 7)
		commit(t, db, topics.New[map[string]string]("parcels", nil), map[string]string{"order_id": "1", "weight": "3"})
		testutil.RequireEnqueued(t, db, created, order("1"))
	}},
	{"enqueued-match-panics-on-other-topic", func(t testing.TB, db *bun.DB) {
		commit(t, db, paid, orderPaid{OrderID: "1"})
		testutil.RequireEnqueued(t, db, created, func(e orderCreated) bool { return e.Lines[0] == "" })
	}},
	{"equal-value", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1", Cents: 5, Lines: []string{"a", "b"}})
		commit(t, db, created, orderCreated{OrderID: "7"})
		testutil.RequireEnqueuedEqual(t, db, created, orderCreated{OrderID: "1", Cents: 6, Lines: []string{"a"}})
	}},
	{"equal-twice", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		commit(t, db, created, orderCreated{OrderID: "1"})
		testutil.RequireEnqueuedEqual(t, db, created, orderCreated{OrderID: "1"})
	}},
	{"equal-other-topic", func(t testing.TB, db *bun.DB) {
		commit(t, db, paid, orderPaid{OrderID: "1"})
		commit(t, db, paid, orderPaid{OrderID: "2"})
		testutil.RequireEnqueuedEqual(t, db, refunded, orderPaid{OrderID: "2"})
	}},
	{"equal-not-committed", func(t testing.TB, db *bun.DB) {
		require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			if err := outbox.Enqueue(ctx, tx, created, orderCreated{OrderID: "1"}); err != nil {
				return err
			}
			testutil.RequireEnqueuedEqual(t, db, created, orderCreated{OrderID: "1"})
			return nil
		}))
	}},
	{"equal-rolled-back", func(t testing.TB, db *bun.DB) {
		_ = db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			// The context does not come from the transaction.
			return errors.Join(outbox.Enqueue(t.Context(), tx, created, orderCreated{OrderID: "1"}), errors.New("no"))
		})
		testutil.RequireEnqueuedEqual(t, db, created, orderCreated{OrderID: "1"})
	}},
	{"equal-savepoint-rolled-back", func(t testing.TB, db *bun.DB) {
		require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			if err := outbox.Enqueue(ctx, tx, paid, orderPaid{OrderID: "1"}); err != nil {
				return err
			}
			_ = tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				return errors.Join(outbox.Enqueue(ctx, tx, created, orderCreated{OrderID: "1"}), errors.New("no"))
			})
			return nil
		}))
		testutil.RequireEnqueuedEqual(t, db, created, orderCreated{OrderID: "1"})
	}},
	{"equal-savepoint-within-transaction", func(t testing.TB, db *bun.DB) {
		require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			_ = tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				return errors.Join(outbox.Enqueue(ctx, tx, created, orderCreated{OrderID: "1"}), errors.New("no"))
			})
			testutil.RequireEnqueuedEqual(t, tx, created, orderCreated{OrderID: "1"})
			return nil
		}))
	}},
	{"equal-savepoint-not-committed", func(t testing.TB, db *bun.DB) {
		require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			if err := tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, created, orderCreated{OrderID: "1"})
			}); err != nil {
				return err
			}
			testutil.RequireEnqueuedEqual(t, db, created, orderCreated{OrderID: "1"})
			return nil
		}))
	}},
	{"equal-odd-names", func(t testing.TB, db *bun.DB) {
		numbers := topics.New[map[string]any]("numbers", nil)
		commit(t, db, numbers, map[string]any{"a": map[string]any{"b": 1}, "": 2})
		testutil.RequireEnqueuedEqual(t, db, numbers, map[string]any{"a.b": 1, " ": 2})
	}},
	{"equal-no-payload", func(t testing.TB, db *bun.DB) {
		testutil.RequireEnqueuedEqual(t, db, created, orderCreated{OrderID: "\xff"})
	}},
	{"equal-in-json-only", func(t testing.TB, db *bun.DB) {
		commit(t, db, folded, fold{"A"})
		testutil.RequireEnqueuedEqual(t, db, folded, fold{"a"})
	}},
	{"as-envelope", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"},
			outbox.Key("k"), outbox.OrderKey(""), outbox.After(time.Minute), outbox.Header("tenant", "b"))
		testutil.RequireEnqueuedAs(t, db, created, orderCreated{OrderID: "1"},
			outbox.After(time.Hour), outbox.Header("tenant", "a"), outbox.Header("trace", "7"))
	}},
	{"as-at-advanced", func(t testing.TB, db *bun.DB) {
		at := time.Date(2101, 4, 5, 6, 7, 8, 0, time.UTC)
		commit(t, db, created, orderCreated{OrderID: "1"}, outbox.At(at))
		testutil.Advance(t, db, time.Hour)
		testutil.RequireEnqueuedAs(t, db, created, orderCreated{OrderID: "1"}, outbox.At(at))
	}},
	{"as-no-message", func(t testing.TB, db *bun.DB) {
		testutil.RequireEnqueuedAs(t, db, created, orderCreated{}, outbox.Key("\xff"))
	}},
	{"all-order", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "2"})
		commit(t, db, created, orderCreated{OrderID: "1"})
		testutil.RequireAllEnqueued(t, db, created, orderCreated{OrderID: "1"}, orderCreated{OrderID: "2"})
	}},
	{"all-twice", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		commit(t, db, created, orderCreated{OrderID: "1"})
		testutil.RequireAllEnqueued(t, db, created, orderCreated{OrderID: "1"})
	}},
	{"all-too-early", func(t testing.TB, db *bun.DB) {
		for _, id := range []string{"0", "1", "2"} {
			commit(t, db, created, orderCreated{OrderID: id})
		}
		testutil.RequireAllEnqueued(t, db, created, orderCreated{OrderID: "1"}, orderCreated{OrderID: "2"})
	}},
	{"all-missing", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "2"})
		testutil.RequireAllEnqueued(t, db, created, orderCreated{OrderID: "1"}, orderCreated{OrderID: "2"}, orderCreated{OrderID: "3"})
	}},
	{"all-value", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1", Cents: 5})
		testutil.RequireAllEnqueued(t, db, created, orderCreated{OrderID: "1", Cents: 6})
	}},
	{"all-many", func(t testing.TB, db *bun.DB) {
		for n := range 25 {
			commit(t, db, created, orderCreated{Cents: n})
		}
		testutil.RequireAllEnqueued(t, db, created)
	}},
	{"all-late", func(t testing.TB, db *bun.DB) {
		var want []orderCreated
		for n := range 25 {
			want = append(want, orderCreated{Cents: n})
			commit(t, db, created, orderCreated{Cents: n + n/23*1000}) // from the 24th on
		}
		testutil.RequireAllEnqueued(t, db, created, want...)
	}},
	{"all-different", func(t testing.TB, db *bun.DB) {
		var want []orderCreated
		for n := range 25 {
			want = append(want, orderCreated{Cents: n})
			commit(t, db, created, orderCreated{Cents: 100 + n})
		}
		testutil.RequireAllEnqueued(t, db, created, want...)
	}},
	{"not-enqueued", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		testutil.RequireNotEnqueued(t, db, created)
	}},
	{"undecodable", func(t testing.TB, db *bun.DB) {
		commit(t, db, topics.New("orders.created", &topics.Options[string]{Version: 2}), "x")
		testutil.AllEnqueued(t, db, created)
	}},
	{"deliver-unhandled", func(t testing.TB, db *bun.DB) {
		testutil.Deliver(t, handling(db, succeed).Mux, paid, orderPaid{})
	}},
	{"deliver-newer", func(t testing.TB, db *bun.DB) {
		newer := topics.New("orders.created", &topics.Options[orderCreated]{Version: 2})
		testutil.Deliver(t, handling(db, succeed).Mux, newer, orderCreated{})
	}},
	{"deliver-required", func(t testing.TB, db *bun.DB) {
		mux := handling(db, succeed).Mux
		mux.Require(topics.Info{Name: "orders.paid", Source: "events/outbox_gen.go:7"})
		testutil.Deliver(t, mux, created, orderCreated{})
	}},
	{"drain-outcomes", func(t testing.TB, db *bun.DB) {
		for _, id := range []string{"sent", "retried", "parked", "down"} {
			commit(t, db, created, orderCreated{OrderID: id})
		}
		commit(t, db, created, orderCreated{OrderID: "behind"}, outbox.OrderKey("parked"))
		commit(t, db, created, orderCreated{OrderID: "delayed"}, outbox.After(time.Hour))
		commit(t, db, paid, orderPaid{OrderID: "1"})
		testutil.Drain(t, handling(db, answer)).RequireSent(t, 1)
	}},
	{"drain-results", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		testutil.Drain(t, handling(db, succeed)).Require(t, testutil.Sent).Require(t, testutil.Sent, testutil.Parked)
	}},
	{"drain-another-result", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		testutil.Drain(t, handling(db, succeed)).Require(t, testutil.Parked)
	}},
	{"deliver-result", func(t testing.TB, db *bun.DB) {
		mux := handling(db, answer).Mux
		testutil.Deliver(t, mux, created, orderCreated{OrderID: "1"}).Require(t, testutil.Sent)
		testutil.Deliver(t, mux, created, orderCreated{OrderID: "parked"}).Require(t, testutil.Retried)
	}},
	{"enqueued-unknown-database", func(t testing.TB, db *bun.DB) {
		testutil.RequireEnqueued(t, bun.NewDB(db.DB, db.Dialect()), created)
	}},
	{"drain-many", func(t testing.TB, db *bun.DB) {
		for range 25 {
			commit(t, db, created, orderCreated{})
		}
		testutil.Drain(t, handling(db, succeed)).RequireSent(t, 24)
	}},
	{"drain-nothing", func(t testing.TB, db *bun.DB) { testutil.Drain(t, handling(db, succeed)).RequireSent(t, 1) }},
	{"drain-no-relay", func(t testing.TB, _ *bun.DB) { testutil.Drain(t) }},
	{"drain-no-database", func(t testing.TB, _ *bun.DB) { testutil.Drain(t, &outbox.Relay{}) }},
	{"drain-cannot", func(t testing.TB, db *bun.DB) { testutil.Drain(t, &outbox.Relay{DB: db}) }},
	{"drain-cascade", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{})
		testutil.Drain(t, handling(db, func(ctx context.Context, _ outbox.Delivery[orderCreated]) error {
			return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				_, err := outbox.EnqueueAll(ctx, tx, created, make([]orderCreated, 200))
				return err
			})
		}))
	}},
	{"drain-stuck", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		relay := handling(db, func(ctx context.Context, _ outbox.Delivery[orderCreated]) error { <-ctx.Done(); return ctx.Err() })
		relay.ShutdownTimeout = time.Millisecond
		testutil.Drain(hurried{t, 5 * time.Second}, relay)
	}},
	{"wait-status", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "parked"})
		commit(t, db, created, orderCreated{OrderID: "1"})
		testutil.Drain(t, handling(db, answer))
		testutil.WaitFor(hurried{t, 0}, db, created, outbox.StatusSent, order("parked"))
	}},
	{"wait-undecodable", func(t testing.TB, db *bun.DB) {
		commit(t, db, topics.New[string]("orders.created", nil), "x")
		testutil.WaitFor(hurried{t, 0}, db, created, outbox.StatusPending, func(orderCreated) bool {
			t.Error("a match function was called")
			return true
		})
	}},
	{"wait-none", func(t testing.TB, db *bun.DB) { testutil.WaitFor(hurried{t, 0}, db, created, outbox.StatusSent) }},
	{"lose-no-lease", func(t testing.TB, db *bun.DB) { testutil.LoseLeases(t, db) }},
	{"lose-cannot", func(t testing.TB, db *bun.DB) {
		require.NoError(t, db.Close())
		testutil.LoseLeases(t, db)
		testutil.Advance(t, db, time.Hour)
	}},
	{"locked", func(t testing.TB, db *bun.DB) {
		tx := locked(t, db)
		defer func() { require.NoError(t, tx.Rollback()) }()
		testutil.Advance(t, db, time.Hour)
	}},
	{"locked-drain", func(t testing.TB, db *bun.DB) {
		tx := locked(t, db)
		defer func() { require.NoError(t, tx.Rollback()) }()
		testutil.Drain(t, handling(db, succeed))
	}},
	{"refuse-cannot", func(t testing.TB, db *bun.DB) {
		require.NoError(t, db.Close())
		testutil.RefuseOutcomes(t, db)
	}},
	{"lose-no-outcome", func(t testing.TB, db *bun.DB) { testutil.LoseOutcomes(t, db) }},
	{"idempotent-not", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1", Cents: 5})
		revenue := map[string]int{}
		testutil.RequireIdempotent(t, handling(db, func(_ context.Context, d outbox.Delivery[orderCreated]) error {
			revenue[d.Payload.OrderID] += d.Payload.Cents
			return nil
		}), func() any { return map[string]int{"1": revenue["1"]} })
	}},
	{"idempotent-enqueues", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		done := false
		testutil.RequireIdempotent(t, handling(db, func(ctx context.Context, _ outbox.Delivery[orderCreated]) error {
			done = true
			return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, refunded, orderPaid{OrderID: "1"})
			})
		}), func() any { return done })
	}},
	{"idempotent-enqueues-later", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		done := false
		testutil.RequireIdempotent(t, handling(db, func(ctx context.Context, _ outbox.Delivery[orderCreated]) error {
			done = true
			return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, refunded, orderPaid{OrderID: "1"}, outbox.After(time.Hour))
			})
		}), func() any { return done })
	}},
	{"idempotent-fails", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		calls := 0
		testutil.RequireIdempotent(t, handling(db, func(context.Context, outbox.Delivery[orderCreated]) error {
			if calls++; calls > 1 {
				return errors.New("duplicate key")
			}
			return nil
		}), func() any { return calls > 0 })
	}},
	{"idempotent-nothing-sent", func(t testing.TB, db *bun.DB) {
		testutil.RequireIdempotent(t, handling(db, succeed), func() any { return 1 })
	}},
	{"idempotent-no-effect", func(t testing.TB, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		testutil.RequireIdempotent(t, handling(db, succeed), func() any { return []string{"a"} })
	}},
	{"idempotent-opaque", func(t testing.TB, db *bun.DB) {
		type opaque struct{ calls int }
		commit(t, db, created, orderCreated{OrderID: "1"})
		var o opaque
		testutil.RequireIdempotent(t, handling(db, func(context.Context, outbox.Delivery[orderCreated]) error {
			o.calls++
			return nil
		}), func() any { return o })
	}},
	{"leaked-transaction", func(t testing.TB, _ *bun.DB) {
		tx, err := testutil.SQLite(t).BeginTx(context.Background(), nil)
		require.NoError(t, err)
		require.NoError(t, outbox.Enqueue(t.Context(), tx, created, orderCreated{}))
		t.Cleanup(func() { require.NoError(t, tx.Tx.Rollback()) }) // behind its back
	}},
	{"leaked-connection", func(t testing.TB, _ *bun.DB) {
		_, err := testutil.SQLite(t).Conn(context.Background())
		require.NoError(t, err)
	}},
	{"leaked-plain-transaction", func(t testing.TB, _ *bun.DB) {
		_, err := testutil.SQLite(t).DB.BeginTx(context.Background(), nil)
		require.NoError(t, err)
	}},
	{"template", func(t testing.TB, _ *bun.DB) {
		broken := testutil.Template{Migrate: func(context.Context, *bun.DB) error { return errors.New("no such column") }}
		broken.SQLite(t)
	}},
	{"template-leaks", func(t testing.TB, _ *bun.DB) {
		leaky := testutil.Template{Migrate: func(ctx context.Context, db *bun.DB) error {
			rows, err := db.QueryContext(ctx, "SELECT 1")
			t.Cleanup(func() { _ = rows.Close() })
			return err
		}}
		leaky.SQLite(t)
	}},
	{"template-left", func(t testing.TB, _ *bun.DB) {
		left := testutil.Template{Migrate: func(context.Context, *bun.DB) error { runtime.Goexit(); return nil }}
		done := make(chan struct{})
		go func() {
			defer close(done)
			left.SQLite(t)
		}()
		<-done
		left.SQLite(t)
	}},
}

// locked returns a transaction that holds db, for which its connections do not
// wait long.
func locked(t testing.TB, db *bun.DB) bun.Tx {
	t.Helper()
	commit(t, db, created, orderCreated{OrderID: "1"})
	const most = 6 // that are used at once
	db.SetMaxIdleConns(most)
	var conns []bun.Conn
	for range most {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		_, err = conn.ExecContext(t.Context(), "PRAGMA busy_timeout = 1")
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	return tx
}

// hurried is a test whose time is nearly over.
type hurried struct {
	testing.TB
	left time.Duration
}

func (h hurried) Deadline() (time.Time, bool) { return time.Now().Add(h.left), true }

var refunded = topics.New[orderPaid]("orders.refunded", nil)

// fold forgets the case when it is written.
type fold struct{ text string }

func (f fold) MarshalJSON() ([]byte, error) { return []byte(`"x"`), nil }

func (f *fold) UnmarshalJSON([]byte) error { folds++; f.text = string(rune('a' + folds)); return nil }

var (
	folds  int
	folded = topics.New[fold]("folded", nil)
)

// answer says what becomes of an order by its id.
func answer(_ context.Context, d outbox.Delivery[orderCreated]) error {
	switch d.Payload.OrderID {
	case "retried":
		return errors.New("the warehouse is out of paper")
	case "parked":
		return outbox.Permanent(errors.New("no such article"))
	case "down":
		return outbox.RetryAfter(time.Minute, errors.New("closed for today"))
	}
	return nil
}

func TestFailuresSayWhatIsWrong(t *testing.T) {
	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			db := testutil.SQLite(t)
			res := faketb.Run(t, func(t testing.TB) { f.test(t, db) })
			require.True(t, res.Failed)
			got := res.Text + "\n"
			for _, v := range varies {
				got = v.pattern.ReplaceAllString(got, v.instead)
			}
			file := filepath.Join("testdata", "messages", f.name+".golden")
			if *update {
				require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err, "run go test -run %s -update", t.Name())
			require.Equal(t, string(want), got)
		})
	}
	files, err := os.ReadDir(filepath.Join("testdata", "messages"))
	require.NoError(t, err)
	require.Len(t, files, len(failures), "a message that nothing says any more")
}
