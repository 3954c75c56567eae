package testutil_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/internal/faketb"
	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
	"github.com/typedoutbox/typedoutbox/topics"
)

type orderCreated struct {
	OrderID string    `json:"order_id"`
	Cents   int       `json:"cents"`
	Lines   []string  `json:"lines,omitempty"`
	At      time.Time `json:"at,omitzero"`
	note    string
}

type orderPaid struct {
	OrderID string `json:"order_id"`
}

var (
	created = topics.New("orders.created", &topics.Options[orderCreated]{
		Aliases: []string{"order-created"},
		Order:   func(e orderCreated) string { return e.OrderID },
	})
	createdOnceNamed = topics.New[orderCreated]("order-created", nil)
	paid             = topics.New("orders.paid", &topics.Options[orderPaid]{
		Key: func(e orderPaid) string { return topics.JoinKey("orders.paid", e.OrderID) },
	})
)

// databases are those on which everything holds.
var databases = []struct {
	name string
	open func(testing.TB) *bun.DB
}{
	{"SQLite", testutil.SQLite},
	{"Postgres", testutil.Postgres},
}

func onEach(t *testing.T, test func(t *testing.T, db *bun.DB)) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) { test(t, d.open(t)) })
	}
}

// inTx calls f in a transaction that is rolled back.
func inTx(t testing.TB, db *bun.DB, f func(ctx context.Context, tx bun.Tx)) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	f(t.Context(), tx)
}

func enqueue[T any](t testing.TB, tx bun.Tx, topic topics.Topic[T], vs ...T) {
	t.Helper()
	for _, v := range vs {
		require.NoError(t, outbox.Enqueue(t.Context(), tx, topic, v))
	}
}

func order(id string) func(orderCreated) bool {
	return func(e orderCreated) bool { return e.OrderID == id }
}

func cents(n int) func(orderCreated) bool {
	return func(e orderCreated) bool { return e.Cents == n }
}

type matches = []func(orderCreated) bool

func TestRequireEnqueued(t *testing.T) {
	tests := []struct {
		name     string
		enqueued []orderCreated
		match    matches
		want     string   // the order found; "" for a failure
		says     []string // what the failure says, in this order
	}{
		{name: "the only one", enqueued: []orderCreated{{OrderID: "1"}}, want: "1"},
		{
			name:     "one of several",
			enqueued: []orderCreated{{OrderID: "1"}, {OrderID: "2"}},
			match:    matches{order("2")},
			want:     "2",
		},
		{
			name:     "all matches hold for one",
			enqueued: []orderCreated{{OrderID: "1", Cents: 5}, {OrderID: "1", Cents: 6}, {OrderID: "2", Cents: 6}},
			match:    matches{order("1"), cents(6)},
			want:     "1",
		},
		{
			name: "none",
			says: []string{
				`want exactly one message of topic "orders.created" (testutil_test.orderCreated), found 0`,
				"the table is empty",
			},
		},
		{
			name:     "several without a match function",
			enqueued: []orderCreated{{OrderID: "1"}, {OrderID: "2"}},
			says: []string{
				"found 2", "enqueued on this topic, nearest first:",
				`pending orders.created {"order_id":"1","cents":0} order_key="1"`,
				`pending orders.created {"order_id":"2","cents":0} order_key="2"`,
			},
		},
		{
			name:     "the wrong value",
			enqueued: []orderCreated{{OrderID: "1", Cents: 5}},
			match:    matches{order("2")},
			says: []string{
				"for which the match function holds, found 0",
				`{"order_id":"1","cents":5}`, "match function 1 of 1 does not hold",
			},
		},
		{
			name:     "each match holds, but for different ones",
			enqueued: []orderCreated{{OrderID: "1", Cents: 5}, {OrderID: "2", Cents: 6}},
			match:    matches{order("1"), cents(6)},
			says: []string{
				"for which all 2 match functions hold, found 0",
				`"1"`, "match function 2 of 2 does not hold",
				`"2"`, "match function 1 of 2 does not hold",
			},
		},
		{
			name:     "the same event twice",
			enqueued: []orderCreated{{OrderID: "1"}, {OrderID: "1"}, {OrderID: "2"}},
			match:    matches{order("1")},
			says:     []string{"found 2", `"1"`, `"1"`, `"2"`, "match function 1 of 1 does not hold"},
		},
	}
	onEach(t, func(t *testing.T, db *bun.DB) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				inTx(t, db, func(_ context.Context, tx bun.Tx) {
					enqueue(t, tx, created, tt.enqueued...)
					var found outbox.Delivery[orderCreated]
					res := faketb.Run(t, func(t testing.TB) {
						found = testutil.RequireEnqueued(t, tx, created, tt.match...)
					})
					requireResult(t, res, tt.says)
					require.Equal(t, tt.want, found.Payload.OrderID)
					require.Equal(t, tt.want == "", found.Message.ID.IsZero())
				})
			})
		}
	})
}

// requireResult fails t unless res is a failure that says all of says in this
// order, or a success if there is nothing to say.
func requireResult(t *testing.T, res faketb.Result, says []string) {
	t.Helper()
	require.Equal(t, len(says) > 0, res.Failed, res.Text)
	rest := res.Text
	for _, s := range says {
		_, after, found := strings.Cut(rest, s)
		require.True(t, found, "%q is missing, or before what comes before it, in:\n%s", s, res.Text)
		rest = after
	}
}

func TestRequireEnqueuedEqual(t *testing.T) {
	now := time.Now() // with a monotonic clock reading, which is not stored
	tests := []struct {
		name     string
		enqueued []orderCreated
		want     orderCreated
		says     []string
	}{
		{name: "equal", enqueued: []orderCreated{{OrderID: "1", Lines: []string{"a"}}}, want: orderCreated{OrderID: "1", Lines: []string{"a"}}},
		{name: "time of this process", enqueued: []orderCreated{{At: now}}, want: orderCreated{At: now}},
		{name: "not stored", enqueued: []orderCreated{{OrderID: "1", note: "a"}}, want: orderCreated{OrderID: "1", note: "b"}},
		{name: "empty and absent", enqueued: []orderCreated{{Lines: []string{}}}, want: orderCreated{}},
		{name: "among others", enqueued: []orderCreated{{OrderID: "1"}, {OrderID: "2"}}, want: orderCreated{OrderID: "2"}},
		{
			name: "none", want: orderCreated{OrderID: "1"},
			says: []string{`with the payload {"order_id":"1","cents":0}, found 0`, "the table is empty"},
		},
		{
			name: "wrong value", enqueued: []orderCreated{{OrderID: "1", Cents: 5}}, want: orderCreated{OrderID: "1", Cents: 6},
			says: []string{"found 0", `{"order_id":"1","cents":5}`, "cents is 5, want 6"},
		},
		{
			name: "the nearest first", want: orderCreated{OrderID: "1", Cents: 6, Lines: []string{"a"}},
			enqueued: []orderCreated{{OrderID: "2", Cents: 7}, {OrderID: "3", Cents: 6}, {OrderID: "1", Cents: 6, Lines: []string{"b"}}},
			says: []string{
				"found 0", `lines[0] is "b", want "a"`, `"3"`, "lines[0] is absent", `order_id is "3", want "1"`,
				`"2"`, "cents is 7, want 6", "lines[0] is absent", `order_id is "2", want "1"`,
			},
		},
		{
			name: "twice", enqueued: []orderCreated{{OrderID: "1"}, {OrderID: "1"}}, want: orderCreated{OrderID: "1"},
			says: []string{"found 2", `"1"`, `"1"`},
		},
		{
			name: "a time elsewhere", enqueued: []orderCreated{{At: now}}, want: orderCreated{At: now.Add(1)},
			says: []string{"found 0", "at is ", ", want "},
		},
		{
			name: "not to be stored", want: orderCreated{OrderID: "\xff"},
			says: []string{`want is no payload for topic "orders.created"`, "invalid UTF-8 at payload.OrderID"},
		},
	}
	onEach(t, func(t *testing.T, db *bun.DB) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				inTx(t, db, func(_ context.Context, tx bun.Tx) {
					enqueue(t, tx, created, tt.enqueued...)
					var found outbox.Delivery[orderCreated]
					res := faketb.Run(t, func(t testing.TB) {
						found = testutil.RequireEnqueuedEqual(t, tx, created, tt.want)
					})
					requireResult(t, res, tt.says)
					require.Equal(t, res.Failed, found.Message.ID.IsZero())
					if !res.Failed {
						require.Equal(t, tt.want.OrderID, found.Payload.OrderID)
					}
				})
			})
		}
	})
}

func TestDifferenceOfNumbers(t *testing.T) {
	count := topics.New[int]("count", nil)
	onEach(t, func(t *testing.T, db *bun.DB) {
		inTx(t, db, func(_ context.Context, tx bun.Tx) {
			enqueue(t, tx, count, 7)
			testutil.RequireEnqueuedEqual(t, tx, count, 7)
			requireResult(t, faketb.Run(t, func(t testing.TB) { testutil.RequireEnqueuedEqual(t, tx, count, 8) }),
				[]string{"found 0", "payload is 7, want 8"})
		})
	})
}

func TestRequireNotEnqueued(t *testing.T) {
	tests := []struct {
		name     string
		enqueued []orderCreated
		match    matches
		says     []string
	}{
		{name: "none"},
		{name: "none that matches", enqueued: []orderCreated{{OrderID: "1"}}, match: matches{order("2")}},
		{name: "none for which both hold", enqueued: []orderCreated{{OrderID: "1", Cents: 5}}, match: matches{order("1"), cents(6)}},
		{
			name: "any", enqueued: []orderCreated{{OrderID: "1"}},
			says: []string{`want no message of topic "orders.created"`, "found 1", `{"order_id":"1","cents":0}`},
		},
		{
			name: "one that matches", enqueued: []orderCreated{{OrderID: "1"}, {OrderID: "2"}}, match: matches{order("2")},
			says: []string{"for which the match function holds, found 1", `"2"`, `"1"`, "does not hold"},
		},
		{
			name: "several", enqueued: []orderCreated{{OrderID: "1", Cents: 1}, {OrderID: "1", Cents: 2}}, match: matches{order("1")},
			says: []string{"found 2"},
		},
	}
	onEach(t, func(t *testing.T, db *bun.DB) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				inTx(t, db, func(_ context.Context, tx bun.Tx) {
					enqueue(t, tx, created, tt.enqueued...)
					requireResult(t, faketb.Run(t, func(t testing.TB) {
						testutil.RequireNotEnqueued(t, tx, created, tt.match...)
					}), tt.says)
				})
			})
		}
	})
}

func TestOtherTopics(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		inTx(t, db, func(_ context.Context, tx bun.Tx) {
			enqueue(t, tx, paid, orderPaid{OrderID: "1"}, orderPaid{OrderID: "2"})
			enqueue(t, tx, topics.New[orderPaid]("orders.refunded", nil), orderPaid{})
			testutil.RequireNotEnqueued(t, tx, created)
			require.Empty(t, testutil.AllEnqueued(t, tx, created))
			res := faketb.Run(t, func(t testing.TB) { testutil.RequireEnqueued(t, tx, created) })
			requireResult(t, res, []string{"found 0", `messages of other topics: "orders.paid" (2), "orders.refunded" (1)`})
			require.NotContains(t, res.Text, "only committed")
		})
	})
}

func TestWhatIsVisible(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, conn.Close()) }()
		require.NoError(t, db.RunInTx(t.Context(), nil, func(_ context.Context, tx bun.Tx) error {
			enqueue(t, tx, created, orderCreated{OrderID: "1"})
			testutil.RequireEnqueued(t, tx, created)
			testutil.RequireNotEnqueued(t, db, created)
			testutil.RequireNotEnqueued(t, conn, created)
			requireResult(t, faketb.Run(t, func(t testing.TB) { testutil.RequireEnqueued(t, db, created) }),
				[]string{
					"found 0", "the table is empty", "the transaction begun at testutil/enqueued_test.go:",
					"has enqueued on this topic and is not committed; only its own bun.Tx sees that",
				})
			return nil
		}))
		testutil.RequireEnqueuedEqual(t, db, created, orderCreated{OrderID: "1"})
		testutil.RequireEnqueuedEqual(t, conn, created, orderCreated{OrderID: "1"})
	})
}

func TestAliases(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		inTx(t, db, func(_ context.Context, tx bun.Tx) {
			enqueue(t, tx, createdOnceNamed, orderCreated{OrderID: "1"})
			d := testutil.RequireEnqueued(t, tx, created)
			require.Equal(t, "order-created", d.Message.Topic)
			enqueue(t, tx, created, orderCreated{OrderID: "2"})
			require.Len(t, testutil.AllEnqueued(t, tx, created), 2)
			testutil.RequireEnqueued(t, tx, createdOnceNamed)
			requireResult(t, faketb.Run(t, func(t testing.TB) { testutil.RequireNotEnqueued(t, tx, created) }),
				[]string{"found 2", " order-created ", " orders.created "})
		})
	})
}

func TestMisuse(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		var zero topics.Topic[orderCreated]
		requireResult(t, faketb.Run(t, func(t testing.TB) { testutil.RequireNotEnqueued(t, db, zero) }),
			[]string{"the topic is the zero Topic[testutil_test.orderCreated]; use one that topics.New made"})

		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, tx.Rollback())
		requireResult(t, faketb.Run(t, func(t testing.TB) { testutil.AllEnqueued(t, tx, created) }),
			[]string{"read outbox_messages: sql: transaction has already been committed or rolled back"})

		_, err = db.ExecContext(t.Context(), "DROP TABLE outbox_messages")
		require.NoError(t, err)
		requireResult(t, faketb.Run(t, func(t testing.TB) { testutil.RequireNotEnqueued(t, db, created) }),
			[]string{"read outbox_messages: ", "the table must be there (Store.Migrate)"})
	})
}

func TestAssertionsWorkInCleanup(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		t.Cleanup(func() { testutil.RequireNotEnqueued(t, db, created) })
	})
}
