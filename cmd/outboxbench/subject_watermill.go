package main

import (
	"context"
	"database/sql"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	watermillsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/uptrace/bun"
)

const watermillTopic = "bench"

// watermillSettings are those of a subscriber of its Postgres queue, which holds
// a transaction open while a batch is handled.
type watermillSettings struct {
	batch  int           // 0 is Watermill's default, 100
	remove bool          // rows when they are acknowledged, which is not its default
	poll   time.Duration // 0 is Watermill's default, 1s
}

func (s watermillSettings) subscriber(db watermillsql.Beginner) (*watermillsql.Subscriber, error) {
	return watermillsql.NewSubscriber(db, watermillsql.SubscriberConfig{
		SchemaAdapter:  watermillsql.PostgreSQLQueueSchema{SubscribeBatchSize: s.batch},
		OffsetsAdapter: watermillsql.PostgreSQLQueueOffsetsAdapter{DeleteOnAck: s.remove},
		PollInterval:   s.poll,
	}, watermill.NopLogger{})
}

func migrateWatermill(db *sql.DB) error {
	sub, err := watermillSettings{}.subscriber(watermillsql.BeginnerFromStdSQL(db))
	if err != nil {
		return err
	}
	return sub.SubscribeInitialize(watermillTopic)
}

// consume handles messages until ctx ends.
func (s watermillSettings) consume(ctx context.Context, db watermillsql.Beginner, handle func(payload []byte) error) error {
	sub, err := s.subscriber(db)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	messages, err := sub.Subscribe(ctx, watermillTopic)
	if err != nil {
		return err
	}
	for msg := range messages {
		if err := handle(msg.Payload); err != nil {
			return err
		}
		msg.Ack()
	}
	return nil
}

// watermillDrainer runs one subscriber; a second one would collide with the
// first at every batch.
func watermillDrainer(name string, batch int, remove bool) drainer {
	s := watermillSettings{batch: batch, remove: remove}
	return drainer{name, batch, 1, watermillTable, func(ctx context.Context, a *arena, n int, t *tally) error {
		consumeCtx, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- s.consume(consumeCtx, watermillsql.BeginnerFromStdSQL(a.bun.DB), t.decode) }()
		if err := awaitDelivered(ctx, a, watermillTable, n, t); err != nil {
			return err
		}
		stop()
		return <-ended
	}}
}

// watermillProducer publishes in a transaction of bun, over pgx: pgdriver cannot,
// since it sends the payload as bytea.
func watermillProducer(_ context.Context, a *arena) (func(context.Context, order) error, error) {
	return func(ctx context.Context, o order) error {
		return a.viaPgx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.ExecContext(ctx, insertBusiness); err != nil {
				return err
			}
			return watermillPublish(ctx, tx.Tx, o)
		})
	}, nil
}

func watermillPublish(ctx context.Context, tx *sql.Tx, orders ...order) error {
	pub, err := watermillsql.NewPublisher(watermillsql.TxFromStdSQL(tx), watermillsql.PublisherConfig{
		SchemaAdapter: watermillsql.PostgreSQLQueueSchema{},
	}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	messages := make([]*message.Message, len(orders))
	for i, o := range orders {
		messages[i] = message.NewMessageWithContext(ctx, watermill.NewUUID(), message.Payload(encode(o)))
	}
	return pub.Publish(watermillTopic, messages...)
}
