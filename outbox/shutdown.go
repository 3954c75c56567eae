package outbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// errShutdown is the cause of a delivery's context that a shutdown cancels.
var errShutdown = errors.New("outbox: the relay is shutting down")

// cancelGrace is how long a shutdown waits for handlers whose context it has
// cancelled.
const cancelGrace = time.Second

// shutdown brings what is in flight to an end and says what could not be.
func (e *engine) shutdown() error {
	e.mu.Lock()
	e.stopping = true
	waiting := e.ready
	for _, f := range waiting {
		e.release(f)
	}
	e.ready = nil
	e.mu.Unlock()

	grace := time.Now().Add(e.shutdownTimeout)
	returned := func() bool { return len(e.active) == e.count(func(f *flight) bool { return f.stuck }) }
	given := func() bool {
		return !slices.ContainsFunc(waiting, func(f *flight) bool { return e.flights[f.ID] == f })
	}
	woken := 0
	if len(waiting) > 0 && e.waitUntil(e.shutdownTimeout, func() bool { return given() || returned() }) {
		e.wakeOthers() // now, not when the last delivery has ended
		woken = len(waiting)
	}
	if !e.waitUntil(time.Until(grace), returned) {
		e.cancelDeliveries(errShutdown)
		e.waitUntil(cancelGrace, returned)
	}
	unrecorded := func() int {
		return len(e.flights) - e.count(func(f *flight) bool { return f.state == flightRunning && !f.lost })
	}
	allRecorded := e.waitUntil(e.shutdownTimeout, func() bool { return unrecorded() == 0 })
	e.mu.Lock()
	released := e.released
	e.mu.Unlock()
	if allRecorded && released > woken {
		e.wakeOthers()
	}

	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	if n := unrecorded(); n > 0 {
		errs = append(errs, fmt.Errorf("outbox: %d outcomes could not be recorded; their messages will be delivered again when their leases end", n))
	}
	if len(e.active) > 0 {
		errs = append(errs, fmt.Errorf("outbox: %d handlers ignored their context and still run: %s", len(e.active), e.stragglers()))
	}
	return errors.Join(errs...)
}

// wakeOthers tells other relays that there are rows for them, those of this
// process through the hook that they share.
func (e *engine) wakeOthers() {
	e.hooks.wakeOthers()
	if e.session.postgres {
		_ = notifyRelays(e.db.DB)
	}
}

// count counts the handlers that have not returned and of which a condition
// holds. The caller holds mu.
func (e *engine) count(condition func(*flight) bool) int {
	n := 0
	for f := range e.active {
		if condition(f) {
			n++
		}
	}
	return n
}

// stragglers names the messages whose handlers still run. The caller holds mu.
func (e *engine) stragglers() string {
	var names []string
	for f := range e.active {
		names = append(names, f.msg.Topic+" "+f.msg.ID.String())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// waitUntil waits until a condition holds under mu, at most for d, and reports
// whether it does.
func (e *engine) waitUntil(d time.Duration, condition func() bool) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		e.mu.Lock()
		ok := condition()
		e.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-e.room:
		case <-timer.C:
			return false
		}
	}
}
