package outbox_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 6: attempts count at claim.

func TestAttemptsCountAtClaim(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			m := f.get(t, id)
			require.Equal(t, outbox.StatusClaimed, m.Status)
			require.Equal(t, d.Message.Attempts, m.Attempts)
			if m.Attempts < 3 {
				return io.ErrUnexpectedEOF
			}
			return nil
		}))
		r.BaseBackoff = time.Hour
		for want := 1; want <= 3; want++ {
			drain(t, r)
			require.Equal(t, want, f.get(t, id).Attempts)
			f.makeDue(t)
		}
		require.Equal(t, outbox.StatusSent, f.get(t, id).Status)
	})
}

func TestAttemptsAreGivenBackByACleanRelease(t *testing.T) {
	onEveryClock(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(20))
		for i, id := range ids {
			// As precise as the database keeps it.
			due := fmt.Sprintf("2021-02-03 04:05:%02d.%03d", i, 100+i)
			if f.postgres {
				due = fmt.Sprintf("2021-02-03 04:05:%02d.%06d+00", i, 123456+i)
			}
			f.exec(t, "UPDATE outbox_messages SET available_at = ?, attempts = ? WHERE id = ?", due, i, id)
		}
		dues := func() (texts []string) { // past our own reading of times
			require.NoError(t, f.db.NewRaw("SELECT CAST(available_at AS text) FROM outbox_messages WHERE id <> ? ORDER BY id", ids[0]).
				Scan(t.Context(), &texts))
			return texts
		}
		before := dues()
		begun, finish := make(chan outbox.ID, 20), make(gate)
		r := f.deaf(handling(func(ctx context.Context, d outbox.Delivery[order]) error {
			begun <- d.Message.ID
			if d.Message.ID == ids[0] {
				finish.pass(t)
				return nil
			}
			<-ctx.Done()
			return fmt.Errorf("interrupted: %w", ctx.Err())
		}))
		r.Concurrency, r.MaxAttempts, r.ShutdownTimeout = 2, 100, 5*time.Second
		stop := start(t, r)
		receive(t, begun, "the first delivery")
		receive(t, begun, "the second delivery")
		require.Equal(t, 20, f.count(t, outbox.StatusClaimed))
		require.Equal(t, 20, f.get(t, ids[19]).Attempts)
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		// The second delivery may be released by the time that somebody looks.
		eventually(t, func() bool { return f.count(t, outbox.StatusPending) >= 18 }, "what never started is released at once")
		finish.open()
		require.NoError(t, receive(t, stopped, "the end of the relay"))
		require.Empty(t, begun, "no other has begun")
		require.Equal(t, outbox.StatusSent, f.get(t, ids[0]).Status)
		require.Equal(t, before, dues())
		for i, id := range ids[1:] {
			got := f.row(t, id)
			require.Equal(t, outbox.StatusPending, got.Status)
			require.Equal(t, i+1, got.Attempts)
			require.Empty(t, got.LastError)
			require.Empty(t, got.token)
		}
	})
}

// F05: every deploy burns an attempt.
func TestRestartsUnderLoadBurnNoAttempt(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(60))
		delivered := map[outbox.ID]bool{}
		var mu sync.Mutex
		for range 20 {
			begun, finish := make(chan struct{}, 1), make(gate)
			r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
				note(begun, struct{}{})
				finish.pass(t)
				mu.Lock()
				defer mu.Unlock()
				delivered[d.Message.ID] = true
				return nil
			}))
			r.Concurrency = 2
			stop := start(t, r)
			receive(t, begun, "a delivery")
			stopped := make(chan error, 1)
			go func() { stopped <- stop() }()
			// The handlers return after the shutdown has begun to release.
			eventually(t, func() bool { return f.count(t, outbox.StatusClaimed) <= 2 }, "the others are released")
			finish.open()
			require.NoError(t, receive(t, stopped, "the end of the relay"))
		}
		require.NotEmpty(t, delivered)
		require.Less(t, len(delivered), 60)
		for _, id := range ids {
			m := f.get(t, id)
			if delivered[id] {
				require.Equal(t, outbox.StatusSent, m.Status)
				require.Equal(t, 1, m.Attempts)
			} else {
				require.Equal(t, outbox.StatusPending, m.Status)
				require.Zero(t, m.Attempts)
			}
		}
	})
}

// F41: a table lock makes claims time out in the client and commit in the
// server afterwards. It lasts five times as long as a claim may take.
func TestLockedTableBurnsNoAttempt(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(30))
		unlock, locked := f.lock(t, "LOCK TABLE outbox_messages IN ACCESS EXCLUSIVE MODE"), time.Now()
		own := f.on(t)
		var claims atomic.Int64
		own.faults.onBefore(func(query string) error {
			if isClaim(query) {
				claims.Add(1)
			}
			return nil
		})
		attempts := make(chan int, 100)
		r := own.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			attempts <- d.Message.Attempts
			return nil
		}))
		r.ClaimTimeout = 4 * time.Second // and so two seconds for a claim; a lost answer to one is known before the lease ends
		// Start validates without waiting for the lock.
		stop := start(t, r)
		eventually(t, func() bool { return claims.Load() >= 4 && time.Since(locked) > 5*r.ClaimTimeout/2 }, "several claims give up")
		unlock()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == len(ids) }, "all are sent once the lock is gone")
		require.NoError(t, stop())
		require.Len(t, attempts, len(ids), "each was delivered once")
		for range ids {
			require.Equal(t, 1, <-attempts)
		}
	})
}

// The rows of a claim whose answer was lost are in nobody's hands.
func TestAttemptsAreGivenBackWhenTheAnswerToAClaimIsLost(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(10))
		suspect := ids[0]
		f.abandon(t, 3, suspect)
		own := f.on(t)
		lost := own.loseAnswers(1, isClaim)
		calls := make(chan outbox.Message, 20)
		r := own.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			calls <- d.Message
			return nil
		}))
		_, err := r.Drain(t.Context())
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, 1, lost())
		require.Empty(t, calls)
		for _, id := range ids[1:] {
			m := f.row(t, id)
			require.Equal(t, outbox.StatusPending, m.Status)
			require.Zero(t, m.Attempts)
			require.Empty(t, m.token)
			require.Equal(t, m.ClaimedAt, m.AvailableAt, "due as of the claim")
		}
		m := f.get(t, suspect)
		require.Equal(t, outbox.StatusClaimed, m.Status, "a suspect stays one")
		require.Equal(t, 3, m.Attempts)
		require.True(t, f.leaseOver(t, suspect))

		require.Equal(t, len(ids), drain(t, r))
		for range ids {
			m := <-calls
			if m.ID == suspect {
				require.Equal(t, 4, m.Attempts)
			} else {
				require.Equal(t, 1, m.Attempts)
			}
		}
	})
}

// A lost claim is released until the answer is sure, and that is several times.
func TestAttemptsOfASuspectAreGivenBackOnce(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayStayClaimed = true
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		f.abandon(t, 5, id)
		own := f.on(t)
		lost := own.loseAnswers(1, isClaim)
		var releases atomic.Int64
		own.faults.onBefore(func(query string) error {
			if isRelease(query) {
				releases.Add(1)
			}
			return nil
		})
		// After the outage no suspect is taken for half a lease.
		stop := start(t, own.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil })))
		eventually(t, func() bool { return releases.Load() >= 4 }, "several releases")
		require.Equal(t, 1, lost())
		require.NoError(t, stop())
		require.Equal(t, 5, f.get(t, id).Attempts)
		require.True(t, f.leaseOver(t, id))
	})
}

func TestAttemptsOfAnExhaustedSuspectAreUntouchedByALostAnswer(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		f.abandon(t, 12, id)
		own := f.on(t)
		own.loseAnswers(1, isClaim)
		r := own.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		_, err := r.Drain(t.Context())
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Equal(t, 12, f.get(t, id).Attempts)
		require.True(t, f.leaseOver(t, id))
		require.Zero(t, drain(t, r))
		m := f.get(t, id)
		require.Equal(t, outbox.StatusFailed, m.Status)
		require.Equal(t, 12, m.Attempts)
	})
}

func TestAttemptsAreGivenBackByARunningRelayThatLosesAnAnswer(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(10))
		own := f.on(t)
		lost := own.loseAnswers(3, func(query string) bool { return isClaim(query) && f.count(t, outbox.StatusSent) == 0 })
		attempts := make(chan int, 20)
		stop := start(t, own.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			attempts <- d.Message.Attempts
			return nil
		})))
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == len(ids) }, "all are sent long before their leases end")
		require.NoError(t, stop())
		require.Equal(t, 3, lost())
		require.Len(t, attempts, len(ids))
		for range ids {
			require.Equal(t, 1, <-attempts)
		}
	})
}

// One row of a lost claim that somebody has locked must not keep the others.
func TestAttemptsOfALostClaimAreGivenBackPastALock(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(10))
		own := f.on(t)
		var unlock func()
		locked := make(chan struct{})
		own.afterCommit(isClaim, func() error {
			own.faults.clear()
			unlock = f.lock(t, "SELECT 1 FROM outbox_messages WHERE id = ? FOR UPDATE", ids[4])
			close(locked)
			return io.ErrUnexpectedEOF
		})
		r := own.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		stop := start(t, r)
		receive(t, locked, "the lost claim")
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == len(ids)-1 }, "the others are sent")
		require.Equal(t, outbox.StatusClaimed, f.get(t, ids[4]).Status)
		unlock()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == len(ids) }, "the last is sent, too")
		require.NoError(t, stop())
		require.Equal(t, 1, f.get(t, ids[4]).Attempts)
	})
}

// F42: asynchronous commit: an event is delivered, then the server crashes and
// neither row exists.
func TestClaimsCommitSynchronouslyWhateverTheDefault(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		var name string
		require.NoError(t, f.db.NewRaw("SELECT current_database()").Scan(t.Context(), &name))
		f.exec(t, "CREATE TABLE seen (was text, became text, setting text)")
		f.exec(t, `CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO seen VALUES (OLD.status, NEW.status, current_setting('synchronous_commit'));
			RETURN NEW; END $$`)
		f.exec(t, "CREATE TRIGGER note BEFORE UPDATE ON outbox_messages FOR EACH ROW EXECUTE FUNCTION note()")
		f.exec(t, `ALTER DATABASE "`+name+`" SET synchronous_commit = off`)

		own := f.on(t)
		var producers string
		require.NoError(t, own.db.NewRaw("SHOW synchronous_commit").Scan(t.Context(), &producers))
		require.Equal(t, "off", producers)
		f.enqueue(t, plainTopic, numbers(3))
		require.Equal(t, 3, drain(t, own.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))))

		var settings []string
		require.NoError(t, f.db.NewRaw("SELECT setting FROM seen WHERE was = 'pending' AND became = 'claimed'").Scan(t.Context(), &settings))
		require.Equal(t, []string{"on", "on", "on"}, settings)
		require.NoError(t, own.db.NewRaw("SHOW synchronous_commit").Scan(t.Context(), &producers))
		require.Equal(t, "off", producers, "the application's sessions are as before")
	})
}

// stateError is an error of a Postgres driver.
type stateError string

func (e stateError) Error() string    { return "SQLSTATE " + string(e) }
func (e stateError) SQLState() string { return string(e) }

// Only a claim that may have been committed is worth releasing: in an outage of
// minutes every refused connection would otherwise leave a goroutine behind.
func TestAttemptsAreInDoubtOnlyWhenTheAnswerIsMissing(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		doubt bool
	}{
		{"the connection broke", io.ErrUnexpectedEOF, true},
		{"no answer in time", fmt.Errorf("claim: %w", context.DeadlineExceeded), true},
		{"a read failed", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, true},
		{"no connection", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, false},
		{"the server shut down", stateError("57P01"), true},
		{"the server crashed", stateError("57P02"), true},
		{"the server is starting up", fmt.Errorf("claim: %w", stateError("57P03")), false},
		{"connection failure", stateError("08006"), true},
		{"statement completion unknown", stateError("40003"), true},
		{"statement timeout", stateError("57014"), false},
		{"deadlock", stateError("40P01"), false},
		{"read-only", stateError("25006"), false},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.doubt, outbox.UnknownOutcome(c.err)) })
	}
}
