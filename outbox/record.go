package outbox

import (
	"context"
	"fmt"
	"time"
)

const (
	// recordBatch is how many outcomes one statement records at most.
	recordBatch = 500

	// lockedWait is how long a row that somebody has locked is left alone.
	lockedWait = 100 * time.Millisecond
)

// recordLoop records outcomes until ctx ends. It takes whatever has gathered
// while the last statement ran: a lone outcome is not delayed, and under load
// the batches grow by themselves.
func (e *engine) recordLoop(ctx context.Context) {
	locked := time.NewTimer(0)
	defer locked.Stop()
	var held []outcome // whose rows are locked
	var collided collisions
	var heldUntil time.Time
	for ctx.Err() == nil {
		if len(held) > 0 && !time.Now().Before(heldUntil) { // however much else there is
			e.putBack(held)
			held = nil
		}
		batch := e.takeOutcomes()
		if len(batch) > 0 {
			again, err := e.recordAll(ctx, batch)
			if err != nil {
				e.putBack(again)
				if classify(err) == failureContention && collided.another() {
					_ = sleep(ctx, collided.wait())
					continue
				}
				e.mu.Lock()
				e.recordErr = err
				e.mu.Unlock()
				nudge(e.room)
				e.blockSuspects()
				_ = sleep(ctx, e.outage(ctx, "record", err))
				continue
			}
			collided = collisions{}
			e.answered("record")
			e.mu.Lock()
			for _, o := range again { // they are held up by themselves, and hold up nobody
				e.suspectOver(o.flight)
			}
			e.mu.Unlock()
			if len(again) > 0 && len(held) == 0 {
				heldUntil = time.Now().Add(lockedWait)
				locked.Reset(lockedWait)
			}
			held = append(held, again...)
			continue
		}
		select {
		case <-ctx.Done():
		case <-e.record:
		case <-locked.C:
		}
	}
}

// takeOutcomes returns the next batch, without the outcomes of lost flights.
func (e *engine) takeOutcomes() []outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	var batch []outcome
	for len(e.outcomes) > 0 && len(batch) < recordBatch {
		if o := e.outcomes[0]; !o.flight.lost {
			batch = append(batch, o)
		}
		e.outcomes = e.outcomes[1:]
	}
	return batch
}

func (e *engine) putBack(outcomes []outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.outcomes = append(outcomes[:len(outcomes):len(outcomes)], e.outcomes...)
}

// recordAll records a batch and returns what must be tried again: with an
// error, at once when the database answers; without one, a little later. A
// batch that the database refuses is split until the guilty row is alone.
func (e *engine) recordAll(ctx context.Context, batch []outcome) (again []outcome, err error) {
	verdicts := make([]verdict, len(batch))
	for i, o := range batch {
		verdicts[i] = o.verdict
	}
	done, err := e.session.settle(ctx, e.recordStatement, verdicts)
	switch {
	case err == nil:
		return e.recordedOf(ctx, batch, done)
	case classify(err) != failureRefused:
		return batch, err
	case len(batch) == 1:
		return []outcome{e.refused(batch[0], err)}, nil
	}
	half := len(batch) / 2
	again, err = e.recordAll(ctx, batch[:half])
	if err != nil {
		return append(again, batch[half:]...), err
	}
	more, err := e.recordAll(ctx, batch[half:])
	return append(again, more...), err
}

// refused is the outcome to try after the database has refused o alone: the
// same without its reason, which is the only part of it that is not ours.
func (e *engine) refused(o outcome, err error) outcome {
	o.tries++
	if e.drain && o.tries > 1 { // without its reason, too
		e.mu.Lock()
		e.recordErr = err
		e.mu.Unlock()
		nudge(e.room)
	}
	if o.tries == 1 || o.tries%100 == 0 {
		e.log.Error("outbox: the database refuses to record an outcome; the relay goes on trying", "topic", o.flight.msg.Topic,
			"id", o.flight.msg.ID, "status", o.verdict.Status, "error", err)
	}
	if o.verdict.Reason != "" {
		o.verdict.Reason = "the reason could not be stored; see the log of " + e.name
	}
	return o
}

// recordedOf ends the flights whose rows were changed and finds out about the
// rest.
func (e *engine) recordedOf(ctx context.Context, batch []outcome, done map[ID]bool) (again []outcome, err error) {
	var untouched []outcome
	e.mu.Lock()
	for _, o := range batch {
		if done[o.verdict.ID] {
			e.settled(o)
		} else {
			untouched = append(untouched, o)
		}
	}
	e.mu.Unlock()
	if len(untouched) == 0 {
		return nil, nil
	}
	ids := make([]ID, len(untouched))
	for i, o := range untouched {
		ids[i] = o.verdict.ID
	}
	found, err := e.session.holdings(ctx, e.recordStatement, ids)
	if err != nil {
		return untouched, fmt.Errorf("read back: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, o := range untouched {
		h, exists := found[o.verdict.ID]
		var next ID
		if o.verdict.Next != nil {
			next = *o.verdict.Next
		}
		switch {
		case exists && h.token == next && h.claimedBy == e.name && h.status == o.verdict.Status && h.attempts == o.verdict.Attempts:
			e.settled(o) // the answer to an earlier try was lost
		case exists && h.token == o.verdict.Token: // locked by somebody
			again = append(again, o)
		default:
			e.lose(o.flight)
		}
	}
	return again, nil
}

// settled ends a flight whose outcome is recorded. The caller holds mu.
func (e *engine) settled(o outcome) {
	if o.flight.lost {
		return
	}
	if o.verdict.Status == StatusSent {
		e.recorded++
		e.metrics.sent(o.flight.msg.Topic)
		if o.flight.ordered && !e.stopping {
			nudge(e.wake) // the next of its ordering key is due
		}
	}
	e.end(o.flight)
}
