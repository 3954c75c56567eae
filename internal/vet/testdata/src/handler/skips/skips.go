package main

import (
	"context"
	"handler/events"
	"handler/relay"

	"github.com/typedoutbox/typedoutbox/outbox"
)

func main() {
	mux := outbox.NewMux()
	mux.Skip(events.OutboxTopics()...)
	_ = relay.Run(context.Background(), mux)
}
