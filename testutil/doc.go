// Package testutil has what tests of code that enqueues messages need:
// databases with the table in place, and assertions on what is in it.
//
//	func TestPlaceOrder(t *testing.T) {
//		db := testutil.SQLite(t)
//		err := db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
//			if err := PlaceOrder(ctx, tx, "42"); err != nil {
//				return err
//			}
//			d := testutil.RequireEnqueued(t, tx, OrderCreatedTopic)
//			require.Equal(t, "42", d.Payload.OrderID)
//			testutil.RequireNotEnqueued(t, tx, OrderCancelledTopic)
//			return nil
//		})
//		require.NoError(t, err)
//		testutil.RequireEnqueuedEqual(t, db, OrderCreatedTopic, OrderCreated{OrderID: "42"})
//	}
//
// Every failure says what is enqueued instead.
package testutil
