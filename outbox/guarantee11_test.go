package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Guarantee 11: undecodable is not fatal.

// F22: one undecodable row stops nothing.
func TestUndecodableRowStopsNothing(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(10))
		f.exec(t, `UPDATE outbox_messages SET payload = '{"id":1}' WHERE id = ?`, ids[3].String())
		f.exec(t, `UPDATE outbox_messages SET payload = '[]', version = 0 WHERE id = ?`, ids[5].String())
		f.exec(t, `UPDATE outbox_messages SET headers = '"odd"' WHERE id = ?`, ids[7].String())
		if !f.postgres { // whose json refuses it
			f.exec(t, `UPDATE outbox_messages SET payload = '{"id":' WHERE id = ?`, ids[9].String())
			f.exec(t, `UPDATE outbox_messages SET payload = x'ff00', headers = x'ff' WHERE id = ?`, ids[1].String())
		}
		bad := map[int]string{3: "cannot unmarshal number", 5: "versions start at 1"}
		if !f.postgres {
			bad[9], bad[1] = "unexpected end of JSON input", "invalid character"
		}
		var decode journal
		mux := handling(func(context.Context, outbox.Delivery[order]) error { return nil })
		mux.Use(func(next outbox.DeliverFunc) outbox.DeliverFunc {
			return func(ctx context.Context, m outbox.Message) error {
				err := next(ctx, m)
				if e := (*topics.DecodeError)(nil); errors.As(err, &e) {
					decode.note(e.Topic)
				}
				return err
			}
		})
		r := f.relay(mux)
		r.MaxAttempts, r.BaseBackoff = 2, time.Hour
		require.Equal(t, 10-len(bad), drain(t, r))
		for attempt := 1; attempt <= 2; attempt++ {
			for i, id := range ids {
				m := f.get(t, id)
				if bad[i] == "" {
					require.Equal(t, outbox.StatusSent, m.Status)
					continue
				}
				require.Equal(t, attempt, m.Attempts)
				require.Equal(t, attempt == 2, m.Status == outbox.StatusFailed)
				require.Contains(t, m.LastError, `topic "orders.created": decode payload of version`)
				require.Contains(t, m.LastError, bad[i])
			}
			require.Len(t, decode.take(), len(bad))
			f.makeDue(t)
			if attempt == 1 {
				require.Zero(t, drain(t, r))
			}
		}
	})
}

// What stands in the table does not keep a raw relay from its work either.
func TestUndecodableReachesARawRelayAsItIs(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		f.exec(t, `UPDATE outbox_messages SET payload = '{"id":1 }', version = 77 WHERE id = ?`, id.String())
		var got outbox.Message
		r := f.relay(nil)
		r.Deliver = func(_ context.Context, m outbox.Message) error { got = m; return nil }
		require.Equal(t, 1, drain(t, r))
		require.Equal(t, json.RawMessage(`{"id":1 }`), got.Payload)
		require.Equal(t, 77, got.Version)
	})
}

// brokenError panics when it is asked what it says, as a nil pointer in an
// error does.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

// panickyUnwrap panics when it is unwrapped.
type panickyUnwrap struct{}

func (panickyUnwrap) Error() string { return "fine" }
func (panickyUnwrap) Unwrap() error { panic("unwrap") }

func TestUndecodablePanicAndGoexitAreFailedAttempts(t *testing.T) {
	for _, tt := range []struct {
		what    string
		handler func(context.Context, outbox.Delivery[order]) error
		reason  string
	}{
		{"a panic", panicking, "the handler panicked: " + "boom"},
		{"a panic with an error", func(context.Context, outbox.Delivery[order]) error {
			panic(outbox.Permanent(errors.New("boom")))
		}, "the handler panicked: boom"},
		{"a runtime error", func(_ context.Context, d outbox.Delivery[order]) error {
			return []error{nil}[len(d.Payload.ID)]
		}, "the handler panicked: runtime error: index out of range [3] with length 1"},
		{"panic(nil)", func(context.Context, outbox.Delivery[order]) error { panic(nil) }, "the handler panicked: panic called with nil"},
		{"Goexit", func(context.Context, outbox.Delivery[order]) error { exiting(); return nil }, "the handler called runtime.Goexit"},
		{"an error that is a nil pointer", func(context.Context, outbox.Delivery[order]) error { return (*brokenError)(nil) }, "panicked"},
		{"an error that cannot be unwrapped", func(context.Context, outbox.Delivery[order]) error { return panickyUnwrap{} }, "panicked"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				id := f.enqueue(t, plainTopic, []string{"bad"})[0]
				f.enqueue(t, plainTopic, numbers(5))
				var l logs
				r := f.relay(handling(func(ctx context.Context, d outbox.Delivery[order]) error {
					if d.Payload.ID == "bad" {
						return tt.handler(ctx, d)
					}
					return nil
				}))
				r.Logger = l.logger()
				r.MaxAttempts, r.Concurrency, r.BaseBackoff = 2, 1, time.Hour
				for attempt := 1; attempt <= 2; attempt++ {
					require.Equal(t, map[int]int{1: 5, 2: 0}[attempt], drain(t, r), "the slot is free again")
					m := f.get(t, id)
					require.Equal(t, attempt, m.Attempts)
					require.Contains(t, m.LastError, tt.reason)
					require.Equal(t, attempt == 2, m.Status == outbox.StatusFailed)
					require.Equal(t, attempt, l.count("goroutine "), "the stack is in the log")
					f.makeDue(t)
				}
				switch tt.what {
				case "a panic":
					require.Equal(t, 2, l.count("outbox_test.panicking"), "the stack names the culprit")
				case "Goexit":
					require.Equal(t, 2, l.count("outbox_test.exiting"), "the stack names the culprit")
				}
			})
		})
	}
}

func panicking(context.Context, outbox.Delivery[order]) error { panic(fmt.Sprint("bo", "om")) }

func exiting() { runtime.Goexit() }
