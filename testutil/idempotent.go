package testutil

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// RequireIdempotent drains relay, makes it so that it had crashed before it could
// record what it sent, drains it again, so that each of those messages is
// delivered twice, and fails t if that made a difference to effects. It returns
// the outcomes of the first drain; see [Drain].
//
// effects returns a snapshot of what the handlers do: rows of the business, the
// calls that a stub has seen. It must be a copy. Values are compared in the manner of
// reflect.DeepEqual. So that the test cannot pass by accident, it also fails if
// nothing is sent, and if the first delivery changes nothing in effects either.
// Only what the first drain has sent is delivered twice, which RequireSent counts;
// messages of other relays are left alone.
func RequireIdempotent(t testing.TB, relay *outbox.Relay, effects func() any) Outcomes {
	t.Helper()
	none := effects()
	first := Drain(t, relay)
	if len(first.Of(Sent)) == 0 {
		t.Fatalf("nothing was sent that could be delivered twice; enqueue it first:\n%v", first)
	}
	once := effects()
	if reflect.DeepEqual(none, once) {
		t.Fatalf("effects is the same before and after the first delivery, %s; return what the handlers change, and a copy of it", text(once))
	}
	sent := map[outbox.ID]bool{}
	for _, o := range first.Of(Sent) {
		sent[o.Message.ID] = true
		loseOutcomes(t, relay.DB, "id = ?", o.Message.ID)
		if _, err := exec(t, relay.DB, "UPDATE outbox_messages SET attempts = attempts - 1 WHERE id = ?", o.Message.ID); err != nil {
			t.Fatalf("deliver a message twice: %v", err) // once more than its last attempt, perhaps
		}
	}
	before := takeSnapshot(t, relay.DB)
	second := slices.DeleteFunc(Drain(t, relay), func(o Outcome) bool { return !sent[o.Message.ID] })
	if twice := effects(); !reflect.DeepEqual(once, twice) {
		t.Fatalf("the handlers are not idempotent: a second delivery of the same messages has changed the effects%s\ndelivered twice:\n%v",
			change(once, twice), second)
	}
	for id, m := range takeSnapshot(t, relay.DB) { // those that are not due yet, too
		if _, existed := before[id]; !existed {
			t.Fatalf("the handlers are not idempotent: a second delivery of the same messages has enqueued another one; give it a key:\n  %s",
				describe(m))
		}
	}
	if len(second) != len(second.Of(Sent)) || len(second) != len(sent) {
		t.Fatalf("a second delivery of the same messages did not end well:\n%v", second)
	}
	return first
}

// text shows any value.
func text(v any) string {
	if doc, err := json.Marshal(v); err == nil && string(doc) != "{}" {
		return cut(string(doc), maxPayloadBytes)
	}
	return cut(fmt.Sprintf("%+v", v), maxPayloadBytes)
}

// change shows how two values differ that are not equal: by the leaves of their
// JSON, or in full where that is the same.
func change(before, after any) string {
	var b strings.Builder
	was, err := json.Marshal(before)
	is, err2 := json.Marshal(after)
	if err == nil && err2 == nil {
		_, lines := differences(was, is)
		for i, line := range lines {
			lines[i] = strings.Replace(line, ", want ", ", was ", 1)
		}
		writeLines(&b, "\n  ", lines)
	}
	if b.Len() == 0 {
		fmt.Fprintf(&b, "\n  once:  %s\n  twice: %s", cut(fmt.Sprintf("%+v", before), maxPayloadBytes), cut(fmt.Sprintf("%+v", after), maxPayloadBytes))
	}
	return b.String()
}
