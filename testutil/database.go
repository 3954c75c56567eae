package testutil

import (
	"database/sql"
	"path/filepath"
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
// for the first. It does not survive a power failure.
func SQLite(t testing.TB) *bun.DB {
	t.Helper()
	sqldb, err := sql.Open(sqliteshim.ShimName, "file:"+filepath.Join(t.TempDir(), "outbox.db")+"?"+sqliteSettings)
	if err != nil {
		t.Fatalf("open a test database: %v", err)
	}
	db := bun.NewDB(sqldb, sqlitedialect.New())
	closeAfter(t, db)
	if err := (outbox.Store{DB: db}).Migrate(t.Context()); err != nil {
		t.Fatalf("migrate the test database: %v", err)
	}
	return db
}

// Postgres returns a fresh Postgres database with outbox_messages in place,
// private to t, through pgdriver. When t ends, it is closed and dropped.
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
	db := bun.NewDB(sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(pgtest.Open(t, pgtest.Options{})))), pgdialect.New())
	closeAfter(t, db)
	return db
}

func closeAfter(t testing.TB, db *bun.DB) {
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the test database: %v", err)
		}
	})
}
