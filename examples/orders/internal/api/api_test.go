package api_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/examples/orders/internal/api"
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/shop"
)

// placer is a Placer that answers the same to everybody.
type placer struct {
	got   shop.NewOrder
	order shop.Order
	err   error
}

func (p *placer) Place(_ context.Context, in shop.NewOrder) (shop.Order, error) {
	p.got = in
	return p.order, p.err
}

func post(p *placer, body string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	api.New(p, slog.New(slog.DiscardHandler)).ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body)))
	return rec
}

func TestPlace(t *testing.T) {
	p := &placer{order: shop.Order{ID: "ord_1", Number: 7}}
	rec := post(p, `{"customer_id":"ann","sku":"lamp","quantity":2,"total":600}`)
	require.Equal(t, http.StatusCreated, rec.Code)
	require.JSONEq(t, `{"order_id":"ord_1","number":7}`, rec.Body.String())
	require.Equal(t, shop.NewOrder{CustomerID: "ann", SKU: "lamp", Quantity: 2, Total: 600}, p.got)
}

func TestPlaceFails(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		body string
		want int
		says string
	}{
		"invalid":  {fmt.Errorf("place: %w", shop.ErrInvalid), "{}", http.StatusBadRequest, "invalid"},
		"unknown":  {fmt.Errorf("place: %w", shop.ErrUnknownCustomer), "{}", http.StatusNotFound, "no such customer"},
		"declined": {fmt.Errorf("place: %w", shop.ErrDeclined), "{}", http.StatusPaymentRequired, "declined"},
		"ours":     {errors.New("password=secret"), "{}", http.StatusInternalServerError, "try again"},
		"garbage":  {nil, "<order/>", http.StatusBadRequest, "not an order"},
		"too long": {nil, `{"sku":"` + strings.Repeat("x", 1<<17) + `"}`, http.StatusBadRequest, "not an order"},
	} {
		t.Run(name, func(t *testing.T) {
			rec := post(&placer{err: tc.err}, tc.body)
			require.Equal(t, tc.want, rec.Code)
			require.Contains(t, rec.Body.String(), tc.says)
			require.NotContains(t, rec.Body.String(), "secret")
		})
	}
}
