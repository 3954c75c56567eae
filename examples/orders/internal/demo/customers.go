package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/examples/orders/internal/api"
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/shop"
)

const (
	ordersToPlace  = 200
	declineOneIn   = 10
	customerCount  = 20
	customerCredit = 100_000 // cents
	tills          = 4       // orders placed at once
)

// crowd places orders through the shop's API.
type crowd struct {
	url    string
	client *http.Client

	placed   atomic.Int64 // committed, as far as the customers were told
	declined atomic.Int64
}

func customerID(n int) string { return fmt.Sprintf("cus_%02d", n%customerCount) }

// addCustomers gives everybody a credit.
func addCustomers(ctx context.Context, db *bun.DB) error {
	customers := make([]shop.Customer, customerCount)
	for i := range customers {
		customers[i] = shop.Customer{ID: customerID(i), Credit: customerCredit}
	}
	if _, err := db.NewInsert().Model(&customers).Exec(ctx); err != nil {
		return fmt.Errorf("add customers: %w", err)
	}
	return nil
}

// orderNumber is the n-th order. One in declineOneIn costs more than anybody
// can pay.
func orderNumber(n int) api.OrderRequest {
	order := api.OrderRequest{CustomerID: customerID(n), SKU: fmt.Sprintf("sku_%d", n%7), Quantity: 1 + n%3, Total: 1_000}
	if n%declineOneIn == n/declineOneIn%declineOneIn { // not always the same customers
		order.Total = customerCredit + 1
	}
	return order
}

// placeAll places the orders, some at once, and returns when all are answered or
// one was answered as it should not be.
func (c *crowd) placeAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range tills {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < ordersToPlace && ctx.Err() == nil; n = int(next.Add(1)) - 1 {
				if err := c.place(ctx, orderNumber(n)); err != nil {
					cancel(fmt.Errorf("place order %d of %d: %w", n+1, ordersToPlace, err))
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (c *crowd) place(ctx context.Context, order api.OrderRequest) error {
	body, err := json.Marshal(order)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/orders", bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	if err != nil {
		return err
	}
	switch res.StatusCode {
	case http.StatusCreated:
		c.placed.Add(1)
	case http.StatusPaymentRequired:
		c.declined.Add(1)
	default:
		return fmt.Errorf("the API answered %s: %s", res.Status, strings.TrimSpace(string(text)))
	}
	return nil
}
