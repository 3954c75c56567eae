package testutil

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Deliver enqueues v, with opts, in an SQLite database of its own, lets a real
// relay with the defaults of [outbox.Relay] deliver it once to mux, and returns
// what became of it: through the real encoding and decoding, upcasting,
// middleware, recovery from panics and judgement of errors. The test needs no
// database for that, though its handler may.
//
// It fails t if nothing is delivered, since no handler takes the topic. To
// deliver what an older release has stored, declare the topic as it was then:
//
//	old := topics.New[OrderPlacedV1]("orders.placed", nil)
//	testutil.Deliver(t, mux, old, OrderPlacedV1{...})
func Deliver[T any](t testing.TB, mux *outbox.Mux, topic topics.Topic[T], v T, opts ...outbox.EnqueueOption) Outcome {
	t.Helper()
	var all Outcomes
	inScratch(t, func(db *bun.DB) {
		t.Helper()
		enqueueIn(t, db, topic, v, opts)
		if _, err := exec(t, db, "UPDATE outbox_messages SET available_at = created_at"); err != nil { // whatever its delay
			t.Fatal(err)
		}
		relay := &outbox.Relay{DB: db, Mux: mux}
		before := takeSnapshot(t, db)
		settle(t, map[*bun.DB]snapshot{db: before}, relay)
		all = outcomes(t, before, relay)
	})
	if len(all) != 1 || all[0].Result == Unhandled || all[0].Result == Waiting {
		t.Fatalf("nobody takes topic %q in version %d; the Mux has handlers for %s",
			topic.Name(), topic.Version(), handled(mux))
	}
	return all[0]
}

// handled lists what mux takes.
func handled(mux *outbox.Mux) string {
	var list []string
	for _, info := range mux.Topics() {
		list = append(list, fmt.Sprintf("%q up to version %d", info.Name, info.Version))
	}
	return strings.Join(list, ", ")
}

// Drain lets relays, which must not be running, deliver what is due, and what
// their handlers enqueue meanwhile, until nothing is left to do. It returns the
// outcomes of the messages that something happened to, and of those that are due
// and were not delivered; what is not due yet is left out. A message that was
// tried again in between is there once, as it is at the end. A relay without a
// Logger logs nothing meanwhile: the outcomes say it. Handlers run on goroutines
// of the relay: return what goes wrong as an error, which is in the outcome, and
// call t.FailNow and what calls it, such as testify's require, only afterwards.
//
// It fails t when it does not come to an end: if more than 10,000 messages are
// enqueued meanwhile, or if the time of the test, 10 s at most, is over. Use
// [Advance] before it to make due what has been retried or delayed.
func Drain(t testing.TB, relays ...*outbox.Relay) Outcomes {
	t.Helper()
	if len(relays) == 0 {
		t.Fatal("Drain has no relay; pass those whose handlers should run")
	}
	first := map[*bun.DB]snapshot{}
	for _, r := range relays {
		if r.DB == nil {
			t.Fatal("the DB of a relay is nil; set it to the database of the test")
		}
	}
	groups := byDatabase(relays)
	for _, group := range groups {
		first[group[0].DB] = takeSnapshot(t, group[0].DB)
	}
	settle(t, first, relays...)
	var all Outcomes
	for _, group := range groups {
		all = append(all, outcomes(t, first[group[0].DB], group...)...)
	}
	return all
}

// byDatabase groups relays. Clones of a bun.DB, with hooks of their own, are one
// database.
func byDatabase(relays []*outbox.Relay) (groups [][]*outbox.Relay) {
	for _, r := range relays {
		i := slices.IndexFunc(groups, func(group []*outbox.Relay) bool { return group[0].DB.DB == r.DB.DB })
		if i < 0 {
			groups = append(groups, []*outbox.Relay{r})
			continue
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// snapshot is the table as it was, by id.
type snapshot map[outbox.ID]outbox.Message

func takeSnapshot(t testing.TB, q bun.IDB) snapshot {
	t.Helper()
	messages, err := readMessages(t, q, "true")
	if err != nil {
		t.Fatalf(readFailure, err)
	}
	s := make(snapshot, len(messages))
	for _, m := range messages {
		s[m.ID] = m
	}
	return s
}

// outcomes returns what has changed since before, and what is due.
func outcomes(t testing.TB, before snapshot, relays ...*outbox.Relay) Outcomes {
	t.Helper()
	db := relays[0].DB
	now := "statement_timestamp()"
	if isSQLite(db) {
		now = "strftime('%Y-%m-%d %H:%M:%f', 'now')"
	}
	due, err := readMessages(t, db, "status IN ('pending', 'claimed') AND available_at <= "+now)
	if err != nil {
		t.Fatalf(readFailure, err)
	}
	isDue := map[outbox.ID]bool{}
	for _, m := range due {
		isDue[m.ID] = true
	}
	messages, err := readMessages(t, db, "true")
	if err != nil {
		t.Fatalf(readFailure, err)
	}
	var all Outcomes
	for _, m := range messages {
		old, existed := before[m.ID]
		changed := !existed || old.Status != m.Status || old.Attempts != m.Attempts || old.LastError != m.LastError ||
			!old.AvailableAt.Equal(m.AvailableAt) // another outage spends no attempt and may say the same
		switch {
		case m.Status == outbox.StatusSent && changed:
			all = append(all, Outcome{Sent, m})
		case m.Status == outbox.StatusFailed && changed:
			all = append(all, Outcome{Parked, m})
		case m.Status == outbox.StatusPending && changed && (m.LastError != "" || m.Attempts > old.Attempts):
			all = append(all, Outcome{Retried, m})
		case isDue[m.ID] && !slices.ContainsFunc(relays, func(r *outbox.Relay) bool { return takes(r, m) }):
			all = append(all, Outcome{Unhandled, m})
		case isDue[m.ID], m.Status == outbox.StatusClaimed:
			all = append(all, Outcome{Waiting, m})
		}
	}
	return all
}

// takes reports whether r would ever deliver m: as Relay.Unhandled counts, which
// does not say which messages of a topic are too new.
func takes(r *outbox.Relay, m outbox.Message) bool {
	if r.Mux == nil {
		return strings.HasPrefix(m.Topic, r.TopicPrefix)
	}
	return slices.ContainsFunc(r.Mux.Topics(), func(info topics.Info) bool {
		return (m.Topic == info.Name || slices.Contains(info.Aliases, m.Topic)) && m.Version <= info.Version
	})
}
