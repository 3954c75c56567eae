package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// engine is one run of a relay. A loop claims rows, a goroutine a delivery runs
// handlers, one records outcomes in batches, one renews leases; Start adds one
// that sweeps and one that listens.
type engine struct {
	relaySettings
	hooks   *registration
	drain   bool
	metrics relayMetrics
	health  health

	wake   chan struct{} // look now
	room   chan struct{} // a slot or the queue has room, or a flight has ended
	record chan struct{} // there are outcomes
	renewN chan struct{} // renew now

	deliveries       context.Context // parent of every delivery's
	cancelDeliveries context.CancelCauseFunc

	mu       sync.Mutex
	flights  map[ID]*flight   // claimed and not yet recorded
	ready    []*flight        // waiting for a slot, in the order of delivery
	active   map[*flight]bool // whose handlers have not returned: each holds a slot
	stuck    int              // how many of active are stuck
	outcomes []outcome        // to be recorded
	stopping bool
	destinations
	recorded int // rows recorded as sent
	released int // rows given back

	recordErr error // why outcomes could not be recorded, which ends a drain

	suspectFlights  int       // suspects in flight: one at most
	suspectsBlocked bool      // an outage: our own renewals come first
	suspectsAfter   time.Time // then this
	suspectLook     time.Time // when suspects are looked for next

	lookDeep bool // the claim loop's alone: look past locked rows
}

func newEngine(cfg relaySettings, wake chan struct{}, hooks *registration, drain bool) *engine {
	return &engine{
		relaySettings: cfg, hooks: hooks, drain: drain, wake: wake,
		metrics: newRelayMetrics(cfg.name),
		health:  health{log: cfg.log},
		room:    make(chan struct{}, 1), record: make(chan struct{}, 1), renewN: make(chan struct{}, 1),
		flights: map[ID]*flight{}, active: map[*flight]bool{},
		destinations: newDestinations(),
		lookDeep:     true,
	}
}

// nudge puts a token into a channel of capacity one.
func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run works until ctx ends, or in a drain until nothing is due, and then shuts
// down.
func (e *engine) run(ctx context.Context) (int, error) {
	work := context.WithoutCancel(ctx) // for statements, which a shutdown must not cut off
	e.deliveries, e.cancelDeliveries = context.WithCancelCause(work)
	defer e.cancelDeliveries(errShutdown)

	if err := e.validate(ctx); err != nil {
		if ctx.Err() != nil && !e.drain {
			return 0, nil
		}
		return 0, err
	}

	e.tell("outbox: the relay has started", "takes", e.take.String())
	if e.mux != nil {
		if left := e.mux.left(); len(left) > 0 {
			e.tell("outbox: these topics are left to other programs", "topics", strings.Join(left, ", "))
		}
	}
	unhook := context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.stopping = true
		e.tell("outbox: the relay is shutting down", "delivering", len(e.active), "waiting", len(e.ready))
	})
	defer unhook()
	background, stop := context.WithCancel(work)
	defer stop()
	var loops sync.WaitGroup
	loops.Go(func() { e.recordLoop(background) })
	loops.Go(func() { e.renewLoop(background) })
	if !e.drain {
		loops.Go(func() { e.sweepLoop(background) })
		loops.Go(func() { e.listenLoop(background) })
	}
	disowned := &orphans{engine: e, stop: background}
	loopErr := e.claimLoop(ctx, work, disowned)
	stopErr := e.shutdown()
	stop()
	loops.Wait()
	disowned.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tell("outbox: the relay has stopped", "sent", e.recorded)
	return e.recorded, errors.Join(loopErr, stopErr)
}

// tell logs a step in the life of a relay that Start runs.
func (e *engine) tell(step string, attrs ...any) {
	if !e.drain {
		e.log.Info(step, attrs...)
	}
}

// validate checks the database before the first claim. An unreachable one is
// waited for; one that answers but is not ready is an error.
func (e *engine) validate(ctx context.Context) error {
	for {
		err := Store{DB: e.db}.Validate(e.hooks.context(ctx))
		if err == nil {
			e.answered("start")
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if e.drain || classify(err) == failureInvalid {
			return err
		}
		e.blockSuspects()
		if err := sleep(ctx, e.health.fail("start", err)); err != nil {
			return err
		}
	}
}

// claimLoop claims while there is room and something is due, until ctx ends.
func (e *engine) claimLoop(ctx, work context.Context, disowned *orphans) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var collided collisions
	for {
		if !e.waitForRoom(ctx) {
			return e.endOf(ctx)
		}
		if err := e.drainErr(); err != nil {
			return fmt.Errorf("outbox: record: %w", err)
		}
		idle := e.isIdle()
		n, err := e.look(work, disowned)
		if err == nil {
			collided = collisions{}
		}
		switch {
		case ctx.Err() != nil:
			return e.endOf(ctx)
		case err != nil && classify(err) == failureContention && collided.another():
			if sleep(ctx, collided.wait()) != nil {
				return e.endOf(ctx)
			}
		case err != nil && e.drain:
			return fmt.Errorf("outbox: claim: %w", err)
		case err != nil:
			e.blockSuspects()
			if sleep(ctx, e.outage(ctx, "claim", err)) != nil {
				return e.endOf(ctx)
			}
		case n > 0:
		case e.drain && idle:
			return nil
		case e.drain:
			select { // what is in flight may make other rows due
			case <-ctx.Done():
			case <-e.room:
			}
		default:
			timer.Reset(e.untilProbe(jitter(e.interval)))
			select {
			case <-ctx.Done():
			case <-e.wake:
			case <-timer.C:
			}
		}
	}
}

// endOf is the result of a loop that ctx has ended.
func (e *engine) endOf(ctx context.Context) error {
	if e.drain {
		return ctx.Err()
	}
	return nil
}

// drainErr returns the error of the database that ends a drain. The shutdown
// that follows goes on recording.
func (e *engine) drainErr() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.drain {
		return nil
	}
	return e.recordErr
}

// waitForRoom waits until few enough rows are queued for another claim. It
// returns false when ctx ends, and in a drain when every slot is stuck.
func (e *engine) waitForRoom(ctx context.Context) bool {
	for ctx.Err() == nil {
		e.mu.Lock()
		hasRoom := len(e.ready) < min(e.concurrency, (e.batch+1)/2)
		allStuck := e.allStuck()
		e.mu.Unlock()
		if allStuck && e.drain {
			return false
		}
		if hasRoom && !allStuck {
			return true
		}
		select {
		case <-ctx.Done():
		case <-e.room:
		}
	}
	return false
}

func (e *engine) isIdle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.flights) == 0
}

// allStuck reports whether a stuck handler is in every slot. The caller holds
// mu.
func (e *engine) allStuck() bool { return e.stuck >= e.concurrency }

// dispatch starts what is ready while there are slots. A row whose lease is not
// known to be live is given back, and so is everything when all slots are stuck:
// another relay may deliver it. The caller holds mu.
func (e *engine) dispatch() {
	if e.allStuck() {
		for _, f := range e.ready {
			e.release(f)
		}
		e.ready = nil
	}
	for !e.stopping && len(e.active) < e.concurrency && len(e.ready) > 0 {
		f := e.ready[0]
		e.ready = e.ready[1:]
		now := time.Now()
		if !now.Before(f.until) {
			e.release(f)
			continue
		}
		f.state, f.started = flightRunning, now
		e.active[f] = true
		go e.deliverOne(f)
	}
}

// release gives a flight back that has not begun. The caller holds mu.
func (e *engine) release(f *flight) {
	e.released++
	e.finish(f.released())
}

// finish hands an outcome to the recorder. The caller holds mu.
func (e *engine) finish(o outcome) {
	o.flight.state = flightSettling
	e.probeOver(o.flight)
	e.outcomes = append(e.outcomes, o)
	nudge(e.record)
}

// end forgets a flight whose outcome is recorded or void. The caller holds mu.
func (e *engine) end(f *flight) {
	if e.flights[f.ID] != f {
		return
	}
	delete(e.flights, f.ID)
	e.probeOver(f)
	e.suspectOver(f)
	nudge(e.room)
}

// suspectOver makes way for the next suspect, once the outcome of this one is
// recorded, so that the next does not take it along, or cannot be for now. The
// caller holds mu.
func (e *engine) suspectOver(f *flight) {
	if !f.suspected {
		return
	}
	f.suspected = false
	e.suspectFlights--
	e.suspectLook = time.Time{} // there may be another
	if !e.stopping {
		nudge(e.wake)
	}
}

// lose gives up a flight that another relay holds. The caller holds mu.
func (e *engine) lose(f *flight) {
	if f.lost {
		return
	}
	f.lost = true
	e.metrics.lost(f.msg.Topic)
	e.log.Warn("outbox: lease lost; another relay may deliver this message too", "topic", f.msg.Topic, "id", f.msg.ID, "attempts", f.msg.Attempts)
	if f.cancel != nil {
		f.cancel(ErrLeaseLost)
	}
	if i := slices.Index(e.ready, f); i >= 0 {
		e.ready = slices.Delete(e.ready, i, i+1)
	}
	e.end(f)
}

// blockSuspects notes an outage: rows whose lease has expired meanwhile may
// well be in good hands.
func (e *engine) blockSuspects() {
	e.mu.Lock()
	e.suspectsBlocked = true
	e.mu.Unlock()
	nudge(e.renewN)
}

// outage notes that an operation failed and returns how long to wait before it
// is tried again. A connection to a server that has become read-only is given
// up: after a failover, or once the default has been changed back, only a new
// one is better.
func (e *engine) outage(ctx context.Context, operation string, err error) time.Duration {
	if sqlState(err) == "25006" {
		dropConnection(ctx, e.db.DB)
	}
	return e.health.fail(operation, err)
}

// answered notes that an operation succeeded. After an outage, renewals come
// first.
func (e *engine) answered(operation string) {
	if e.health.ok(operation) {
		nudge(e.renewN)
	}
}
