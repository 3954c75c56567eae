package pgtest_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/typedoutbox/typedoutbox/internal/faketb"
	"github.com/typedoutbox/typedoutbox/internal/pgcluster"
	"github.com/typedoutbox/typedoutbox/internal/pgtest"
	"github.com/typedoutbox/typedoutbox/outbox"
)

func viaPgdriver(dsn string) *sql.DB {
	return sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(dsn)))
}

func TestOpenServesBothDrivers(t *testing.T) {
	dsn := pgtest.Open(t, pgtest.Options{TimeZone: "Asia/Kolkata"})
	viaPgx, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	for name, sqldb := range map[string]*sql.DB{"pgx": viaPgx, "pgdriver": viaPgdriver(dsn)} {
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

// Whoever builds the template holds a lock for that long and no longer, or the
// other packages of the run would wait for its process.
func TestOpenLeavesNoLock(t *testing.T) {
	db := viaPgdriver(pgtest.Open(t, pgtest.Options{}))
	defer func() { require.NoError(t, db.Close()) }()
	require.Eventually(t, func() bool {
		var locks int
		err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted").Scan(&locks)
		return err == nil && locks == 0
	}, time.Minute, 10*time.Millisecond)
}

func TestOpenDropsTheDatabase(t *testing.T) {
	admin := viaPgdriver(pgtest.Open(t, pgtest.Options{}))
	defer func() { require.NoError(t, admin.Close()) }()
	exists := func(dsn string) (found bool) {
		u, err := url.Parse(dsn)
		require.NoError(t, err)
		require.NoError(t, admin.QueryRowContext(t.Context(),
			"SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", strings.TrimPrefix(u.Path, "/")).Scan(&found))
		return found
	}
	var dsns []string
	for name, end := range map[string]func(testing.TB){
		"pass": func(testing.TB) {},
		"fail": func(t testing.TB) { t.Fatal("at the end") },
		"with a connection open": func(tb testing.TB) {
			db := viaPgdriver(dsns[len(dsns)-1])
			require.NoError(t, db.PingContext(t.Context()))
			t.Cleanup(func() { require.NoError(t, db.Close()) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			res := faketb.Run(t, func(t testing.TB) {
				dsns = append(dsns, pgtest.Open(t, pgtest.Options{}))
				if !exists(dsns[len(dsns)-1]) {
					t.Error("not there")
				}
				end(t)
			})
			require.Equal(t, name == "fail", res.Failed)
			require.NotContains(t, res.Text, "not there")
			require.False(t, exists(dsns[len(dsns)-1]))
		})
	}
	require.Len(t, dsns, 3)
}

func TestOpenClonesABase(t *testing.T) {
	base, err := pgtest.NewBase(t, func(ctx context.Context, url string) error {
		db := viaPgdriver(url)
		_, err := db.ExecContext(ctx, "CREATE TABLE shelves (id int); INSERT INTO shelves VALUES (1)")
		return errors.Join(err, db.Close())
	})
	require.NoError(t, err)
	for range 2 {
		db := bun.NewDB(viaPgdriver(pgtest.Open(t, pgtest.Options{Base: base})), pgdialect.New())
		require.NoError(t, outbox.Store{DB: db}.Validate(t.Context()))
		var n int
		require.NoError(t, db.QueryRowContext(t.Context(), "INSERT INTO shelves VALUES (2); SELECT count(*) FROM shelves").Scan(&n))
		require.Equal(t, 2, n)
		require.NoError(t, db.Close())
	}
	_, err = pgtest.NewBase(t, func(context.Context, string) error { return errors.New("no such column") })
	require.EqualError(t, err, "no such column")
}

func TestOpenWithoutPostgres(t *testing.T) {
	const howTo = "apt-get install postgresql"
	tests := []struct {
		name            string
		require         string // OUTBOX_TEST_REQUIRE
		err             error
		skipped, failed bool
		says            string
	}{
		{name: "skip", err: pgcluster.ErrUnavailable, skipped: true, says: howTo},
		{name: "something else is required", require: "mysql", err: pgcluster.ErrUnavailable, skipped: true, says: howTo},
		{name: "required", require: "postgres", err: pgcluster.ErrUnavailable, failed: true, says: howTo},
		{name: "there, but broken", err: errors.New("no space left"), failed: true, says: "no space left"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("OUTBOX_TEST_REQUIRE", tt.require)
			res := faketb.Run(t, func(t testing.TB) {
				pgtest.Open(t, pgtest.Options{Server: func() (*pgcluster.Cluster, error) { return nil, tt.err }})
			})
			require.Equal(t, tt.skipped, res.Skipped)
			require.Equal(t, tt.failed, res.Failed)
			require.Contains(t, res.Text, "this test needs Postgres: ")
			require.Contains(t, res.Text, tt.says)
		})
	}
}
