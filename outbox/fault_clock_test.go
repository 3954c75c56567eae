package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Whose clock counts: the database's, in no zone at all.

// F10: the TimeZone of a session shifts due times by hours. The instants lie
// around changes of the clocks in St. John's, where an hour is missing or comes
// twice, and the delays reach across them.
func TestTimeZoneOfTheSessionShiftsNoDueTime(t *testing.T) {
	onEveryClock(t, func(t *testing.T, f *fixture) {
		var want []time.Time
		var ids []outbox.ID
		stJohns, err := time.LoadLocation("America/St_Johns")
		require.NoError(t, err)
		for _, day := range []time.Time{
			time.Date(2031, 3, 9, 0, 0, 0, 0, stJohns), time.Date(2031, 11, 2, 0, 0, 0, 0, stJohns), // the clocks change
			time.Date(2031, 7, 1, 0, 0, 0, 0, stJohns), time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC),
		} {
			for half := range 8 {
				at := day.Add(time.Duration(half)*30*time.Minute + 123*time.Millisecond)
				ids = append(ids, f.enqueue(t, plainTopic, []string{"at"}, outbox.At(at))...)
				want = append(want, at)
			}
		}
		for i, id := range ids {
			require.True(t, want[i].Equal(f.get(t, id).AvailableAt), "row %d at %v is due at %v", i, want[i], f.get(t, id).AvailableAt)
		}
		for days := 0; days <= 370; days += 10 {
			delay := time.Duration(days)*24*time.Hour + time.Hour
			m := f.get(t, f.enqueue(t, plainTopic, []string{"after"}, outbox.After(delay))[0])
			require.Equal(t, delay, m.AvailableAt.Sub(m.CreatedAt), "after %d days", days)
		}
		stats, err := f.store.Stats(t.Context())
		require.NoError(t, err)
		require.InDelta(t, time.Since(want[len(want)-8]), stats.OldestDue(), float64(time.Hour/2))

		require.Equal(t, 8, drain(t, f.relay(handling(acknowledge))), "those of 1971, and none of the others")
		for i, id := range ids {
			m := f.get(t, id)
			require.Equal(t, i >= len(ids)-8, m.Status == outbox.StatusSent, "row %d", i)
			require.WithinDuration(t, f.clock(t), m.UpdatedAt, time.Hour/4)
		}
	})
}

// The ways in which a time of Go might be written into a statement.
var (
	writtenTime = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d`)
	bareNumber  = regexp.MustCompile(`\b\d{9,19}\b`)
)

// instants returns what in a statement is a time between 1990 and 2100, written
// out or in seconds to nanoseconds of the Unix epoch.
func instants(query string) (found []string) {
	found = writtenTime.FindAllString(query, -1)
	for _, number := range bareNumber.FindAllString(uuidText.ReplaceAllString(query, ""), -1) {
		n, err := strconv.ParseFloat(number, 64)
		for unit := 1.0; err == nil && unit <= 1e9; unit *= 1000 {
			if year := 1970 + n/unit/31_556_952; year > 1990 && year < 2100 {
				found = append(found, number)
				break
			}
		}
	}
	return found
}

// F11: a relay on a host with a fast clock steals live leases. Nothing in its
// statements is a time of its own: they say how long from now, on the
// database's clock. The one time it writes is when a released row had been due,
// which it has from the database.
func TestStatementsOfARelayNameNoTimeOfTheHost(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayVanish = true
		seen := &queryLog{}
		own := f.on(t)
		own.db = own.db.WithQueryHook(seen)
		f.fill(t, plainTopic.Name(), "sent", 3)
		f.age(t, "status = 'sent'", month)
		ids := f.enqueue(t, plainTopic, []string{"sent", "retried", "later", "parked", "interrupted", "waits", "left behind"})
		f.abandon(t, 1, ids[6])
		due := map[string]bool{} // as the database says it
		for _, id := range ids {
			at := f.get(t, id).AvailableAt
			due[fmt.Sprint(at.UnixMicro())], due[at.Format("2006-01-02 15:04")] = true, true
		}
		begun, finish := make(chan struct{}, 10), make(gate)
		r := own.relay(handling(func(ctx context.Context, d outbox.Delivery[order]) error {
			begun <- struct{}{}
			switch d.Payload.ID {
			case "retried":
				return errors.New("not now")
			case "later":
				return outbox.RetryAfter(90*time.Minute, errors.New("not now")) // an hour in microseconds is a date in seconds
			case "parked":
				return outbox.Permanent(errors.New("never"))
			case "interrupted":
				<-ctx.Done()
				return ctx.Err()
			case "waits":
				finish.pass(t)
			}
			return nil
		}))
		r.DB, r.Concurrency, r.Retention = own.db, 2, 10*time.Second
		r.ClaimTimeout, r.ShutdownTimeout = 10*time.Second, 5*time.Second // which a busy machine keeps to
		r.BaseBackoff = 5 * time.Minute                                   // none is claimed again, to be released to a time that is not in due
		stop := start(t, r)
		eventually(t, func() bool {
			renewals, _ := seen.that(isRenewal)
			sweeps, _ := seen.that(isSweep)
			return len(begun) >= 5 && len(renewals) > 0 && len(sweeps) > 0
		}, "deliveries, a renewal and a sweep")
		more := f.enqueue(t, plainTopic, numbers(10)) // which are claimed or not
		stopped := make(chan error, 1)
		for _, id := range more {
			at := f.get(t, id).CreatedAt
			due[fmt.Sprint(at.UnixMicro())], due[at.Format("2006-01-02 15:04")] = true, true
		}
		eventually(t, func() bool { return f.count(t, outbox.StatusClaimed) > 3 }, "rows that wait")
		go func() { stopped <- stop() }()
		eventually(t, func() bool { return f.count(t, outbox.StatusPending) >= 12 }, "their release")
		finish.open()
		require.NoError(t, receive(t, stopped, "the end of the relay"))
		_, err := own.store.Retry(t.Context(), outbox.Filter{All: true})
		require.NoError(t, err)
		_, err = outbox.Store{DB: own.db}.Sweep(t.Context(), 90*time.Minute)
		require.NoError(t, err)
		_, err = outbox.Store{DB: own.db}.Stats(t.Context())
		require.NoError(t, err)

		released := 0
		all, _ := seen.that(func(string) bool { return true })
		require.Greater(t, len(all), 10)
		for _, query := range all {
			for _, instant := range instants(query) {
				require.True(t, isSettle(query) || isClaim(query) && !f.postgres, "%s in %s", instant, query)
				require.True(t, due[instant], "%s is nothing that the database has said, in %s", instant, query)
				released++
			}
		}
		require.Positive(t, released, "the times of released rows are found")
	})
}

// F11, the other way: in a bubble of testing/synctest the host's clock says what
// the test wants, while the database has its own.
func TestRelayOnAHostWithAWrongClockStealsNoLease(t *testing.T) {
	for _, c := range []struct {
		name  string
		ahead time.Duration // of midnight on 2000-01-01, where bubbles begin
	}{
		{"decades slow", 0},
		{"decades fast", 80 * 365 * 24 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				f.mayStayClaimed = true
				ids := f.enqueue(t, plainTopic, []string{"sent", "retried", "later", "live", "dead"})
				f.enqueue(t, plainTopic, []string{"not due"}, outbox.After(time.Hour))
				f.abandon(t, 1, ids[3], ids[4])
				f.shift(t, "available_at", 48*time.Hour, "id = '"+ids[3].String()+"'")
				live := f.row(t, ids[3])
				var mu sync.Mutex
				var delivered []string
				synctest.Test(t, func(t *testing.T) {
					<-time.After(c.ahead)
					own := f.on(t)
					r := own.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
						mu.Lock()
						defer mu.Unlock()
						delivered = append(delivered, d.Payload.ID)
						switch d.Payload.ID {
						case "retried":
							return errors.New("not now")
						case "later":
							return outbox.RetryAfter(time.Hour, errors.New("not now"))
						}
						return nil
					}))
					r.BaseBackoff = 10 * time.Minute
					n, err := r.Drain(t.Context())
					require.NoError(t, err)
					require.Equal(t, 2, n)
					require.NoError(t, own.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
						return outbox.Enqueue(ctx, tx, plainTopic, order{ID: "enqueued there"}, outbox.After(time.Hour))
					}))
					require.NoError(t, own.db.Close())
				})
				require.ElementsMatch(t, []string{"sent", "retried", "later", "dead"}, delivered)
				require.Equal(t, live, f.row(t, ids[3]), "a live lease is left alone")
				now := f.clock(t)
				for id, wait := range map[outbox.ID]time.Duration{ids[1]: 10 * time.Minute, ids[2]: time.Hour} {
					require.WithinDuration(t, now.Add(wait), f.get(t, id).AvailableAt, 2*time.Minute)
				}
				for _, m := range f.stored(t) {
					require.WithinDuration(t, now, m.UpdatedAt, 2*time.Minute, "row %s", strings.TrimSpace(string(m.Payload)))
					require.WithinDuration(t, now, m.CreatedAt, 2*time.Minute)
					if strings.Contains(string(m.Payload), "enqueued there") {
						require.Equal(t, time.Hour, m.AvailableAt.Sub(m.CreatedAt))
					}
				}
			})
		})
	}
}
