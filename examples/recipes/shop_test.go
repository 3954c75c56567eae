package recipes_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/examples/recipes"
	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
	"github.com/typedoutbox/typedoutbox/topics"
)

var databases = testutil.Template{Migrate: recipes.Migrate}

func TestPlaceEnqueues(t *testing.T) {
	t.Parallel()
	db := databases.SQLite(t)
	shop := recipes.Shop{DB: db}
	require.NoError(t, shop.Place(t.Context(), "acme", recipes.Order{ID: "o-1", CustomerID: "ann", Cents: 4200}))

	// Payload, key, order key, version, delay and the headers that are given: as
	// this call of Enqueue would have written them.
	testutil.RequireEnqueuedAs(t, db, recipes.OrderPlacedTopic,
		recipes.OrderPlaced{OrderID: "o-1", CustomerID: "ann", Cents: 4200}, outbox.Header("tenant", "acme"))
	testutil.RequireEnqueuedAs(t, db, recipes.ReviewRequestedTopic,
		recipes.ReviewRequested{OrderID: "o-1"}, outbox.After(72*time.Hour))
	testutil.RequireNotEnqueued(t, db, recipes.ParcelPackedTopic)
}

func TestPlaceTwiceEnqueuesOnce(t *testing.T) {
	t.Parallel()
	db := databases.SQLite(t)
	shop := recipes.Shop{DB: db}
	order := recipes.Order{ID: "o-1", CustomerID: "ann", Cents: 4200}
	require.NoError(t, shop.Place(t.Context(), "acme", order))
	require.Error(t, shop.Place(t.Context(), "acme", order))

	testutil.RequireAllEnqueued(t, db, recipes.ReviewRequestedTopic, recipes.ReviewRequested{OrderID: "o-1"})
}

// carrier is a stub that answers in turn and remembers what it was handed.
type carrier struct {
	answers []error
	shipped []string
}

func (c *carrier) ship(_ context.Context, orderID string) error {
	if len(c.answers) > 0 {
		answer := c.answers[0]
		c.answers = c.answers[1:]
		if answer != nil {
			return answer
		}
	}
	c.shipped = append(c.shipped, orderID)
	return nil
}

func TestShip(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer error
		want   testutil.Result
	}{
		"taken":          {nil, testutil.Sent},
		"full":           {errors.New("the van is full"), testutil.Retried},
		"unknown street": {recipes.ErrNoSuchAddress, testutil.Parked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &carrier{answers: []error{tc.answer}}
			shipping := recipes.Shipping{Carrier: c.ship}
			testutil.Deliver(t, shipping.Mux(), recipes.ParcelPackedTopic, recipes.ParcelPacked{OrderID: "o-1"}).Require(t, tc.want)
		})
	}
}

// newRelay returns a relay with the handlers of the shop.
func newRelay(db *bun.DB, c *carrier) *outbox.Relay {
	shipping := recipes.Shipping{DB: db, Carrier: c.ship}
	return &outbox.Relay{DB: db, Mux: shipping.Mux(), Concurrency: 1, Logger: slog.New(slog.DiscardHandler)}
}

// place lets a customer place orders.
func place(t *testing.T, db *bun.DB, customerID string, orders ...string) {
	t.Helper()
	shop := recipes.Shop{DB: db}
	for _, id := range orders {
		require.NoError(t, shop.Place(t.Context(), "acme", recipes.Order{ID: id, CustomerID: customerID, Cents: 100}))
	}
}

func TestPackingLeadsToShipping(t *testing.T) {
	t.Parallel()
	db, c := databases.SQLite(t), &carrier{}
	place(t, db, "ann", "o-1")

	// Two: what the handler of the first enqueues is delivered, too. The request
	// for a review is not due for three days.
	testutil.Drain(t, newRelay(db, c)).RequireSent(t, 2)
	require.Equal(t, []string{"o-1"}, c.shipped)
}

func TestShippingIsTriedAgain(t *testing.T) {
	t.Parallel()
	db, c := databases.SQLite(t), &carrier{answers: []error{errors.New("the van is full")}}
	relay := newRelay(db, c)
	place(t, db, "ann", "o-1")

	ship := testutil.Drain(t, relay).Require(t, testutil.Sent, testutil.Retried)[1]
	require.Equal(t, "the van is full", ship.Message.LastError)
	require.InDelta(t, 5*time.Second, ship.Wait(), float64(time.Second))

	testutil.Advance(t, db, time.Minute)
	testutil.Drain(t, relay).RequireSent(t, 1)
	require.Equal(t, []string{"o-1"}, c.shipped)
}

func TestPackingIsIdempotent(t *testing.T) {
	t.Parallel()
	db := databases.SQLite(t)
	place(t, db, "ann", "o-1", "o-2")

	// Every message is delivered twice, as after a crash before the first delivery
	// was recorded.
	testutil.RequireIdempotent(t, newRelay(db, &carrier{}), func() any {
		var parcels []recipes.Parcel
		require.NoError(t, db.NewSelect().Model(&parcels).Order("order_id").Scan(t.Context()))
		return parcels
	}).RequireSent(t, 4)
}

func TestOrdersOfACustomerAreInTurn(t *testing.T) {
	t.Parallel()
	db := databases.SQLite(t)
	place(t, db, "ann", "o-1", "o-2")
	place(t, db, "bob", "o-3")

	var order []string
	mux := outbox.NewMux()
	outbox.Handle(mux, recipes.OrderPlacedTopic, func(_ context.Context, d outbox.Delivery[recipes.OrderPlaced]) error {
		order = append(order, d.Payload.OrderID)
		if len(order) == 1 {
			return errors.New("not yet")
		}
		return nil
	})
	relay := &outbox.Relay{DB: db, Mux: mux, Concurrency: 1}

	// While the first order of ann fails, the second waits, and bob's does not.
	testutil.Drain(t, relay).Require(t, testutil.Retried, testutil.Waiting, testutil.Sent)
	testutil.Advance(t, db, time.Minute)
	testutil.Drain(t, relay).RequireSent(t, 2)
	require.Equal(t, []string{"o-1", "o-3", "o-1", "o-2"}, order)
}

func TestFromTheOrderToTheCarrier(t *testing.T) {
	t.Parallel()
	db := databases.SQLite(t).WithQueryHook(&outbox.CommitHook{}) // wakes the relay at commit
	relay := newRelay(db, &carrier{})
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- relay.Start(ctx) }()
	defer func() { stop(); require.NoError(t, <-stopped) }()

	place(t, db, "ann", "o-1")
	testutil.WaitFor(t, db, recipes.ParcelPackedTopic, outbox.StatusSent,
		func(e recipes.ParcelPacked) bool { return e.OrderID == "o-1" })
}

func TestTheNextRelayShipsAfterALostLease(t *testing.T) {
	t.Parallel()
	db := databases.SQLite(t)
	var heard error
	shipping := recipes.Shipping{DB: db, Carrier: func(ctx context.Context, _ string) error {
		if heard != nil {
			return nil
		}
		testutil.LoseLeases(t, db) // to a relay that never delivers
		<-ctx.Done()
		heard = context.Cause(ctx)
		return heard
	}}
	// Renewed every 100 ms, which is when the relay finds out.
	relay := &outbox.Relay{DB: db, Mux: shipping.Mux(), ClaimTimeout: 400 * time.Millisecond}
	require.NoError(t, db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		return outbox.Enqueue(ctx, tx, recipes.ParcelPackedTopic, recipes.ParcelPacked{OrderID: "o-1"})
	}))

	// Nothing is recorded of what the handler said.
	testutil.Drain(t, relay).Require(t, testutil.Waiting)
	require.ErrorIs(t, heard, outbox.ErrLeaseLost)

	testutil.Advance(t, db, time.Minute) // the other lease is over
	testutil.Drain(t, relay).RequireSent(t, 1)
}

func TestOrdersOfTheLastReleaseAreUnderstood(t *testing.T) {
	t.Parallel()
	// The topic as it was then.
	old := topics.New[recipes.OrderPlacedV1]("orders.placed", nil)
	var got recipes.OrderPlaced
	mux := outbox.NewMux()
	outbox.Handle(mux, recipes.OrderPlacedTopic, func(_ context.Context, d outbox.Delivery[recipes.OrderPlaced]) error {
		got = d.Payload
		return nil
	})
	testutil.Deliver(t, mux, old, recipes.OrderPlacedV1{OrderID: "o-1", CustomerID: "ann", Euros: 42}).Require(t, testutil.Sent)
	require.Equal(t, recipes.OrderPlaced{OrderID: "o-1", CustomerID: "ann", Cents: 4200}, got)
}
