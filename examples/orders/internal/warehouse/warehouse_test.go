package warehouse_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/examples/orders/internal/picking"
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/warehouse"
)

const (
	fails           = warehouse.FailureRate / 4
	failsAfterwards = warehouse.FailureRate * 3 / 4
	works           = warehouse.FailureRate
)

// unlucky returns a warehouse whose calls meet these fates in turn.
func unlucky(fates ...float64) *warehouse.Warehouse {
	return warehouse.New(warehouse.Options{HoldAfter: 1_000, Luck: func() float64 {
		fate := fates[0]
		fates = fates[1:]
		return fate
	}})
}

func request(ctx context.Context, id, order string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(order))
	r.Header.Set(picking.MessageIDHeader, id)
	r.Header.Set("User-Agent", "relay-1")
	return r
}

func call(t *testing.T, w *warehouse.Warehouse, id, order string) int {
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, request(t.Context(), id, order))
	return rec.Code
}

func TestPicksOnce(t *testing.T) {
	w := unlucky(fails, failsAfterwards, works, works)
	order := `{"order_id":"a","customer_id":"ann","number":1}`
	require.Equal(t, http.StatusServiceUnavailable, call(t, w, "1", order))
	require.Empty(t, w.Orders())
	require.Equal(t, http.StatusInternalServerError, call(t, w, "1", order))
	require.Equal(t, map[string]int{"a": 1}, w.Orders())
	require.Equal(t, http.StatusOK, call(t, w, "1", order))
	require.Equal(t, map[string]int{"a": 1}, w.Orders())
	require.Equal(t, warehouse.Counts{Calls: 3, Failed: 2, Picked: 1, Duplicates: 1}, w.Counts())

	// Another message about the same order is not its business to recognise.
	require.Equal(t, http.StatusOK, call(t, w, "2", order))
	require.Equal(t, map[string]int{"a": 2}, w.Orders())
}

func TestCountsOrdersOutOfTurn(t *testing.T) {
	w := unlucky(works, works, works)
	call(t, w, "1", `{"order_id":"a","customer_id":"ann","number":1}`)
	call(t, w, "2", `{"order_id":"b","customer_id":"bob","number":1}`)
	require.Zero(t, w.Counts().OutOfTurn)
	call(t, w, "3", `{"order_id":"c","customer_id":"ann","number":3}`)
	require.Equal(t, 1, w.Counts().OutOfTurn)
}

func TestRefusesNonsense(t *testing.T) {
	w := unlucky()
	require.Equal(t, http.StatusBadRequest, call(t, w, "1", "<order/>"))
	require.Equal(t, http.StatusBadRequest, call(t, w, "", "{}"))
	require.Zero(t, w.Counts())
}

// One caller is left without an answer until it goes away.
func TestHoldsOneAnswer(t *testing.T) {
	w := warehouse.New(warehouse.Options{Luck: func() float64 { return works }})
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.ServeHTTP(httptest.NewRecorder(), request(ctx, "1", `{"order_id":"a","customer_id":"ann","number":1}`))
	}()
	require.Equal(t, "relay-1", <-w.Held())
	require.Equal(t, map[string]int{"a": 1}, w.Orders())
	select {
	case <-ended:
		t.Fatal("the caller got its answer")
	default:
	}
	hangUp()
	<-ended
	require.Equal(t, http.StatusOK, call(t, w, "2", `{"order_id":"b","customer_id":"bob","number":1}`))
}
