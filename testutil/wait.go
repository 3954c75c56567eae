package testutil

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// pollEvery is how often WaitFor looks.
const pollEvery = 5 * time.Millisecond

// WaitFor waits until a message of topic is in a status for which all match
// functions hold, and returns the oldest such message; at once, if there is one
// already. It is for tests with a relay that runs: one that can step its relay is
// better off with [Drain].
//
// A payload that does not decode is not shown to match functions, so with one of
// them its message is never found. Without, the status alone counts: wait so for
// such a message to be parked. The Payload of the Delivery is then the zero
// value; what is stored is in its Message.
//
// It fails t when the time of the test is over, 10 s at most, and says what is in
// the table instead. What is waited for may be long past when it returns: a
// status that a message only passes through may be missed.
func WaitFor[T any](t testing.TB, q bun.IDB, topic topics.Topic[T], status outbox.Status, match ...func(T) bool) outbox.Delivery[T] {
	t.Helper()
	limit := patience(t)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; <-tick.C {
		l, err := read(t, q, topic)
		if odd := (*undecodable)(nil); err != nil && !errors.As(err, &odd) {
			t.Fatal(err)
		}
		l.check(match)
		for i := range l.rows {
			r := &l.rows[i]
			switch {
			case r.message.Status != status:
				r.wrong = append(r.wrong, fmt.Sprintf("is %s, want %s", r.message.Status, status))
			case len(match) == 0:
				r.wrong = nil // whether or not it decodes
			default:
				r.equal++
			}
		}
		if found := l.matching(); len(found) > 0 {
			return found[0].delivery()
		}
		if time.Now().After(deadline) {
			t.Fatal(l.report(t, "waited %v for a message of %s%s to be %s", limit, l.title, condition(match), status))
		}
	}
}
