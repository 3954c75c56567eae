package events

import (
	"context"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/uptrace/bun"
)

func Publish(ctx context.Context, tx bun.Tx) error {
	_ = SoldTopic.Name()
	return outbox.Enqueue(ctx, tx, privateTopic, private{})
}
