package main

import (
	"context"
	"handler/events"
	"handler/more"
	"handler/relay"

	"github.com/typedoutbox/typedoutbox/outbox"
)

type handler struct{}

func (handler) HandleMade(context.Context, outbox.Delivery[events.Made]) error { return nil }
func (handler) HandleSold(context.Context, outbox.Delivery[events.Sold]) error { return nil }

func main() { // want `topic "private" \(events.privateTopic\) has no handler in this program, which starts a relay; register one with outbox.Handle, or leave it to another program with Skip\(events.privateTopic.Info\(\)\)`
	mux := outbox.NewMux()
	events.HandleOutbox(mux, handler{})
	_ = more.Publish
	_ = relay.Run(context.Background(), mux)
}
