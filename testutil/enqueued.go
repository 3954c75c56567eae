package testutil

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// RequireEnqueued fails t unless exactly one message of topic is in the table
// for which all match functions hold; it returns that message with its decoded
// payload. Without match functions, the message must be the only one of its
// topic. Messages of any status count, and those stored under an alias of topic
// do too.
//
// q is what the test reads through: a bun.Tx sees what it has enqueued itself,
// a *bun.DB or a bun.Conn what is committed. On failure, t says what is
// enqueued instead. A message of topic whose payload does not decode always
// fails t. Functions of this package may be called at once from several
// goroutines, as far as q and t allow it, but like t.FailNow only from the one
// that runs the test.
func RequireEnqueued[T any](t testing.TB, q bun.IDB, topic topics.Topic[T], match ...func(T) bool) outbox.Delivery[T] {
	t.Helper()
	l := list(t, q, topic)
	l.check(match)
	found := l.matching()
	if len(found) != 1 {
		t.Fatal(l.report(fmt.Sprintf("want exactly one message of %s%s, found %d", l.title, condition(match), len(found))))
	}
	return found[0].delivery()
}

// RequireEnqueuedEqual fails t unless exactly one message of topic in the table
// has the payload want; it returns that message. Other messages of topic may be
// there. On failure, t shows the difference between want and what is enqueued.
//
// The comparison is one of Go values, in the manner of reflect.DeepEqual, after
// want has been encoded and decoded as [outbox.Enqueue] and a relay would do: a
// monotonic clock reading or a field that is not stored makes no difference.
// For q, and for what counts as a message of topic, see [RequireEnqueued].
func RequireEnqueuedEqual[T any](t testing.TB, q bun.IDB, topic topics.Topic[T], want T) outbox.Delivery[T] {
	t.Helper()
	l := list(t, q, topic)
	// What a handler would receive for want.
	payload, err := topic.Encode(want)
	var stored T
	if err == nil {
		stored, err = topic.Decode(topic.Version(), payload)
	}
	if err != nil {
		t.Fatalf("want is no payload for %s: %v", l.title, err)
	}
	for i := range l.rows {
		r := &l.rows[i]
		var c capture
		if !assert.Equal(&c, stored, r.payload) {
			r.mismatch, r.diff = "differs from want", c.description()
		}
	}
	found := l.matching()
	if len(found) != 1 {
		t.Fatal(l.report(fmt.Sprintf("want exactly one message of %s that equals %s, found %d", l.title, show(payload), len(found))))
	}
	return found[0].delivery()
}

// RequireNotEnqueued fails t if a message of topic is in the table for which
// all match functions hold; without match functions, any message of topic does.
// For q, and for what counts as a message of topic, see [RequireEnqueued].
func RequireNotEnqueued[T any](t testing.TB, q bun.IDB, topic topics.Topic[T], match ...func(T) bool) {
	t.Helper()
	l := list(t, q, topic)
	l.check(match)
	if found := l.matching(); len(found) > 0 {
		t.Fatal(l.report(fmt.Sprintf("want no message of %s%s, found %d", l.title, condition(match), len(found))))
	}
}

// AllEnqueued returns all messages of topic that are in the table with their
// decoded payloads, oldest first: by created_at, then id. There may be none.
// For q, and for what counts as a message of topic, see [RequireEnqueued].
func AllEnqueued[T any](t testing.TB, q bun.IDB, topic topics.Topic[T]) []outbox.Delivery[T] {
	t.Helper()
	l := list(t, q, topic)
	var all []outbox.Delivery[T]
	for _, r := range l.rows {
		all = append(all, r.delivery())
	}
	return all
}

const readFailure = "read outbox_messages: %v; the table must be there (Store.Migrate) and the transaction open and sound"

// listing is what the table holds of one topic.
type listing[T any] struct {
	title string // the topic, for people
	rows  []row[T]
	rest  string // says where messages might be that are not here
}

// row is one message of the topic.
type row[T any] struct {
	message  outbox.Message
	payload  T
	mismatch string // why it is not what the test looks for, "" if it is
	diff     string // more on that, perhaps
}

func (r row[T]) delivery() outbox.Delivery[T] {
	return outbox.Delivery[T]{Payload: r.payload, Message: r.message}
}

// list reads the messages of topic. It fails t if it cannot, or if one of them
// does not decode.
func list[T any](t testing.TB, q bun.IDB, topic topics.Topic[T]) *listing[T] {
	t.Helper()
	info := topic.Info()
	if info.Name == "" {
		t.Fatalf("the topic is the zero Topic[%s]; use one that topics.New made", info.Type)
	}
	messages, err := readMessages(t, q, append(info.Aliases, info.Name))
	if err != nil {
		t.Fatalf(readFailure, err)
	}
	l := &listing[T]{title: fmt.Sprintf("topic %q (%s)", info.Name, info.Type)}
	undecodable := 0
	for _, m := range messages {
		r := row[T]{message: m}
		if r.payload, err = topic.Decode(m.Version, m.Payload); err != nil {
			r.mismatch = err.Error()
			undecodable++
		}
		l.rows = append(l.rows, r)
	}
	if len(l.rows) == 0 {
		if l.rest, err = elsewhere(t, q); err != nil {
			t.Fatalf(readFailure, err)
		}
	}
	if undecodable > 0 {
		t.Fatal(l.report(fmt.Sprintf("%d of %d messages of %s do not decode", undecodable, len(l.rows), l.title)))
	}
	return l
}

// check finds the rows for which not all match functions hold.
func (l *listing[T]) check(match []func(T) bool) {
	for i := range l.rows {
		for n, holds := range match {
			if !holds(l.rows[i].payload) {
				l.rows[i].mismatch = fmt.Sprintf("match function %d of %d does not hold", n+1, len(match))
				break
			}
		}
	}
}

func (l *listing[T]) matching() []row[T] {
	var found []row[T]
	for _, r := range l.rows {
		if r.mismatch == "" {
			found = append(found, r)
		}
	}
	return found
}
