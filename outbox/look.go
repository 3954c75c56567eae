package outbox

import (
	"context"
	"maps"
	"slices"
	"time"
)

// look claims what is due and hands it out. It returns how many rows it took.
func (e *engine) look(work context.Context, disowned *orphans) (int, error) {
	e.mu.Lock()
	errands := e.errands(time.Now())
	e.mu.Unlock()
	taken := 0
	for _, errand := range errands {
		run := e.takeDue
		if errand.probe != nil {
			run = e.probe
		}
		n, err := run(work, disowned, errand)
		taken += n
		if err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// takeDue claims what there is room for, and a suspect from time to time.
func (e *engine) takeDue(work context.Context, disowned *orphans, errand errand) (int, error) {
	begun := time.Now()
	e.mu.Lock()
	room := max(e.batch-len(e.ready), 1)
	suspect := e.maySuspect(begun) && (e.drain || !begun.Before(e.suspectLook))
	if suspect {
		e.suspectLook = begun.Add(e.interval)
	}
	e.mu.Unlock()
	n, err := e.claim(work, disowned, errand, room, e.lookDeep, suspect)
	if err == nil && n == 0 && !e.lookDeep {
		// What is in front may be locked. An idle relay goes on with deep looks,
		// which cost it nothing more.
		n, err = e.claim(work, disowned, errand, room, true, false)
	}
	e.lookDeep = err != nil || n == 0
	if err != nil && suspect {
		e.mu.Lock()
		e.suspectLook = begun
		e.mu.Unlock()
	}
	return n, err
}

// probe claims one message of a paused topic: a suspect if nothing else is due.
func (e *engine) probe(work context.Context, disowned *orphans, errand errand) (int, error) {
	begun := time.Now()
	n, err := e.claim(work, disowned, errand, 1, true, false)
	e.mu.Lock()
	suspect := e.maySuspect(begun)
	e.mu.Unlock()
	if err == nil && n == 0 && suspect {
		n, err = e.claim(work, disowned, errand, 0, false, true)
	}
	if err != nil {
		return n, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if n == 0 {
		e.idle(errand.probe, begun)
	} else {
		errand.probe.idleSince, errand.probe.idleLooks = time.Time{}, 0
	}
	return n, nil
}

// claim runs one claim, of so many due rows at most.
func (e *engine) claim(work context.Context, disowned *orphans, errand errand, limit int, deep, suspect bool) (int, error) {
	req := claimRequest{
		take: errand.take, limit: limit, deep: deep, suspect: suspect, name: e.name, lease: e.claimTimeout, deadline: e.claimStatement,
	}
	for i := range req.tokens {
		token, err := newToken()
		if err != nil {
			return 0, err
		}
		req.tokens[i] = token
	}
	begun := time.Now() // before the statement, whose time starts the lease
	if req.suspect {
		e.mu.Lock()
		req.own = e.tokens()
		e.mu.Unlock()
	}
	rows, err := e.session.claim(work, req)
	if err != nil {
		if unknownOutcome(err) {
			disowned.release(work, req.tokens)
		}
		return 0, err
	}
	e.answered("claim")
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range rows {
		if c.unreadable != nil {
			e.log.Error("outbox: a row cannot be read, so it is not delivered; repair it or delete it", "id", c.msg.ID, "error", c.unreadable)
			continue
		}
		e.admit(c, req, begun, errand.probe)
	}
	e.dispatch()
	return len(rows), nil
}

// maySuspect reports whether the next claim may look for a row whose lease has
// expired. The caller holds mu.
func (e *engine) maySuspect(now time.Time) bool {
	return e.suspectFlights == 0 && !e.suspectsBlocked && !now.Before(e.suspectsAfter)
}

// tokens returns the tokens of all flights, each once. The caller holds mu.
func (e *engine) tokens() []ID {
	tokens := map[ID]bool{}
	for _, f := range e.flights {
		tokens[f.Token] = true
	}
	return slices.Collect(maps.Keys(tokens))
}

// admit takes a claimed row into the relay. The caller holds mu.
func (e *engine) admit(c claimed, req claimRequest, begun time.Time, probe *topicPause) {
	if old := e.flights[c.msg.ID]; old != nil { // its outcome is recorded, but the answer was lost
		e.lose(old)
	}
	f := &flight{
		lease: lease{ID: c.msg.ID, Token: req.tokens[c.kind]},
		msg:   c.msg, kind: c.kind, due: c.due, ordered: c.msg.OrderKey != "",
		until: begun.Add(e.claimTimeout), probe: probe,
	}
	e.flights[f.ID] = f
	if probe != nil {
		probe.probes++
		e.probing++
	}
	if f.isSuspect() {
		f.suspected = true
		e.suspectFlights++
	}
	if f.kind == claimExhausted {
		const reason = "lease expired on the last attempt"
		e.log.Error("outbox: parked, since whoever delivered it died or stalled each time", "topic", f.msg.Topic, "id", f.msg.ID, "attempts", f.msg.Attempts)
		e.metrics.parked(f.msg.Topic)
		e.finish(f.parked(reason))
		return
	}
	if e.isPaused(f) {
		e.release(f)
		return
	}
	if f.isSuspect() {
		e.log.Info("outbox: taking over a message whose lease has ended", f.attrs("attempt", f.msg.Attempts)...)
		e.ready = slices.Insert(e.ready, 0, f)
		return
	}
	e.ready = append(e.ready, f)
}
