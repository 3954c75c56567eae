package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 14: on Postgres no transaction of ours is open while a handler
// runs, no row lock is waited for, and the role's defaults do not matter.

// F35: a slow handler keeps a transaction open. See also TestSlowHandlerHoldsNoLock.
func TestNoTransactionIsOpenWhileAHandlerRuns(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		f.unhooked(t).enqueue(t, plainTopic, numbers(3))
		open := func() int {
			return f.queryInt(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
				AND application_name = 'relay' AND (xact_start IS NOT NULL OR state LIKE 'idle in transaction%')`)
		}
		begun, held := make(chan struct{}, 3), make(chan struct{})
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			begun <- struct{}{}
			<-held
			return nil
		}))
		seen := &queryLog{}
		r.DB, r.Interval = f.pool(t, "relay", nil).WithQueryHook(seen), time.Hour
		r.ClaimTimeout, r.Retention = 24*time.Hour, -1 // no renewal and no sweep meanwhile
		stop := start(t, r)
		for range 3 {
			receive(t, begun, "a delivery")
		}
		// It looks again for more, and once it listens: those are short. What is open
		// for as long as a handler runs would not end before held is closed.
		f.waitForListener(t, "relay")
		eventually(t, func() bool { return seen.looks() >= 3 }, "it looks beside the handlers")
		eventually(t, func() bool { return open() == 0 }, "nothing is open beside the handlers")
		close(held)
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 3 }, "all are recorded")
		require.NoError(t, stop())
	})
}

// unhooked is f on a pool without a CommitHook, whose commits wake nobody.
func (f *fixture) unhooked(t *testing.T) *fixture {
	t.Helper()
	quiet := *f
	quiet.db = f.connect(t, nil)
	return &quiet
}

// strangeDefaults are defaults of a database or role that would harm the relay.
var strangeDefaults = map[string]string{
	"default_transaction_isolation":       "serializable",
	"statement_timeout":                   "43s",
	"lock_timeout":                        "42s",
	"idle_in_transaction_session_timeout": "41s",
	"synchronous_commit":                  "off",
}

// F48: relays with a default of REPEATABLE READ or SERIALIZABLE. See also
// TestDefaultIsolationOfTheRoleCausesNoCollision.
func TestDefaultsOfTheRoleDoNotMatter(t *testing.T) {
	for _, c := range []struct{ name, isolation, scope string }{
		{"serializable in the database", "serializable", "DATABASE %[1]s"},
		{"repeatable read of the role", "repeatable read", "ROLE CURRENT_USER IN DATABASE %[1]s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onPostgres(t, func(t *testing.T, f *fixture) {
				f.mayVanish = true
				f.exec(t, `CREATE TABLE settings_seen (what text, isolation text, timeout text, sync text);
					CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
						INSERT INTO settings_seen SELECT
							CASE WHEN TG_OP = 'DELETE' THEN 'sweep' ELSE OLD.status || ' to ' || NEW.status END,
							current_setting('transaction_isolation'), current_setting('statement_timeout'), current_setting('synchronous_commit');
						RETURN NULL;
					END $$;
					CREATE TRIGGER see AFTER UPDATE OR DELETE ON outbox_messages FOR EACH ROW EXECUTE FUNCTION see()`)
				defaults := map[string]string{}
				for name, value := range strangeDefaults {
					if name == "default_transaction_isolation" {
						value = c.isolation
					}
					defaults[name] = value
					f.exec(t, fmt.Sprintf("ALTER "+c.scope+" SET %[2]s = '%[3]s'", f.databaseName(t), name, value))
				}
				swept := f.enqueue(t, plainTopic, []string{"old"})
				f.exec(t, "UPDATE outbox_messages SET status = 'sent'")
				f.shift(t, "updated_at", -30*24*time.Hour, "true")
				f.exec(t, "DELETE FROM settings_seen")
				f.enqueue(t, plainTopic, []string{"fails", "sent", "waits"})

				db := f.pool(t, "relay", nil)
				db.SetMaxOpenConns(8)
				db.SetMaxIdleConns(8)
				f.requireSettings(t, db, defaults, "before")
				held, begun := make(chan struct{}), make(chan struct{}, 3)
				r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
					begun <- struct{}{}
					<-held
					if d.Payload.ID == "fails" {
						return fmt.Errorf("not now")
					}
					return nil
				}))
				r.DB, r.Concurrency, r.ClaimTimeout, r.Retention = db, 2, 3600*time.Millisecond, time.Second
				stop := start(t, r)
				receive(t, begun, "a delivery")
				receive(t, begun, "a delivery")
				seen := func(what string) int {
					return f.queryInt(t, "SELECT count(*) FROM settings_seen WHERE what = ?", what)
				}
				eventually(t, func() bool { return seen("claimed to claimed") > 0 && seen("sweep") > 0 }, "a renewal and a sweep")
				ended := make(chan error, 1)
				go func() { ended <- stop() }()
				eventually(t, func() bool { return seen("claimed to pending") > 0 }, "the release of what never started")
				close(held)
				require.NoError(t, receive(t, ended, "the end of Start"))

				_, err := f.store.Get(t.Context(), swept[0])
				require.ErrorIs(t, err, outbox.ErrNotFound)
				for _, what := range []string{"pending to claimed", "claimed to claimed", "claimed to sent", "claimed to pending", "sweep"} {
					require.Positive(t, seen(what), what)
				}
				var odd []string
				require.NoError(t, f.db.NewRaw(`SELECT DISTINCT what || ' at ' || isolation || ', ' || timeout || ', ' || sync FROM settings_seen
					WHERE isolation <> 'read committed' OR sync <> 'on' OR timeout = '43s'`).Scan(t.Context(), &odd))
				require.Empty(t, odd)
				var timeouts []string
				require.NoError(t, f.db.NewRaw("SELECT DISTINCT what || ': ' || timeout FROM settings_seen ORDER BY 1").Scan(t.Context(), &timeouts))
				require.Equal(t, []string{
					"claimed to claimed: 900ms", "claimed to pending: 1s", "claimed to sent: 1s", "pending to claimed: 1800ms", "sweep: 5s",
				}, timeouts)
				f.requireSettings(t, db, defaults, "after")
			})
		})
	}
}

// requireSettings looks at every connection of a pool at once.
func (f *fixture) requireSettings(t *testing.T, db *bun.DB, want map[string]string, when string) {
	t.Helper()
	var conns []*sql.Conn
	for range 8 {
		conn, err := db.DB.Conn(t.Context())
		require.NoError(t, err)
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		for name, value := range want {
			var got string
			require.NoError(t, conn.QueryRowContext(t.Context(), "SHOW "+name).Scan(&got))
			require.Equal(t, value, got, "%s, %s", name, when)
		}
		var isolation string
		require.NoError(t, conn.QueryRowContext(t.Context(), "SHOW transaction_isolation").Scan(&isolation))
		require.Equal(t, want["default_transaction_isolation"], isolation, when)
	}
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
}

func TestLockedTableTimesOutInTheServer(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, []string{"a"})
		db := f.pool(t, "relay", nil)
		db.SetMaxOpenConns(8)
		db.SetMaxIdleConns(8)
		log := &logs{}
		var calls atomic.Int64
		handler, delivered := counted(&calls)
		r := f.relay(handling(handler))
		r.DB, r.Logger, r.ClaimTimeout = db, log.logger(), 4*time.Second // so that a lost answer to a claim is known before its lease ends
		lock, err := f.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = lock.ExecContext(t.Context(), "LOCK TABLE outbox_messages")
		require.NoError(t, err)
		stop := start(t, r)
		eventually(t, func() bool { return log.count("57014") > 0 }, "the server gives up, not the client")
		require.NoError(t, lock.Rollback())
		require.Equal(t, "a", receive(t, delivered, "the delivery"))
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "it is recorded")
		require.NoError(t, stop())
		require.Equal(t, 1, f.get(t, ids[0]).Attempts, "no attempt was burnt")
		f.requireSettings(t, db, map[string]string{
			"default_transaction_isolation": "read committed", "statement_timeout": "0", "synchronous_commit": "on",
			"idle_in_transaction_session_timeout": "0",
		}, "after statements that failed")
	})
}

// lockRows holds row locks until the returned function is called.
func (f *fixture) lockRows(t *testing.T, where string) (unlock func()) {
	t.Helper()
	tx, err := f.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	var ids []string
	require.NoError(t, tx.NewRaw("SELECT id::text FROM outbox_messages WHERE "+where+" FOR UPDATE").Scan(t.Context(), &ids))
	require.NotEmpty(t, ids)
	return func() { require.NoError(t, tx.Rollback()) }
}

func TestNoRowLockIsWaitedFor(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		f.mayVanish = true
		ids := f.enqueue(t, plainTopic, numbers(5))
		is := func(i int) string { return "id = '" + ids[i].String() + "'" }
		f.exec(t, "UPDATE outbox_messages SET status = 'claimed', attempts = 1, claim_token = id WHERE "+is(1)+" OR "+is(2))
		f.expireLeases(t)
		f.exec(t, "UPDATE outbox_messages SET status = 'sent' WHERE "+is(3)+" OR "+is(4))
		f.shift(t, "updated_at", -time.Hour, is(3)+" OR "+is(4))
		more := f.enqueue(t, plainTopic, []string{"due", "retried", "discarded"})
		f.exec(t, "UPDATE outbox_messages SET status = 'failed' WHERE id IN (?, ?)", more[1].String(), more[2].String())

		// A person has locked one row of each kind in psql.
		unlock := f.lockRows(t, is(0)+" OR "+is(1)+" OR "+is(3)+" OR id = '"+more[1].String()+"'")
		var calls atomic.Int64
		handler, delivered := counted(&calls)
		r := f.relay(handling(handler))
		require.Equal(t, 2, drain(t, r), "the other due row and the other suspect")
		require.ElementsMatch(t, []string{"2", "due"}, []string{receive(t, delivered, "one"), receive(t, delivered, "another")})
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		n, err := f.store.Sweep(ctx, time.Minute)
		require.NoError(t, err)
		require.Equal(t, 1, n, "the other old row")
		n, err = f.store.Retry(ctx, outbox.Filter{All: true})
		require.NoError(t, err)
		require.Equal(t, 1, n, "the other failed row")
		unlock()
		require.Equal(t, 3, drain(t, r), "nothing was lost")
		n, err = f.store.Discard(ctx, outbox.Filter{All: true}, "enough")
		require.NoError(t, err)
		require.Equal(t, 1, n)
	})
}

func TestLockedOutcomeDelaysItselfOnly(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(5))
		held, begun := make(chan struct{}), make(chan struct{}, 5)
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			begun <- struct{}{}
			<-held
			return nil
		}))
		stop := start(t, r)
		for range ids {
			receive(t, begun, "a delivery")
		}
		unlock := f.lockRows(t, "id = '"+ids[2].String()+"'")
		close(held)
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 4 }, "the others are recorded")
		require.Equal(t, 1, f.count(t, outbox.StatusClaimed))
		unlock()
		require.NoError(t, stop(), "a shutdown waits for it")
		require.Equal(t, 5, f.count(t, outbox.StatusSent))
	})
}

func TestEveryStatementIsBounded(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, numbers(3))
		seen := &queryLog{}
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		r.DB = f.db.WithQueryHook(seen)
		require.Equal(t, 3, drain(t, r))
		ours, _ := seen.that(func(query string) bool { return strings.Contains(query, "outbox_messages") })
		bounds, _ := seen.that(func(query string) bool { return strings.Contains(query, "SET LOCAL statement_timeout = ") })
		require.NotEmpty(t, ours)
		require.GreaterOrEqual(t, len(bounds), len(ours))
	})
}
