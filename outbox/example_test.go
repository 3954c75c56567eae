package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/driver/sqliteshim"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// OrderPlaced is an event. outboxgen would write OrderPlacedTopic.
type OrderPlaced struct {
	OrderID string `json:"order_id"`
}

var OrderPlacedTopic = topics.New[OrderPlaced]("orders.placed", nil)

func Example() {
	db, cleanup := openExample()
	defer cleanup()
	ctx := context.Background()

	// The business write and the event commit together, or neither does.
	err := db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id) VALUES ('o-7')"); err != nil {
			return err
		}
		return outbox.Enqueue(ctx, tx, OrderPlacedTopic, OrderPlaced{OrderID: "o-7"}, outbox.Key("o-7"))
	})
	if err != nil {
		panic(err)
	}

	mux := outbox.NewMux()
	outbox.Handle(mux, OrderPlacedTopic, func(ctx context.Context, d outbox.Delivery[OrderPlaced]) error {
		fmt.Println("pick", d.Payload.OrderID, "attempt", d.Message.Attempts)
		return nil
	})
	// A service calls Start(ctx) instead, which goes on until ctx ends.
	n, err := (&outbox.Relay{DB: db, Mux: mux}).Drain(ctx)
	fmt.Println(n, err)
	// Output:
	// pick o-7 attempt 1
	// 1 <nil>
}

func ExamplePermanent() {
	db, cleanup := openExample()
	defer cleanup()
	ctx := context.Background()
	enqueueExample(db)

	mux := outbox.NewMux()
	outbox.Handle(mux, OrderPlacedTopic, func(context.Context, outbox.Delivery[OrderPlaced]) error {
		return outbox.Permanent(errors.New("400 Bad Request"))
	})
	relay := &outbox.Relay{DB: db, Mux: mux, Logger: slog.New(slog.DiscardHandler)}
	if _, err := relay.Drain(ctx); err != nil {
		panic(err)
	}
	store := outbox.Store{DB: db}
	parked, err := store.List(ctx, outbox.Filter{Status: []outbox.Status{outbox.StatusFailed}})
	fmt.Println(parked[0].Topic, parked[0].LastError, err)

	n, err := store.Retry(ctx, outbox.Filter{Topic: "orders.placed", ErrorContains: "400"})
	fmt.Println(n, "again", err)
	// Output:
	// orders.placed 400 Bad Request <nil>
	// 1 again <nil>
}

func ExampleInto() {
	db, cleanup := openExample()
	defer cleanup()
	for range 2 {
		var receipt outbox.Receipt
		err := db.RunInTx(context.Background(), nil, func(ctx context.Context, tx bun.Tx) error {
			return outbox.Enqueue(ctx, tx, OrderPlacedTopic, OrderPlaced{OrderID: "o-7"}, outbox.Key("o-7"), outbox.Into(&receipt))
		})
		fmt.Println("duplicate:", receipt.Duplicate, err)
	}
	// Output:
	// duplicate: false <nil>
	// duplicate: true <nil>
}

func ExampleStore_Stats() {
	db, cleanup := openExample()
	defer cleanup()
	enqueueExample(db)
	stats, err := outbox.Store{DB: db}.Stats(context.Background())
	for _, t := range stats.Topics {
		fmt.Println(t.Topic, t.Status, t.Count, err)
	}
	fmt.Println(stats.Count(outbox.StatusPending), stats.OldestDue() < time.Minute)
	// Output:
	// orders.placed pending 1 <nil>
	// 1 true
}

func ExampleMux_Use() {
	mux := outbox.NewMux()
	mux.Use(func(next outbox.DeliverFunc) outbox.DeliverFunc {
		return func(ctx context.Context, m outbox.Message) error {
			err := next(ctx, m)
			fmt.Println(m.Topic, "version", m.Version, "error", err)
			return err
		}
	})
	outbox.Handle(mux, OrderPlacedTopic, func(_ context.Context, d outbox.Delivery[OrderPlaced]) error {
		fmt.Println("pick", d.Payload.OrderID)
		return nil
	}, outbox.Timeout(10*time.Second), outbox.MaxAttempts(5))

	_ = mux.Deliver(context.Background(), outbox.Message{
		Topic: "orders.placed", Version: 1, Payload: []byte(`{"order_id":"o-7"}`),
	})
	// Output:
	// pick o-7
	// orders.placed version 1 error <nil>
}

// openExample returns a database in a temporary directory.
func openExample() (db *bun.DB, cleanup func()) {
	dir, err := os.MkdirTemp("", "outbox-example-*")
	if err != nil {
		panic(err)
	}
	dsn := "file:" + filepath.Join(dir, "app.db") + "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate"
	sqldb, err := sql.Open(sqliteshim.ShimName, dsn)
	if err != nil {
		panic(err)
	}
	db = bun.NewDB(sqldb, sqlitedialect.New()).WithQueryHook(&outbox.CommitHook{})
	ctx := context.Background()
	if err := (outbox.Store{DB: db}).Migrate(ctx); err != nil {
		panic(err)
	}
	if _, err := db.ExecContext(ctx, "CREATE TABLE orders (id text PRIMARY KEY)"); err != nil {
		panic(err)
	}
	return db, func() { _, _ = db.Close(), os.RemoveAll(dir) }
}

func enqueueExample(db *bun.DB) {
	err := db.RunInTx(context.Background(), nil, func(ctx context.Context, tx bun.Tx) error {
		return outbox.Enqueue(ctx, tx, OrderPlacedTopic, OrderPlaced{OrderID: "o-7"})
	})
	if err != nil {
		panic(err)
	}
}
