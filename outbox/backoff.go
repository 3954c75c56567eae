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

// maxCollisions in a row are no chance any more; the next one is an outage, which
// is logged.
const maxCollisions = 30

// collision returns how long to wait before a statement is sent again that has
// collided with another transaction n times in a row, from 1: next to nothing,
// and 64 ms at most.
func collision(n int) time.Duration {
	return jitter(time.Millisecond << min(n, 6))
}

// pause returns how long to wait before asking a database again that has
// failed n times in a row, from 1: 50 ms doubling to 1 s, jittered.
func pause(n int) time.Duration {
	return jitter(min(50*time.Millisecond<<min(n-1, 5), time.Second))
}
