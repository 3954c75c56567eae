// Package outbox publishes events beside a database write without losing any
// and without inventing any: the transactional outbox, typed, on bun, for
// Postgres and SQLite.
//
// # The nouns
//
// A Topic, of package topics, is the typed name of one kind of event; outboxgen
// writes it from an annotated struct. A [Message] is one row of the table
// outbox_messages, written by [Enqueue] in the caller's own transaction. A [Mux]
// routes messages to the handlers that [Handle] registers for topics. A [Relay]
// claims committed messages under a lease and delivers them. A [Store] holds the
// operations on the table, for programs and for the person on call.
//
// # In one page
//
// The example of this package, in example_test.go, is the whole of it: a table, an
// event, a transaction that enqueues it, a handler and a relay.
//
// # What is promised
//
// A message is written if and only if its transaction commits. A committed
// message is delivered at least once, until a handler returns nil or it is
// parked as failed, where it stays until somebody decides. A duplicate can arise
// from the handler's first effect until its outcome is recorded: from a crash, a
// timeout, an error after the effect, a lost lease. So a handler must be able to
// meet a message twice; Message.ID is the same each time.
//
// Several relays may work on one table. Each claim draws a token, and whatever a
// relay writes later names it, so that one whose lease was taken over changes
// nothing. Leases are renewed while a message waits, is delivered and is being
// recorded: Relay.ClaimTimeout says how long a crash goes unnoticed, not how long
// a handler may take. A row whose lease expired is delivered alone, beside the
// healthy ones: should it be the cause, it parks itself and not its neighbours.
//
// Messages are delivered oldest due first, several at once. Where order matters,
// give messages an ordering key: those that share one are delivered one after the
// other, and one that fails holds back the rest of its key, and nothing else.
//
// # What it needs
//
// [Store.Migrate] creates the table. A relay needs a pool of two connections at
// least on Postgres. On SQLite, open a file in WAL mode with a busy_timeout and
// transactions that begin IMMEDIATE; [Store.Validate] says what is missing.
package outbox
