package testutil

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/driver/pgdriver"
	"github.com/uptrace/bun/driver/sqliteshim"

	"github.com/typedoutbox/typedoutbox/internal/pgtest"
	"github.com/typedoutbox/typedoutbox/outbox"
)

// sqliteSettings are those that the outbox needs, in the spellings of both
// drivers behind sqliteshim; each ignores the other's. Nothing is flushed to
// disk (synchronous is OFF): the file does not outlive its test.
const sqliteSettings = "_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)" +
	"&_journal_mode=WAL&_busy_timeout=5000&_synchronous=OFF" +
	"&_txlock=immediate"

// SQLite returns a fresh SQLite database with outbox_messages in place, private
// to t, and closes it when t ends. It is a WAL file in t.TempDir with a
// busy_timeout of 5 s, whose transactions begin IMMEDIATE: so another
// connection can read while a transaction is open, and a second writer waits
// for the first. (In memory, where SQLite has no WAL, a reader would wait for
// the transaction of its own test.) It does not survive a power failure.
//
// A transaction that is still open when t ends fails t with where it was begun; a
// connection in use, that of a transaction begun on the sql.DB within included,
// with how many there are. For tables of your own, see [Template].
func SQLite(t testing.TB) *bun.DB {
	t.Helper()
	return plain.SQLite(t)
}

// Postgres returns a fresh Postgres database with outbox_messages in place,
// private to t, through pgdriver. When t ends, it is closed and dropped; what is
// left open fails t, as with [SQLite].
//
// The server is the one at OUTBOX_TEST_DSN, a postgres:// URL whose user may
// create databases; else a throwaway one that is started from initdb and
// postgres, found on PATH or in /usr/lib/postgresql/*/bin, shared by all
// packages of one go test run and gone after it. It does not flush to disk.
//
// Where there is no Postgres, the test is skipped; with
// OUTBOX_TEST_REQUIRE=postgres in the environment it fails.
func Postgres(t testing.TB) *bun.DB {
	t.Helper()
	return plain.Postgres(t)
}

// Template makes databases that start with tables and rows of your own:
//
//	var databases = testutil.Template{Migrate: shop.Migrate}
//
//	func TestPlace(t *testing.T) {
//		db := databases.SQLite(t)
//
// Declare it in a package variable: what Migrate has made is kept for the life of
// the test binary and cloned for each test, which takes a few milliseconds
// however long Migrate does. It is safe for concurrent use and must not be
// copied.
type Template struct {
	// Migrate is called once for each kind of database that is asked for, with
	// one that has outbox_messages in place. Default nothing more.
	Migrate func(ctx context.Context, db *bun.DB) error

	sqlite   once[[]byte] // a database file
	postgres once[*pgtest.Base]
}

// plain is the template without anything more. Like any Template it keeps what
// the first test has paid for.
var plain Template

// once holds what the first caller has made, or its error.
type once[T any] struct {
	sync.Once
	value T
	err   error
}

func (o *once[T]) get(f func() (T, error)) (T, error) {
	o.Do(func() {
		o.err = errors.New("the first test that asked for it did not come back from making it, since it was skipped or failed there")
		o.value, o.err = f()
	})
	return o.value, o.err
}

// SQLite is the function [SQLite] with what Migrate has made.
func (tmpl *Template) SQLite(t testing.TB) *bun.DB {
	t.Helper()
	db, err := tmpl.openSQLite(t)
	if err != nil {
		t.Fatal(err)
	}
	return guard(t, db)
}

// Postgres is the function [Postgres] with what Migrate has made.
func (tmpl *Template) Postgres(t testing.TB) *bun.DB {
	t.Helper()
	opts := pgtest.Options{}
	if tmpl.Migrate != nil {
		pgtest.Require(t) // not within get, which a test that is skipped would not come back from
		base, err := tmpl.postgres.get(func() (*pgtest.Base, error) {
			return pgtest.NewBase(t, func(ctx context.Context, url string) error {
				return tmpl.prepare(ctx, openPostgres(url))
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		opts.Base = base
	}
	return guard(t, openPostgres(pgtest.Open(t, opts)))
}

func openPostgres(url string) *bun.DB {
	return bun.NewDB(sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(url))), pgdialect.New())
}

// openSQLite returns a copy of the template, in a directory of t.
func (tmpl *Template) openSQLite(t testing.TB) (*bun.DB, error) {
	file, err := tmpl.sqlite.get(func() ([]byte, error) {
		name := filepath.Join(t.TempDir(), "template.db")
		db, err := openFile(name)
		if err != nil {
			return nil, err
		}
		// Closing the last connection moves everything from the WAL to the file.
		if err := tmpl.prepare(context.WithoutCancel(t.Context()), db); err != nil {
			return nil, err
		}
		return os.ReadFile(name)
	})
	if err != nil {
		return nil, err
	}
	name := filepath.Join(t.TempDir(), "outbox.db")
	if err := os.WriteFile(name, file, 0o600); err != nil {
		return nil, fmt.Errorf("copy the test database: %w", err)
	}
	return openFile(name)
}

func openFile(name string) (*bun.DB, error) {
	// The name of a second test of one name, and so its directory, has a # in it.
	escaped := (&url.URL{Path: name}).EscapedPath()
	sqldb, err := sql.Open(sqliteshim.ShimName, "file:"+escaped+"?"+sqliteSettings)
	if err != nil {
		return nil, fmt.Errorf("open a test database: %w", err)
	}
	return bun.NewDB(sqldb, sqlitedialect.New()), nil
}

// prepare runs Migrate on db and closes it.
func (tmpl *Template) prepare(ctx context.Context, db *bun.DB) (err error) {
	defer func() {
		if err = errors.Join(err, db.Close()); err != nil {
			err = fmt.Errorf("migrate the template of the test databases: %w", err)
		}
	}()
	if err := (outbox.Store{DB: db}).Migrate(ctx); err != nil || tmpl.Migrate == nil {
		return err
	}
	if err := tmpl.Migrate(ctx, db); err != nil {
		return err
	}
	if n := db.Stats().InUse; n > 0 { // on SQLite what it has written would not reach the file
		return fmt.Errorf("connections that Migrate has left in use: %d; close its rows and bun.Conns, and end its transactions", n)
	}
	return nil
}
