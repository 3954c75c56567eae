package testutil

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Result says what has become of a message.
type Result string

// The results of a delivery, or of none.
const (
	Sent      Result = "sent"      // the handler returned nil
	Retried   Result = "retried"   // it returned an error: there will be another attempt
	Parked    Result = "parked"    // there will be none, until somebody decides
	Waiting   Result = "waiting"   // not delivered: not due yet, behind another of its order key, or claimed
	Unhandled Result = "unhandled" // not delivered: no relay takes its topic, or a version as new as this
)

// Outcome is what has become of one message.
type Outcome struct {
	Result  Result
	Message outbox.Message // the row afterwards; its LastError is the reason
}

// Wait returns how long after its recording a message is due again: the backoff,
// or what [outbox.RetryAfter] said.
func (o Outcome) Wait() time.Duration { return o.Message.AvailableAt.Sub(o.Message.UpdatedAt) }

// Require fails t unless this is the result, and returns the outcome.
func (o Outcome) Require(t testing.TB, want Result) Outcome {
	t.Helper()
	if o.Result != want {
		t.Fatalf("want the message to be %s, but it is this:\n  %v", want, o)
	}
	return o
}

// String describes the outcome on one line.
func (o Outcome) String() string {
	text := fmt.Sprintf("%s %s %s", o.Result, o.Message.Topic, show(o.Message.Payload))
	if o.Result == Unhandled && o.Message.Version > 1 {
		text += fmt.Sprintf(" version=%d", o.Message.Version)
	}
	switch o.Result {
	case Retried:
		text += fmt.Sprintf(" after attempt %d, in %v: %s", o.Message.Attempts, o.Wait().Round(time.Millisecond), o.reason())
	case Parked:
		text += fmt.Sprintf(" after attempt %d: %s", o.Message.Attempts, o.reason())
	case Waiting, Unhandled:
		if o.Message.Attempts > 0 {
			text += fmt.Sprintf(" after attempt %d: %s", o.Message.Attempts, o.reason())
		}
	}
	return text
}

func (o Outcome) reason() string { return cut(o.Message.LastError, maxPayloadBytes) }

// Outcomes are those of several messages, oldest first.
type Outcomes []Outcome

// Of returns the outcomes with this result.
func (all Outcomes) Of(result Result) Outcomes {
	var some Outcomes
	for _, o := range all {
		if o.Result == result {
			some = append(some, o)
		}
	}
	return some
}

// Require fails t unless these are the results, oldest message first, and returns
// the outcomes.
func (all Outcomes) Require(t testing.TB, want ...Result) Outcomes {
	t.Helper()
	equal := len(all) == len(want)
	for i := 0; equal && i < len(want); i++ {
		equal = all[i].Result == want[i]
	}
	if !equal {
		t.Fatalf("want %v, but this happened:\n%v", want, all)
	}
	return all
}

// RequireSent fails t unless exactly n messages were sent, and nothing else
// happened. Without it, a test of a handler passes when the handler was never
// called. It returns the outcomes.
func (all Outcomes) RequireSent(t testing.TB, n int) Outcomes {
	t.Helper()
	if sent := len(all.Of(Sent)); sent != n || sent != len(all) {
		t.Fatalf("want exactly %d sent and nothing else, but this happened:\n%v", n, all)
	}
	return all
}

// String describes the outcomes, each on a line.
func (all Outcomes) String() string {
	if len(all) == 0 {
		return "  nothing"
	}
	var b strings.Builder
	for i, o := range all {
		if i == 2*maxRows {
			fmt.Fprintf(&b, "\n  and %d more", len(all)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %v", o)
	}
	return b.String()[1:]
}
