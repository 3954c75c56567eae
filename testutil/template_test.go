package testutil_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"

	"github.com/typedoutbox/typedoutbox/internal/faketb"
	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
)

type shelf struct {
	ID int `bun:",pk"`
}

func TestTemplate(t *testing.T) {
	var sqlite, postgres atomic.Int32
	template := testutil.Template{Migrate: func(ctx context.Context, db *bun.DB) error {
		calls := &sqlite
		if db.Dialect().Name() == dialect.PG {
			calls = &postgres
		}
		calls.Add(1)
		if _, err := db.NewCreateTable().Model((*shelf)(nil)).Exec(ctx); err != nil {
			return err
		}
		_, err := db.NewInsert().Model(&shelf{ID: 1}).Exec(ctx)
		return err
	}}
	for name, open := range map[string]func(testing.TB) *bun.DB{"SQLite": template.SQLite, "Postgres": template.Postgres} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				t.Run("one of several", func(t *testing.T) {
					t.Parallel()
					db := open(t)
					require.NoError(t, outbox.Store{DB: db}.Validate(t.Context()))
					_, err := db.NewInsert().Model(&shelf{ID: 2}).Exec(t.Context())
					require.NoError(t, err)
					n, err := db.NewSelect().Model((*shelf)(nil)).Count(t.Context())
					require.NoError(t, err)
					require.EqualValues(t, 2, n)
				})
			}
		})
	}
	t.Cleanup(func() {
		require.LessOrEqual(t, sqlite.Load(), int32(1))
		require.LessOrEqual(t, postgres.Load(), int32(1))
	})
}

func TestTransactionsThatEnd(t *testing.T) {
	for _, d := range databases {
		for name, use := range map[string]func(t testing.TB, db *bun.DB){
			"committed":   func(t testing.TB, db *bun.DB) { commit(t, db, created, orderCreated{}) },
			"rolled back": func(t testing.TB, db *bun.DB) { inTx(t, db, func(context.Context, bun.Tx) {}) },
			"context over": func(t testing.TB, db *bun.DB) {
				ctx, cancel := context.WithCancel(t.Context())
				tx, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				cancel()
				require.Error(t, tx.Commit())
			},
			"twice": func(t testing.TB, db *bun.DB) {
				tx, err := db.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				require.NoError(t, tx.Commit())
				require.Error(t, tx.Rollback())
			},
			"drained": func(t testing.TB, db *bun.DB) {
				commit(t, db, created, orderCreated{})
				testutil.Drain(t, handling(db, succeed)).RequireSent(t, 1)
			},
		} {
			t.Run(d.name+"/"+name, func(t *testing.T) {
				res := faketb.Run(t, func(t testing.TB) { use(t, d.open(t)) })
				require.False(t, res.Failed, res.Text)
			})
		}
	}
}

// The context of a test ends before its cleanups, and with it the transactions
// that the test has forgotten.
func TestAForgottenTransactionThatHasEndedByItself(t *testing.T) {
	res := faketb.Run(t, func(tb testing.TB) {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := testutil.SQLite(tb).BeginTx(ctx, nil)
		require.NoError(t, err)
		cancel()
	})
	require.True(t, res.Failed)
	require.Contains(t, res.Text, "the transaction begun at testutil/template_test.go:")
}

// BenchmarkDatabases makes databases in parallel, as tests with t.Parallel do,
// and drops them.
func BenchmarkDatabases(b *testing.B) {
	template := testutil.Template{Migrate: func(ctx context.Context, db *bun.DB) error {
		_, err := db.NewCreateTable().Model((*shelf)(nil)).Exec(ctx)
		return err
	}}
	for name, open := range map[string]func(testing.TB) *bun.DB{"SQLite": template.SQLite, "Postgres": template.Postgres} {
		b.Run(name, func(b *testing.B) {
			open(b) // the first builds the template
			b.SetParallelism(2)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					res := faketb.Run(b, func(t testing.TB) { commit(t, open(t), created, orderCreated{}) })
					if res.Failed {
						b.Error(res.Text)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "databases/s")
		})
	}
}
