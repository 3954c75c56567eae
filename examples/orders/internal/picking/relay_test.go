package picking_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/examples/orders/events"
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/picking"
	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
)

// recorder is a warehouse that answers the same to everybody and remembers what
// it was asked.
type recorder struct {
	status     int
	retryAfter string

	mu    sync.Mutex
	ids   []string
	picks []picking.Pick
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var p picking.Pick
	if err := json.NewDecoder(req.Body).Decode(&p); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.ids = append(r.ids, req.Header.Get(picking.MessageIDHeader))
	r.picks = append(r.picks, p)
	if r.retryAfter != "" {
		w.Header().Set("Retry-After", r.retryAfter)
	}
	w.WriteHeader(r.status)
}

// deliver enqueues an order and lets a relay deliver what is due to warehouse.
func deliver(t *testing.T, warehouse http.Handler) outbox.Message {
	t.Helper()
	server := httptest.NewServer(warehouse)
	defer server.Close()
	return deliverTo(t, server)
}

func deliverTo(t *testing.T, server *httptest.Server) outbox.Message {
	t.Helper()
	db := testutil.SQLite(t)
	err := db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		return outbox.Enqueue(ctx, tx, events.OrderCreatedTopic, events.OrderCreated{OrderID: "ord_1", CustomerID: "ann", Number: 1, SKU: "lamp", Quantity: 2})
	})
	require.NoError(t, err)
	relay := picking.NewRelay("relay", db, &picking.Client{URL: server.URL, HTTP: server.Client()}, slog.New(slog.DiscardHandler))
	_, err = relay.Drain(t.Context())
	require.NoError(t, err)
	return testutil.RequireEnqueued(t, db, events.OrderCreatedTopic).Message
}

func TestRelayTellsTheWarehouse(t *testing.T) {
	warehouse := &recorder{status: http.StatusNoContent}
	message := deliver(t, warehouse)
	require.Equal(t, outbox.StatusSent, message.Status)
	require.Equal(t, []string{message.ID.String()}, warehouse.ids)
	require.Equal(t, []picking.Pick{{OrderID: "ord_1", CustomerID: "ann", Number: 1, SKU: "lamp", Quantity: 2}}, warehouse.picks)
}

func TestRelayHeedsTheAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		warehouse *recorder
		want      outbox.Status
		wait      time.Duration // at least
	}{
		"out of order":  {&recorder{status: http.StatusInternalServerError}, outbox.StatusPending, 0},
		"busy":          {&recorder{status: http.StatusTooManyRequests}, outbox.StatusPending, 0},
		"busy, a while": {&recorder{status: http.StatusTooManyRequests, retryAfter: "60"}, outbox.StatusPending, 50 * time.Second},
		"refused":       {&recorder{status: http.StatusUnprocessableEntity}, outbox.StatusFailed, 0},
		"gone":          {&recorder{status: http.StatusGone}, outbox.StatusFailed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			message := deliver(t, tc.warehouse)
			require.Equal(t, tc.want, message.Status)
			require.Contains(t, message.LastError, http.StatusText(tc.warehouse.status))
			require.GreaterOrEqual(t, message.AvailableAt.Sub(message.UpdatedAt), tc.wait)
		})
	}
}

func TestRelayTriesAgainWhenNobodyAnswers(t *testing.T) {
	message := deliver(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	require.Equal(t, outbox.StatusPending, message.Status)
	require.NotEmpty(t, message.LastError)
}

func TestRelaySpendsNoAttemptWhileTheWarehouseIsDown(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	message := deliverTo(t, server)
	require.Equal(t, outbox.StatusPending, message.Status)
	require.Zero(t, message.Attempts)
	require.NotZero(t, message.UnavailableSince)
}
