package main

import (
	"context"

	"github.com/typedoutbox/typedoutbox/outbox"
	"handler/more"
	"handler/relay"
)

func main() { // want `topic "made"` `topic "private"` `topic "sold"`
	_ = more.Publish
	_ = relay.Run(context.Background(), outbox.NewMux())
}
