// Raw delivers everything.
package main

import (
	"context"

	"github.com/typedoutbox/typedoutbox/outbox"
	_ "handler/events"
)

func main() {
	relay := &outbox.Relay{Deliver: func(context.Context, outbox.Message) error { return nil }}
	_ = relay.Start(context.Background())
}
