package outbox

import (
	"context"
	"strings"
	"time"
)

// sweepLoop deletes what is past its retention, of the topics that this relay
// takes, until ctx ends. Relays do not get into each other's way: each skips
// what another has locked. It works beside deliveries, never instead of them,
// and rests as long as it works.
func (e *engine) sweepLoop(ctx context.Context) {
	if e.retention < 0 {
		return
	}
	every := min(max(e.retention/10, time.Second), time.Minute)
	for wait := jitter(min(every, 10*time.Second)); sleep(ctx, wait) == nil; wait = jitter(every) {
		for {
			begun := time.Now()
			n, err := e.session.sweep(ctx, statementTimeout, e.take.sweeps(), e.retention, operationBatch)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				if classify(err) != failureContention {
					e.health.fail("sweep", err)
				}
				break
			}
			e.answered("sweep")
			if n < operationBatch || sleep(ctx, time.Since(begun)) != nil {
				break
			}
		}
	}
}

// sweeps is a condition on the row m: its topic is one that this relay takes.
func (t takeSet) sweeps() string {
	if len(t.listed) == 0 {
		return withPrefix("m.topic", t.prefix)
	}
	names := make([]string, len(t.listed))
	for i, l := range t.listed {
		names[i] = quote(l.name)
	}
	return "m.topic IN (" + strings.Join(names, ", ") + ")"
}
