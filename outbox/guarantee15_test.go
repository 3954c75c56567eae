package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Guarantee 15: self-care. See guarantee15_claim_test.go for the claims.

// The topics of these tests besides plainTopic.
var (
	foreignTopic = topics.New[order]("invoices.paid", nil)
	aliasedTopic = topics.New("orders.renamed", &topics.Options[order]{Aliases: []string{"orders.formerly"}})
)

const month = 30 * 24 * time.Hour

// fill inserts n rows of a topic with one statement. extra is a list of columns
// and their SQL, such as "attempts" and "3".
func (f *fixture) fill(t *testing.T, topic, status string, n int, extra ...string) {
	t.Helper()
	columns, values := "", ""
	for pair := range slices.Chunk(extra, 2) {
		columns += ", " + pair[0]
		values += ", " + pair[1]
	}
	series, id := "generate_series(1, "+fmt.Sprint(n)+") AS s(i)", "gen_random_uuid()"
	if !f.postgres {
		series = "(WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < " + fmt.Sprint(n) + ") SELECT i, lower(hex(randomblob(16))) AS h FROM c) AS s"
		id = "substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-' || substr(h, 13, 4) || '-' || substr(h, 17, 4) || '-' || substr(h, 21)"
	}
	if status == "claimed" {
		columns, values = columns+", claim_token", values+", "+id
	}
	f.exec(t, "INSERT INTO outbox_messages (id, topic, payload, status"+columns+") SELECT "+id+", '"+topic+"', '{}', '"+status+"'"+values+" FROM "+series)
}

// age makes rows look as if nothing had happened to them for d.
func (f *fixture) age(t *testing.T, where string, d time.Duration) {
	for _, column := range []string{"created_at", "updated_at"} {
		f.shift(t, column, -d, where)
	}
}

// rowsOf counts the rows of a topic in a status.
func (f *fixture) rowsOf(t *testing.T, topic, status string) int {
	t.Helper()
	return f.queryInt(t, "SELECT count(*) FROM outbox_messages WHERE topic = ? AND status = ?", topic, status)
}

// F24, of the relay's own sweeps.
func TestRetentionSweepsDoneRowsOfOwnTopics(t *testing.T) {
	statuses := []string{"pending", "claimed", "sent", "failed", "discarded"}
	names := []string{"orders.created", "orders.renamed", "orders.formerly", "orders.renamedx", "invoices.paid"}
	ignore := func(context.Context, outbox.Delivery[order]) error { return errors.New("not these") }
	for _, c := range []struct {
		name  string
		relay func(r *outbox.Relay)
		own   []string
	}{
		{"of a Mux", func(r *outbox.Relay) {
			r.Mux = outbox.NewMux()
			outbox.Handle(r.Mux, plainTopic, ignore)
			outbox.Handle(r.Mux, aliasedTopic, ignore)
		}, []string{"orders.created", "orders.renamed", "orders.formerly"}},
		{"of a prefix", func(r *outbox.Relay) {
			r.TopicPrefix = "orders.r"
			r.Deliver = func(context.Context, outbox.Message) error { return errors.New("not these") }
		}, []string{"orders.renamed", "orders.renamedx"}},
		{"of all topics", func(r *outbox.Relay) {
			r.Deliver = func(context.Context, outbox.Message) error { return errors.New("not these") }
		}, names},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				f.mayVanish, f.mayStayClaimed = true, true
				for _, name := range names {
					for _, status := range statuses {
						f.fill(t, name, status, 2)
					}
				}
				f.age(t, "true", month)
				// Neither due nor expired, so that the relay leaves them alone.
				f.shift(t, "available_at", time.Hour, "status IN ('pending', 'claimed')")
				for _, name := range names {
					f.fill(t, name, "sent", 1, "attempts", "7")
				}
				f.shift(t, "updated_at", time.Hour, "attempts = 7") // and stay young, however slow this test is
				r, seen := f.relay(nil), &queryLog{}
				c.relay(r)
				r.DB, r.Retention = f.db.WithQueryHook(seen), 10*time.Second
				stop := start(t, r)
				eventually(t, func() bool {
					return !slices.ContainsFunc(c.own, func(name string) bool { return f.rowsOf(t, name, "discarded") > 0 })
				}, "the sweep")
				require.NoError(t, stop())
				sweeps, _ := seen.that(isSweep)
				require.Contains(t, sweeps[0], "-10000000", "the retention, in microseconds before the database's time")
				for _, name := range names {
					for _, status := range statuses {
						want := 2
						switch own := slices.Contains(c.own, name); {
						case own && status == "sent":
							want = 1 // too young
						case own && status == "discarded":
							want = 0
						case status == "sent":
							want = 3
						}
						require.Equal(t, want, f.rowsOf(t, name, status), "%s rows of %s", status, name)
					}
				}
			})
		})
	}
}

func TestSweepNeverTakesWhatIsNotDone(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayVanish, f.mayStayClaimed = true, true
		for _, status := range []string{"pending", "claimed", "sent", "failed", "discarded"} {
			f.fill(t, "orders.created", status, 3)
		}
		f.age(t, "true", month)
		for _, d := range []time.Duration{0, -time.Second} {
			_, err := f.store.Sweep(t.Context(), d)
			require.Error(t, err, "an age of %v", d)
		}
		n, err := f.store.Sweep(t.Context(), 2*month)
		require.NoError(t, err)
		require.Zero(t, n, "none is that old")
		n, err = f.store.Sweep(t.Context(), time.Nanosecond)
		require.NoError(t, err)
		require.Equal(t, 6, n)
		for status, want := range map[string]int{"pending": 3, "claimed": 3, "failed": 3, "sent": 0, "discarded": 0} {
			require.Equal(t, want, f.rowsOf(t, "orders.created", status), status)
		}
	})
}

func TestSweepIsDoneInBatches(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		old, batches := 2500, []int64{1000, 1000, 500}
		if !f.postgres {
			old, batches = 1001, []int64{1000, 1} // SQLite is slow under the race detector
		}
		f.fill(t, "orders.created", "sent", old)
		f.age(t, "true", month)
		seen := &queryLog{}
		n, err := outbox.Store{DB: f.db.WithQueryHook(seen)}.Sweep(t.Context(), time.Hour)
		require.NoError(t, err)
		require.Equal(t, old, n)
		_, changed := seen.that(isSweep)
		require.Equal(t, batches, changed)

		// And so does a relay.
		f.fill(t, "orders.created", "sent", old)
		f.age(t, "true", month)
		seen = &queryLog{}
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		r.DB, r.Retention = f.db.WithQueryHook(seen), time.Minute // and so a sweep every six seconds
		begun := time.Now()
		stop := start(t, r)
		eventually(t, func() bool {
			_, changed = seen.that(isSweep)
			return len(changed) >= len(batches)
		}, "the sweep")
		require.NoError(t, stop())
		require.Equal(t, batches, changed[:len(batches)])
		if f.postgres {
			first, second := seen.since(begun, isSweep, 0), seen.since(begun, isSweep, 1)
			require.Less(t, second-first, 5*time.Second, "one right after the other")
		}
	})
}

func TestSweepEndsWithItsContextAndKeepsWhatItDid(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.fill(t, "orders.created", "sent", 1500)
		f.age(t, "true", month)
		ctx, cancel := context.WithCancel(t.Context())
		f.faults.onAfter(func(query string) error {
			if isSweep(query) {
				cancel()
			}
			return nil
		})
		n, err := f.store.Sweep(ctx, time.Hour)
		require.ErrorIs(t, err, context.Canceled)
		require.Less(t, n, 1500)
		require.GreaterOrEqual(t, 1500-n, f.rowsOf(t, "orders.created", "sent"))
	})
}

// F26: cleanup runs only when idle.
func TestSweepGoesOnUnderConstantLoad(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayVanish = true
		f.fill(t, "orders.created", "sent", 1010)
		f.age(t, "true", month)
		var calls atomic.Int64
		var quiet atomic.Bool
		r := f.relay(nil)
		// Each delivery enqueues another, so that there is always something due.
		r.Mux = handling(func(ctx context.Context, _ outbox.Delivery[order]) error {
			calls.Add(1)
			if quiet.Load() {
				return nil
			}
			return f.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, plainTopic, order{ID: "more"})
			})
		})
		r.Retention, r.Batch, r.Concurrency = 10*time.Second, 10, 2
		f.enqueue(t, plainTopic, numbers(100))
		stop := start(t, r)
		eventually(t, func() bool {
			return f.queryInt(t, "SELECT count(*) FROM outbox_messages WHERE payload "+f.asText()+" = '{}'") == 0
		}, "old rows go while there is always something due")
		require.Positive(t, calls.Load())
		require.Positive(t, f.count(t, outbox.StatusPending)+f.count(t, outbox.StatusClaimed), "it was busy all the time")
		quiet.Store(true)
		eventually(t, func() bool { return f.count(t, outbox.StatusPending) == 0 }, "the end of the load")
		require.NoError(t, stop())
	})
}

// asText is appended to a json column to compare it.
func (f *fixture) asText() string {
	if f.postgres {
		return "::text"
	}
	return ""
}

// F25: cleanup deadlocks. See TestProducersDoNotWaitForSweepers for the locks. The
// deadlocks of others needed batches that overlap, which three for each sweeper
// do; at full scale there are 500,000 rows.
func TestSweepersAndProducersDoNotDeadlock(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayVanish = true
		old := atScale(5000, 500_000)
		if !f.postgres {
			old = 1200 // it is slow under the race detector
		}
		for _, topic := range []string{"orders.created", "invoices.paid"} {
			f.fill(t, topic, "sent", old/2, "key", "'"+topic+"' || i")
		}
		f.age(t, "true", month)
		db := f.patient(t)
		var swept atomic.Int64
		var workers sync.WaitGroup
		failures := make(chan error, 100)
		gate := make(chan struct{})
		for range 6 {
			workers.Go(func() {
				<-gate
				n, err := outbox.Store{DB: db}.Sweep(t.Context(), time.Hour)
				swept.Add(int64(n))
				if err != nil {
					failures <- err
				}
			})
		}
		for p := range 2 {
			workers.Go(func() {
				// The keys are those that are being swept, in both orders.
				for i := range 30 {
					err := db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
						for k := range 3 {
							if p == 1 {
								k = 2 - k
							}
							if err := outbox.Enqueue(ctx, tx, plainTopic, order{}, outbox.Key(fmt.Sprintf("orders.created%d", 1+100*k+i+1000*p))); err != nil {
								return err
							}
						}
						return nil
					})
					if err != nil {
						failures <- err
					}
				}
			})
		}
		close(gate)
		workers.Wait()
		close(failures)
		require.NoError(t, <-failures)
		n, err := f.store.Sweep(t.Context(), time.Hour)
		require.NoError(t, err)
		require.EqualValues(t, old, swept.Load()+int64(n), "each row is swept once")
	})
}

// F24, with a retention that keeps all.
func TestNegativeRetentionKeepsAll(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayVanish = true
		f.fill(t, "orders.created", "sent", 1)
		f.fill(t, "invoices.paid", "sent", 1)
		f.age(t, "true", month)
		keeping := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		keeping.Retention = -1
		stopKeeping := start(t, keeping)
		// Another relay sweeps twice meanwhile.
		sweeping := f.relay(outbox.NewMux())
		outbox.Handle(sweeping.Mux, foreignTopic, func(context.Context, outbox.Delivery[order]) error { return nil })
		sweeping.Retention = time.Second
		stopSweeping := start(t, sweeping)
		eventually(t, func() bool { return f.rowsOf(t, "invoices.paid", "sent") == 0 }, "a sweep")
		f.fill(t, "invoices.paid", "sent", 1)
		f.age(t, "topic = 'invoices.paid'", month)
		eventually(t, func() bool { return f.rowsOf(t, "invoices.paid", "sent") == 0 }, "another sweep")
		require.NoError(t, errors.Join(stopKeeping(), stopSweeping()))
		require.Equal(t, 1, f.rowsOf(t, "orders.created", "sent"))
	})
}

func TestSweepThatFailsIsTriedAgain(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayVanish = true
		f.fill(t, "orders.created", "sent", 1)
		f.age(t, "true", month)
		var sweeps atomic.Int64
		f.faults.onBefore(func(query string) error {
			if isSweep(query) && sweeps.Add(1) == 1 {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		log := &logs{}
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		r.Retention, r.Logger = time.Second, log.logger()
		stop := start(t, r)
		eventually(t, func() bool { return f.rowsOf(t, "orders.created", "sent") == 0 }, "the second sweep")
		require.NoError(t, stop())
		require.Equal(t, 1, log.count(outageLine))
		require.Contains(t, strings.ToLower(log.buf.String()), "operation=sweep")
	})
}
