package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"

	"github.com/typedoutbox/typedoutbox/examples/orders/internal/database"
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/picking"
)

// runRelay relays until ctx ends, which main lets SIGINT and SIGTERM do. Start
// then gives deliveries in flight their time and hands back what has not begun.
func runRelay(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("orders relay", flag.ContinueOnError)
	lifeline := flags.Bool("lifeline", false, "stop at the end of standard input, which is that of the parent process")
	if err := parse(flags, args, stdout, stderr); err != nil {
		return err
	}
	if *lifeline {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	warehouse := &picking.Client{URL: os.Getenv("WAREHOUSE_URL"), UserAgent: os.Getenv("RELAY_NAME")}
	if warehouse.URL == "" {
		return errors.New("WAREHOUSE_URL is not set; set it to the URL that orders to pick are posted to")
	}
	db, err := database.Open(os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	log := slog.New(slog.NewTextHandler(stderr, nil))
	return picking.NewRelay(os.Getenv("RELAY_NAME"), db, warehouse, log).Start(ctx)
}
