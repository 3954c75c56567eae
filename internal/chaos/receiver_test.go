//go:build linux

package main

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
)

func TestReceiver(t *testing.T) {
	t.Parallel()
	tests := []struct {
		plan    plan
		fails   [2]bool // the first and the second delivery
		effects [2]bool
	}{
		{"", [2]bool{false, false}, [2]bool{true, true}},
		{planSlow, [2]bool{false, false}, [2]bool{true, true}},
		{planHang, [2]bool{true, false}, [2]bool{true, true}},
		{planLate, [2]bool{true, false}, [2]bool{true, true}},
		{planFlaky, [2]bool{true, false}, [2]bool{false, true}},
		{planRefuse, [2]bool{true, true}, [2]bool{false, false}},
	}
	for _, tt := range tests {
		t.Run(string(tt.plan), func(t *testing.T) {
			t.Parallel()
			r, err := newReceiver(clock{realTime()})
			require.NoError(t, err)
			t.Cleanup(r.close)
			c := &courier{task: task{Receiver: r.url}, log: slog.New(slog.DiscardHandler), client: &http.Client{Transport: &http.Transport{}}}
			t.Cleanup(c.client.CloseIdleConnections)
			for n := range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				begun := r.clock.now()
				err := c.post(ctx, delivery{ID: "m", Process: "p", Claim: int64(n), Attempt: n + 1, Plan: tt.plan})
				cancel()
				require.Equal(t, tt.fails[n], err != nil, err)
				require.Eventually(t, func() bool { return len(r.all()) > n }, 10*time.Second, time.Millisecond)
				q := r.all()[n]
				require.GreaterOrEqual(t, q.At, begun)
				q.At = 0
				require.Equal(t, account.Request{ID: "m", Process: "p", Claim: int64(n), Attempt: n + 1, Effect: tt.effects[n]}, q)
			}
		})
	}
}

func TestReceiverTellsWhenARelayIsBusy(t *testing.T) {
	t.Parallel()
	r, err := newReceiver(clock{realTime()})
	require.NoError(t, err)
	t.Cleanup(r.close)
	begun := time.Now()
	r.busy(t.Context(), "p", 1, time.Millisecond)
	require.Less(t, time.Since(begun), 10*time.Second, "it does not wait for ever")
	r.inFlight["p"] = 1
	r.busy(t.Context(), "p", 1, time.Hour)
}
