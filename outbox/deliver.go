package outbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/typedoutbox/typedoutbox/topics"
)

// errGoexit is the outcome of a handler that ended its goroutine.
var errGoexit = errors.New("the handler called runtime.Goexit")

// deliverOne runs the handler of a flight, in a goroutine of its own, and hands
// its outcome to the recorder.
func (e *engine) deliverOne(f *flight) {
	timeout := e.timeoutOf(f.msg.Topic)
	ctx, cancelCause := context.WithCancelCause(e.deliveries)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer cancelCause(nil)
	e.mu.Lock()
	f.cancel = cancelCause
	if f.lost {
		cancelCause(ErrLeaseLost)
	}
	e.mu.Unlock()
	watchdog := time.AfterFunc(timeout+e.shutdownTimeout, func() { e.giveUp(f) })
	defer watchdog.Stop()

	err, returned := errGoexit, false
	defer func() {
		// Deferred, since Goexit runs nothing else.
		if !returned {
			e.log.Error("outbox: a handler called runtime.Goexit", "topic", f.msg.Topic, "id", f.msg.ID, "stack", string(debug.Stack()))
		}
		e.delivered(ctx, f, err)
	}()
	err = e.call(ctx, f)
	returned = true
}

// call runs the handler and turns a panic into an error. So it does with an
// error that cannot be looked at without one, such as a nil pointer in an
// interface: outside of here that would end the process.
func (e *engine) call(ctx context.Context, f *flight) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the handler panicked: %v", v)
			e.log.Error("outbox: a handler panicked", "topic", f.msg.Topic, "id", f.msg.ID, "panic", v, "stack", string(debug.Stack()))
		}
	}()
	if err = e.deliver(ctx, f.msg); err != nil {
		_ = err.Error()
		_ = errors.As(err, new(*permanentError))
		_ = errors.As(err, new(*retryAfterError))
		_ = errors.As(err, new(*unavailableError))
		_ = errors.As(err, new(*topics.DecodeError))
	}
	return err
}

func (e *engine) timeoutOf(topic string) time.Duration {
	if e.mux != nil {
		if r := e.mux.route(topic); r != nil && r.timeout > 0 {
			return r.timeout
		}
	}
	return e.deliverTimeout
}

// delivered takes the result of a handler that has returned.
func (e *engine) delivered(ctx context.Context, f *flight, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.active, f)
	nudge(e.room)
	defer e.dispatch()
	switch {
	case f.stuck:
		e.stuck--
		e.log.Warn("outbox: a stuck handler has returned at last", "topic", f.msg.Topic, "id", f.msg.ID,
			"after", time.Since(f.started).Round(time.Millisecond), "error", err)
		return
	case f.lost:
		return
	}
	e.finish(e.judge(ctx, f, err))
}

// judge decides what becomes of a delivery. The caller holds mu.
func (e *engine) judge(ctx context.Context, f *flight, err error) outcome {
	if err == nil {
		e.reached(f, nil)
		return f.sent()
	}
	var permanent *permanentError
	if errors.As(err, &permanent) {
		e.reached(f, err)
		return e.park(f, err)
	}
	if errors.Is(context.Cause(ctx), errShutdown) {
		e.released++
		return f.released()
	}
	var after *retryAfterError
	delay := time.Duration(0)
	if errors.As(err, &after) {
		delay = after.delay
	}
	var down *unavailableError
	if errors.As(err, &down) {
		return e.unavailable(f, err, delay)
	}
	e.reached(f, err)
	if f.msg.Attempts >= e.take.attemptsOf(f.msg.Topic) {
		return e.park(f, err)
	}
	wait := backoff(f.msg.Attempts, e.baseBackoff, e.maxBackoff)
	if delay > 0 {
		wait = min(max(delay, minBackoff), maxDuration)
	}
	e.metrics.failed(f.msg.Topic)
	e.log.Warn("outbox: a delivery failed and will be tried again", f.attrs("attempt", f.msg.Attempts,
		"in", wait.Round(time.Millisecond), "error", err)...)
	return f.retried(wait, err.Error())
}

func (e *engine) park(f *flight, err error) outcome {
	e.metrics.parked(f.msg.Topic)
	e.log.Error("outbox: a message is parked as failed", f.attrs("attempt", f.msg.Attempts, "error", err)...)
	return f.parked(err.Error())
}

// giveUp records a delivery as failed whose handler has ignored the end of its
// context for too long, and no longer renews its lease. The slot stays taken
// until the handler returns: freeing it would let such handlers pile up. Of a
// lost lease there is nothing to record, but its handler takes a slot all the
// same.
func (e *engine) giveUp(f *flight) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.active[f] || e.stopping {
		return
	}
	f.stuck = true
	e.stuck++
	e.stuckProbe(f)
	defer e.dispatch() // which gives back what waits for the slots, if all are stuck
	nudge(e.room)
	e.metrics.stuck(f.msg.Topic)
	e.log.Error("outbox: a handler is stuck: it ignores its context and keeps its slot", "topic", f.msg.Topic, "id", f.msg.ID,
		"for", time.Since(f.started).Round(time.Millisecond))
	if f.lost {
		return
	}
	err := fmt.Errorf("the handler was stuck: it did not return within %v", time.Since(f.started).Round(time.Millisecond))
	if f.msg.Attempts >= e.take.attemptsOf(f.msg.Topic) {
		e.finish(e.park(f, err))
		return
	}
	e.finish(f.retried(backoff(f.msg.Attempts, e.baseBackoff, e.maxBackoff), err.Error()))
}
