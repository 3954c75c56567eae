package outbox

import (
	"context"
	"sync"
	"time"
)

// orphans releases the rows of claims that may or may not have been committed:
// the client gave up before the server answered.
type orphans struct {
	sync.WaitGroup
	engine *engine
	stop   context.Context // ends the trying, after one last time
}

// release goes on until the claim can no longer come through: it has expired,
// and a release after that has left nothing. If it never does, the rows become
// suspects when their leases end.
func (o *orphans) release(work context.Context, tokens [3]ID) {
	e := o.engine
	expired := time.Now().Add(2 * patience(e.claimStatement))
	o.Go(func() {
		for n := 1; ; n++ {
			late := time.Now().After(expired)
			stopped := o.stop.Err() != nil
			left, err := e.session.releaseTokens(work, e.claimStatement, tokens)
			if late && err == nil && left == 0 || stopped || time.Since(expired) > e.claimTimeout {
				return
			}
			_ = sleep(o.stop, pause(n))
		}
	})
}
