package storetest_test

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/driver/sqliteshim"

	"github.com/typedoutbox/typedoutbox/internal/faketb"
	"github.com/typedoutbox/typedoutbox/testutil/storetest"
)

// fault is what a driver does wrong.
type fault struct {
	query    func(string) string             // to the text of a statement
	read     func(driver.Value) driver.Value // to a value that is read
	affected func(int64) int64               // to a number of rows
	fail     func(error) error               // to an error
	context  func(context.Context) context.Context
	commits  bool // each statement by itself
	reverses bool // commits what is rolled back
}

// instead replaces a part of a statement.
func instead(old, new string) func(string) string {
	return func(query string) string { return strings.ReplaceAll(query, old, new) }
}

func without(text string) func(string) string {
	return instead(text, "")
}

// text is f for values that are text.
func text(f func(string) string) func(driver.Value) driver.Value {
	return func(v driver.Value) driver.Value {
		if s, ok := v.(string); ok {
			return f(s)
		}
		return v
	}
}

var seconds = regexp.MustCompile(`(\d\d:\d\d:\d\d)\.\d+`)

const conflict = " ON CONFLICT (key) WHERE key IS NOT NULL DO NOTHING"

func replaces(query string) string {
	return strings.Replace(without(conflict)(query), "INSERT INTO outbox", "INSERT OR REPLACE INTO outbox", 1)
}

// returning is what a claim asks back.
var returning = regexp.MustCompile(`\nRETURNING id, topic[^;]*`)

func compact(s string) string {
	var b bytes.Buffer
	if strings.HasPrefix(strings.TrimSpace(s), "{") && json.Compact(&b, []byte(s)) == nil {
		return b.String()
	}
	return s
}

// inKolkata takes the time of a database in UTC for that of Kolkata.
func inKolkata(s string) string {
	at, err := time.Parse("2006-01-02 15:04:05.000", s)
	if err != nil {
		return s
	}
	return at.Add(-330 * time.Minute).Format("2006-01-02 15:04:05.000")
}

// TestBrokenDrivers shows that each subtest fails on what it is there for.
func TestBrokenDrivers(t *testing.T) {
	for name, tc := range map[string]struct {
		fault fault
		fails string // the subtest
		says  string
	}{
		"one statement of a string":   {fault{query: func(q string) string { first, _, _ := strings.Cut(q, ";\n"); return first }}, "migrate", "missing or invalid"},
		"commits by itself":           {fault{commits: true}, "atomic", "that others see before the commit"},
		"commits what is rolled back": {fault{reverses: true}, "atomic", "after a rollback"},
		"forgets savepoints":          {fault{query: instead("ROLLBACK TO SAVEPOINT", "RELEASE SAVEPOINT")}, "atomic", "savepoint"},
		"rewrites JSON":               {fault{read: text(compact)}, "payload", "spacing"},
		"reads JSON as numbers":       {fault{read: text(instead("9007199254740993", "9007199254740992"))}, "payload", "9007199254740992"},
		"trims text":                  {fault{read: text(strings.TrimSpace)}, "text", "a key is"},
		"unescapes backslashes":       {fault{query: instead(`\d`, "d")}, "text", "a key is"},
		"stores empty for absent":     {fault{query: instead(", NULL, ", ", '', ")}, "absent", "UNIQUE"},
		"ignores ON CONFLICT":         {fault{query: without(conflict)}, "once", "UNIQUE"},
		"replaces on conflict":        {fault{query: replaces}, "once", "Duplicate of the second"},
		"swallows RowsAffected":       {fault{affected: func(int64) int64 { return 1 }}, "once", "Duplicate of the second"},
		"counts no rows":              {fault{affected: func(int64) int64 { return 0 }}, "once", "Duplicate of the first"},
		"returns no rows":             {fault{query: without(" RETURNING id, created_at")}, "many", "Duplicate of the receipts"},
		"loses fractions of a second": {fault{query: func(q string) string { return seconds.ReplaceAllString(q, "$1.000") }}, "time", "is due"},
		"reads whole seconds":         {fault{read: text(func(s string) string { return seconds.ReplaceAllString(s, "$1.000") })}, "time", "is off by"},
		"reads times of another zone": {fault{read: text(inKolkata)}, "time", "a time zone is lost"},
		"has a clock of seconds":      {fault{query: instead("%f', 'now'", "%S.000', 'now'")}, "time", "is off by"},
		"claims without an answer":    {fault{query: func(q string) string { return returning.ReplaceAllString(q, "") }}, "delivery", "the number of messages sent is 0"},
		"ignores a part of WHERE":     {fault{query: without(" AND m.claim_token = r.token")}, "fenced", "recorded under a lost lease"},
		"does not renew":              {fault{query: instead("AS m SET available_at", "AS m SET claimed_at")}, "leases", "under a lease that should have been renewed"},
		"compares times wrongly":      {fault{query: instead("m.status = 'claimed' AND m.available_at <=", "m.status = 'claimed' AND m.available_at >")}, "crash", "sent again is 0"},
		"compares rows wrongly":       {fault{query: instead("(e.created_at, e.id) < (m.created_at, m.id)", "false")}, "order", "while one fails"},
		"compares versions wrongly":   {fault{query: instead("m.version <= 1", "m.version <= 2")}, "left", "the number of topics left"},
		"counts one too many":         {fault{affected: func(n int64) int64 { return n + 1 }}, "operations", "retried is 2"},
		"hides errors":                {fault{fail: func(error) error { return errors.New("it did not work") }}, "errors", "want ErrNotMigrated"},
		"ignores deadlines":           {fault{context: context.WithoutCancel}, "deadlines", "with a deadline of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res := faketb.Run(t, func(tb testing.TB) {
				storetest.RunOne(tb, tc.fails, func(tb testing.TB) *bun.DB { return open(t, tc.fault, tc.fails == "migrate") })
			})
			require.True(t, res.Failed)
			require.Contains(t, res.Text, tc.says)
			require.Contains(t, res.Text, "\nbroken is: ")
			require.Contains(t, res.Text, "\nlook at: ")
		})
	}
}

// open opens SQLite with a driver that has a fault, from the end of the set-up on
// or from the beginning.
func open(t *testing.T, f fault, armed bool) *bun.DB {
	dsn := "file:" + (&url.URL{Path: filepath.Join(t.TempDir(), "outbox.db")}).EscapedPath() +
		"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)&_txlock=immediate"
	c := &connector{dsn: dsn, fault: f}
	c.armed.Store(armed)
	sqldb := sql.OpenDB(c)
	t.Cleanup(func() { _ = sqldb.Close() })
	return bun.NewDB(sqldb, sqlitedialect.New())
}

type connector struct {
	dsn   string
	fault fault
	armed atomic.Bool
}

func (c *connector) Driver() driver.Driver { return sqliteshim.Driver() }

func (c *connector) Connect(context.Context) (driver.Conn, error) {
	real, err := sqliteshim.Driver().Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return &conn{real.(realConn), c}, nil
}

type realConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

type conn struct {
	realConn
	connector *connector
}

// fault is the one to be shown now.
func (c *conn) fault() fault {
	if c.connector.armed.Load() {
		return c.connector.fault
	}
	return fault{}
}

func (c *conn) before(ctx context.Context, query string) (context.Context, string) {
	f := c.fault()
	if strings.HasPrefix(query, "CREATE TABLE business") { // the end of the set-up
		c.connector.armed.Store(true)
	}
	if f.query != nil {
		query = f.query(query)
	}
	if f.context != nil {
		ctx = f.context(ctx)
	}
	return ctx, query
}

func (c *conn) after(err error) error {
	if f := c.fault(); err != nil && f.fail != nil {
		return f.fail(err)
	}
	return err
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	ctx, query = c.before(ctx, query)
	res, err := c.realConn.ExecContext(ctx, query, args)
	if f := c.fault(); err == nil && f.affected != nil {
		res = result{res, f}
	}
	return res, c.after(err)
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	ctx, query = c.before(ctx, query)
	real, err := c.realConn.QueryContext(ctx, query, args)
	if f := c.fault(); err == nil && f.read != nil {
		return &rows{real, f}, nil
	}
	return real, c.after(err)
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	f := c.fault()
	if f.commits {
		return noTx{}, nil
	}
	tx, err := c.realConn.BeginTx(ctx, opts)
	if err == nil && f.reverses {
		tx = reversed{tx}
	}
	return tx, c.after(err)
}

type noTx struct{}

func (noTx) Commit() error   { return nil }
func (noTx) Rollback() error { return nil }

type reversed struct{ driver.Tx }

func (r reversed) Rollback() error { return r.Commit() }

type result struct {
	driver.Result
	fault fault
}

func (r result) RowsAffected() (int64, error) {
	n, err := r.Result.RowsAffected()
	return r.fault.affected(n), err
}

type rows struct {
	driver.Rows
	fault fault
}

func (r *rows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	for i := range dest {
		dest[i] = r.fault.read(dest[i])
	}
	return err
}
