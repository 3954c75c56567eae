package outbox_test

import (
	"context"
	"fmt"
	"regexp"
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

// F04: a query that looks at the first rows only finds them all ineligible.
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

// ago is the SQL of a time before now.
func (f *fixture) ago(d time.Duration) string {
	if f.postgres {
		return fmt.Sprintf("statement_timestamp() - interval '%d microseconds'", d.Microseconds())
	}
	return fmt.Sprintf("strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '-%f seconds')", d.Seconds())
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

// F16: claims slow down as the table grows. See also
// TestClaimsStayFlatAsTheTableGrows.
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
					{"settlement", isSettle, []string{"outbox_messages_pkey"}},
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

// F16: claims slow down as the table grows, or behind rows that are not
// runnable. However many rows are sent, delayed, parked, or due in topics that
// are taken elsewhere, a look reads about as many pages as in a table without
// them, whether it finds a batch or nothing. Pages are what it is about; the time
// is measured as well at full scale, which is 2.1 million rows.
func TestClaimsStayFlatAsTheTableGrows(t *testing.T) {
	for _, c := range []struct {
		name  string
		relay func(r *outbox.Relay)
	}{
		{"with a Mux", func(r *outbox.Relay) { r.Mux = handling(acknowledge) }},
		{"with a prefix", func(r *outbox.Relay) { r.Deliver, r.TopicPrefix = deliverNothing, "orders." }},
	} {
		t.Run(c.name, func(t *testing.T) {
			onPostgres(t, func(t *testing.T, f *fixture) {
				f.mayVanish = true
				seen := &queryLog{}
				r := f.relay(nil)
				c.relay(r)
				r.DB = f.db.WithQueryHook(seen)
				require.Zero(t, drain(t, r))
				looks, _ := seen.that(isClaimLook)
				look := func() cost { return f.costOf(t, seen, looks[0]) }
				due := func() {
					f.fill(t, "orders.created", "pending", 100)
					f.exec(t, "VACUUM ANALYZE outbox_messages")
				}
				f.exec(t, "VACUUM ANALYZE outbox_messages")
				idleBefore := look()
				due()
				before := look()
				require.Equal(t, 100, before.rows)
				f.exec(t, "DELETE FROM outbox_messages")

				million := atScale(20_000, 1_000_000)
				f.fill(t, "orders.created", "sent", million)
				f.fill(t, "orders.created", "pending", million/10, "available_at", "statement_timestamp() + interval '1 hour'")
				f.fill(t, "orders.created", "failed", million/100)
				f.fill(t, "invoices.paid", "pending", million, "available_at", f.ago(time.Hour))
				f.exec(t, "VACUUM ANALYZE outbox_messages")
				idle := look()
				require.Zero(t, idle.rows)
				due()
				busy := look()
				require.Equal(t, 100, busy.rows)
				// An index of millions is a level or two deeper, for each of the few
				// probes that a row takes. Whoever walks through it reads thousands.
				require.LessOrEqual(t, idle.pages, idleBefore.pages+20, "an idle look reads %d pages instead of %d:\n%s", idle.pages, idleBefore.pages, idle.plan)
				require.LessOrEqual(t, busy.pages, before.pages+10*busy.rows, "a batch reads %d pages instead of %d:\n%s", busy.pages, before.pages, busy.plan)
				for _, plan := range []string{idle.plan, busy.plan} {
					require.NotContains(t, plan, "Seq Scan on outbox_messages")
					require.Contains(t, plan, "outbox_messages_due")
				}
				if million == 1_000_000 {
					t.Logf("idle %v instead of %v, a batch %v instead of %v", idle.took, idleBefore.took, busy.took, before.took)
					require.LessOrEqual(t, idle.took, idleBefore.took*3/2+time.Millisecond)
					require.LessOrEqual(t, busy.took, before.took*3/2+time.Millisecond)
				}
			})
		})
	}
}

// cost is what one statement of a relay takes.
type cost struct {
	rows, pages int
	took        time.Duration // the least of several
	plan        string
}

var (
	planRows  = regexp.MustCompile(`actual (?:time=\S+ )?rows=(\d+)`)
	planPages = regexp.MustCompile(`(?:hit|read)=(\d+)`)
	planTook  = regexp.MustCompile(`Execution Time: (\S+) ms`)
)

// costOf runs a statement of a relay several times and rolls it back.
func (f *fixture) costOf(t *testing.T, seen *queryLog, query string) (c cost) {
	t.Helper()
	for range atScale(1, 20) {
		c.plan = f.explain(t, seen, query, "(ANALYZE, BUFFERS, TIMING OFF)")
		var millis float64
		_, err := fmt.Sscan(planTook.FindStringSubmatch(c.plan)[1], &millis)
		require.NoError(t, err)
		if took := time.Duration(millis * float64(time.Millisecond)); c.took == 0 || took < c.took {
			c.took = took
		}
	}
	_, err := fmt.Sscan(planRows.FindStringSubmatch(c.plan)[1], &c.rows)
	require.NoError(t, err)
	for line := range strings.Lines(c.plan) {
		if !strings.Contains(line, "Buffers: shared ") {
			continue
		}
		for _, pages := range planPages.FindAllStringSubmatch(line, -1) {
			var n int
			_, err := fmt.Sscan(pages[1], &n)
			require.NoError(t, err)
			c.pages += n
		}
		break // the sum is on the first line
	}
	return c
}

// F16, on SQLite.
func TestClaimsStayOnTheIndexOfSQLite(t *testing.T) {
	for _, c := range []struct {
		name  string
		relay func(r *outbox.Relay)
	}{
		{"with a Mux", func(r *outbox.Relay) {
			r.Mux = handling(acknowledge)
			outbox.Handle(r.Mux, aliasedTopic, acknowledge)
		}},
		{"with a prefix", func(r *outbox.Relay) { r.Deliver, r.TopicPrefix = deliverNothing, "orders." }},
	} {
		t.Run(c.name, func(t *testing.T) {
			onSQLite(t, func(t *testing.T, f *fixture) {
				for _, analyzed := range []bool{false, true} {
					f.enqueue(t, plainTopic, numbers(3), outbox.OrderKey("k"))
					if analyzed {
						f.fill(t, "orders.created", "sent", 500)
						f.fill(t, "invoices.paid", "pending", 500)
						f.exec(t, "ANALYZE")
					}
					seen := &queryLog{}
					r := f.relay(nil)
					c.relay(r)
					r.DB = f.db.WithQueryHook(seen)
					drain(t, r)
					queries, _ := seen.that(func(query string) bool {
						return strings.Contains(query, "outbox_messages") && !strings.Contains(query, "sqlite_master")
					})
					require.NotEmpty(t, queries)
					indexes := ""
					for _, query := range queries {
						var plan []struct{ Detail string }
						rows, err := f.db.DB.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query)
						require.NoError(t, err, query)
						for rows.Next() {
							var id, parent, unused int
							var step struct{ Detail string }
							require.NoError(t, rows.Scan(&id, &parent, &unused, &step.Detail))
							plan = append(plan, step)
						}
						require.NoError(t, rows.Close())
						for _, step := range plan {
							indexes += step.Detail + "\n"
							require.NotRegexp(t, `^SCAN (m|e|outbox_messages)`, step.Detail, query)
						}
					}
					require.Contains(t, indexes, "outbox_messages_due (topic=? AND available_at<?)")
					require.Contains(t, indexes, "outbox_messages_leases (available_at<?)")
					require.Contains(t, indexes, "outbox_messages_order (order_key=?")
				}
			})
		})
	}
}
