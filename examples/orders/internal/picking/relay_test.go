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
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/shop"
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/warehouse"
	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
	"github.com/typedoutbox/typedoutbox/topics"
)

// order is what most tests deliver.
var order = events.OrderCreated{OrderID: "ord_1", CustomerID: "ann", Number: 1, SKU: "lamp", Quantity: 2}

// newRelay returns a relay that tells a warehouse what is in db.
func newRelay(t *testing.T, db *bun.DB, warehouse http.Handler) *outbox.Relay {
	t.Helper()
	server := httptest.NewServer(warehouse)
	t.Cleanup(server.Close)
	client := &picking.Client{URL: server.URL, HTTP: server.Client()}
	relay := picking.NewRelay("relay", db, client, slog.New(slog.DiscardHandler))
	relay.ClaimTimeout = time.Minute // a slow machine is no crash
	return relay
}

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

func TestHandlerTellsTheWarehouse(t *testing.T) {
	t.Parallel()
	warehouse := &recorder{status: http.StatusNoContent}
	o := testutil.Deliver(t, newRelay(t, nil, warehouse).Mux, events.OrderCreatedTopic, order).Require(t, testutil.Sent)
	require.Equal(t, []string{o.Message.ID.String()}, warehouse.ids)
	require.Equal(t, []picking.Pick{picking.Pick(order)}, warehouse.picks)
}

// What a shop of the last release has stored is picked as well.
func TestOrdersOfVersion1ArePicked(t *testing.T) {
	t.Parallel()
	type orderCreatedV1 struct { // as it is in the rows
		OrderID    string `json:"order_id"`
		CustomerID string `json:"customer_id"`
		Number     int    `json:"number"`
		SKU        string `json:"sku"`
		Quantity   int    `json:"quantity"`
	}
	stored := topics.New[orderCreatedV1](events.OrderCreatedTopic.Name(), nil)
	warehouse := &recorder{status: http.StatusNoContent}
	o := testutil.Deliver(t, newRelay(t, nil, warehouse).Mux, stored, orderCreatedV1(order))
	require.Equal(t, testutil.Sent, o.Result, o)
	require.Equal(t, 1, o.Message.Version)
	require.Equal(t, []picking.Pick{picking.Pick(order)}, warehouse.picks)
}

func TestHandlerHeedsTheAnswer(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		warehouse *recorder
		want      testutil.Result
		wait      time.Duration // at least
	}{
		"out of order":  {&recorder{status: http.StatusInternalServerError}, testutil.Retried, 0},
		"busy":          {&recorder{status: http.StatusTooManyRequests}, testutil.Retried, 0},
		"busy, a while": {&recorder{status: http.StatusTooManyRequests, retryAfter: "60"}, testutil.Retried, time.Minute},
		"refused":       {&recorder{status: http.StatusUnprocessableEntity}, testutil.Parked, 0},
		"gone":          {&recorder{status: http.StatusGone}, testutil.Parked, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := testutil.Deliver(t, newRelay(t, nil, tc.warehouse).Mux, events.OrderCreatedTopic, order).Require(t, tc.want)
			require.Contains(t, o.Message.LastError, http.StatusText(tc.warehouse.status))
			require.GreaterOrEqual(t, o.Wait(), tc.wait)
		})
	}
}

func TestHandlerTriesAgainWhenNobodyAnswers(t *testing.T) {
	t.Parallel()
	hangsUp := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	o := testutil.Deliver(t, newRelay(t, nil, hangsUp).Mux, events.OrderCreatedTopic, order).Require(t, testutil.Retried)
	require.Equal(t, 1, o.Message.Attempts)
}

func TestHandlerSpendsNoAttemptWhileTheWarehouseIsDown(t *testing.T) {
	t.Parallel()
	relay := picking.NewRelay("relay", nil, &picking.Client{URL: "http://127.0.0.1:1"}, slog.New(slog.DiscardHandler))
	o := testutil.Deliver(t, relay.Mux, events.OrderCreatedTopic, order).Require(t, testutil.Retried)
	require.Zero(t, o.Message.Attempts)
	require.NotZero(t, o.Message.UnavailableSince)
}

var databases = testutil.Template{Migrate: func(ctx context.Context, db *bun.DB) error {
	if err := shop.Migrate(ctx, db); err != nil {
		return err
	}
	customers := []shop.Customer{{ID: "ann", Credit: 1_000}, {ID: "bob", Credit: 1_000}}
	_, err := db.NewInsert().Model(&customers).Exec(ctx)
	return err
}}

// place orders a lamp for each of these customers.
func place(t *testing.T, db *bun.DB, customers ...string) {
	t.Helper()
	service := shop.Service{DB: db}
	for _, customer := range customers {
		_, err := service.Place(t.Context(), shop.NewOrder{CustomerID: customer, SKU: "lamp", Quantity: 1, Total: 100})
		require.NoError(t, err)
	}
}

// From the shop to the warehouse and back again: what is placed is picked, once,
// whoever dies in between.
func TestAnOrderIsPickedOnce(t *testing.T) {
	t.Parallel()
	db := databases.SQLite(t)
	house := warehouse.New(warehouse.Options{HoldAfter: 1_000, Luck: func() float64 { return warehouse.FailureRate }})
	place(t, db, "ann", "bob", "ann")

	picked := func() any { return house.Orders() }
	testutil.RequireIdempotent(t, newRelay(t, db, house), picked).RequireSent(t, 3)
	require.Equal(t, warehouse.Counts{Calls: 6, Picked: 3, Duplicates: 3}, house.Counts())
}

// While an order fails, the next of its customer waits, and nobody else's does.
func TestOrdersOfACustomerKeepTheirOrder(t *testing.T) {
	t.Parallel()
	db := databases.SQLite(t)
	var picked []string
	var down sync.Once
	relay := newRelay(t, db, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		down.Do(func() { w.WriteHeader(http.StatusServiceUnavailable) })
		var p picking.Pick
		_ = json.NewDecoder(r.Body).Decode(&p)
		picked = append(picked, p.CustomerID)
	}))
	relay.Concurrency = 1
	relay.BaseBackoff, relay.MaxBackoff = time.Minute, time.Minute
	place(t, db, "ann", "ann", "bob")

	testutil.Drain(t, relay).Require(t, testutil.Retried, testutil.Waiting, testutil.Sent)
	testutil.Advance(t, db, 2*time.Minute)
	testutil.Drain(t, relay).RequireSent(t, 2)
	require.Equal(t, []string{"ann", "bob", "ann", "ann"}, picked)
}
