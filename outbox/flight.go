package outbox

import (
	"context"
	"time"
)

// flightState is how far a claimed row has come.
type flightState int

const (
	flightReady    flightState = iota // waits for a slot
	flightRunning                     // its handler runs
	flightSettling                    // its outcome is being recorded
)

// flight is one claimed row on its way through the relay, from claim to
// recording. The engine's mutex guards the fields below msg.
type flight struct {
	lease
	msg     Message
	kind    claimKind
	due     any
	ordered bool
	probe   *topicPause // that it is a probe of, or nil

	state     flightState
	until     time.Time // the lease is known to be live until then, on the monotonic clock
	started   time.Time
	cancel    context.CancelCauseFunc // while running
	suspected bool                    // it is the one suspect of the relay
	lost      bool                    // another relay has it, or nobody
	stuck     bool                    // recorded as failed while its handler runs on
}

// attrs names the message in a log line. An ordering key says what else waits.
func (f *flight) attrs(more ...any) []any {
	attrs := []any{"topic", f.msg.Topic, "id", f.msg.ID}
	if f.ordered {
		attrs = append(attrs, "order_key", f.msg.OrderKey)
	}
	return append(attrs, more...)
}

func (f *flight) isSuspect() bool { return f.kind != claimDue }

// outcome is what is to be recorded of a flight.
type outcome struct {
	flight  *flight
	verdict verdict
	tries   int // how often recording it has been refused
}

// sent says that the handler returned nil.
func (f *flight) sent() outcome {
	return outcome{flight: f, verdict: verdict{lease: f.lease, Status: StatusSent, Attempts: f.msg.Attempts}}
}

// parked says that there will be no further attempt.
func (f *flight) parked(reason string) outcome {
	return outcome{flight: f, verdict: verdict{lease: f.lease, Status: StatusFailed, Attempts: f.msg.Attempts, Reason: cleanReason(reason)}}
}

// retried says that the next attempt is due after wait.
func (f *flight) retried(wait time.Duration, reason string) outcome {
	micros := wait.Microseconds()
	return outcome{flight: f, verdict: verdict{
		lease: f.lease, Status: StatusPending, Attempts: f.msg.Attempts, Wait: &micros, Reason: cleanReason(reason),
	}}
}

// postponed says that the destination was down: the attempt is given back, and
// the message is due after wait. A suspect is none any more, since its delivery
// ended well enough.
func (f *flight) postponed(wait time.Duration, reason string) outcome {
	o := f.retried(wait, reason)
	o.verdict.Attempts--
	o.verdict.Down = true
	return o
}

// released gives the row back as it was before the claim. A suspect stays one:
// claimed, with its lease over, and under another token, so that a renewal on
// its way does not give it a lease that nobody holds.
func (f *flight) released() outcome {
	v := verdict{lease: f.lease, Status: StatusPending, Attempts: f.msg.Attempts - 1, Due: f.due}
	if f.isSuspect() {
		next, err := newToken()
		if err != nil {
			next = f.Token
		}
		v.Status, v.Next = StatusClaimed, &next
	}
	if f.kind == claimExhausted {
		v.Attempts = f.msg.Attempts
	}
	return outcome{flight: f, verdict: v}
}
