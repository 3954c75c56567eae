package outbox

import (
	"math/rand/v2"
	"time"
)

// minBackoff is the shortest wait between two attempts. It keeps a row that
// always fails from becoming a tight loop.
const minBackoff = 100 * time.Millisecond

// backoff returns the wait after attempt n, from 1: min(base * 2^(n-1), limit)
// and jitter of 10 % either way, at least minBackoff and never above limit.
func backoff(n int, base, limit time.Duration) time.Duration {
	d := limit
	if shift := n - 1; shift < 62 && base <= limit>>shift {
		d = base << shift
	}
	d += time.Duration((rand.Float64()*0.2 - 0.1) * float64(d))
	return min(max(d, minBackoff), limit)
}

// jitter returns d and up to 10 % either way, so that relays started together
// do not look together.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()*0.2-0.1)*float64(d))
}

// So many collisions in a row, or collisions for so long, are no chance any more.
const (
	maxCollisions = 30
	maxColliding  = statementTimeout
)

// collisions counts how often in a row a statement has collided with another
// transaction. The zero value is none.
type collisions struct {
	n     int
	since time.Time
}

// another counts one more and reports whether it may still be chance. If it is
// not, it is an outage, which is logged. Where a collision is noticed only after a
// while, as on SQLite after its busy_timeout, a few of them are enough.
func (c *collisions) another() bool {
	if c.n++; c.n == 1 {
		c.since = time.Now()
	}
	return c.n <= maxCollisions && time.Since(c.since) < maxColliding
}

// wait returns how long to wait before the statement is sent again: next to
// nothing, and 64 ms at most.
func (c *collisions) wait() time.Duration {
	return jitter(time.Millisecond << min(c.n, 6))
}

// pause returns how long to wait before asking a database again that has
// failed n times in a row, from 1: 50 ms doubling to 1 s, jittered.
func pause(n int) time.Duration {
	return jitter(min(50*time.Millisecond<<min(n-1, 5), time.Second))
}
