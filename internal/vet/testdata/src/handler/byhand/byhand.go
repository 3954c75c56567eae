package main

import (
	"context"
	"handler/events"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
	"github.com/uptrace/bun"
)

type own struct{}

var (
	ownTopic   = topics.New[own]("own", nil)
	unused     = topics.New[own](unusedName, nil)
	other      = events.MadeTopic
	namedLater topics.Topic[own]
)

const unusedName = "own" + ".unused"

func handle(context.Context, outbox.Delivery[own]) error { return nil }

func main() { // want `topic "own.unused" \(byhand.unused\) has no handler` `topic "sold" \(events.SoldTopic\) has no handler` `topic "private" \(events.privateTopic\) has no handler`
	mux := outbox.NewMux()
	mux.Require(events.OutboxTopics()...)
	mux.Require(events.SoldTopic.Info())
	outbox.Handle(mux, ownTopic, handle)
	_ = outbox.Enqueue(context.Background(), bun.Tx{}, unused, own{})
	_ = events.SoldTopic.Name()
	relay := &outbox.Relay{Mux: mux}
	_, _ = relay.Drain(context.Background())
}
