package outbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pgxstd "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/driver/pgdriver"
	"github.com/uptrace/bun/driver/sqliteshim"

	"github.com/typedoutbox/typedoutbox/internal/pgtest"
	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// patience bounds every wait for a state. Only a test that fails takes it.
const patience = time.Minute

// atScale returns the first of two sizes, or the second where the environment
// has OUTBOX_TEST_SCALE=full: what some faults were seen at takes minutes to set
// up, and shows just as well at the size that every run can afford.
func atScale[N int | time.Duration](usual, full N) N {
	if os.Getenv("OUTBOX_TEST_SCALE") == "full" {
		return full
	}
	return usual
}

// order is the payload of most tests.
type order struct {
	ID   string `json:"id"`
	Note string `json:"note,omitempty"`
}

// plainTopic derives neither key nor order.
var plainTopic = topics.New[order]("orders.created", nil)

// fixture is a database of one test, with the store on it.
type fixture struct {
	db       *bun.DB // with a CommitHook
	store    outbox.Store
	postgres bool
	driver   string // sqlite, pgdriver or pgx
	url      string // of Postgres
	faults   *faults

	// mayVanish is set by tests that sweep or delete.
	mayVanish bool
	// mayStayClaimed is set by tests that leave a lease behind on purpose.
	mayStayClaimed bool
	committed      int
}

// onEvery runs a test on every database and driver, each in parallel and on a
// database of its own, and checks the invariants of the table in cleanup.
func onEvery(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	on(t, everywhere, test)
}

// onEveryClock is onEvery for what is about time, with both drivers in each zone.
// St. John's is half an hour off the full hour and changes its clocks twice a
// year.
func onEveryClock(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	on(t, append(slices.Clip(everywhere),
		kind{"pgdriver in Kolkata", "pgdriver", "Asia/Kolkata"}, kind{"pgx", "pgx", ""},
		kind{"pgdriver in St. John's", "pgdriver", "America/St_Johns"}, kind{"pgx in St. John's", "pgx", "America/St_Johns"}), test)
}

type kind struct{ name, driver, zone string }

// everywhere has each driver once. One of them is in another time zone, so that
// every test meets one, at the price of none.
var everywhere = []kind{
	{"sqlite", "sqlite", ""},
	{"pgdriver", "pgdriver", ""},
	{"pgx in Kolkata", "pgx", "Asia/Kolkata"},
}

func on(t *testing.T, kinds []kind, test func(t *testing.T, f *fixture)) {
	t.Helper()
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, kind.driver, kind.zone))
		})
	}
}

// onPostgres is onEvery for what only Postgres has.
func onPostgres(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	on(t, everywhere[1:], test)
}

// onSQLite is onEvery for what only SQLite has.
func onSQLite(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	on(t, everywhere[:1], test)
}

func newFixture(t *testing.T, name, zone string) *fixture {
	t.Helper()
	f := &fixture{driver: name, postgres: name != "sqlite", faults: &faults{}}
	if f.postgres {
		f.url = pgtest.Open(t, pgtest.Options{TimeZone: zone})
	} else {
		f.url = filepath.Join(t.TempDir(), "outbox.db")
	}
	f.db = f.connect(t, f.faults).WithQueryHook(&outbox.CommitHook{})
	f.store = outbox.Store{DB: f.db}
	if !f.postgres {
		require.NoError(t, f.store.Migrate(t.Context()))
	}
	t.Cleanup(func() { f.checkInvariants(t) })
	return f
}

// connect opens another pool on the database, without a CommitHook. Statements
// pass through faults unless it is nil.
func (f *fixture) connect(t *testing.T, faults *faults) *bun.DB {
	t.Helper()
	connector := f.connector(t)
	if faults != nil {
		connector = &faultyConnector{Connector: connector, faults: faults}
	}
	sqldb := sql.OpenDB(connector)
	sqldb.SetMaxIdleConns(10) // opening a connection takes longer than most tests
	t.Cleanup(func() { require.NoError(t, sqldb.Close()) })
	if f.postgres {
		return bun.NewDB(sqldb, pgdialect.New())
	}
	return bun.NewDB(sqldb, sqlitedialect.New())
}

// connector opens connections of the fixture's driver.
func (f *fixture) connector(t *testing.T) driver.Connector {
	t.Helper()
	switch f.driver {
	case "pgdriver":
		// By default it gives up after 10 s, within which a busy machine does not
		// always answer and no millions of rows are set up.
		return pgdriver.NewConnector(pgdriver.WithDSN(f.url), pgdriver.WithReadTimeout(10*time.Minute))
	case "pgx":
		connector, err := pgxstd.GetDefaultDriver().(driver.DriverContext).OpenConnector(f.url)
		require.NoError(t, err)
		return connector
	default:
		return sqliteConnector("file:" + f.url +
			"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)&_txlock=immediate")
	}
}

// sqliteConnector opens a DSN with the driver behind sqliteshim.
type sqliteConnector string

func (c sqliteConnector) Connect(context.Context) (driver.Conn, error) {
	return sqliteshim.Driver().Open(string(c))
}
func (c sqliteConnector) Driver() driver.Driver { return sqliteshim.Driver() }

// checkInvariants holds for every test: nothing is left claimed, claimed means a
// token and nothing that was committed is gone.
func (f *fixture) checkInvariants(t *testing.T) {
	f.faults.clear()
	var claimed, odd, rows int
	err := f.db.NewRaw(`SELECT coalesce(sum(CASE WHEN status = 'claimed' THEN 1 ELSE 0 END), 0),
		coalesce(sum(CASE WHEN (status = 'claimed') <> (claim_token IS NOT NULL) OR attempts < 0 THEN 1 ELSE 0 END), 0),
		count(*) FROM outbox_messages`).Scan(context.Background(), &claimed, &odd, &rows)
	require.NoError(t, err)
	require.Zero(t, odd, "rows in a half state")
	if !f.mayStayClaimed {
		require.Zero(t, claimed, "rows left claimed")
	}
	if !f.mayVanish {
		require.GreaterOrEqual(t, rows, f.committed, "rows were lost")
	}
}

// tx runs fn in a transaction that must commit.
func (f *fixture) tx(t *testing.T, fn func(ctx context.Context, tx bun.Tx) error) {
	t.Helper()
	require.NoError(t, f.db.RunInTx(t.Context(), nil, fn))
}

// enqueue commits orders with these ids, in one transaction, and returns the
// ids of their messages.
func (f *fixture) enqueue(t *testing.T, topic topics.Topic[order], ids []string, opts ...outbox.EnqueueOption) []outbox.ID {
	t.Helper()
	var out []outbox.ID
	f.tx(t, func(ctx context.Context, tx bun.Tx) error {
		for _, id := range ids {
			var r outbox.Receipt
			if err := outbox.Enqueue(ctx, tx, topic, order{ID: id}, append(opts, outbox.Into(&r))...); err != nil {
				return err
			}
			require.False(t, r.Duplicate, "id %s", id)
			out = append(out, r.ID)
		}
		return nil
	})
	f.committed += len(ids)
	return out
}

// numbers returns n ids from "0".
func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(i)
	}
	return out
}

// get reads a message.
func (f *fixture) get(t *testing.T, id outbox.ID) outbox.Message {
	t.Helper()
	m, err := f.store.Get(t.Context(), id)
	require.NoError(t, err)
	return m
}

// count counts the rows in a status.
func (f *fixture) count(t *testing.T, status outbox.Status) int {
	t.Helper()
	stats, err := f.store.Stats(t.Context())
	require.NoError(t, err)
	return stats.Count(status)
}

// exec runs a statement of the test's own, past the faults.
func (f *fixture) exec(t *testing.T, query string, args ...any) int {
	t.Helper()
	res, err := f.db.ExecContext(bypass(t.Context()), query, args...)
	require.NoError(t, err)
	n, err := res.RowsAffected()
	require.NoError(t, err)
	return int(n)
}

// shift moves a time column of the rows that a condition chooses by d.
func (f *fixture) shift(t *testing.T, column string, d time.Duration, where string) int {
	t.Helper()
	moved := fmt.Sprintf("strftime('%%Y-%%m-%%d %%H:%%M:%%f', %s, '%f seconds')", column, d.Seconds())
	if f.postgres {
		moved = fmt.Sprintf("%s + interval '%d microseconds'", column, d.Microseconds())
	}
	return f.exec(t, fmt.Sprintf("UPDATE outbox_messages SET %s = %s WHERE %s", column, moved, where))
}

// makeDue makes every pending row due.
func (f *fixture) makeDue(t *testing.T) {
	f.shift(t, "available_at", -24*time.Hour, "status = 'pending'")
}

// expireLeases ends every lease.
func (f *fixture) expireLeases(t *testing.T) int {
	return f.shift(t, "available_at", -24*time.Hour, "status = 'claimed'")
}

// relay returns a quiet relay with a Mux that tests fill.
func (f *fixture) relay(mux *outbox.Mux) *outbox.Relay {
	return &outbox.Relay{DB: f.db, Mux: mux, Interval: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
}

// handling returns a Mux with one handler of plainTopic.
func handling(h func(ctx context.Context, d outbox.Delivery[order]) error, opts ...outbox.HandleOption) *outbox.Mux {
	mux := outbox.NewMux()
	outbox.Handle(mux, plainTopic, h, opts...)
	return mux
}

// drain steps a relay and returns how many rows it sent.
func drain(t *testing.T, r *outbox.Relay) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n, err := r.Drain(ctx)
	require.NoError(t, err)
	return n
}

// start runs a relay until the returned function is called, which gives Start's
// error. The test's cleanup calls it too.
func start(t *testing.T, r *outbox.Relay) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- r.Start(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-result:
			return err
		case <-time.After(patience):
			return fmt.Errorf("Start did not return within %v", patience)
		}
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

// eventually waits for a state.
func eventually(t *testing.T, condition func() bool, what string, args ...any) {
	t.Helper()
	require.Eventually(t, condition, patience, 5*time.Millisecond, fmt.Sprintf(what, args...))
}

// receive takes a value from a channel that must deliver.
func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.Fail(t, "waited in vain for "+what)
		panic("unreachable")
	}
}

// logs collects what a relay logs.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// count counts the lines that hold a text.
func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// parallelWaits runs more tests at once than there are processors, unless the
// command line says otherwise: most of their time they wait for a lease, a
// backoff or the database. More than 16 would run the server out of connections.
func parallelWaits() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", fmt.Sprint(max(runtime.GOMAXPROCS(0), min(16, 4*runtime.GOMAXPROCS(0))))); err != nil {
			panic(err)
		}
	}
}

// TestMain also checks that no goroutine of a relay or a hook outlives its run.
func TestMain(m *testing.M) {
	flag.Parse()
	parallelWaits()
	code := m.Run()
	look := time.NewTicker(10 * time.Millisecond)
	for deadline := time.Now().Add(patience); ; <-look.C {
		var b bytes.Buffer
		_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
		leaked := strings.Contains(b.String(), "outbox.(*engine)") || strings.Contains(b.String(), "outbox.(*CommitHook).notify")
		if !leaked {
			break
		}
		if time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "goroutines leaked:\n%s\n", b.String())
			code = max(code, 1)
			break
		}
	}
	os.Exit(code)
}
