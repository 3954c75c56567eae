package outbox_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 6: a clean release gives the attempt back, whenever it comes.

// F09: stopping in the middle of a batch acknowledges rows that were never
// handled.
func TestStopInsideABatchAcknowledgesNoUnhandledRow(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		const rows = 8
		for position := 1; position <= rows; position++ {
			ids := f.enqueue(t, plainTopic, numbers(rows))
			ctx, cancel := context.WithCancel(t.Context())
			var calls atomic.Int64
			handled := map[outbox.ID]bool{} // one at a time
			r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
				handled[d.Message.ID] = true
				if calls.Add(1) == int64(position) {
					cancel()
				}
				return nil
			}))
			r.Concurrency = 1
			require.NoError(t, r.Start(ctx))
			require.GreaterOrEqual(t, len(handled), position)
			for i, id := range ids {
				m := f.row(t, id)
				require.Empty(t, m.token)
				if handled[id] {
					require.Equal(t, outbox.StatusSent, m.Status, "position %d, row %d", position, i)
					require.Equal(t, 1, m.Attempts)
					continue
				}
				require.Equal(t, outbox.StatusPending, m.Status, "position %d, row %d", position, i)
				require.Zero(t, m.Attempts)
				require.Equal(t, m.CreatedAt, m.AvailableAt)
			}
			f.exec(t, "DELETE FROM outbox_messages")
			f.committed = 0
		}
	})
}

// F18: shutdown closes things before deliveries end. It comes 50 times on each
// database, which is 200 times in all.
func TestShutdownAtAnyMomentIsClean(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		defer func() {
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		}()
		own := f.on(t)
		var mu sync.Mutex
		delivered := map[outbox.ID]int{}
		for run := range atScale(50, 200) {
			ids := f.enqueue(t, plainTopic, numbers(random.IntN(12)))
			if len(ids) > 3 && run%5 == 0 {
				f.abandon(t, 1, ids[0])
			}
			ctx, cancel := context.WithCancel(t.Context())
			// A moment is a step: a statement that is sent or answered, or a
			// delivery that begins.
			left := atomic.Int64{}
			left.Store(1 + int64(random.IntN(40)))
			step := func() {
				if left.Add(-1) == 0 {
					cancel()
				}
			}
			own.faults.onBefore(func(string) error { step(); return nil })
			own.faults.onAfter(func(string) error { step(); return nil })
			fails := random.IntN(3) == 0
			r := own.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
				step()
				mu.Lock()
				defer mu.Unlock()
				delivered[d.Message.ID]++
				if fails && d.Message.Attempts == 1 {
					return errors.New("not yet")
				}
				return nil
			}))
			r.Concurrency, r.Batch, r.Interval = 1+random.IntN(4), 1+random.IntN(10), time.Millisecond
			if random.IntN(2) == 0 {
				r.Retention = -1
			}
			require.NoError(t, r.Start(ctx), "run %d", run)
			cancel()
			own.faults.clear()
			if run%10 == 9 {
				f.makeDue(t)
			}
		}
		f.makeDue(t)
		drain(t, f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			mu.Lock()
			defer mu.Unlock()
			delivered[d.Message.ID]++
			return nil
		})))
		require.Equal(t, f.committed, f.count(t, outbox.StatusSent), "every row is sent in the end")
		require.Len(t, delivered, f.committed)
	})
}

// The outcomes of rows that somebody had locked are tried again however much
// there is to record.
func TestRecordingOfLockedRowsIsNotStarvedByLoad(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		first := f.enqueue(t, plainTopic, []string{"first"})[0]
		own := f.on(t)
		begun, finish, end := make(chan struct{}, 1), make(gate), make(gate)
		turns, returned := make(chan struct{}), make(chan struct{}, 1000)
		r := own.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			if d.Message.ID == first {
				note(begun, struct{}{})
				finish.pass(t)
				return nil
			}
			select {
			case <-turns:
			case <-end:
			}
			returned <- struct{}{}
			return nil
		}))
		stop := start(t, r)
		receive(t, begun, "the first delivery")
		unlock := f.lock(t, "SELECT 1 FROM outbox_messages WHERE id = ? FOR UPDATE", first)
		f.enqueue(t, plainTopic, numbers(900))
		// From now on another delivery ends while each settlement runs. The row is
		// locked during the first of them.
		var settled, tried atomic.Int64
		own.faults.onBefore(func(query string) error {
			if isSettle(query) {
				n := settled.Add(1)
				if n == 20 {
					unlock()
				}
				if strings.Contains(query, first.String()) {
					tried.Store(n)
				}
				select {
				case turns <- struct{}{}:
					<-returned
				case <-end:
				}
			}
			return nil
		})
		finish.open()
		eventually(t, func() bool { return f.get(t, first).Status == outbox.StatusSent }, "it is recorded")
		require.GreaterOrEqual(t, tried.Load(), int64(20))
		require.Less(t, tried.Load(), int64(890), "under load, which has not ended before")
		end.open()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 901 }, "all are sent")
		require.NoError(t, stop())
	})
}

// typedNil is an error whose methods fail on nil, as most do.
type typedNil struct{ text string }

func (e *typedNil) Error() string { return e.text }

// A handler that returns a nil pointer as an error must not take the process
// with it.
func TestHandlerErrorThatPanicsIsAFailedAttempt(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, []string{"a", "b"})
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			if d.Message.ID == ids[0] {
				var err *typedNil
				return err
			}
			return nil
		}))
		require.Equal(t, 1, drain(t, r))
		m := f.get(t, ids[0])
		require.Equal(t, outbox.StatusPending, m.Status)
		require.Equal(t, 1, m.Attempts)
		require.Contains(t, m.LastError, "nil pointer")
	})
}

// A start that is cut short must leave the application's connections as they
// were.
func TestCancelOfAStartLeavesThePoolAsItWas(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		own := f.on(t)
		for at := range int64(16) {
			ctx, cancel := context.WithCancel(t.Context())
			var steps atomic.Int64
			step := func(string) error {
				if steps.Add(1) > at {
					cancel()
				}
				return nil
			}
			own.faults.onBefore(step)
			own.faults.onAfter(step)
			require.NoError(t, own.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil })).Start(ctx))
			own.faults.clear()
			require.NoError(t, own.store.Validate(t.Context()), "after a start that ended at step %d", at)
		}
	})
}
