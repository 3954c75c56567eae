// Package shop takes orders. [Service.Place] is the place to start: it is where
// a business write and its event become one transaction.
package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/examples/orders/events"
	"github.com/typedoutbox/typedoutbox/outbox"
)

// Service takes orders. It is safe for concurrent use.
type Service struct {
	DB *bun.DB // with a CommitHook, or relays hear of an order at their next look only
}

// Place takes an order and charges the customer. Either the order, the charge
// and the event are committed, or none of them is. The error matches
// [ErrInvalid], [ErrUnknownCustomer] or [ErrDeclined] if the customer is to
// blame.
func (s *Service) Place(ctx context.Context, in NewOrder) (Order, error) {
	if err := in.check(); err != nil {
		return Order{}, err
	}
	order := Order{ID: newOrderID(), CustomerID: in.CustomerID, SKU: in.SKU, Quantity: in.Quantity, Total: in.Total}
	err := s.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		var err error
		if order.Number, err = nextNumber(ctx, tx, in.CustomerID); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&order).Exec(ctx); err != nil {
			return fmt.Errorf("insert the order: %w", err)
		}
		if err := outbox.Enqueue(ctx, tx, events.OrderCreatedTopic, created(order)); err != nil {
			return err
		}
		// The event is written already. If the payment fails, it goes with
		// the order: nobody will hear of what never happened.
		return charge(ctx, tx, order)
	})
	if err != nil {
		return Order{}, fmt.Errorf("place an order of customer %q: %w", in.CustomerID, err)
	}
	return order, nil
}

func created(o Order) events.OrderCreated {
	return events.OrderCreated{OrderID: o.ID, CustomerID: o.CustomerID, Number: o.Number, SKU: o.SKU, Quantity: o.Quantity}
}

// nextNumber counts the order. It also locks the customer until the transaction
// ends: two orders of one customer are enqueued one after the other, which is
// what makes their order key worth something.
func nextNumber(ctx context.Context, tx bun.Tx, customerID string) (int, error) {
	var number int
	err := tx.NewUpdate().Model((*Customer)(nil)).
		Set("orders = orders + 1").
		Where("id = ?", customerID).
		Returning("orders").
		Scan(ctx, &number)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, ErrUnknownCustomer
	}
	if err != nil {
		return 0, fmt.Errorf("number the order: %w", err)
	}
	return number, nil
}

// charge takes the total from the customer's credit.
func charge(ctx context.Context, tx bun.Tx, o Order) error {
	res, err := tx.NewUpdate().Model((*Customer)(nil)).
		Set("credit = credit - ?", o.Total).
		Where("id = ?", o.CustomerID).
		Where("credit >= ?", o.Total).
		Exec(ctx)
	if err != nil {
		return fmt.Errorf("charge the customer: %w", err)
	}
	charged, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("charge the customer: %w", err)
	}
	if charged == 0 {
		return ErrDeclined
	}
	return nil
}
