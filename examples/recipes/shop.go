// Package recipes is a shop in one file. Its tests are the recipes of
// docs/testing.md; the larger example is examples/orders.
package recipes

import (
	"context"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// OrderPlaced says that an order has been accepted.
type OrderPlaced struct {
	OrderID    string `json:"order_id"`
	CustomerID string `json:"customer_id"`
	Cents      int64  `json:"cents"`
}

// OrderPlacedV1 is what earlier releases have stored.
type OrderPlacedV1 struct {
	OrderID    string `json:"order_id"`
	CustomerID string `json:"customer_id"`
	Euros      int64  `json:"euros"`
}

// OrderPlacedTopic announces an order once, and those of a customer in turn.
var OrderPlacedTopic = topics.New("orders.placed", &topics.Options[OrderPlaced]{
	Version: 2,
	Key:     func(e OrderPlaced) string { return topics.JoinKey("orders.placed", e.OrderID) },
	Order:   func(e OrderPlaced) string { return topics.JoinKey("customer", e.CustomerID) },
	Upcast:  map[int]topics.Upcaster{1: topics.Upcast(fromEuros)},
})

func fromEuros(e OrderPlacedV1) (OrderPlaced, error) {
	return OrderPlaced{OrderID: e.OrderID, CustomerID: e.CustomerID, Cents: e.Euros * 100}, nil
}

// ReviewRequested says that it is time to ask a customer for a review.
type ReviewRequested struct {
	OrderID string `json:"order_id"`
}

// ReviewRequestedTopic is delivered three days after the order.
var ReviewRequestedTopic = topics.New[ReviewRequested]("reviews.requested", nil)

// ParcelPacked says that a parcel waits for the carrier.
type ParcelPacked struct {
	OrderID string `json:"order_id"`
}

// ParcelPackedTopic announces a parcel once.
var ParcelPackedTopic = topics.New("parcels.packed", &topics.Options[ParcelPacked]{
	Key: func(e ParcelPacked) string { return topics.JoinKey("parcels.packed", e.OrderID) },
})

// Order is a row of the table orders.
type Order struct {
	ID         string `bun:",pk"`
	CustomerID string
	Cents      int64
}

// Parcel is a row of the table parcels.
type Parcel struct {
	OrderID string `bun:",pk"`
}

// Migrate creates the tables of the shop.
func Migrate(ctx context.Context, db *bun.DB) error {
	for _, model := range []any{(*Order)(nil), (*Parcel)(nil)} {
		if _, err := db.NewCreateTable().Model(model).IfNotExists().Exec(ctx); err != nil {
			return err
		}
	}
	return outbox.Store{DB: db}.Migrate(ctx)
}

// Shop takes orders.
type Shop struct{ DB *bun.DB }

// Place takes an order in the name of a tenant, and reminds the shop to ask for a
// review.
func (s *Shop) Place(ctx context.Context, tenant string, o Order) error {
	return s.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&o).Exec(ctx); err != nil {
			return err
		}
		placed := OrderPlaced{OrderID: o.ID, CustomerID: o.CustomerID, Cents: o.Cents}
		if err := outbox.Enqueue(ctx, tx, OrderPlacedTopic, placed, outbox.Header("tenant", tenant)); err != nil {
			return err
		}
		return outbox.Enqueue(ctx, tx, ReviewRequestedTopic, ReviewRequested{OrderID: o.ID}, outbox.After(72*time.Hour))
	})
}

// ErrNoSuchAddress is a carrier's answer that no other attempt would change.
var ErrNoSuchAddress = errors.New("no such address")

// Shipping packs what is ordered and hands it to a carrier.
type Shipping struct {
	DB      *bun.DB
	Carrier func(ctx context.Context, orderID string) error
}

// Mux returns the handlers of the shop.
func (s *Shipping) Mux() *outbox.Mux {
	mux := outbox.NewMux()
	outbox.Handle(mux, OrderPlacedTopic, s.pack)
	outbox.Handle(mux, ParcelPackedTopic, s.ship)
	return mux
}

// pack may meet an order twice: it packs one parcel all the same.
func (s *Shipping) pack(ctx context.Context, d outbox.Delivery[OrderPlaced]) error {
	return s.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		parcel := Parcel{OrderID: d.Payload.OrderID}
		if _, err := tx.NewInsert().Model(&parcel).On("CONFLICT DO NOTHING").Exec(ctx); err != nil {
			return err
		}
		return outbox.Enqueue(ctx, tx, ParcelPackedTopic, ParcelPacked(parcel))
	})
}

func (s *Shipping) ship(ctx context.Context, d outbox.Delivery[ParcelPacked]) error {
	err := s.Carrier(ctx, d.Payload.OrderID)
	if errors.Is(err, ErrNoSuchAddress) {
		return outbox.Permanent(err)
	}
	return err
}
