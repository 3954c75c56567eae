// Prefix leaves topics out by their names.
package main

import (
	"context"

	"github.com/typedoutbox/typedoutbox/outbox"
	_ "handler/events"
)

func main() {
	var relay outbox.Relay
	relay.TopicPrefix = "orders."
	_ = relay.Start(context.Background())
}
