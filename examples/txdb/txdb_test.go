package txdb_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/DATA-DOG/go-txdb"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	_ "github.com/uptrace/bun/driver/pgdriver" // the driver "pg"

	"github.com/typedoutbox/typedoutbox/internal/pgtest"
	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
	"github.com/typedoutbox/typedoutbox/topics"
)

type orderPlaced struct {
	OrderID string `json:"order_id"`
}

var topic = topics.New[orderPlaced]("orders.placed", nil)

// open returns the database of dsn as one transaction, which is rolled back when
// t ends. What the code under test commits is a savepoint in it. It is for what
// enqueues: a relay works on several connections at once.
func open(t *testing.T, dsn string) *bun.DB {
	sqldb := sql.OpenDB(txdb.New("pg", dsn))
	t.Cleanup(func() { require.NoError(t, sqldb.Close()) })
	return bun.NewDB(sqldb, pgdialect.New())
}

func TestEachTestInOneTransaction(t *testing.T) {
	dsn := pgtest.Open(t, pgtest.Options{}) // yours: any database that is migrated
	place := func(db *bun.DB, answer error) error {
		return db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
			return errors.Join(outbox.Enqueue(ctx, tx, topic, orderPlaced{OrderID: "1"}), answer)
		})
	}
	for _, name := range []string{"one test", "another, which sees nothing of the first"} {
		t.Run(name, func(t *testing.T) {
			db := open(t, dsn)
			testutil.RequireNotEnqueued(t, db, topic)
			require.NoError(t, place(db, nil))
			testutil.RequireEnqueuedEqual(t, db, topic, orderPlaced{OrderID: "1"})

			require.Error(t, place(db, errors.New("declined")))
			testutil.RequireAllEnqueued(t, db, topic, orderPlaced{OrderID: "1"})
		})
	}
}
