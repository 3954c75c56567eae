package testutil_test

import (
	"context"
	"testing"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
)

// placeOrder stands for the code under test: a business write and its events,
// in the caller's transaction.
func placeOrder(ctx context.Context, tx bun.Tx, id string) error {
	return outbox.Enqueue(ctx, tx, created, orderCreated{OrderID: id, Cents: 990})
}

func ExampleRequireEnqueued() {
	var t *testing.T // the test's own

	db := testutil.SQLite(t)
	err := db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		if err := placeOrder(ctx, tx, "42"); err != nil {
			return err
		}
		testutil.RequireEnqueued(t, tx, created, func(e orderCreated) bool { return e.OrderID == "42" })
		testutil.RequireNotEnqueued(t, tx, paid)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	testutil.RequireEnqueuedEqual(t, db, created, orderCreated{OrderID: "42", Cents: 990})
}
