package testutil

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

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
// enqueued instead, nearest first. A message of topic whose payload does not
// decode always fails t. Functions of this package may be called at once from
// several goroutines, as far as q and t allow it, but like t.FailNow only from
// the one that runs the test.
func RequireEnqueued[T any](t testing.TB, q bun.IDB, topic topics.Topic[T], match ...func(T) bool) outbox.Delivery[T] {
	t.Helper()
	l := list(t, q, topic)
	l.check(match)
	found := l.matching()
	if len(found) != 1 {
		t.Fatal(l.report(t, "want exactly one message of %s%s, found %d", l.title, condition(match), len(found)))
	}
	return found[0].delivery()
}

// RequireEnqueuedEqual fails t unless exactly one message of topic in the table
// has the payload want; it returns that message. Other messages of topic may be
// there. On failure, t shows in which fields those differ from want. What is
// beside the payload, such as a key, is the business of [RequireEnqueuedAs].
//
// The comparison is one of Go values, in the manner of reflect.DeepEqual, after
// want has been encoded and decoded as [outbox.Enqueue] and a relay would do: a
// monotonic clock reading or a field that is not stored makes no difference.
// For q, and for what counts as a message of topic, see [RequireEnqueued].
func RequireEnqueuedEqual[T any](t testing.TB, q bun.IDB, topic topics.Topic[T], want T) outbox.Delivery[T] {
	t.Helper()
	l := list(t, q, topic)
	w := l.want(t, topic, want)
	l.compare(topic, w)
	found := l.matching()
	if len(found) != 1 {
		t.Fatal(l.report(t, "want exactly one message of %s with the payload %s, found %d", l.title, show(w.payload), len(found)))
	}
	return found[0].delivery()
}

// RequireEnqueuedAs fails t unless exactly one message of topic in the table is
// as outbox.Enqueue(ctx, tx, topic, want, opts...) would have written it; it
// returns that message. To the payload, which is compared as in
// [RequireEnqueuedEqual], this adds the version, the key and the order key,
// derived or given; the headers in opts, beside which there may be others; and
// when the message was due first, which must agree to the millisecond, as the
// delay of [outbox.After] or the time of [outbox.At]. A message that has been
// delivered is no longer due when it was at first, and [Advance] moves the time
// of an At: assert before. An [outbox.Into] in opts is left as it is.
func RequireEnqueuedAs[T any](t testing.TB, q bun.IDB, topic topics.Topic[T], want T, opts ...outbox.EnqueueOption) outbox.Delivery[T] {
	t.Helper()
	l := list(t, q, topic)
	w := l.want(t, topic, want)
	l.compare(topic, w)
	m := asEnqueued(t, topic, want, opts)
	for i := range l.rows {
		l.rows[i].compareEnvelope(m)
	}
	found := l.matching()
	if len(found) != 1 {
		t.Fatal(l.report(t, "want exactly one message of %s like this, found %d: %s", l.title, len(found), describe(m.Message)))
	}
	return found[0].delivery()
}

// RequireAllEnqueued fails t unless the messages of topic in the table are these
// and no others, in this order: by created_at, then id, which is how they were
// enqueued. It returns them. Without want, it fails t if there is any. Payloads
// are compared as in [RequireEnqueuedEqual]; on failure, t shows which are
// missing, which are too many and which have changed places.
func RequireAllEnqueued[T any](t testing.TB, q bun.IDB, topic topics.Topic[T], want ...T) []outbox.Delivery[T] {
	t.Helper()
	l := list(t, q, topic)
	wanted := make([]wanted[T], len(want))
	for i, v := range want {
		wanted[i] = l.want(t, topic, v)
	}
	same := func(i, j int) bool { return reflect.DeepEqual(wanted[i].value, l.rows[j].payload) }
	equal := len(want) == len(l.rows)
	for i := 0; equal && i < len(want); i++ {
		equal = same(i, i)
	}
	if !equal {
		t.Fatal(l.reportSequence(t, wanted, same))
	}
	return l.deliveries()
}

// RequireNotEnqueued fails t if a message of topic is in the table for which
// all match functions hold; without match functions, any message of topic does.
// For q, and for what counts as a message of topic, see [RequireEnqueued].
func RequireNotEnqueued[T any](t testing.TB, q bun.IDB, topic topics.Topic[T], match ...func(T) bool) {
	t.Helper()
	l := list(t, q, topic)
	l.check(match)
	if found := l.matching(); len(found) > 0 {
		t.Fatal(l.report(t, "want no message of %s%s, found %d", l.title, condition(match), len(found)))
	}
}

// AllEnqueued returns all messages of topic that are in the table with their
// decoded payloads, oldest first: by created_at, then id. There may be none.
// For q, and for what counts as a message of topic, see [RequireEnqueued].
func AllEnqueued[T any](t testing.TB, q bun.IDB, topic topics.Topic[T]) []outbox.Delivery[T] {
	t.Helper()
	return list(t, q, topic).deliveries()
}

const readFailure = "read outbox_messages: %v; the table must be there (Store.Migrate) and the transaction open and sound"

// listing is what the table holds of one topic.
type listing[T any] struct {
	title string // the topic, for people
	q     bun.IDB
	info  topics.Info
	rows  []row[T] // oldest first

	// alike reports whether a message of another topic is what the test looks
	// for. Nil if it cannot be told.
	alike func(outbox.Message) bool
}

// row is one message of the topic.
type row[T any] struct {
	message outbox.Message
	payload T        // the zero value if odd
	odd     bool     // the payload does not decode
	wrong   []string // why it is not what the test looks for
	equal   int      // how near it comes to that: conditions that hold, fields that are equal
}

func (r row[T]) delivery() outbox.Delivery[T] {
	return outbox.Delivery[T]{Payload: r.payload, Message: r.message}
}

// wanted is a value that a test looks for, as a handler would receive it.
type wanted[T any] struct {
	value   T
	payload []byte
}

// list reads the messages of topic. It fails t if it cannot, or if one of them
// does not decode.
func list[T any](t testing.TB, q bun.IDB, topic topics.Topic[T]) *listing[T] {
	t.Helper()
	l, err := read(t, q, topic)
	var odd *undecodable
	switch {
	case errors.As(err, &odd):
		t.Fatal(l.report(t, "%d of %d messages of %s do not decode", odd.n, len(l.rows), l.title))
	case err != nil:
		t.Fatal(err)
	}
	return l
}

// undecodable says how many messages of a listing do not decode.
type undecodable struct{ n int }

func (u *undecodable) Error() string { return fmt.Sprintf("%d messages do not decode", u.n) }

// read is list without a test to fail. With an error that is *undecodable, the
// listing is complete.
func read[T any](t testing.TB, q bun.IDB, topic topics.Topic[T]) (*listing[T], error) {
	info := topic.Info()
	if info.Name == "" {
		return nil, fmt.Errorf("the topic is the zero Topic[%s]; use one that topics.New made", info.Type)
	}
	l := &listing[T]{title: fmt.Sprintf("topic %q (%s)", info.Name, info.Type), q: q, info: info}
	messages, err := readMessages(t, q, "topic IN (?)", bun.List(l.names()))
	if err != nil {
		return nil, fmt.Errorf(readFailure, err)
	}
	odd := &undecodable{}
	for _, m := range messages {
		r := row[T]{message: m}
		if r.payload, err = topic.Decode(m.Version, m.Payload); err != nil {
			r.odd, r.wrong = true, []string{err.Error()}
			odd.n++
		}
		l.rows = append(l.rows, r)
	}
	if odd.n > 0 {
		return l, odd
	}
	return l, nil
}

// names are those under which a message of the topic may be stored.
func (l *listing[T]) names() []string { return append([]string{l.info.Name}, l.info.Aliases...) }

// check holds the rows against the match functions, which never see a payload
// that does not decode.
func (l *listing[T]) check(match []func(T) bool) {
	for i := range l.rows {
		r := &l.rows[i]
		if r.odd {
			continue
		}
		for n, holds := range match {
			if holds(r.payload) {
				r.equal++
			} else {
				r.wrong = append(r.wrong, fmt.Sprintf("match function %d of %d does not hold", n+1, len(match)))
			}
		}
	}
	if len(match) == 0 {
		return
	}
	l.alike = func(m outbox.Message) bool {
		var v T
		decoder := json.NewDecoder(bytes.NewReader(m.Payload))
		decoder.DisallowUnknownFields() // of another type, or it would match too easily
		if err := decoder.Decode(&v); err != nil {
			return false
		}
		for _, holds := range match {
			if !safely(holds, v) {
				return false
			}
		}
		return true
	}
}

// safely calls a match function with a payload that it was not written for.
func safely[T any](holds func(T) bool, v T) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return holds(v)
}

// want returns what a handler would receive for v.
func (l *listing[T]) want(t testing.TB, topic topics.Topic[T], v T) wanted[T] {
	t.Helper()
	var w wanted[T]
	payload, err := topic.Encode(v)
	if err == nil {
		w.payload = payload
		w.value, err = topic.Decode(topic.Version(), payload)
	}
	if err != nil {
		t.Fatalf("want is no payload for %s: %v", l.title, err)
	}
	return w
}

// compare holds the payloads of the rows against w.
func (l *listing[T]) compare(topic topics.Topic[T], w wanted[T]) {
	for i := range l.rows {
		r := &l.rows[i]
		equal := reflect.DeepEqual(w.value, r.payload)
		// What a handler receives, encoded again: an old version has other fields.
		payload, err := topic.Encode(r.payload)
		if err != nil {
			payload = r.message.Payload
		}
		var wrong []string
		r.equal, wrong = differences(w.payload, payload)
		switch {
		case equal:
		case len(wrong) == 0:
			r.wrong = append(r.wrong, fmt.Sprintf("is the same in JSON, but in Go %#v, want %#v", r.payload, w.value))
		default:
			r.wrong = append(r.wrong, wrong...)
		}
	}
	l.alike = func(m outbox.Message) bool {
		_, wrong := differences(w.payload, m.Payload)
		return len(wrong) == 0
	}
}

func (l *listing[T]) matching() []row[T] {
	var found []row[T]
	for _, r := range l.rows {
		if len(r.wrong) == 0 {
			found = append(found, r)
		}
	}
	return found
}

func (l *listing[T]) deliveries() []outbox.Delivery[T] {
	var all []outbox.Delivery[T]
	for _, r := range l.rows {
		all = append(all, r.delivery())
	}
	return all
}
