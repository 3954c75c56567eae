package outbox_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Guarantee 15, continued: claims see past what they cannot take, and stay on
// the index however much of it there is.

func TestIneligibleRowsInFrontAreSeenPast(t *testing.T) {
	const batch = 3
	for _, c := range []struct {
		name string
		put  func(t *testing.T, f *fixture, n int)
	}{
		{"of a newer version", func(t *testing.T, f *fixture, n int) {
			f.enqueue(t, topics.New("orders.created", &topics.Options[order]{
				Version: 2,
				Upcast:  map[int]topics.Upcaster{1: topics.Upcast(func(o order) (order, error) { return o, nil })},
			}), numbers(n))
		}},
		{"blocked by their order key", func(t *testing.T, f *fixture, n int) {
			f.enqueue(t, plainTopic, numbers(n+1), outbox.OrderKey("one"))
			f.exec(t, "UPDATE outbox_messages SET status = 'failed' WHERE id = (SELECT min(id"+f.asText()+")"+f.asID()+" FROM outbox_messages)")
		}},
		{"blocked in another topic", func(t *testing.T, f *fixture, n int) {
			f.enqueue(t, foreignTopic, []string{"x"}, outbox.OrderKey("one"))
			f.enqueue(t, plainTopic, numbers(n), outbox.OrderKey("one"))
		}},
		{"of other topics", func(t *testing.T, f *fixture, n int) { f.enqueue(t, foreignTopic, numbers(n)) }},
		{"not due", func(t *testing.T, f *fixture, n int) { f.enqueue(t, plainTopic, numbers(n), outbox.After(time.Hour)) }},
		{"parked", func(t *testing.T, f *fixture, n int) { f.fill(t, plainTopic.Name(), "failed", n) }},
		{"leased", func(t *testing.T, f *fixture, n int) {
			f.mayStayClaimed = true
			f.fill(t, plainTopic.Name(), "claimed", n)
			f.shift(t, "available_at", time.Hour, "status = 'claimed'")
		}},
		{"expired leases of a newer version", func(t *testing.T, f *fixture, n int) {
			f.mayStayClaimed = true
			f.fill(t, plainTopic.Name(), "claimed", n, "version", "2")
			f.shift(t, "available_at", -time.Hour, "status = 'claimed'")
		}},
		{"expired leases of other topics", func(t *testing.T, f *fixture, n int) {
			f.mayStayClaimed = true
			f.fill(t, foreignTopic.Name(), "claimed", n)
			f.shift(t, "available_at", -time.Hour, "status = 'claimed'")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				c.put(t, f, 2*batch+1)
				f.shift(t, "available_at", -time.Minute, "status = 'pending' AND available_at <= "+f.now())
				suspect := f.enqueue(t, plainTopic, []string{"suspect", "due"})[0]
				f.exec(t, "UPDATE outbox_messages SET status = 'claimed', attempts = 1, claim_token = id WHERE id = ?", suspect.String())
				f.shift(t, "available_at", -time.Second, "id = '"+suspect.String()+"'")
				var calls atomic.Int64
				handler, delivered := counted(&calls)
				r := f.relay(handling(handler))
				r.Batch = batch
				require.Equal(t, 2, drain(t, r))
				require.ElementsMatch(t, []string{"suspect", "due"}, []string{receive(t, delivered, "one"), receive(t, delivered, "the other")})
				require.EqualValues(t, 2, calls.Load())
				require.Zero(t, f.queryInt(t, "SELECT count(*) FROM outbox_messages WHERE status = 'pending' AND attempts > 0"))
			})
		})
	}
}

// now is the time of the database.
func (f *fixture) now() string {
	if f.postgres {
		return "statement_timestamp()"
	}
	return "strftime('%Y-%m-%d %H:%M:%f', 'now')"
}

// asID is appended to a text to compare it with an id.
func (f *fixture) asID() string {
	if f.postgres {
		return "::uuid"
	}
	return ""
}

// explain returns the plan of one of the relay's own statements, under the
// settings that it is sent with.
func (f *fixture) explain(t *testing.T, seen *queryLog, query, options string) string {
	t.Helper()
	const end = "synchronous_commit = on; "
	var settings string
	if i := strings.LastIndex(query, end); i >= 0 {
		settings, query = query[:i+len(end)], query[i+len(end):]
	} else {
		sent, _ := seen.that(func(query string) bool { return strings.HasPrefix(query, "SET TRANSACTION") })
		settings = sent[0]
	}
	tx, err := f.db.DB.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), settings)
	require.NoError(t, err)
	rows, err := tx.QueryContext(t.Context(), "EXPLAIN "+options+" "+query)
	require.NoError(t, err, query)
	defer func() { _ = rows.Close() }()
	var plan strings.Builder
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		plan.WriteString(line + "\n")
	}
	require.NoError(t, rows.Err())
	return plan.String()
}

func TestClaimsStayOnTheIndex(t *testing.T) {
	discard := func(context.Context, outbox.Message) error { return nil }
	for _, c := range []struct {
		name  string
		relay func(r *outbox.Relay)
	}{
		{"with a Mux", func(r *outbox.Relay) {
			r.Mux = handling(func(context.Context, outbox.Delivery[order]) error { return nil })
			outbox.Handle(r.Mux, aliasedTopic, func(context.Context, outbox.Delivery[order]) error { return nil })
		}},
		{"with a prefix", func(r *outbox.Relay) { r.Deliver, r.TopicPrefix = discard, "orders." }},
	} {
		t.Run(c.name, func(t *testing.T) {
			onPostgres(t, func(t *testing.T, f *fixture) {
				f.mayVanish = true
				for _, topic := range []string{"invoices.paid", "parcels.sent"} {
					f.fill(t, topic, "sent", 10_000)
					f.fill(t, topic, "pending", 10_000, "available_at", "statement_timestamp() - i * interval '1 second'")
				}
				f.fill(t, "orders.created", "sent", 20)
				f.age(t, "topic = 'orders.created'", month)
				f.enqueue(t, plainTopic, numbers(20))
				f.enqueue(t, plainTopic, numbers(3), outbox.OrderKey("one"))
				f.exec(t, "VACUUM ANALYZE outbox_messages")
				seen := &queryLog{}
				r := f.relay(nil)
				c.relay(r)
				r.DB, r.Retention = f.db.WithQueryHook(seen), time.Second
				stop := start(t, r)
				eventually(t, func() bool { return f.rowsOf(t, "orders.created", "sent") == 0 }, "a sweep")
				require.NoError(t, stop())

				for _, want := range []struct {
					name      string
					condition func(string) bool
					indexes   []string
				}{
					{"look", isClaimLook, []string{"outbox_messages_due", "outbox_messages_order", "outbox_messages_pkey"}},
					{"look for suspects", func(query string) bool {
						return isClaimLook(query) && strings.Contains(query, "m.status = 'claimed' AND m.available_at <=")
					}, []string{"outbox_messages_leases"}},
					{"settlement", isSettlement, []string{"outbox_messages_pkey"}},
					{"sweep", isSweep, []string{"outbox_messages_done"}},
				} {
					queries, _ := seen.that(want.condition)
					require.NotEmpty(t, queries, want.name)
					plan := f.explain(t, seen, queries[0], "")
					require.NotContains(t, plan, "Seq Scan on outbox_messages", "%s:\n%s", want.name, plan)
					require.NotContains(t, plan, "JIT:", "%s, which takes less than compiling it:\n%s", want.name, plan)
					for _, index := range want.indexes {
						require.Contains(t, plan, index, "%s:\n%s", want.name, plan)
					}
				}
			})
		})
	}
}

func TestClaimsTouchOnlyTheirOwn(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		// However many rows of other topics are due before ours: the look reads
		// a handful of pages, not theirs.
		f.fill(t, "invoices.paid", "pending", 20_000)
		f.fill(t, "orders.created", "pending", 20_000, "available_at", "statement_timestamp() + interval '1 hour'")
		f.exec(t, "VACUUM ANALYZE outbox_messages")
		for _, c := range []struct {
			name  string
			relay func(r *outbox.Relay)
		}{
			{"with a Mux", func(r *outbox.Relay) {
				r.Mux = handling(func(context.Context, outbox.Delivery[order]) error { return nil })
			}},
			{"with a prefix", func(r *outbox.Relay) {
				r.Deliver, r.TopicPrefix = func(context.Context, outbox.Message) error { return nil }, "orders."
			}},
		} {
			seen := &queryLog{}
			r := f.relay(nil)
			c.relay(r)
			r.DB = f.db.WithQueryHook(seen)
			require.Zero(t, drain(t, r))
			queries, _ := seen.that(isClaimLook)
			plan := f.explain(t, seen, queries[0], "(ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF)")
			var hit, read int
			for line := range strings.Lines(plan) {
				if _, buffers, ok := strings.Cut(line, "Buffers: shared "); ok {
					for _, part := range strings.Fields(buffers) {
						if strings.HasPrefix(part, "hit=") {
							_, _ = fmt.Sscanf(part, "hit=%d", &hit)
						}
						if strings.HasPrefix(part, "read=") {
							_, _ = fmt.Sscanf(part, "read=%d", &read)
						}
					}
					break // the sum is on the first line
				}
			}
			require.Less(t, hit+read, 60, "pages:\n%s", plan)
		}
	})
}
