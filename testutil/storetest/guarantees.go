package storetest

// guarantees are the subtests of Run, in the order of docs/guarantees.md.
var guarantees = []guarantee{
	{
		"migrate", "Migrate makes the table, again and again without harm, and Validate is content with it",
		"what Validate says; several statements in one string must be executed; for SQLite the DSN",
		testMigrate,
	},
	{
		"atomic", "a message exists if and only if its transaction commits",
		"whether the driver's transactions are real: all statements of one on one connection, Commit and Rollback sent",
		testAtomic,
	},
	{
		"payload", "a payload is read back byte for byte",
		"the column must be json or text, not jsonb; the driver must leave text as it is",
		testPayload,
	},
	{
		"text", "keys, order keys and headers are stored as they are",
		"the quoting of arguments (bun formats them, so standard_conforming_strings must be on), the encoding, trimming",
		testText,
	},
	{
		"absent", "what a message does not have is absent, not empty",
		"how the driver reads NULL",
		testAbsent,
	},
	{
		"once", "a key enqueues once, and the receipt says so",
		"ON CONFLICT DO NOTHING on a partial unique index, and RowsAffected",
		testOnce,
	},
	{
		"many", "EnqueueAll returns a receipt for each payload, and keeps their order",
		"json_to_recordset or json_each, INSERT ... RETURNING",
		testMany,
	},
	{
		"time", "a message is due when it should be, to the millisecond, on the clock of the database",
		"the fraction of seconds, the time zone of the session, and that time passes within a transaction",
		testTime,
	},
	{
		"delivery", "a committed message is delivered, and its outcome is recorded",
		"UPDATE ... RETURNING, the number of rows, reading times as numbers",
		testDelivery,
	},
	{
		"fenced", "a relay whose lease was taken over changes nothing, and learns of it",
		"whether UPDATE heeds all of its WHERE",
		testFenced,
	},
	{
		"leases", "a lease is renewed for as long as its handler runs",
		"whether a second connection can write while others are busy: the size of the pool, busy_timeout",
		testLeases,
	},
	{
		"crash", "a message of a relay that died is delivered again",
		"comparisons of times in the database",
		testCrash,
	},
	{
		"together", "relays that work together deliver each message once",
		"SKIP LOCKED, or that a statement of SQLite is atomic",
		testTogether,
	},
	{
		"order", "messages of one order key are delivered first-in first-out, and wait for a failing one",
		"the order of created_at and id: their collation, the fraction of seconds",
		testOrder,
	},
	{
		"left", "a relay leaves what it cannot deliver, and reports it",
		"comparisons of text and of versions",
		testLeft,
	},
	{
		"unlocked", "no transaction is open while a handler runs",
		"that statements outside of a transaction commit by themselves, and that connections return to the pool clean",
		testUnlocked,
	},
	{
		"operations", "messages can be listed, retried, discarded and swept",
		"RowsAffected, DELETE and UPDATE with a subquery",
		testOperations,
	},
	{
		"errors", "errors of the database are told apart, and the transaction says which",
		"that the driver's errors carry the SQLSTATE or the code of SQLite, and can be unwrapped",
		testErrors,
	},
	{
		"deadlines", "a statement ends with the deadline of its context",
		"whether the driver heeds deadlines",
		testDeadlines,
	},
	{
		"wake", "a relay that waits is woken by a commit, and stops when it is told to",
		"whether the driver returns from Commit before the others can see what was committed",
		testWake,
	},
}
