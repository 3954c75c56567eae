package storetest_test

import (
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/typedoutbox/typedoutbox/internal/pgtest"
	"github.com/typedoutbox/typedoutbox/testutil"
	"github.com/typedoutbox/typedoutbox/testutil/storetest"
)

func TestSQLite(t *testing.T) { storetest.Run(t, testutil.SQLite) }

func TestPgdriver(t *testing.T) { storetest.Run(t, testutil.Postgres) }

func TestPgx(t *testing.T) {
	storetest.Run(t, func(t testing.TB) *bun.DB {
		sqldb, err := sql.Open("pgx", pgtest.Open(t, pgtest.Options{})+"&default_query_exec_mode=simple_protocol")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, sqldb.Close()) })
		return bun.NewDB(sqldb, pgdialect.New())
	})
}
