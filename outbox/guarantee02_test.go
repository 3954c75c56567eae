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

// Guarantee 2: at least once.

func TestAtLeastOnceUntilTheHandlerReturnsNil(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, []string{"a"})
		var calls atomic.Int64
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			if calls.Add(1) < 4 {
				return errors.New("not yet")
			}
			return nil
		}))
		r.BaseBackoff = time.Hour
		for want := range 3 {
			require.Zero(t, drain(t, r), "attempt %d", want+1)
			m := f.get(t, ids[0])
			require.Equal(t, outbox.StatusPending, m.Status)
			require.Equal(t, want+1, m.Attempts)
			require.Equal(t, "not yet", m.LastError)
			require.Zero(t, drain(t, r), "it is not due yet")
			f.makeDue(t)
		}
		require.Equal(t, 1, drain(t, r))
		m := f.get(t, ids[0])
		require.Equal(t, outbox.StatusSent, m.Status)
		require.False(t, m.SentAt.IsZero())
		require.Zero(t, drain(t, r))
		require.EqualValues(t, 4, calls.Load())
	})
}

func TestAtLeastOnceRecordsThroughAnOutage(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, numbers(20))
		var calls, refused atomic.Int64
		f.faults.onBefore(func(query string) error {
			if isSettle(query) && refused.Add(1) <= 5 {
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		stop := start(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			calls.Add(1)
			return nil
		})))
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 20 }, "all are recorded")
		require.NoError(t, stop())
		require.EqualValues(t, 20, calls.Load(), "none was delivered again")
		require.GreaterOrEqual(t, refused.Load(), int64(5))
	})
}

func TestAtLeastOnceStartReturnsWhatCouldNotBeRecorded(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayStayClaimed = true
		ids := f.enqueue(t, plainTopic, []string{"a", "b"})
		var both atomic.Bool // handlers have returned
		f.faults.onBefore(func(query string) error {
			if isSettle(query) {
				if strings.Contains(query, ids[0].String()) && strings.Contains(query, ids[1].String()) {
					both.Store(true)
				}
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		r.ShutdownTimeout = 300 * time.Millisecond
		stop := start(t, r)
		eventually(t, both.Load, "both are to be recorded")
		require.ErrorContains(t, stop(), "2 outcomes could not be recorded")
	})
}
