package main

import (
	"context"
	"handler/events"
	"handler/relay"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

func handle[T any](mux *outbox.Mux, topic topics.Topic[T]) {
	outbox.Handle(mux, topic, func(context.Context, outbox.Delivery[T]) error { return nil })
}

//outbox:allow outboxhandler the private one is only enqueued here
func main() {
	mux := outbox.NewMux()
	handle(mux, events.MadeTopic)
	for _, info := range []topics.Info{events.SoldTopic.Info()} {
		mux.Skip(info)
	}
	_ = relay.Run(context.Background(), mux)
}
