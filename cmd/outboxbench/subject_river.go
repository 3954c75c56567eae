package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/uptrace/bun"
)

const riverKind = "bench_order"

// riverArgs is the event as a job.
type riverArgs order

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return riverKind }

// riverHandler works jobs.
type riverHandler struct {
	river.WorkerDefaults[riverArgs]
	handle func(order) error
}

// Work implements river.Worker.
func (h *riverHandler) Work(_ context.Context, job *river.Job[riverArgs]) error {
	return h.handle(order(job.Args))
}

// riverSettings are those that bound its throughput and its latency.
type riverSettings struct {
	workers        int
	cooldown, poll time.Duration // 0 is River's default
}

var (
	// riverDefault has the workers of River's own examples.
	riverDefault = riverSettings{workers: 100}

	// riverTuned fetches as often as River allows, and a thousand jobs at once.
	riverTuned = riverSettings{workers: 1000, cooldown: river.FetchCooldownMin, poll: 10 * time.Millisecond}
)

func (s riverSettings) config(handle func(order) error) *river.Config {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverHandler{handle: handle})
	return &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: s.workers}},
		Workers:       workers,
		FetchCooldown: s.cooldown, FetchPollInterval: s.poll,
		Logger: slog.New(slog.DiscardHandler),
	}
}

func migrateRiver(ctx context.Context, db *sql.DB) error {
	migrator, err := rivermigrate.New(riverdatabasesql.New(db), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

// riverClient is what of a client does not depend on the driver.
type riverClient interface {
	Start(ctx context.Context) error
	StopAndCancel(ctx context.Context) error
}

// riverVia makes a client on an arena.
type riverVia func(a *arena, config *river.Config) (riverClient, error)

func riverViaPgx(a *arena, config *river.Config) (riverClient, error) {
	return newRiver(riverpgxv5.New(a.pgx), config)
}

// riverViaPgdriver only polls: it has no LISTEN on database/sql alone.
func riverViaPgdriver(a *arena, config *river.Config) (riverClient, error) {
	return newRiver(riverdatabasesql.New(a.bun.DB), config)
}

func newRiver[Tx any](driver riverdriver.Driver[Tx], config *river.Config) (riverClient, error) {
	client, err := river.NewClient(driver, config)
	if err != nil {
		return nil, err // not client, which would be an interface that is not nil
	}
	return client, nil
}

// riverDrainer runs a client until every job is recorded as completed.
func riverDrainer(name string, s riverSettings, via riverVia) drainer {
	return drainer{name, s.workers, 1, riverTable, func(ctx context.Context, a *arena, n int, t *tally) (err error) {
		client, err := via(a, s.config(t.handle))
		if err != nil {
			return err
		}
		if err := client.Start(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, client.StopAndCancel(context.WithoutCancel(ctx))) }()
		return awaitDelivered(ctx, a, riverTable, n, t)
	}}
}

// awaitDelivered waits until n rows of a table are delivered and recorded.
func awaitDelivered(ctx context.Context, a *arena, tbl table, n int, t *tally) error {
	for int(t.delivered.Load()) < n {
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return a.awaitDone(ctx, tbl)
}

// insertOnly is a client that works nothing.
func insertOnly() *river.Config { return &river.Config{Logger: slog.New(slog.DiscardHandler)} }

// riverProducer inserts through pgx.
func riverProducer(_ context.Context, a *arena) (func(context.Context, order) error, error) {
	client, err := river.NewClient(riverpgxv5.New(a.pgx), insertOnly())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, o order) error {
		return pgx.BeginFunc(ctx, a.pgx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, insertBusiness); err != nil {
				return err
			}
			_, err := client.InsertTx(ctx, tx, riverArgs(o), nil)
			return err
		})
	}, nil
}

// riverBunProducer inserts through pgdriver, in a transaction of bun.
func riverBunProducer(_ context.Context, a *arena) (func(context.Context, order) error, error) {
	client, err := river.NewClient(riverdatabasesql.New(a.bun.DB), insertOnly())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, o order) error {
		return a.bun.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.ExecContext(ctx, insertBusiness); err != nil {
				return err
			}
			_, err := client.InsertTx(ctx, tx.Tx, riverArgs(o), nil)
			return err
		})
	}, nil
}

func riverParams(orders []order) []river.InsertManyParams {
	params := make([]river.InsertManyParams, len(orders))
	for i, o := range orders {
		params[i].Args = riverArgs(o)
	}
	return params
}
