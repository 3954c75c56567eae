package shop_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/examples/orders/events"
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/shop"
	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
)

// databases have the tables of the shop, and a customer who can pay for an order
// of 1,000 cents.
var databases = testutil.Template{Migrate: func(ctx context.Context, db *bun.DB) error {
	if err := shop.Migrate(ctx, db); err != nil {
		return err
	}
	_, err := db.NewInsert().Model(&shop.Customer{ID: "ann", Credit: 1_000}).Exec(ctx)
	return err
}}

// onEveryDatabase runs a test on SQLite and, where there is one, on Postgres.
func onEveryDatabase(t *testing.T, test func(t *testing.T, db *bun.DB)) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) *bun.DB{"sqlite": databases.SQLite, "postgres": databases.Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func ann(t *testing.T, db *bun.DB) shop.Customer {
	t.Helper()
	c := shop.Customer{ID: "ann"}
	require.NoError(t, db.NewSelect().Model(&c).WherePK().Scan(t.Context()))
	return c
}

func TestPlaceEnqueuesTheOrder(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, db *bun.DB) {
		service := shop.Service{DB: db}
		order, err := service.Place(t.Context(), shop.NewOrder{CustomerID: "ann", SKU: "lamp", Quantity: 2, Total: 600})
		require.NoError(t, err)

		want := events.OrderCreated{OrderID: order.ID, CustomerID: "ann", Number: 1, SKU: "lamp", Quantity: 2}
		testutil.RequireEnqueuedAs(t, db, events.OrderCreatedTopic, want,
			outbox.Key("orders.created#"+order.ID), outbox.OrderKey("customer#ann"))
		require.Equal(t, int64(400), ann(t, db).Credit)
	})
}

func TestPlaceNumbersTheOrdersOfACustomer(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, db *bun.DB) {
		service := shop.Service{DB: db}
		var want []events.OrderCreated
		for n := range 3 {
			order, err := service.Place(t.Context(), shop.NewOrder{CustomerID: "ann", SKU: "lamp", Quantity: 1, Total: 100})
			require.NoError(t, err)
			want = append(want, events.OrderCreated{OrderID: order.ID, CustomerID: "ann", Number: n + 1, SKU: "lamp", Quantity: 1})
		}
		testutil.RequireAllEnqueued(t, db, events.OrderCreatedTopic, want...)
	})
}

// What the outbox is for: an order that is rolled back has no event.
func TestPlaceEnqueuesNothingWhenItFails(t *testing.T) {
	for name, tc := range map[string]struct {
		in   shop.NewOrder
		want error
	}{
		"declined":         {shop.NewOrder{CustomerID: "ann", SKU: "sofa", Quantity: 1, Total: 1_001}, shop.ErrDeclined},
		"unknown customer": {shop.NewOrder{CustomerID: "bob", SKU: "lamp", Quantity: 1, Total: 1}, shop.ErrUnknownCustomer},
		"nothing ordered":  {shop.NewOrder{CustomerID: "ann", Quantity: 1, Total: 1}, shop.ErrInvalid},
		"nobody orders":    {shop.NewOrder{SKU: "lamp", Quantity: 1, Total: 1}, shop.ErrInvalid},
		"no quantity":      {shop.NewOrder{CustomerID: "ann", SKU: "lamp", Total: 1}, shop.ErrInvalid},
		"negative total":   {shop.NewOrder{CustomerID: "ann", SKU: "lamp", Quantity: 1, Total: -1}, shop.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryDatabase(t, func(t *testing.T, db *bun.DB) {
				service := shop.Service{DB: db}
				_, err := service.Place(t.Context(), tc.in)
				require.ErrorIs(t, err, tc.want)

				testutil.RequireNotEnqueued(t, db, events.OrderCreatedTopic)
				orders, err := db.NewSelect().Model((*shop.Order)(nil)).Count(t.Context())
				require.NoError(t, err)
				require.Zero(t, orders)
				require.Equal(t, shop.Customer{ID: "ann", Credit: 1_000}, ann(t, db))
			})
		})
	}
}
