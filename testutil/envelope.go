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

// asEnqueued returns the message that outbox.Enqueue writes for v with opts. It
// enqueues v in a database of its own and reads it back, so that nothing here
// repeats what an option means.
func asEnqueued[T any](t testing.TB, topic topics.Topic[T], v T, opts []outbox.EnqueueOption) (m outbox.Message) {
	t.Helper()
	inScratch(t, func(db *bun.DB) {
		t.Helper()
		m = enqueueIn(t, db, topic, v, opts)
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
	err := db.RunInTx(context.WithoutCancel(t.Context()), nil, func(ctx context.Context, tx bun.Tx) error {
		return outbox.Enqueue(ctx, tx, topic, v, opts...)
	})
	var messages []outbox.Message
	if err == nil {
		messages, err = readMessages(t, db, "true")
	}
	if err != nil {
		t.Fatalf("a message of topic %q cannot be enqueued so: %v", topic.Name(), err)
	}
	return messages[0]
}

// compareEnvelope holds what is beside the payload against the message want.
func (r *row[T]) compareEnvelope(want outbox.Message) {
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
	got, wanted := m.AvailableAt.Sub(m.CreatedAt), want.AvailableAt.Sub(want.CreatedAt)
	sameTime := wanted > 0 && closeTo(m.AvailableAt.Sub(want.AvailableAt)) // outbox.At
	if closeTo(got-wanted) || sameTime {
		r.equal++
		return
	}
	r.wrong = append(r.wrong, fmt.Sprintf("delay is %v, want %v", got.Round(time.Millisecond), wanted.Round(time.Millisecond)))
}

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
