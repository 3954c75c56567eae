package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	pgxstd "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/typedoutbox/typedoutbox/internal/pgcluster"
	"github.com/typedoutbox/typedoutbox/internal/pgtest"
	"github.com/typedoutbox/typedoutbox/outbox"
)

// fuzzDatabase is a database through one driver, with the statements of a relay
// that takes every topic.
type fuzzDatabase struct {
	name       string
	db         *bun.DB
	store      outbox.Store
	statements outbox.RelayStatements
}

// fuzzDatabases opens one for each driver: SQLite always, and Postgres where
// there is one.
func fuzzDatabases(f *testing.F) []fuzzDatabase {
	f.Helper()
	lite := sql.OpenDB(sqliteConnector("file:" + filepath.Join(f.TempDir(), "outbox.db") +
		"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(OFF)&_txlock=immediate"))
	f.Cleanup(func() { require.NoError(f, lite.Close()) })
	all := []fuzzDatabase{{name: "sqlite", db: bun.NewDB(lite, sqlitedialect.New())}}
	require.NoError(f, outbox.Store{DB: all[0].db}.Migrate(context.Background()))
	if _, err := pgcluster.Shared(); err == nil || os.Getenv("OUTBOX_TEST_REQUIRE") == "postgres" {
		pgx := func(url string) driver.Connector {
			c, err := pgxstd.GetDefaultDriver().(driver.DriverContext).OpenConnector(url)
			require.NoError(f, err)
			return c
		}
		for name, connector := range map[string]driver.Connector{
			"pgdriver": pgdriver.NewConnector(pgdriver.WithDSN(pgtest.Open(f, pgtest.Options{}))),
			"pgx":      pgx(pgtest.Open(f, pgtest.Options{})),
		} {
			pool := sql.OpenDB(connector)
			f.Cleanup(func() { require.NoError(f, pool.Close()) })
			all = append(all, fuzzDatabase{name: name, db: bun.NewDB(pool, pgdialect.New())})
		}
	}
	for i, d := range all {
		statements, err := outbox.StatementsOf(&outbox.Relay{
			DB: d.db, Name: "the fuzzed", Logger: slog.New(slog.DiscardHandler),
			Deliver: func(context.Context, outbox.Message) error { return nil },
		})
		require.NoError(f, err)
		all[i].store, all[i].statements = outbox.Store{DB: d.db}, statements
	}
	return all
}

// empty deletes all rows.
func (d fuzzDatabase) empty(t *testing.T) {
	t.Helper()
	_, err := d.db.ExecContext(context.Background(), "DELETE FROM outbox_messages")
	require.NoError(t, err)
}
