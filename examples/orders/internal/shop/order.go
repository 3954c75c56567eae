package shop

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/uptrace/bun"
)

// Customer is a row of the table customers.
type Customer struct {
	bun.BaseModel `bun:"table:customers"`

	ID     string `bun:"id,pk"`
	Credit int64  `bun:"credit,notnull"` // in cents
	Orders int    `bun:"orders,notnull"` // how many the customer has placed
}

// Order is a row of the table orders.
type Order struct {
	bun.BaseModel `bun:"table:orders"`

	ID         string `bun:"id,pk"`
	CustomerID string `bun:"customer_id,notnull"`
	Number     int    `bun:"number,notnull"` // counts the orders of the customer, from 1
	SKU        string `bun:"sku,notnull"`
	Quantity   int    `bun:"quantity,notnull"`
	Total      int64  `bun:"total,notnull"` // in cents
}

// NewOrder is what a customer asks for.
type NewOrder struct {
	CustomerID string
	SKU        string
	Quantity   int
	Total      int64 // in cents
}

// The errors of Place that are the customer's affair.
var (
	ErrInvalid         = errors.New("the order is invalid")
	ErrUnknownCustomer = errors.New("no such customer")
	ErrDeclined        = errors.New("the payment is declined")
)

func (n NewOrder) check() error {
	switch {
	case n.CustomerID == "":
		return fmt.Errorf("%w: say who orders", ErrInvalid)
	case n.SKU == "":
		return fmt.Errorf("%w: say what is ordered", ErrInvalid)
	case n.Quantity < 1:
		return fmt.Errorf("%w: the quantity is %d; order 1 or more", ErrInvalid, n.Quantity)
	case n.Total < 0:
		return fmt.Errorf("%w: the total is %d cents; it cannot be negative", ErrInvalid, n.Total)
	}
	return nil
}

func newOrderID() string { return "ord_" + rand.Text() }
