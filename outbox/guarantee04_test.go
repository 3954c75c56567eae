package outbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 4: fenced.

// F01: a stale worker completes or resurrects a newer attempt.
func TestStaleRelayCompletesOrResurrectsNoNewerAttempt(t *testing.T) {
	for _, c := range []struct {
		name     string
		result   error
		shutdown bool
	}{
		{"success", nil, false},
		{"failure", errors.New("late"), false},
		{"permanent failure", outbox.Permanent(errors.New("late")), false},
		{"retry after", outbox.RetryAfter(time.Second, errors.New("late")), false},
		{"release", context.Canceled, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				id := f.enqueue(t, plainTopic, []string{"a"})[0]
				own := f.on(t)
				_, renew := own.holdRenewals(t)
				begun, late := make(chan struct{}, 1), make(gate)
				slow := own.deaf(handling(func(ctx context.Context, d outbox.Delivery[order]) error {
					note(begun, struct{}{})
					if c.shutdown {
						<-ctx.Done()
					}
					late.pass(t)
					return c.result
				}))
				slow.MaxAttempts = 5
				slow.ShutdownTimeout = time.Minute
				if c.shutdown {
					slow.ShutdownTimeout = 5 * time.Second // also for what is left to record
				}
				var seen logs
				slow.Logger = seen.logger()
				count := watched(slow)
				stopSlow := start(t, slow)
				receive(t, begun, "the slow delivery")
				require.Equal(t, 1, f.expireLeases(t))

				taken, done := make(chan struct{}, 1), make(gate)
				stop := start(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
					note(taken, struct{}{})
					done.pass(t)
					return nil
				})))
				receive(t, taken, "the second relay's delivery")
				claimed := f.row(t, id)
				require.Equal(t, outbox.StatusClaimed, claimed.Status)
				require.Equal(t, 2, claimed.Attempts)

				late.open() // before the context of the delivery ends, which leaves it a second
				stopped := make(chan error, 1)
				if c.shutdown {
					go func() { stopped <- stopSlow() }()
				}
				eventually(t, func() bool { return count("leases_lost") == 1 }, "the slow relay learns that it lost the lease")
				eventually(t, func() bool { return seen.count("lease lost") == 1 }, "and says so")
				f.requireHeld(t, claimed)

				renew()
				done.open()
				eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "the second relay records its success")
				if c.shutdown {
					require.NoError(t, receive(t, stopped, "the end of the slow relay"))
				}
				require.NoError(t, stopSlow())
				require.NoError(t, stop())
				m := f.get(t, id)
				require.Equal(t, 2, m.Attempts)
				require.Empty(t, m.LastError)
				require.NotEqual(t, slow.Name, m.ClaimedBy)
				require.Equal(t, 1, count("leases_lost"))
			})
		})
	}
}

func TestFencedLateOutcomeOfASentRowChangesNothing(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, []string{"nil", "error", "permanent"})
		own := f.on(t)
		_, renew := own.holdRenewals(t)
		begun, late := make(chan string, 3), make(gate)
		slow := own.deaf(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			begun <- d.Payload.ID
			late.pass(t)
			switch d.Payload.ID {
			case "error":
				return errors.New("late")
			case "permanent":
				return outbox.Permanent(errors.New("late"))
			}
			return nil
		}))
		count := watched(slow)
		stop := start(t, slow)
		for range ids {
			receive(t, begun, "a slow delivery")
		}
		require.Equal(t, 3, f.expireLeases(t))
		require.Equal(t, 3, drain(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))))
		var sent []row
		for _, id := range ids {
			sent = append(sent, f.row(t, id))
		}
		late.open()
		eventually(t, func() bool { return count("leases_lost") == 3 }, "the slow relay learns that it lost the leases")
		renew()
		require.NoError(t, stop())
		for i, id := range ids {
			require.Equal(t, sent[i], f.row(t, id))
			require.Equal(t, outbox.StatusSent, sent[i].Status)
		}
	})
}

func TestFencedLateRenewalChangesNothingAndCancelsTheDelivery(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		own := f.on(t)
		renewing, renew := own.holdRenewals(t)
		begun, cause := make(chan struct{}, 1), make(chan error, 1)
		slow := own.deaf(handling(func(ctx context.Context, _ outbox.Delivery[order]) error {
			note(begun, struct{}{})
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return ctx.Err()
		}))
		slow.ClaimTimeout = 300 * time.Millisecond
		count := watched(slow)
		stopSlow := start(t, slow)
		receive(t, begun, "the slow delivery")
		receive(t, renewing, "a renewal")
		f.expireLeases(t)

		taken, done := make(chan struct{}, 1), make(gate)
		stop := start(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			note(taken, struct{}{})
			done.pass(t)
			return nil
		})))
		receive(t, taken, "the second relay's delivery")
		claimed := f.row(t, id)

		renew()
		require.ErrorIs(t, receive(t, cause, "the end of the slow delivery's context"), outbox.ErrLeaseLost)
		f.requireHeld(t, claimed)
		require.Equal(t, 1, count("leases_lost"))
		done.open()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "the second relay records its success")
		require.NoError(t, stop())
		require.NoError(t, stopSlow())
		require.Equal(t, 1, count("leases_lost"), "what the handler returned is not recorded")
		require.Zero(t, count("failed"))
	})
}

func TestFencedAVanishedRowIsALostLease(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayVanish = true
		f.enqueue(t, plainTopic, []string{"a"})
		begun, cause := make(chan struct{}, 1), make(chan error, 1)
		r := f.relay(handling(func(ctx context.Context, _ outbox.Delivery[order]) error {
			note(begun, struct{}{})
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil
		}))
		r.ClaimTimeout = 300 * time.Millisecond
		count := watched(r)
		stop := start(t, r)
		receive(t, begun, "the delivery")
		require.Equal(t, 1, f.exec(t, "DELETE FROM outbox_messages"))
		require.ErrorIs(t, receive(t, cause, "the end of the delivery's context"), outbox.ErrLeaseLost)
		require.NoError(t, stop())
		require.Equal(t, 1, count("leases_lost"))
		require.Zero(t, count("sent"))
	})
}

// A relay whose own lease has ended can still record, and no look of its own
// must get in the way.
func TestFencedARelayDoesNotTakeOverFromItself(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		own := f.on(t)
		_, renew := own.holdRenewals(t)
		begun, finish := make(chan int, 2), make(gate)
		r := own.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			begun <- d.Message.Attempts
			finish.pass(t)
			return nil
		}))
		count := watched(r)
		looks := make(chan struct{}, 100)
		stop := start(t, r)
		require.Equal(t, 1, receive(t, begun, "the delivery"))
		f.expireLeases(t)
		own.faults.onBefore(func(query string) error {
			if strings.Contains(query, "m.status = 'claimed' AND m.available_at <= ") {
				note(looks, struct{}{})
			}
			return nil
		})
		for range 3 {
			receive(t, looks, "a look for suspects after the lease has ended")
		}
		finish.open()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "the delivery is recorded")
		renew()
		require.NoError(t, stop())
		require.Empty(t, begun, "it was not delivered again")
		require.Equal(t, 1, f.get(t, id).Attempts)
		require.Zero(t, count("leases_lost"))
	})
}

func TestFencedEveryClaimHasAFreshTokenDrawnByTheRelay(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		own := f.on(t)
		var mu sync.Mutex
		var claims []string
		own.faults.onBefore(func(query string) error {
			if isClaim(query) {
				mu.Lock()
				defer mu.Unlock()
				claims = append(claims, query)
			}
			return nil
		})
		tokens := map[string]bool{}
		r := own.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			token := f.token(t, id)
			mu.Lock()
			defer mu.Unlock()
			require.NotEmpty(t, token)
			require.False(t, tokens[token], "a token was used twice")
			tokens[token] = true
			drawn := slices.ContainsFunc(claims, func(claim string) bool { return strings.Contains(claim, token) })
			require.True(t, drawn, "the token was not in the claim as it was sent")
			return errors.New("again")
		}))
		r.BaseBackoff = time.Hour
		for range 4 {
			require.Zero(t, drain(t, r))
			require.Empty(t, f.token(t, id), "the token is gone with the claim")
			f.makeDue(t)
		}
		f.abandon(t, 4, id)
		require.Zero(t, drain(t, r), "the suspect")
		require.Len(t, tokens, 5)
	})
}

// F45: one row locked by a psql session blocks its batch.
func TestFencedARowThatSomebodyHasLockedDelaysOnlyItself(t *testing.T) {
	const locked = "SELECT 1 FROM outbox_messages WHERE id = ? FOR UPDATE"

	t.Run("settlement", func(t *testing.T) {
		onPostgres(t, func(t *testing.T, f *fixture) {
			ids := f.enqueue(t, plainTopic, numbers(100))
			begun, finish := make(chan struct{}, 200), make(gate)
			r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
				begun <- struct{}{}
				finish.pass(t)
				return nil
			}))
			r.Concurrency = 100
			count := watched(r)
			stop := start(t, r)
			for range ids {
				receive(t, begun, "a delivery")
			}
			unlock := f.lock(t, locked, ids[50])
			finish.open()
			eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 99 }, "the 99 others are recorded")
			require.Equal(t, outbox.StatusClaimed, f.get(t, ids[50]).Status)
			unlock()
			eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 100 }, "the last is recorded")
			require.NoError(t, stop())
			require.Empty(t, begun, "none was delivered again")
			require.Zero(t, count("leases_lost"))
		})
	})

	t.Run("renewal", func(t *testing.T) {
		onPostgres(t, func(t *testing.T, f *fixture) {
			ids := f.enqueue(t, plainTopic, numbers(100))
			begun, finish := make(chan struct{}, 200), make(gate)
			r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
				begun <- struct{}{}
				finish.pass(t)
				return nil
			}))
			r.Concurrency, r.ClaimTimeout = 100, 2*time.Second
			count := watched(r)
			stop := start(t, r)
			for range ids {
				receive(t, begun, "a delivery")
			}
			unlock := f.lock(t, locked, ids[50])
			held := f.get(t, ids[50]).AvailableAt
			others := append(append([]outbox.ID{}, ids[:50]...), ids[51:]...)
			renewed := func(ids []outbox.ID) bool {
				for _, lease := range f.leases(t, ids) {
					if lease == r.ClaimTimeout {
						return false
					}
				}
				return true
			}
			eventually(t, func() bool { return renewed(others) }, "the 99 others are renewed")
			require.Equal(t, held, f.get(t, ids[50]).AvailableAt)
			unlock()
			eventually(t, func() bool { return f.get(t, ids[50]).AvailableAt.After(held) }, "the last is renewed")
			finish.open()
			eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 100 }, "all are recorded")
			require.NoError(t, stop())
			require.Empty(t, begun)
			require.Zero(t, count("leases_lost"))
		})
	})

	t.Run("release", func(t *testing.T) {
		onPostgres(t, func(t *testing.T, f *fixture) {
			ids := f.enqueue(t, plainTopic, numbers(100))
			begun, finish := make(chan outbox.ID, 100), make(gate)
			r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
				begun <- d.Message.ID
				finish.pass(t)
				return nil
			}))
			r.Concurrency = 1
			stop := start(t, r)
			first := receive(t, begun, "the first delivery")
			require.Equal(t, ids[0], first)
			unlock := f.lock(t, locked, ids[50])
			stopped := make(chan error, 1)
			go func() { stopped <- stop() }()
			eventually(t, func() bool { return f.count(t, outbox.StatusPending) == 98 }, "the 98 others that wait are released")
			require.Equal(t, outbox.StatusClaimed, f.get(t, ids[50]).Status)
			unlock()
			eventually(t, func() bool { return f.get(t, ids[50]).Status == outbox.StatusPending }, "the last is released")
			finish.open()
			require.NoError(t, receive(t, stopped, "the end of the relay"))
			require.Empty(t, begun, "no other has begun")
			for _, id := range ids[1:] {
				require.Zero(t, f.get(t, id).Attempts)
			}
		})
	})
}

// F45: renewals and settlements deadlock. Each round sends a settlement and a
// renewal of the same 150 rows at the same instant; at full scale there are 10,000
// crossings.
func TestFencedRenewalsAndSettlementsNeverDeadlock(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		const rows = 150
		rounds := atScale(2, 67)
		f.mayStayClaimed = true // a first row whose lease ran out is a suspect, and a released suspect stays one
		// Rows are locked one by one for a while.
		f.exec(t, "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.0005); RETURN NEW; END $$")
		f.exec(t, "CREATE TRIGGER dawdle BEFORE UPDATE ON outbox_messages FOR EACH ROW WHEN (OLD.status = 'claimed') EXECUTE FUNCTION dawdle()")
		own := f.on(t)
		// Each settlement starts at the same instant as a renewal of the same
		// rows, which names them in another order. Outcomes gather meanwhile.
		meet := make(chan struct{})
		var met atomic.Int64
		own.faults.onBefore(func(query string) error {
			switch {
			case isSettle(query):
				select {
				case <-meet:
					met.Add(1)
				case <-time.After(patience):
				}
			case isRenew(query):
				select {
				case meet <- struct{}{}:
				default:
				}
			}
			return nil
		})
		first := f.enqueue(t, plainTopic, []string{"first"})[0]
		begun, finish := make(chan struct{}, rows+1), make(chan struct{})
		finishFirst := sync.OnceFunc(func() { close(finish) })
		t.Cleanup(finishFirst)
		var mu sync.Mutex
		finishRound := make(gate)
		r := own.deaf(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			mu.Lock()
			round := finishRound
			mu.Unlock()
			begun <- struct{}{}
			if d.Message.ID == first {
				<-finish // at the end of all rounds, however long they take
				return nil
			}
			round.pass(t)
			return nil
		}))
		var seen logs
		r.Logger, r.Batch, r.Concurrency = seen.logger(), 2*rows, 2*rows
		r.ClaimTimeout = 2 * time.Second
		stop := start(t, r)
		receive(t, begun, "the first delivery")
		// While one row cannot be renewed, renewals come ten times a lease.
		unlock := f.lock(t, "SELECT 1 FROM outbox_messages WHERE id = ? FOR UPDATE", first)
		for round := range rounds {
			f.enqueue(t, plainTopic, numbers(rows))
			r.Wake()
			for range rows {
				receive(t, begun, "a delivery")
			}
			mu.Lock()
			finishRound.open()
			finishRound = make(gate)
			mu.Unlock()
			eventually(t, func() bool { return f.count(t, outbox.StatusSent) == (round+1)*rows }, "all but the first are sent")
		}
		unlock()
		finishFirst()
		require.NoError(t, stop())
		require.GreaterOrEqual(t, met.Load(), int64(rounds))
		require.Zero(t, seen.count("40P01"))
		var deadlocks int
		require.NoError(t, f.db.NewRaw("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(t.Context(), &deadlocks))
		require.Zero(t, deadlocks)
	})
}
