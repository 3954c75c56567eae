package outbox

import (
	"context"
	"slices"
	"sync"
	"time"
)

// orphans releases the rows of claims that may or may not have been committed:
// the client gave up before the server answered. One goroutine works on all of
// them, however many an outage makes.
type orphans struct {
	sync.WaitGroup
	engine *engine
	stop   context.Context // ends the trying, after one last time

	mu      sync.Mutex
	claims  []orphan
	running bool
}

// orphan is one such claim.
type orphan struct {
	tokens  [3]ID
	expired time.Time // then it can no longer come through
}

// release goes on until the claim can no longer come through: it has expired,
// and a release after that has left nothing. If it never does, the rows become
// suspects when their leases end.
func (o *orphans) release(work context.Context, tokens [3]ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.claims = append(o.claims, orphan{tokens: tokens, expired: time.Now().Add(2 * patience(o.engine.claimStatement))})
	if !o.running {
		o.running = true
		o.Go(func() { o.run(work) })
	}
}

func (o *orphans) run(work context.Context) {
	for n := 1; ; n++ {
		now, stopped := time.Now(), o.stop.Err() != nil
		o.mu.Lock()
		tokens := make([][3]ID, len(o.claims))
		for i, c := range o.claims {
			tokens[i] = c.tokens
		}
		o.mu.Unlock()
		left, err := o.engine.session.releaseTokens(work, o.engine.claimStatement, tokens...)

		o.mu.Lock()
		asked := slices.DeleteFunc(o.claims[:len(tokens):len(tokens)], func(c orphan) bool {
			sure := err == nil && left == 0 && now.After(c.expired)
			return sure || stopped || now.Sub(c.expired) > o.engine.claimTimeout
		})
		o.claims = append(asked, o.claims[len(tokens):]...)
		if len(o.claims) == 0 {
			o.running = false
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		_ = sleep(o.stop, pause(n))
	}
}
