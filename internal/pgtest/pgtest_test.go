package pgtest_test

import (
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/typedoutbox/typedoutbox/internal/pgtest"
	"github.com/typedoutbox/typedoutbox/outbox"
)

func TestOpenServesBothDrivers(t *testing.T) {
	url := pgtest.Open(t, pgtest.Options{TimeZone: "Asia/Kolkata"})
	viaPgx, err := sql.Open("pgx", url)
	require.NoError(t, err)
	dbs := map[string]*sql.DB{
		"pgx":      viaPgx,
		"pgdriver": sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(url))),
	}
	for name, sqldb := range dbs {
		t.Run(name, func(t *testing.T) {
			db := bun.NewDB(sqldb, pgdialect.New())
			defer func() { require.NoError(t, db.Close()) }()
			require.NoError(t, outbox.Store{DB: db}.Validate(t.Context()))
			var zone string
			require.NoError(t, db.QueryRowContext(t.Context(), "SHOW timezone").Scan(&zone))
			require.Equal(t, "Asia/Kolkata", zone)
		})
	}
}
