package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// patience bounds whatever a subtest waits for.
const patience = 30 * time.Second

// Run runs the subtests, each on a database of its own. open returns one that is
// empty, or has outbox_messages in place already, and is private to t; it closes
// it when t ends. Its pool must allow several connections, as that of a relay
// must. Run needs about as many databases as there are guarantees, and takes a few
// seconds.
func Run(t *testing.T, open func(t testing.TB) *bun.DB) {
	for _, g := range guarantees {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			g.run(t, open)
		})
	}
}

// guarantee is what the outbox promises, as far as a database keeps it.
type guarantee struct {
	name    string
	promise string
	remedy  string // what to look at when it is broken
	test    func(t testing.TB, s *subject)
}

func (g guarantee) run(t testing.TB, open func(t testing.TB) *bun.DB) {
	named := &naming{TB: t, guarantee: g}
	s := &subject{db: open(t), ctx: context.WithoutCancel(t.Context())}
	s.store = outbox.Store{DB: s.db}
	if g.name != "migrate" {
		must(named, s.store.Migrate(s.ctx))
		_, err := s.db.ExecContext(s.ctx, "CREATE TABLE business (id integer)")
		must(named, err)
	}
	g.test(named, s)
}

// naming is a testing.TB whose failures name a guarantee.
type naming struct {
	testing.TB
	guarantee guarantee
}

func (n *naming) name(what string) string {
	return fmt.Sprintf("%s\nbroken is: %s\nlook at: %s", what, n.guarantee.promise, n.guarantee.remedy)
}

func (n *naming) Fatal(args ...any) { n.TB.Helper(); n.TB.Fatal(n.name(fmt.Sprint(args...))) }

func (n *naming) Fatalf(format string, args ...any) {
	n.TB.Helper()
	n.Fatal(fmt.Sprintf(format, args...))
}

func (n *naming) Error(args ...any) { n.TB.Helper(); n.TB.Error(n.name(fmt.Sprint(args...))) }

func (n *naming) Errorf(format string, args ...any) {
	n.TB.Helper()
	n.Error(fmt.Sprintf(format, args...))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// equal fails t unless a value is as it should be.
func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s is %#v, want %#v", what, got, want)
	}
}

// subject is a database under test.
type subject struct {
	db    *bun.DB
	store outbox.Store
	ctx   context.Context
}

func (s *subject) isPostgres() bool { return s.db.Dialect().Name() == dialect.PG }

// event is the payload of most messages.
type event struct {
	N int `json:"n"`
}

var topic = topics.New[event]("storetest", nil)

// errUndo rolls a transaction back.
var errUndo = errors.New("undo")

// enqueue commits messages 0 to n-1, each in a transaction of its own.
func (s *subject) enqueue(t testing.TB, n int, opts ...outbox.EnqueueOption) []outbox.ID {
	t.Helper()
	ids := make([]outbox.ID, n)
	for i := range n {
		must(t, s.db.RunInTx(s.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			var r outbox.Receipt
			err := outbox.Enqueue(ctx, tx, topic, event{N: i}, append(opts, outbox.Into(&r))...)
			ids[i] = r.ID
			return err
		}))
	}
	return ids
}

func (s *subject) get(t testing.TB, id outbox.ID) outbox.Message {
	t.Helper()
	m, err := s.store.Get(s.ctx, id)
	must(t, err)
	return m
}

func (s *subject) count(t testing.TB, table string) int {
	t.Helper()
	var n int
	must(t, s.db.NewSelect().Table(table).ColumnExpr("count(*)").Scan(s.ctx, &n))
	return n
}

// relay returns a relay with one handler.
func (s *subject) relay(h func(ctx context.Context, d outbox.Delivery[event]) error) *outbox.Relay {
	mux := outbox.NewMux()
	outbox.Handle(mux, topic, h)
	return &outbox.Relay{DB: s.db, Mux: mux, Logger: slog.New(slog.DiscardHandler)}
}

// drain steps a relay and returns how many messages it sent.
func (s *subject) drain(t testing.TB, r *outbox.Relay) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	n, err := r.Drain(ctx)
	must(t, err)
	return n
}
