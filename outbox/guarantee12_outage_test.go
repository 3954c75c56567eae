package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"math"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 12, continued: after the first success everything is an outage.

// pool opens a pool whose sessions on Postgres carry a name.
func (f *fixture) pool(t *testing.T, name string, through *faults) *bun.DB {
	t.Helper()
	named := *f
	if f.postgres {
		u, err := url.Parse(f.url)
		require.NoError(t, err)
		q := u.Query()
		q.Set("application_name", name)
		u.RawQuery = q.Encode()
		named.url = u.String()
	}
	return named.connect(t, through)
}

// terminate ends the sessions with a name and returns how many there were.
func (f *fixture) terminate(t *testing.T, name string) int {
	t.Helper()
	return f.queryInt(t, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND application_name = ?", name)
}

// queryInt reads one number, past the faults.
func (f *fixture) queryInt(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, f.db.NewRaw(query, args...).Scan(bypass(t.Context()), &n))
	return n
}

// pace fails a test whose relay spins. It counts what goes through faults.
type pace struct {
	begun      time.Time
	statements atomic.Int64
	tries      func() int64 // the statements, or what a test counts instead
	db         *bun.DB      // the relay's pool
}

func newPace() *pace {
	p := &pace{begun: time.Now()}
	p.tries = p.statements.Load
	return p
}

func (p *pace) check(t *testing.T) {
	t.Helper()
	seconds := time.Since(p.begun).Seconds()
	require.LessOrEqual(t, float64(p.tries()), 100+40*seconds, "statements in %.1f s: a spin", seconds)
}

// F17, F33: the relay freezes when the pool is exhausted; after a failover the
// pool talks to a read-only server. Whatever it is: logged at once and rarely
// after that, tried again without a spin, and over when it is over.
func TestOutageEndsNothing(t *testing.T) {
	refuse := func(err error) func(*testing.T, *fixture, *faults, *pace) func() {
		return func(_ *testing.T, _ *fixture, through *faults, p *pace) func() {
			through.onBefore(func(string) error {
				p.statements.Add(1)
				return err
			})
			through.onConnect(func() error {
				p.statements.Add(1)
				return err
			})
			return through.clear
		}
	}
	countAll := func(through *faults, p *pace) {
		through.onBefore(func(string) error {
			p.statements.Add(1)
			return nil
		})
	}
	for _, c := range []struct {
		name     string
		postgres bool
		sqlite   bool
		claim    time.Duration // ClaimTimeout, where it is long until a claim is given up
		// begin breaks the database for the relay; what it returns repairs it.
		begin func(t *testing.T, f *fixture, through *faults, p *pace) func()
	}{
		{name: "the network", begin: refuse(io.ErrUnexpectedEOF)},
		{name: "a timeout", begin: refuse(context.DeadlineExceeded)},
		{name: "a refused connection", begin: refuse(&net.OpError{Op: "dial", Err: errors.New("connection refused")})},
		{name: "an unknown error", begin: refuse(errors.New("the disk is full"))},
		{name: "lost answers", begin: func(_ *testing.T, _ *fixture, through *faults, p *pace) func() {
			through.onAfter(func(string) error {
				p.statements.Add(1)
				return io.ErrUnexpectedEOF
			})
			return through.clear
		}},
		{name: "a database that has become read-only", postgres: true, begin: func(t *testing.T, f *fixture, through *faults, p *pace) func() {
			countAll(through, p)
			name := f.databaseName(t)
			f.exec(t, "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
			f.terminate(t, "relay")
			// Sessions of the relay stay read-only: those who do not connect
			// anew never recover.
			return func() { f.exec(t, "ALTER DATABASE "+name+" RESET default_transaction_read_only") }
		}},
		{name: "a database of which writers are refused", sqlite: true, begin: func(t *testing.T, f *fixture, through *faults, p *pace) func() {
			countAll(through, p)
			p.db.SetMaxOpenConns(1)
			eventually(t, func() bool { return p.db.Stats().OpenConnections == 1 }, "one connection is left")
			set := func(readOnly string) {
				_, err := p.db.ExecContext(bypass(t.Context()), "PRAGMA query_only = "+readOnly)
				require.NoError(t, err)
			}
			set("on")
			f.enqueue(t, plainTopic, []string{"during"}) // an idle look writes nothing
			return func() {
				f.exec(t, "DELETE FROM outbox_messages WHERE payload LIKE '%during%'") // before the relay can take it
				f.committed--
				set("off")
			}
		}},
		{name: "statements that hang", claim: time.Second, begin: func(_ *testing.T, _ *fixture, through *faults, p *pace) func() {
			through.onStall(func(ctx context.Context, _ string) error {
				p.statements.Add(1)
				<-ctx.Done()
				return ctx.Err()
			})
			return through.clear
		}},
		{name: "a pool of which the application holds every connection", claim: time.Second, begin: func(t *testing.T, f *fixture, _ *faults, p *pace) func() {
			p.db.SetMaxOpenConns(4)
			var held []*sql.Conn
			for len(held) < 3 || !f.postgres && len(held) < 4 { // on Postgres one is that of the renewals
				conn, err := p.db.DB.Conn(bypass(t.Context()))
				require.NoError(t, err)
				held = append(held, conn)
			}
			eventually(t, func() bool { return p.db.Stats().InUse == 4 }, "the renewals have theirs")
			waits := p.db.Stats().WaitCount
			p.tries = func() int64 { return p.db.Stats().WaitCount - waits }
			return func() {
				for _, conn := range held {
					require.NoError(t, conn.Close())
				}
			}
		}},
		{name: "a table that is locked", postgres: true, claim: time.Second, begin: func(t *testing.T, f *fixture, through *faults, p *pace) func() {
			countAll(through, p)
			return f.lock(t, "LOCK TABLE outbox_messages IN ACCESS EXCLUSIVE MODE")
		}},
		{name: "a table that is gone", begin: func(t *testing.T, f *fixture, through *faults, p *pace) func() {
			countAll(through, p)
			f.exec(t, "ALTER TABLE outbox_messages RENAME TO elsewhere")
			return func() { f.exec(t, "ALTER TABLE elsewhere RENAME TO outbox_messages") }
		}},
		{name: "a column that is gone", begin: func(t *testing.T, f *fixture, through *faults, p *pace) func() {
			countAll(through, p)
			f.exec(t, "ALTER TABLE outbox_messages RENAME COLUMN version TO elsewhere")
			return func() { f.exec(t, "ALTER TABLE outbox_messages RENAME COLUMN elsewhere TO version") }
		}},
		{name: "a permission that is gone", postgres: true, begin: func(t *testing.T, f *fixture, through *faults, p *pace) func() {
			countAll(through, p)
			f.exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN RAISE EXCEPTION 'permission denied' USING ERRCODE = '42501'; END $$;
				CREATE TRIGGER refuse BEFORE UPDATE ON outbox_messages EXECUTE FUNCTION refuse()`)
			return func() { f.exec(t, "DROP TRIGGER refuse ON outbox_messages") }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := onEvery
			switch {
			case c.postgres:
				run = onPostgres
			case c.sqlite:
				run = onSQLite
			}
			run(t, func(t *testing.T, f *fixture) {
				through, p, log := &faults{}, newPace(), &logs{}
				var calls atomic.Int64
				handler, delivered := counted(&calls)
				r := f.relay(handling(handler))
				r.DB, r.Logger, r.ClaimTimeout = f.pool(t, "relay", through), log.logger(), c.claim
				p.db = r.DB
				stop := start(t, r)
				if c.claim == 0 {
					f.db.SetMaxOpenConns(1) // which stays as it is now
				}
				f.enqueue(t, plainTopic, []string{"before"})
				require.Equal(t, "before", receive(t, delivered, "a delivery before the outage"))
				eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "it is recorded")

				// Where a claim is given up soon, a busy machine makes short outages
				// of its own before and after this one.
				outages := log.count(outageLine)
				end := c.begin(t, f, through, p)
				eventually(t, func() bool { return log.count(outageLine) > outages && p.tries() > 0 }, "the outage is logged")
				recoveries := log.count(recoveryLine) // one may come from a statement that had begun before the outage
				// A second is enough to tell a spin, which sends thousands.
				tries := int64(6)
				if c.claim > 0 { // each takes so long
					tries = 1
				}
				eventually(t, func() bool { return p.tries() > tries && time.Since(p.begun) > time.Second }, "it tries again")
				p.check(t)
				require.LessOrEqual(t, float64(log.count(outageLine)-outages), 2+math.Log2(1+time.Since(p.begun).Seconds()), "few lines")
				require.Equal(t, recoveries, log.count(recoveryLine))
				end()
				f.enqueue(t, plainTopic, []string{"after"})
				require.Equal(t, "after", receive(t, delivered, "a delivery after the outage"))
				eventually(t, func() bool { return log.count(recoveryLine) > recoveries }, "its end is logged")
				eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 2 }, "it is recorded")
				require.NoError(t, stop())
				require.EqualValues(t, 2, calls.Load())
			})
		})
	}
}

// A relay that has nothing left to renew has not seen the database answer.
func TestOutageIsNotOverForWantOfWork(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		through, log := &faults{}, &logs{}
		begun, held, looks := make(chan struct{}, 1), make(gate), make(gate)
		var claimed atomic.Bool
		through.onBefore(func(query string) error {
			switch {
			case isRenew(query):
				return io.ErrUnexpectedEOF
			case isLook(query) && claimed.Load(): // an answer to it would be the end of the outage
				looks.pass(t)
			case isClaim(query):
				claimed.Store(true)
			}
			return nil
		})
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			note(begun, struct{}{})
			held.pass(t)
			return nil
		}))
		r.DB, r.Logger = f.connect(t, through), log.logger()
		r.Interval, r.ClaimTimeout = time.Hour, 4*time.Second
		f.enqueue(t, plainTopic, []string{"a"})
		stop := start(t, r)
		receive(t, begun, "the delivery")
		eventually(t, func() bool { return log.count(outageLine) > 0 }, "renewals fail")
		held.open()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "it is recorded")
		recorded := time.Now()
		eventually(t, func() bool { return time.Since(recorded) > time.Second }, "renewals are due again, of nothing")
		require.Zero(t, log.count(recoveryLine))
		looks.open()
		r.Wake()
		eventually(t, func() bool { return log.count(recoveryLine) > 0 }, "a claim is answered")
		require.NoError(t, stop())
	})
}

func (f *fixture) databaseName(t *testing.T) (name string) {
	t.Helper()
	require.NoError(t, f.db.NewRaw("SELECT current_database()").Scan(t.Context(), &name))
	return name
}

func TestDroppedAndRecreatedTableEndsNothing(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		log := &logs{}
		var calls atomic.Int64
		handler, delivered := counted(&calls)
		held := make(chan struct{})
		r := f.relay(handling(func(ctx context.Context, d outbox.Delivery[order]) error {
			defer func() { <-held }()
			return handler(ctx, d)
		}))
		seen := &queryLog{}
		r.DB, r.Logger = f.db.WithQueryHook(seen), log.logger()
		stop := start(t, r)
		f.enqueue(t, plainTopic, []string{"before"})
		receive(t, delivered, "a delivery before")
		f.exec(t, "DROP TABLE outbox_messages")
		looks := seen.looks()
		f.committed = 0
		close(held) // an outcome that there is no row for
		eventually(t, func() bool { return log.count(outageLine) > 0 && seen.looks() > looks+2 }, "the outage is logged, and it looks on")
		require.NoError(t, f.store.Migrate(t.Context()))
		f.enqueue(t, plainTopic, []string{"after"})
		require.Equal(t, "after", receive(t, delivered, "a delivery into the new table"))
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "it is recorded")
		require.NoError(t, stop())
	})
}

func TestTerminatedBackendsEndNothing(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		through, p := &faults{}, newPace()
		through.onBefore(func(string) error {
			p.statements.Add(1)
			return nil
		})
		var calls atomic.Int64
		handler, delivered := counted(&calls)
		r := f.relay(handling(handler))
		r.DB, r.Interval = f.pool(t, "relay", through), 200*time.Millisecond // far from what counts as a spin
		stop := start(t, r)
		for _, id := range numbers(5) {
			f.enqueue(t, plainTopic, []string{id})
			require.Equal(t, id, receive(t, delivered, "a delivery"))
			eventually(t, func() bool { return f.count(t, outbox.StatusClaimed) == 0 }, "it is recorded")
			require.Positive(t, f.terminate(t, "relay"))
		}
		require.NoError(t, stop())
		require.EqualValues(t, 5, calls.Load())
		p.check(t)
	})
}

// collide makes the first n statements that update rows to a status collide
// with another transaction, as Postgres sees it. A sequence counts them, since
// it is not rolled back.
func (f *fixture) collide(t *testing.T, state, status string, n int) (collisions func() int) {
	t.Helper()
	f.exec(t, `CREATE SEQUENCE hits; CREATE FUNCTION collide() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN
			IF NEW.status = '`+status+`' AND nextval('hits') <= `+numbers(n + 1)[n]+` THEN
				RAISE EXCEPTION 'a collision' USING ERRCODE = '`+state+`';
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER collide BEFORE UPDATE ON outbox_messages FOR EACH ROW EXECUTE FUNCTION collide()`)
	return func() int { return f.queryInt(t, "SELECT last_value FROM hits") }
}

func TestCollisionsAreRetriedAndAreNoOutages(t *testing.T) {
	for _, c := range []struct{ name, state, status string }{
		{"a serialization failure of a claim", "40001", "claimed"},
		{"a deadlock of a claim", "40P01", "claimed"},
		{"a serialization failure of a settlement", "40001", "sent"},
		{"a deadlock of a settlement", "40P01", "sent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onPostgres(t, func(t *testing.T, f *fixture) {
				collisions := f.collide(t, c.state, c.status, 4)
				ids := f.enqueue(t, plainTopic, []string{"a"})
				log := &logs{}
				var calls atomic.Int64
				handler, _ := counted(&calls)
				r := f.relay(handling(handler))
				r.Logger, r.Interval = log.logger(), time.Hour // so that it is not the next look
				stop := start(t, r)
				eventually(t, func() bool { return f.get(t, ids[0]).Status == outbox.StatusSent }, "it is sent")
				require.NoError(t, stop())
				require.Zero(t, log.count(outageLine), "it is no outage")
				require.GreaterOrEqual(t, collisions(), 5)
				require.EqualValues(t, 1, calls.Load())
				require.Equal(t, 1, f.get(t, ids[0]).Attempts)
			})
		})
	}
}

func TestCollisionsOfRenewalsAreNoOutages(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, []string{"a"})
		log := &logs{}
		begun, held := make(chan struct{}, 1), make(chan struct{})
		r := f.relay(handling(func(ctx context.Context, _ outbox.Delivery[order]) error {
			begun <- struct{}{}
			select {
			case <-held:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}))
		r.Logger, r.Interval, r.ClaimTimeout = log.logger(), time.Hour, 16*time.Second // four for a renewal
		stop := start(t, r)
		receive(t, begun, "the delivery")
		collisions := f.collide(t, "40001", "claimed", 4)
		eventually(t, func() bool { return collisions() >= 5 }, "a renewal gets through")
		close(held)
		eventually(t, func() bool { return f.get(t, ids[0]).Status == outbox.StatusSent }, "it is sent")
		require.NoError(t, stop())
		require.Zero(t, log.count(outageLine), "it is no outage")
	})
}

func TestBusyDatabaseIsNoOutage(t *testing.T) {
	f := newFixture(t, "sqlite", "")
	through, log := &faults{}, &logs{}
	var settlements atomic.Int64
	var writer bun.Tx
	through.onBefore(func(query string) error {
		if isSettle(query) && settlements.Add(1) == 4 {
			return writer.Rollback() // before it becomes an outage
		}
		return nil
	})
	impatient := *f
	impatient.url += "?_pragma=busy_timeout(10)&_txlock=immediate&x=" // the first wins
	r := f.relay(handling(func(ctx context.Context, _ outbox.Delivery[order]) (err error) {
		writer, err = f.db.BeginTx(context.WithoutCancel(ctx), nil)
		return err
	}))
	r.DB, r.Logger = impatient.connect(t, through), log.logger()
	ids := f.enqueue(t, plainTopic, []string{"a"})
	stop := start(t, r)
	eventually(t, func() bool { return f.get(t, ids[0]).Status == outbox.StatusSent }, "it is sent")
	require.NoError(t, stop())
	require.GreaterOrEqual(t, settlements.Load(), int64(4), "the settlement is tried again")
	require.Zero(t, log.count(outageLine))
	require.Equal(t, 1, f.get(t, ids[0]).Attempts)
}

// A file that somebody keeps locked answers each statement late, with an error
// that is usually a chance one.
func TestFileThatStaysLockedIsAnOutage(t *testing.T) {
	for _, operation := range []string{"renew", "record"} {
		t.Run(operation, func(t *testing.T) {
			onSQLite(t, func(t *testing.T, f *fixture) {
				begun, held, unlocked := make(chan struct{}, 1), make(gate), make(gate)
				log, through := &logs{}, &faults{}
				if operation == "record" {
					through.onBefore(func(query string) error {
						if isRenew(query) { // or the lines are about renewals, if those are the first to fail
							unlocked.pass(t)
						}
						return nil
					})
				}
				impatient := *f
				impatient.url += "?_pragma=busy_timeout(1000)&_txlock=immediate&x=" // the first wins
				r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
					note(begun, struct{}{})
					held.pass(t)
					return nil
				}))
				r.DB, r.Logger = impatient.connect(t, through), log.logger()
				r.Retention = -1 // or the line is about a sweep
				if operation == "renew" {
					r.ClaimTimeout = 5 * time.Second
				}
				f.enqueue(t, plainTopic, []string{"a"})
				stop := start(t, r)
				receive(t, begun, "the delivery")
				unlock := f.lock(t, "UPDATE outbox_messages SET headers = headers")
				if operation == "record" {
					held.open()
				}
				eventually(t, func() bool { return log.count("operation="+operation) > 0 }, "it is logged")
				require.LessOrEqual(t, log.count(outageLine), 3, "few lines")
				unlock()
				unlocked.open()
				if operation == "renew" {
					held.open()
				}
				eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 && log.count(recoveryLine) > 0 }, "it is recorded, and it is over")
				require.NoError(t, stop())
			})
		})
	}
}

func TestSuspectsAreTakenWhileSweepsFail(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		// A role that may not delete keeps sweeps failing for ever. It must not
		// keep the relay from taking over what another relay has left behind.
		var renewals, sweeps atomic.Int64
		f.faults.onBefore(func(query string) error {
			switch {
			case strings.Contains(query, "DELETE FROM outbox_messages"):
				sweeps.Add(1)
				return io.ErrUnexpectedEOF
			case isRenewal(query) && sweeps.Load() > 0 && renewals.Add(1) == 1:
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		var calls atomic.Int64
		handler, delivered := counted(&calls)
		ids := f.enqueue(t, plainTopic, []string{"left behind", "running"}, outbox.After(time.Hour))
		begun, held := make(chan struct{}, 1), make(chan struct{})
		r := f.relay(handling(func(ctx context.Context, d outbox.Delivery[order]) error {
			if d.Payload.ID == "running" {
				begun <- struct{}{}
				<-held
				return nil
			}
			return handler(ctx, d)
		}))
		r.Retention, r.ClaimTimeout = time.Second, time.Second
		stop := start(t, r)
		f.shift(t, "available_at", -2*time.Hour, "id = '"+ids[1].String()+"'")
		receive(t, begun, "the delivery whose lease is renewed")
		eventually(t, func() bool { return renewals.Load() > 1 }, "a renewal fails")
		f.exec(t, "UPDATE outbox_messages SET status = 'claimed', attempts = 1, claim_token = id WHERE id = ?", ids[0].String())
		f.shift(t, "available_at", -2*time.Hour, "id = '"+ids[0].String()+"'")
		require.Equal(t, "left behind", receive(t, delivered, "the suspect"))
		close(held)
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 2 }, "both are recorded")
		require.NoError(t, stop())
	})
}

// isRenewal tells a renewal from a settlement, both of which are updates under
// the lock of a token.
func isRenewal(query string) bool {
	return strings.Contains(query, "SET available_at = ") && strings.Contains(query, "claim_token = r.token")
}
