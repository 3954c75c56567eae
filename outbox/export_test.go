package outbox

import (
	"context"
	"slices"
	"time"
)

// For the tests of the external test package.
var (
	Backoff        = backoff
	UnknownOutcome = unknownOutcome
	ProbeWait      = probeWait
)

// MaxOutageOf is the MaxOutage with which a relay would run.
func MaxOutageOf(r *Relay) time.Duration {
	cfg, err := r.settings()
	if err != nil {
		panic(err)
	}
	return cfg.maxOutage
}

// RelayStatements are the statements of a relay without its loops: a test
// decides which is sent when, however late.
type RelayStatements struct{ engine *engine }

// StatementsOf returns those of a relay that need not run.
func StatementsOf(r *Relay) (RelayStatements, error) {
	cfg, err := r.settings()
	if err != nil {
		return RelayStatements{}, err
	}
	return RelayStatements{newEngine(cfg, make(chan struct{}, 1), &registration{}, true)}, nil
}

type (
	// Flight is a claimed row as the relay knows it that has claimed it.
	Flight = flight
	// Outcome is what is to be recorded of a flight.
	Outcome = outcome
)

// Claim sends a claim under these tokens, and a deep one if nothing due was taken,
// as a relay does.
func (s RelayStatements) Claim(ctx context.Context, limit int, suspect bool, own []ID, tokens [3]ID) ([]*Flight, error) {
	e := s.engine
	req := claimRequest{
		take: e.take, limit: limit, suspect: suspect, own: own, name: e.name,
		lease: e.claimTimeout, deadline: e.claimStatement, tokens: tokens,
	}
	rows, err := e.session.claim(ctx, req)
	if err == nil && !slices.ContainsFunc(rows, func(c claimed) bool { return c.kind == claimDue }) {
		req.deep, req.suspect = true, false
		var behind []claimed
		behind, err = e.session.claim(ctx, req)
		rows = append(rows, behind...)
	}
	flights := make([]*Flight, len(rows))
	for i, c := range rows {
		flights[i] = &flight{lease: lease{ID: c.msg.ID, Token: tokens[c.kind]}, msg: c.msg, kind: c.kind, due: c.due}
	}
	return flights, err
}

// Record records outcomes of different rows and says which must be tried again,
// and which were found to be lost. The rest is recorded.
func (s RelayStatements) Record(ctx context.Context, outcomes []Outcome) (again, lost map[ID]bool, err error) {
	for i, o := range outcomes {
		f := *o.flight
		f.lost = false
		outcomes[i].flight = &f
	}
	left, err := s.engine.recordAll(ctx, outcomes)
	again, lost = map[ID]bool{}, map[ID]bool{}
	for _, o := range left {
		again[o.flight.ID] = true
	}
	for _, o := range outcomes {
		if o.flight.lost {
			lost[o.flight.ID] = true
		}
	}
	return again, lost, err
}

// Renew prolongs leases and returns the rows of those that it could.
func (s RelayStatements) Renew(ctx context.Context, flights []*Flight) (map[ID]bool, error) {
	leases := make([]lease, len(flights))
	for i, f := range flights {
		leases[i] = f.lease
	}
	return s.engine.session.renew(ctx, s.engine.renewalStatement, s.engine.claimTimeout, leases)
}

// ReleaseTokens gives up a claim whose answer was lost.
func (s RelayStatements) ReleaseTokens(ctx context.Context, tokens [3]ID) (left int, err error) {
	return s.engine.session.releaseTokens(ctx, s.engine.claimStatement, tokens)
}

// Disown gives up claims whose outcome is unknown, in the way of a running relay
// that is being stopped: once, or a little later. It returns how to wait for that.
func (s RelayStatements) Disown() (release func(ctx context.Context, tokens [3]ID), wait func()) {
	stopped, stop := context.WithCancel(context.Background())
	stop()
	o := &orphans{engine: s.engine, stop: stopped}
	return o.release, o.Wait
}

// Sweep deletes at most limit rows as the relay does.
func (s RelayStatements) Sweep(ctx context.Context, olderThan time.Duration, limit int) (int, error) {
	return s.engine.session.sweep(ctx, statementTimeout, s.engine.take.sweeps(), olderThan, limit)
}

// Message is the row as the claim returned it.
func (f *flight) Message() Message { return f.msg }

// Kind is how the row came to be claimed, as an index of the tokens.
func (f *flight) Kind() int { return int(f.kind) }

// Sent, Parked, Retried, Unavailable and Released are the outcomes of a flight.
func (f *flight) Sent() Outcome                { return f.sent() }
func (f *flight) Parked(reason string) Outcome { return f.parked(reason) }
func (f *flight) Released() Outcome            { return f.released() }
func (f *flight) Retried(wait time.Duration, reason string) Outcome {
	return f.retried(wait, reason)
}

func (f *flight) Unavailable(wait time.Duration, reason string) Outcome {
	return f.postponed(wait, reason)
}

// Next is the token of a row that stays claimed, or zero.
func (o outcome) Next() ID {
	if o.verdict.Next == nil {
		return ID{}
	}
	return *o.verdict.Next
}
