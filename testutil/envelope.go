package testutil

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// expected is a message as options make it.
type expected struct {
	outbox.Message
	timed bool // outbox.At is one of them
}

// asEnqueued returns the message that outbox.Enqueue writes for v with opts. It
// enqueues v in a database of its own and reads it back, so that nothing here
// repeats what an option means. Receipts are left as they are.
func asEnqueued[T any](t testing.TB, topic topics.Topic[T], v T, opts []outbox.EnqueueOption) (m expected) {
	t.Helper()
	opts = append(slices.Clip(opts), outbox.Into(new(outbox.Receipt))) // the last one counts
	inScratch(t, func(db *bun.DB) {
		t.Helper()
		m.Message = enqueueIn(t, db, topic, v, opts)
		m.timed = tryEnqueue(t, db, topic, v, append(opts, outbox.After(0))) != nil // which At refuses beside it
	})
	return m
}

// inScratch calls f with an SQLite database that is gone afterwards.
func inScratch(t testing.TB, f func(db *bun.DB)) {
	t.Helper()
	db, err := plain.openSQLite(t)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	f(db)
}

// enqueueIn commits one message to a database that has none.
func enqueueIn[T any](t testing.TB, db *bun.DB, topic topics.Topic[T], v T, opts []outbox.EnqueueOption) outbox.Message {
	t.Helper()
	err := tryEnqueue(t, db, topic, v, opts)
	var messages []outbox.Message
	if err == nil {
		messages, err = readMessages(t, db, "true")
	}
	if err != nil {
		t.Fatalf("a message of topic %q cannot be enqueued so: %v", topic.Name(), err)
	}
	return messages[0]
}

func tryEnqueue[T any](t testing.TB, db *bun.DB, topic topics.Topic[T], v T, opts []outbox.EnqueueOption) error {
	return db.RunInTx(context.WithoutCancel(t.Context()), nil, func(ctx context.Context, tx bun.Tx) error {
		return outbox.Enqueue(ctx, tx, topic, v, opts...)
	})
}

// compareEnvelope holds what is beside the payload against the message want.
func (r *row[T]) compareEnvelope(want expected) {
	m := r.message
	check := func(what string, got, want any) {
		if got == want {
			r.equal++
			return
		}
		r.wrong = append(r.wrong, fmt.Sprintf("%s is %s, want %s", what, value(got), value(want)))
	}
	check("key", m.Key, want.Key)
	check("order_key", m.OrderKey, want.OrderKey)
	check("version", m.Version, want.Version)
	for _, name := range slices.Sorted(maps.Keys(want.Headers)) {
		if got, ok := m.Headers[name]; ok {
			check("header "+name, got, want.Headers[name])
		} else {
			r.wrong = append(r.wrong, fmt.Sprintf("header %s is absent, want %q", name, want.Headers[name]))
		}
	}
	if text := dueDifference(m, want); text != "" {
		r.wrong = append(r.wrong, text)
		return
	}
	r.equal++
}

// dueDifference says how m is due at another time than want, "" if it is not.
func dueDifference(m outbox.Message, want expected) string {
	got, wanted := m.AvailableAt.Sub(m.CreatedAt), want.AvailableAt.Sub(want.CreatedAt)
	off := m.AvailableAt.Sub(want.AvailableAt)
	var text string
	switch {
	case want.timed && (closeTo(off) || wanted == 0 && got == 0): // the zero time is no delay
		return ""
	case !want.timed && closeTo(got-wanted):
		return ""
	case want.timed && off < 0:
		text = fmt.Sprintf("due is %s, want %s, %v later; if that is how far the test has advanced, assert before Advance",
			stamp(m.AvailableAt), stamp(want.AvailableAt), -off.Round(time.Millisecond))
	case want.timed:
		text = fmt.Sprintf("due is %s, want %s, %v earlier", stamp(m.AvailableAt), stamp(want.AvailableAt), off.Round(time.Millisecond))
	default:
		text = fmt.Sprintf("delay is %v, want %v", got.Round(time.Millisecond), wanted.Round(time.Millisecond))
	}
	if m.Attempts > 0 {
		text += "; a delivery changes that, assert before"
	}
	return text
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// closeTo reports whether a difference is due to rounding: SQLite keeps
// milliseconds and rounds up.
func closeTo(d time.Duration) bool { return d.Abs() <= 2*time.Millisecond }

// value shows an attribute of a message.
func value(v any) string {
	if v == "" {
		return "none"
	}
	if s, ok := v.(string); ok {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprint(v)
}
