// Package api is the shop's HTTP API. It knows nothing of the outbox: that an
// order has an event is the affair of the package shop.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/typedoutbox/typedoutbox/examples/orders/internal/shop"
)

// placeTimeout bounds one order. pgdriver heeds deadlines, but not a client that
// has gone away.
const placeTimeout = 10 * time.Second

// maxBody is the size of the largest request, in bytes.
const maxBody = 1 << 16

// Placer takes orders. Place is called from several goroutines at once; its
// errors are those of shop.Service.Place.
type Placer interface {
	Place(ctx context.Context, in shop.NewOrder) (shop.Order, error)
}

// OrderRequest is the body of POST /orders.
type OrderRequest struct {
	CustomerID string `json:"customer_id"`
	SKU        string `json:"sku"`
	Quantity   int    `json:"quantity"`
	Total      int64  `json:"total"` // in cents
}

// OrderResponse is the answer to an order that was placed.
type OrderResponse struct {
	OrderID string `json:"order_id"`
	Number  int    `json:"number"`
}

// New returns the API:
//
//	POST /orders    201 placed, 400 invalid, 402 declined, 404 no such customer
func New(orders Placer, log *slog.Logger) http.Handler {
	a := &api{orders: orders, log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", a.place)
	return mux
}

type api struct {
	orders Placer
	log    *slog.Logger
}

func (a *api) place(w http.ResponseWriter, r *http.Request) {
	var in OrderRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in); err != nil {
		http.Error(w, "the body is not an order: "+err.Error(), http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), placeTimeout)
	defer cancel()
	order, err := a.orders.Place(ctx, shop.NewOrder(in))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	if err := json.NewEncoder(w).Encode(OrderResponse{OrderID: order.ID, Number: order.Number}); err != nil {
		a.log.WarnContext(r.Context(), "a customer did not hear of an order", "order", order.ID, "error", err)
	}
}

func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, shop.ErrInvalid):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, shop.ErrUnknownCustomer):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, shop.ErrDeclined):
		http.Error(w, err.Error(), http.StatusPaymentRequired)
	default:
		a.log.ErrorContext(r.Context(), "an order could not be placed", "error", err)
		http.Error(w, "the order could not be placed; try again", http.StatusInternalServerError)
	}
}
