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
//outbox:event orders.created key=OrderID order=customer:CustomerID
type OrderCreated struct {
	OrderID    string `json:"order_id"`
	CustomerID string `json:"customer_id"`
	Number     int    `json:"number"` // counts the orders of the customer, from 1
	SKU        string `json:"sku"`
	Quantity   int    `json:"quantity"`
}
