package testutil_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/internal/faketb"
	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
)

func TestDatabasesAreReady(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		require.NoError(t, outbox.Store{DB: db}.Validate(t.Context()))
	})
}

func TestDatabasesArePrivate(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			a, b := d.open(t), d.open(t)
			require.NoError(t, a.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, paid, orderPaid{OrderID: "1"})
			}))
			testutil.RequireEnqueued(t, a, paid)
			testutil.RequireNotEnqueued(t, b, paid)
			testutil.RequireNotEnqueued(t, d.open(t), paid)
		})
	}
}

func TestDatabasesEndWithTheirTest(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			d.open(t) // whatever lasts as long as the process
			before := goroutines()
			var db *bun.DB
			res := faketb.Run(t, func(t testing.TB) {
				db = d.open(t)
				testutil.RequireNotEnqueued(t, db, created)
			})
			require.False(t, res.Failed, res.Text)
			require.ErrorContains(t, db.PingContext(t.Context()), "database is closed")
			require.Eventually(t, func() bool { return goroutines() <= before }, time.Minute, time.Millisecond)
		})
	}
}

// goroutines counts those that are none of the testing package's and of
// require.Eventually.
func goroutines() (n int) {
	buf := make([]byte, 1<<20)
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "database/sql") || strings.Contains(stack, "typedoutbox/internal") {
			n++
		}
	}
	return n
}

func TestReadersDoNotWaitForWriters(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		inTx(t, db, func(_ context.Context, tx bun.Tx) {
			enqueue(t, tx, paid, orderPaid{OrderID: "1"})
			// On SQLite who waits fails after the busy_timeout, since this is within the transaction.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			n, err := db.NewSelect().Table("outbox_messages").Count(ctx)
			require.NoError(t, err)
			require.Zero(t, n)
		})
	})
}

func TestWritersWaitForEachOther(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		const writers = 8
		errs := make(chan error)
		for range writers {
			go func() {
				errs <- db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
					// To read before the write is what a deferred transaction
					// would fail after.
					if _, err := tx.NewSelect().Table("outbox_messages").Count(ctx); err != nil {
						return err
					}
					return outbox.Enqueue(ctx, tx, created, orderCreated{})
				})
			}()
		}
		for range writers {
			require.NoError(t, <-errs)
		}
		require.Len(t, testutil.AllEnqueued(t, db, created), writers)
	})
}

func TestSQLiteIsAFileOfTheTest(t *testing.T) {
	var file string
	t.Run("test", func(t *testing.T) {
		db := testutil.SQLite(t)
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT file FROM pragma_database_list").Scan(&file))
		require.Equal(t, filepath.Dir(filepath.Dir(file)), filepath.Dir(t.TempDir()))
		require.FileExists(t, file)
		require.FileExists(t, file+"-wal")
	})
	_, err := os.Stat(file)
	require.ErrorIs(t, err, os.ErrNotExist)
}
