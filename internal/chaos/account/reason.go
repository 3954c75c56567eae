package account

import (
	"fmt"
	"slices"
	"time"
)

// onItsWay is how long after the death of a relay its request may still reach
// the receiver, which shares two cores with everybody else.
const onItsWay = time.Second

// evidence is a Run, sorted for questions about one delivery.
type evidence struct {
	lease     time.Duration
	longest   time.Duration
	processes map[string]Process
	returns   map[delivery]Return
	losses    map[report]bool
	stuck     map[report]bool
	faults    []Fault
}

type (
	delivery struct {
		id    string
		claim int64
	}
	report struct{ id, process string }
)

func newEvidence(r *Run) *evidence {
	e := &evidence{
		lease: r.Lease, longest: r.Longest, processes: map[string]Process{}, returns: map[delivery]Return{},
		losses: map[report]bool{}, stuck: map[report]bool{}, faults: r.Faults,
	}
	for _, p := range r.Processes {
		e.processes[p.Name] = p
	}
	for _, ret := range r.Returns {
		e.returns[delivery{ret.ID, ret.Claim}] = ret
	}
	for _, l := range r.Losses {
		e.losses[report{l.ID, l.Process}] = true
	}
	for _, s := range r.Stuck {
		e.stuck[report{s.ID, s.Process}] = true
	}
	return e
}

// explanation is why the outcome of a delivery was not recorded as sent.
type explanation struct {
	reason Reason
	fault  Kind // that was behind it, "" if none had to be
}

var none explanation

// reason says why the outcome of a delivery that took effect was not recorded as
// sent, or fails with what is known.
func (e *evidence) reason(q Request, c *claim) (explanation, error) {
	p, known := e.processes[q.Process]
	ret, returned := e.returns[delivery{q.ID, q.Claim}]
	switch {
	case !known:
		return none, fmt.Errorf("there was no process %q", q.Process)
	case len(c.effects) > 1:
		return none, fmt.Errorf("%d effects under one claim of %q", len(c.effects), q.Process)
	case !c.takenOver():
		return e.reasonOfRecorded(q, c, p, ret, returned)
	case p.Killed && p.End <= c.endOr(p.End):
		if q.At > p.End+onItsWay {
			return none, fmt.Errorf("the effect came %v after %q was killed", q.At-p.End, p.Name)
		}
		return explanation{reason: ReasonKilled}, nil
	}

	// It ran on and could neither renew its lease nor record.
	from, to := c.leaseEndAt-e.lease, c.end
	if !c.ended {
		return none, fmt.Errorf("%q holds it still", c.by)
	}
	fault, found := e.faultOf(q.ID, p, from, to)
	if !found {
		return none, fmt.Errorf("%q lost its lease, renewed last at %v and taken over by %q at %v, and nothing had been done to it", p.Name, from, c.by2, to)
	}
	ranOn := p.End > c.end
	learnt := e.losses[report{q.ID, p.Name}] || returned && ret.Cause == CauseLeaseLost
	if ranOn && !p.Killed && !learnt {
		return none, fmt.Errorf("%q lost its lease at %v (%s) and never said so", p.Name, c.end, fault.Kind)
	}
	if !ranOn && p.Error == "" {
		return none, fmt.Errorf("%q stopped cleanly at %v and left it claimed", p.Name, p.End)
	}
	if fault.Kind.ofDatabase() && returned && ret.Error == "" && ret.At <= c.end {
		return explanation{ReasonSettle, fault.Kind}, nil
	}
	return explanation{ReasonLeaseLost, fault.Kind}, nil
}

// reasonOfRecorded is that of a delivery whose outcome was recorded as something
// else than sent: its handler must have returned an error because its context
// had ended, or the relay has given it up, which with these handlers takes a
// process that stood still.
func (e *evidence) reasonOfRecorded(q Request, c *claim, p Process, ret Return, returned bool) (explanation, error) {
	if e.stuck[report{q.ID, p.Name}] && c.to != "sent" {
		stood, found := e.faultOf(q.ID, p, c.at, c.end)
		if found && (stood.Kind == Stop || stood.Kind == Stall) && c.end-c.at >= e.longest {
			return explanation{ReasonTimedOut, stood.Kind}, nil
		}
		return none, fmt.Errorf("%q gave it up at %v, after %v", p.Name, c.end, c.end-c.at)
	}
	switch {
	case c.to == "sent":
		return none, fmt.Errorf("%q recorded it as sent at %v", c.by, c.end)
	case !returned:
		return none, fmt.Errorf("%q recorded it as %s at %v, and its handler had not returned", c.by, c.to, c.end)
	case ret.Error == "":
		return none, fmt.Errorf("the handler of %q returned nil at %v, and the row became %s at %v", c.by, ret.At, c.to, c.end)
	}
	switch ret.Cause {
	case CauseDeadline:
		return explanation{reason: ReasonTimedOut}, nil
	case CauseShutdown:
		return explanation{reason: ReasonCancelled}, nil
	case CauseLeaseLost:
		return explanation{reason: ReasonLeaseLost}, nil
	}
	return none, fmt.Errorf("the handler of %q returned %q at %v, and its context had not ended", c.by, ret.Error, ret.At)
}

func (c *claim) endOr(t time.Duration) time.Duration {
	if c.ended {
		return c.end
	}
	return t
}

// faultOf returns a fault that kept a process from renewing the lease of a message
// between from and to; of any message if id is "".
func (e *evidence) faultOf(id string, p Process, from, to time.Duration) (found Fault, ok bool) {
	for _, f := range e.faults {
		if f.End < from || f.Begin > to || f.Slot != "" && f.Slot != p.Slot || f.Process != "" && f.Process != p.Name {
			continue
		}
		if id != "" && f.IDs != nil && !slices.Contains(f.IDs, id) {
			continue
		}
		switch {
		case f.Kind == Stop:
			return f, true
		case f.Kind.ofDatabase():
			found, ok = f, true
		case f.Kind == Stall && !ok:
			found, ok = f, true
		}
	}
	return found, ok
}
