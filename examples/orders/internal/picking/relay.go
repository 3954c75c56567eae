package picking

import (
	"context"
	"log/slog"
	"time"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/examples/orders/events"
	"github.com/typedoutbox/typedoutbox/outbox"
)

// ClaimTimeout is how long the messages of a relay that died wait for another.
const ClaimTimeout = time.Second

// NewRelay returns the relay that tells the warehouse of new orders. Any number
// of processes may run one. Its times are far shorter than the defaults, since
// nobody likes to watch a demonstration wait; a real app leaves most of them out.
func NewRelay(name string, db *bun.DB, warehouse *Client, log *slog.Logger) *outbox.Relay {
	mux := outbox.NewMux()
	// An event that somebody adds does not compile here until it is handled, or
	// skipped, instead of waiting in the table until a customer calls.
	events.HandleOutbox(mux, picker{warehouse: warehouse})
	return &outbox.Relay{
		DB:             db,
		Mux:            mux,
		Name:           name,
		Logger:         log,
		Interval:       50 * time.Millisecond,
		Batch:          10,
		Concurrency:    4,
		BaseBackoff:    50 * time.Millisecond,
		MaxBackoff:     250 * time.Millisecond,
		ClaimTimeout:   ClaimTimeout,
		DeliverTimeout: 5 * time.Second,

		ShutdownTimeout: 3 * time.Second,
	}
}

// picker handles the events of the shop.
type picker struct{ warehouse *Client }

// HandleOrderCreated may run more than once for one message: the relay may die, or
// the answer may be lost, after the warehouse has picked. What it does must be safe
// to repeat. Here the warehouse sees to that, which recognises the message id.
func (p picker) HandleOrderCreated(ctx context.Context, d outbox.Delivery[events.OrderCreated]) error {
	return p.warehouse.Pick(ctx, d.Message.ID, Pick(d.Payload))
}
