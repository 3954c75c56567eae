package outbox

import (
	"errors"
	"fmt"
	"time"

	"github.com/typedoutbox/typedoutbox/topics"
)

var (
	// ErrNoTransaction is returned by Enqueue and EnqueueAll when the
	// transaction is the zero bun.Tx or has already ended.
	ErrNoTransaction = errors.New("outbox: no open transaction; call Enqueue within db.RunInTx")

	// ErrNotMigrated is returned when outbox_messages, or a piece of it, is
	// missing in the database.
	ErrNotMigrated = errors.New("outbox: the table outbox_messages is not as this version needs it; run Store.Migrate")

	// ErrNoHandler is returned by Mux.Deliver for a topic without a handler,
	// and by Relay.Start for a required topic without one.
	ErrNoHandler = errors.New("outbox: no handler for the topic")

	// ErrInvalidKey is returned when a key, an order key or a header cannot be
	// stored: invalid UTF-8, a NUL, or a key longer than 1,024 bytes.
	ErrInvalidKey = errors.New("outbox: invalid key")

	// ErrPayloadTooLarge is returned when a payload is larger than the
	// MaxBytes of its topic.
	ErrPayloadTooLarge = topics.ErrPayloadTooLarge

	// ErrSerialization is returned by Enqueue and EnqueueAll when the database
	// aborted the transaction because of a concurrent one (SQLSTATE 40001 or
	// 40P01): roll back and run the whole transaction again.
	ErrSerialization = errors.New("outbox: the transaction collided with a concurrent one; roll back and run it again")

	// ErrLeaseLost is the context.Cause of a delivery whose lease was taken
	// over by another relay, or whose row is gone. What the handler returns is
	// not recorded.
	ErrLeaseLost = errors.New("outbox: the lease of this delivery was lost")
)

// Permanent marks err as final: the relay parks the message at once, whatever
// its attempts. It is found through wrapping and errors.Join. Permanent(nil)
// is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err: err}
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Unavailable marks err as an outage of the destination and no fault of this
// message: a refused connection, a 503, a broker without a leader. The attempt is
// not spent, and the relay pauses the topic instead of walking through its
// backlog: it gives back what it has claimed of it and delivers one message at a
// time, after 1 s, 2 s, 4 s and so on up to a minute, give or take 10 %, until a
// handler returns anything else. Each relay does so for itself, and such probes
// take a quarter of its slots at most. Only a message that has been answered so
// for longer than Relay.MaxOutage is parked, and not before the topic has been
// paused for a minute, so that a blip parks nobody.
//
// Use it where no message of the topic could get through. An error that may be
// due to this message, a 500 for instance, is better returned as it is: after
// MaxAttempts it is parked, and the others go on. So is one that concerns one of
// many destinations of a topic. A message that says Unavailable again although
// others of its topic got through in between waits alone, about twice as long
// each time, up to Relay.MaxBackoff.
//
// A [RetryAfter] within says when to deliver this message again; the topic is
// probed after as long, a minute at most. A [Permanent] within parks the message
// all the same. It is found through wrapping and errors.Join. Unavailable(nil)
// is nil.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &unavailableError{err: err}
}

type unavailableError struct{ err error }

func (e *unavailableError) Error() string { return "destination unavailable: " + e.err.Error() }
func (e *unavailableError) Unwrap() error { return e.err }

// RetryAfter asks for the next attempt after d instead of the backoff, for
// instance what a Retry-After header says. The attempt counts. The relay waits
// at least 100 ms. A d of zero or less, such as a header that was missing, means
// the backoff. It is found through wrapping and errors.Join.
// RetryAfter(d, nil) is nil.
func RetryAfter(d time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &retryAfterError{delay: d, err: err}
}

type retryAfterError struct {
	delay time.Duration
	err   error
}

func (e *retryAfterError) Error() string { return fmt.Sprintf("%v (retry after %v)", e.err, e.delay) }
func (e *retryAfterError) Unwrap() error { return e.err }
