package outbox_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 2: at least once, and not more often than the database says.

func TestAtLeastOnceALostAnswerIsNotALostLease(t *testing.T) {
	for _, tt := range []struct {
		what   string
		result error
		want   outbox.Status
	}{
		{"sent", nil, outbox.StatusSent},
		{"parked", outbox.Permanent(errors.New("no")), outbox.StatusFailed},
		{"tried again", outbox.RetryAfter(time.Hour, errors.New("no")), outbox.StatusPending},
	} {
		for _, lost := range []string{"statement", "commit"} { // two on pgx; see TestLostAnswerToASettlementIsNoLostLease for the others
			t.Run(tt.what+", answer to the "+lost, func(t *testing.T) {
				on(t, everywhere[2:], func(t *testing.T, f *fixture) {
					ids := f.enqueue(t, plainTopic, numbers(3))
					var calls, faulted atomic.Int64
					var recording atomic.Bool
					times := map[string]int64{"statement": 1, "commit": 4}[lost] // a look may commit in between
					f.faults.onAfter(func(query string) error {
						recording.CompareAndSwap(false, isSettle(query))
						hit := isSettle(query)
						if lost == "commit" {
							hit = query == "COMMIT" && recording.Load()
						}
						if hit && faulted.Add(1) <= times {
							return io.ErrUnexpectedEOF
						}
						return nil
					})
					var l logs
					r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
						calls.Add(1)
						return tt.result
					}))
					r.Logger = l.logger()
					stop := start(t, r)
					eventually(t, func() bool { return calls.Load() == 3 && faulted.Load() >= times }, "answers are lost")
					require.NoError(t, stop(), "all are recorded")
					for _, id := range ids {
						m := f.get(t, id)
						require.Equal(t, tt.want, m.Status)
						require.Equal(t, 1, m.Attempts)
					}
					require.EqualValues(t, 3, calls.Load(), "none was delivered again")
					require.Zero(t, l.count("lease lost"))
				})
			})
		}
	}
}

// F19: the deadline of a delivery passes just as its handler returns nil.
func TestAcknowledgementOutlivesTheDeadlineOfItsDelivery(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(3))
		r := f.relay(handling(func(ctx context.Context, _ outbox.Delivery[order]) error {
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), context.DeadlineExceeded)
			return nil
		}))
		r.DeliverTimeout = 10 * time.Millisecond
		require.Equal(t, 3, drain(t, r))
		for _, id := range ids {
			m := f.get(t, id)
			require.Equal(t, outbox.StatusSent, m.Status)
			require.Equal(t, 1, m.Attempts)
			require.Empty(t, m.LastError)
		}
	})
}

func TestAtLeastOnceShutdownDoesNotCutOffRecording(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(5))
		var calls atomic.Int64
		var answers atomic.Bool
		refused := make(chan struct{}, 1000)
		f.faults.onBefore(func(query string) error {
			if isSettle(query) && !answers.Load() {
				refused <- struct{}{}
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			calls.Add(1)
			return nil
		}))
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- r.Start(ctx) }()
		receive(t, refused, "a refused recording")
		eventually(t, func() bool { return calls.Load() == 5 }, "all are delivered")
		cancel()
		for len(refused) > 0 {
			<-refused
		}
		receive(t, refused, "a try after the shutdown began")
		require.Empty(t, result, "Start waits for the recording")
		answers.Store(true)
		require.NoError(t, receive(t, result, "the end of Start"))
		for _, id := range ids {
			require.Equal(t, outbox.StatusSent, f.get(t, id).Status)
		}
		require.EqualValues(t, 5, calls.Load())
	})
}

// While the database is away, leases end. As long as nobody takes them over,
// what was delivered is still recorded.
func TestAtLeastOnceAnEndedLeaseIsNoReasonToStopRecording(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(5))
		var calls atomic.Int64
		var away atomic.Bool
		looks := make(chan struct{}, 1000)
		f.faults.onBefore(func(query string) error {
			if isSettle(query) {
				away.Store(true)
			}
			if !away.Load() {
				return nil
			}
			if strings.Contains(query, "m.status = 'pending'") || query == "BEGIN" {
				looks <- struct{}{}
			}
			return io.ErrUnexpectedEOF
		})
		var l logs
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			calls.Add(1)
			return nil
		}))
		r.Logger = l.logger()
		stop := start(t, r)
		eventually(t, func() bool { return calls.Load() == 5 }, "all are delivered")
		for range 6 { // by then no look is under way that began before the outage
			receive(t, looks, "a refused look")
		}
		require.Equal(t, 5, f.expireLeases(t))
		f.faults.clear()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 5 }, "all are recorded")
		require.NoError(t, stop())
		for _, id := range ids {
			require.Equal(t, 1, f.get(t, id).Attempts)
		}
		require.EqualValues(t, 5, calls.Load(), "none was delivered again")
		require.Zero(t, l.count("lease lost"))
	})
}
