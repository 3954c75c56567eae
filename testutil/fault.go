package testutil

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Advance lets d pass for the table, by moving all that is in it into the past:
// retries and delayed messages become due, leases end, sent rows reach the age at
// which a relay that Start runs sweeps them, as [Drain] does not. To a relay that
// is running it looks as if it had been cut off from the database for d. An hour
// makes everything due that the backoff of a relay with defaults has put off.
//
// On SQLite a transaction of the test that is open holds the database: commit it
// first, or pass its bun.Tx as q. That goes for all that changes the table.
func Advance(t testing.TB, q bun.IDB, d time.Duration) {
	t.Helper()
	shifted := func(column string) string {
		if isSQLite(q) {
			return fmt.Sprintf("%s = strftime('%%Y-%%m-%%d %%H:%%M:%%f', %s, '%.3f seconds')", column, column, -d.Seconds())
		}
		return fmt.Sprintf("%s = %s - interval '%d microseconds'", column, column, d.Microseconds())
	}
	statement := "UPDATE outbox_messages SET " + shifted("available_at")
	for _, column := range []string{"claimed_at", "created_at", "updated_at", "sent_at", "unavailable_since"} {
		statement += ", " + shifted(column)
	}
	if _, err := exec(t, q, statement); err != nil {
		t.Fatalf("move outbox_messages in time: %v", err)
	}
}

func isSQLite(q bun.IDB) bool { return q.Dialect().Name() == dialect.SQLite }

// otherRelay is who takes leases over.
const otherRelay = "another relay"

// LoseLeases gives every claimed message to another relay, as happens to one
// that was cut off for longer than its ClaimTimeout. The relay that had it finds
// out when it next renews, four times in its ClaimTimeout, so set a short one such
// as 200 ms: [Drain] does not wait for the 15 s of the default. It then cancels the
// handler's context with the cause [outbox.ErrLeaseLost]; whatever the handler
// returns is not recorded. The other relay never delivers: its leases are over
// after an [Advance] of a minute.
//
// It may be called from a handler, and fails t if there is no lease to lose. A
// message whose handler has just returned is claimed until that is recorded, a few
// milliseconds later, so enqueue no other message in a test that counts on what
// becomes of it.
func LoseLeases(t testing.TB, q bun.IDB) {
	t.Helper()
	token := "'" + uuid.NewString() + "'"
	until := "strftime('%Y-%m-%d %H:%M:%f', 'now', '60 seconds')"
	if !isSQLite(q) {
		until = "statement_timestamp() + interval '60 seconds'"
	}
	n, err := exec(t, q, "UPDATE outbox_messages SET claim_token = "+token+", claimed_by = ?, available_at = "+until+
		" WHERE status = ?", otherRelay, string(outbox.StatusClaimed))
	switch {
	case err != nil:
		t.Errorf("take leases over: %v", err)
	case n == 0:
		t.Error("there is no lease to lose; call LoseLeases while a handler runs")
	}
}

// LoseOutcomes makes it so that whoever sent a message died before that was
// recorded: every sent message is as a relay leaves it that crashed between the
// delivery and its settlement, claimed under a lease that is over. The next
// [Drain] delivers them again, one by one, but parks those that were sent on their
// last attempt, as a relay does. It fails t if none was sent.
func LoseOutcomes(t testing.TB, q bun.IDB) {
	t.Helper()
	if n := loseOutcomes(t, q, "true"); n == 0 {
		t.Fatal("no message has been sent, so there is no outcome to lose; Drain first")
	}
}

func loseOutcomes(t testing.TB, q bun.IDB, where string, args ...any) int {
	t.Helper()
	n, err := exec(t, q, "UPDATE outbox_messages SET status = 'claimed', claim_token = '"+uuid.NewString()+
		"', sent_at = NULL, available_at = claimed_at WHERE status = 'sent' AND "+where, args...)
	if err != nil {
		t.Fatalf("lose outcomes: %v", err)
	}
	return n
}

// RefuseOutcomes makes the database refuse to record what becomes of a delivery,
// until mend is called. A relay that runs goes on trying, and delivers nothing
// twice for it; once it is stopped, the message is left claimed, and another relay
// delivers it again when the lease is over. [Drain] does not end before mend. It
// needs the right to create a trigger.
func RefuseOutcomes(t testing.TB, db *bun.DB) (mend func()) {
	t.Helper()
	const recorded = "WHEN (OLD.status = 'claimed' AND NEW.status <> 'claimed')"
	create := "CREATE TRIGGER outbox_refuse_outcomes BEFORE UPDATE ON outbox_messages " + recorded +
		" BEGIN SELECT RAISE(ABORT, 'refused by the test'); END"
	drop := "DROP TRIGGER outbox_refuse_outcomes"
	if !isSQLite(db) {
		create = `CREATE FUNCTION outbox_refuse_outcomes() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN RAISE EXCEPTION 'refused by the test'; END $$;
CREATE TRIGGER outbox_refuse_outcomes BEFORE UPDATE ON outbox_messages FOR EACH ROW ` + recorded + ` EXECUTE FUNCTION outbox_refuse_outcomes()`
		drop = "DROP FUNCTION outbox_refuse_outcomes CASCADE"
	}
	run := func(statement string) {
		t.Helper()
		if _, err := exec(t, db, statement); err != nil {
			t.Fatalf("refuse outcomes: %v", err)
		}
	}
	run(create)
	return func() {
		t.Helper()
		run(drop)
	}
}
