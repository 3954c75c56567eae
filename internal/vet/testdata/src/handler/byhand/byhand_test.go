package main

import (
	"handler/events"

	"github.com/typedoutbox/typedoutbox/outbox"
)

func testHandlers(mux *outbox.Mux) {
	mux.Skip(events.SoldTopic.Info())
	outbox.Handle(mux, unused, handle)
}
