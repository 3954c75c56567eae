// Package events says what happens in the shop. It is the contract with
// everybody who hears of it, so it depends on nothing else of the app.
//
// The annotated structs are written by hand; outbox_gen.go, with one typed topic
// for each of them, comes from go generate.
package events

//go:generate go tool outboxgen

// OrderCreated says that an order has been placed and paid for.
//
// The key is derived from the order, so one order has one event, however often
// the code that enqueues it runs. The order key is derived from the customer: a
// customer's orders are delivered one after the other, and while one of them
// fails, those of other customers pass it by.
//
// Version 1 had the key "number", which others took for the number of the order.
//
//outbox:event orders.created version=2 key=OrderID order=customer:CustomerID
type OrderCreated struct {
	OrderID    string `json:"order_id"`
	CustomerID string `json:"customer_id"`
	Number     int    `json:"customer_order_number"` // counts the orders of the customer, from 1
	SKU        string `json:"sku"`
	Quantity   int    `json:"quantity"`
}

// orderCreatedV1 is what rows of version 1 hold. It stays as it is.
type orderCreatedV1 struct {
	OrderID    string `json:"order_id"`
	CustomerID string `json:"customer_id"`
	Number     int    `json:"number"`
	SKU        string `json:"sku"`
	Quantity   int    `json:"quantity"`
}

// orderCreatedFromV1 makes the event of a row that was stored before the key was
// renamed. Handlers know the event of today alone.
//
//outbox:upcast OrderCreated from=1
func orderCreatedFromV1(old orderCreatedV1) (OrderCreated, error) {
	created := OrderCreated{
		OrderID: old.OrderID, CustomerID: old.CustomerID, SKU: old.SKU, Quantity: old.Quantity,
	}
	created.Number = old.Number // all that is new is its key
	return created, nil
}
