package outbox

import (
	"context"
	"slices"
	"time"

	"github.com/uptrace/bun"
)

// renewBatch is how many leases one statement prolongs at most.
const renewBatch = 1000

// renewLoop prolongs the leases of everything in flight, four times a lease,
// until ctx ends. On Postgres it holds a connection of its own, so that an
// exhausted pool does not cost leases.
func (e *engine) renewLoop(ctx context.Context) {
	conn := &ownConn{db: e.db, session: e.session}
	defer conn.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-e.renewN:
		}
		timer.Reset(e.renewAll(ctx, conn))
	}
}

// renewAll makes one pass and returns when the next is due.
func (e *engine) renewAll(ctx context.Context, conn *ownConn) time.Duration {
	soon := min(time.Second, e.claimTimeout/10)
	sess, err := conn.get(ctx, e.renewalStatement)
	allTouched := true
	flights := e.renewable()
	if err == nil {
		for chunk := range slices.Chunk(flights, renewBatch) {
			var touched bool
			if touched, err = e.renewSome(ctx, sess, chunk); err != nil {
				break
			}
			allTouched = allTouched && touched
		}
	}
	if err != nil {
		conn.close()
		if ctx.Err() != nil {
			return soon
		}
		if classify(err) == failureContention && conn.collided.another() {
			return conn.collided.wait()
		}
		e.mu.Lock()
		e.suspectsBlocked = true
		e.mu.Unlock()
		return min(soon, e.outage(ctx, "renew", err))
	}
	conn.collided = collisions{}
	if len(flights) > 0 {
		e.health.ok("renew")
	} else {
		e.health.drop("renew")
	}
	if !e.health.isFailing("claim", "record") { // a sweep may fail for ever, for want of the privilege
		e.mu.Lock()
		if e.suspectsBlocked {
			e.suspectsBlocked = false
			e.suspectsAfter = time.Now().Add(e.claimTimeout / 2)
		}
		e.mu.Unlock()
	}
	if !allTouched {
		return soon
	}
	return e.claimTimeout / 4
}

func (e *engine) renewable() []*flight {
	e.mu.Lock()
	defer e.mu.Unlock()
	flights := make([]*flight, 0, len(e.flights))
	for _, f := range e.flights {
		flights = append(flights, f)
	}
	return flights
}

// renewSome prolongs some leases, finds out about those that it could not, and
// reports whether every row could be had.
func (e *engine) renewSome(ctx context.Context, sess session, flights []*flight) (bool, error) {
	leases := make([]lease, len(flights))
	for i, f := range flights {
		leases[i] = f.lease
	}
	begun := time.Now()
	renewed, err := sess.renew(ctx, e.renewalStatement, e.claimTimeout, leases)
	if err != nil {
		return false, err
	}
	var ids []ID
	e.mu.Lock()
	for _, f := range flights {
		if renewed[f.ID] {
			f.until = begun.Add(e.claimTimeout)
		} else if f.state != flightSettling { // the recorder finds out about those
			ids = append(ids, f.ID)
		}
	}
	e.mu.Unlock()
	if len(ids) == 0 {
		return true, nil
	}
	found, err := sess.holdings(ctx, e.renewalStatement, ids)
	if err != nil {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	allTouched := true
	for _, f := range flights {
		switch {
		case renewed[f.ID] || f.state == flightSettling || f.lost:
		case found[f.ID].token == f.Token:
			allTouched = false // locked by somebody
		default:
			e.lose(f)
		}
	}
	return allTouched, nil
}

// ownConn is a connection held apart from the pool's traffic. On SQLite it is
// the pool.
type ownConn struct {
	db      *bun.DB
	session session
	conn    *bun.Conn

	collided collisions // of renewals
}

func (c *ownConn) get(ctx context.Context, timeout time.Duration) (session, error) {
	if !c.session.postgres {
		return c.session, nil
	}
	if c.conn == nil {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		conn, err := c.db.Conn(ctx)
		if err != nil {
			return session{}, err
		}
		c.conn = &conn
	}
	sess := c.session
	sess.db = *c.conn
	return sess, nil
}

func (c *ownConn) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}
