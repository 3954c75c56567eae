// Package testutil has what tests of code that enqueues and handles messages
// need: databases with the table in place, assertions on what is in it, and real
// relays that a test can step, break and make late. Nothing in it sleeps.
//
//	func TestPlaceOrder(t *testing.T) {
//		db := testutil.SQLite(t)
//		err := db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
//			return PlaceOrder(ctx, tx, "42")
//		})
//		require.NoError(t, err)
//		testutil.RequireEnqueuedEqual(t, db, OrderCreatedTopic, OrderCreated{OrderID: "42"})
//		testutil.RequireNotEnqueued(t, db, OrderCancelledTopic)
//
//		testutil.Drain(t, relay).RequireSent(t, 1)
//	}
//
// # What is enqueued
//
// [RequireEnqueued], [RequireEnqueuedEqual], [RequireEnqueuedAs],
// [RequireAllEnqueued] and [RequireNotEnqueued] look at one topic, through a
// bun.Tx at what that transaction has enqueued, too. [AllEnqueued] is for
// conditions that they do not have. Every failure says what is enqueued instead,
// nearest first, and where else it might be: on another topic, or in a
// transaction or savepoint that is not committed or was rolled back. That is known
// on the databases of this package, for what RunInTx and BeginTx of bun have begun;
// while several transactions are open, only if Enqueue has the context of its own.
//
// # What handlers do
//
// [Deliver] delivers one payload to a Mux. [Drain] lets relays deliver what is in
// a database, and what their handlers enqueue. Both return an [Outcome] for each
// message. [WaitFor] waits for a relay that runs.
//
// # What goes wrong
//
// [RequireIdempotent] delivers everything twice. [Advance] moves the table in
// time, [LoseOutcomes] and [LoseLeases] leave it as a crash and a pause do, and
// [RefuseOutcomes] lets recording fail.
//
// # Databases
//
// [SQLite] and [Postgres] are empty but for the outbox; those of a [Template]
// have your own tables, too. Both fail a test that leaves a transaction open.
//
// Package storetest checks whether a database or driver can serve as an outbox.
// docs/testing.md has recipes.
package testutil
