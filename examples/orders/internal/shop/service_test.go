package shop_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/examples/orders/events"
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/shop"
	"github.com/typedoutbox/typedoutbox/testutil"
)

// onEveryDatabase runs a test on SQLite and, where there is one, on Postgres,
// each with a customer who can pay for an order of 1,000 cents.
func onEveryDatabase(t *testing.T, test func(t *testing.T, db *bun.DB)) {
	for name, open := range map[string]func(testing.TB) *bun.DB{
		"sqlite": testutil.SQLite, "postgres": testutil.Postgres,
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t)
			require.NoError(t, shop.Migrate(t.Context(), db))
			_, err := db.NewInsert().Model(&shop.Customer{ID: "ann", Credit: 1_000}).Exec(t.Context())
			require.NoError(t, err)
			test(t, db)
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

		d := testutil.RequireEnqueuedEqual(t, db, events.OrderCreatedTopic, events.OrderCreated{
			OrderID: order.ID, CustomerID: "ann", Number: 1, SKU: "lamp", Quantity: 2,
		})
		require.Equal(t, "orders.created#"+order.ID, d.Message.Key)
		require.Equal(t, "customer#ann", d.Message.OrderKey)
		require.Equal(t, int64(400), ann(t, db).Credit)
	})
}

func TestPlaceNumbersTheOrdersOfACustomer(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, db *bun.DB) {
		service := shop.Service{DB: db}
		for range 3 {
			_, err := service.Place(t.Context(), shop.NewOrder{CustomerID: "ann", SKU: "lamp", Quantity: 1, Total: 100})
			require.NoError(t, err)
		}
		var numbers []int
		for _, d := range testutil.AllEnqueued(t, db, events.OrderCreatedTopic) {
			numbers = append(numbers, d.Payload.Number)
		}
		require.Equal(t, []int{1, 2, 3}, numbers)
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
