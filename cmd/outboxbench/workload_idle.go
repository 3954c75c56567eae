package main

import (
	"context"
	"database/sql"
	"strings"
	"sync/atomic"
	"time"

	watermillsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// statements counts what a subject sends to the server, without BEGIN, COMMIT and
// ROLLBACK. It is a pgx.QueryTracer.
type statements struct{ n atomic.Int64 }

// TraceQueryStart implements pgx.QueryTracer.
func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	word, _, _ := strings.Cut(strings.TrimSpace(data.SQL), " ")
	switch strings.ToLower(word) {
	case "begin", "commit", "rollback":
	default:
		s.n.Add(1)
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// countedBeginner tells statements of what Watermill does.
type countedBeginner struct {
	watermillsql.Beginner
	statements *statements
}

// BeginTx implements watermillsql.Beginner.
func (b countedBeginner) BeginTx(ctx context.Context, opts *sql.TxOptions) (watermillsql.Tx, error) {
	tx, err := b.Beginner.BeginTx(ctx, opts)
	return countedTx{tx, b.statements}, err
}

type countedTx struct {
	watermillsql.Tx
	statements *statements
}

// QueryContext implements watermillsql.Tx.
func (t countedTx) QueryContext(ctx context.Context, query string, args ...any) (watermillsql.Rows, error) {
	t.statements.n.Add(1)
	return t.Tx.QueryContext(ctx, query, args...)
}

// idler is a subject that has nothing to do. It runs until ctx ends; seen is how
// many statements it has sent so far.
type idler struct {
	name string
	run  func(ctx context.Context, a *arena) (seen func() int, ended <-chan error, err error)
}

// idleWorkload counts the statements of a relay that has nothing to do, once it
// has settled.
func (b *bench) idleWorkload() []contest {
	c := contest{name: "idle", unit: "statements"}
	for _, i := range []idler{
		{"outbox", idleOutbox},
		{"river", idleRiver(riverDefault)},
		{"river tuned", idleRiver(riverTuned)},
		{"watermill", idleWatermill(0)},
		{"watermill tuned", idleWatermill(10 * time.Millisecond)},
	} {
		c.contenders = append(c.contenders, contender{name: i.name, workers: 1, trial: func(ctx context.Context) (sample, error) {
			return i.measure(ctx, b.arena, b.idle)
		}})
	}
	return []contest{c}
}

func (i idler) measure(ctx context.Context, a *arena, d time.Duration) (sample, error) {
	if err := a.prepare(ctx, table{}, 0, ""); err != nil {
		return sample{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen, ended, err := i.run(ctx, a)
	if err != nil {
		return sample{}, err
	}
	if err := pause(ctx, d/4); err != nil {
		return sample{}, err
	}
	before, begun := seen(), time.Now()
	err = pause(ctx, d)
	s := sample{n: seen() - before, elapsed: time.Since(begun)}
	stop()
	if endErr := <-ended; err == nil {
		err = endErr
	}
	return s, err
}

func idleOutbox(ctx context.Context, a *arena) (func() int, <-chan error, error) {
	watch := &stopwatch{}
	ended := make(chan error, 1)
	go func() {
		ended <- newRelay(a.hooked.WithQueryHook(watch), 0, func(order) error { return nil }).Start(ctx)
	}()
	return watch.statements, ended, nil
}

func idleRiver(s riverSettings) func(context.Context, *arena) (func() int, <-chan error, error) {
	return func(ctx context.Context, a *arena) (func() int, <-chan error, error) {
		var count statements
		pool, err := tracedPool(ctx, a.url, &count)
		if err != nil {
			return nil, nil, err
		}
		client, err := newRiver(riverpgxv5.New(pool), s.config(func(order) error { return nil }))
		if err == nil {
			err = client.Start(ctx)
		}
		if err != nil {
			pool.Close()
			return nil, nil, err
		}
		ended := make(chan error, 1)
		go func() {
			<-ctx.Done()
			ended <- client.StopAndCancel(context.WithoutCancel(ctx))
			pool.Close()
		}()
		return count.seen, ended, nil
	}
}

func idleWatermill(poll time.Duration) func(context.Context, *arena) (func() int, <-chan error, error) {
	return func(ctx context.Context, a *arena) (func() int, <-chan error, error) {
		var count statements
		db := countedBeginner{watermillsql.BeginnerFromStdSQL(a.bun.DB), &count}
		ended := make(chan error, 1)
		go func() {
			ended <- watermillSettings{poll: poll}.consume(ctx, db, func([]byte) error { return nil })
		}()
		return count.seen, ended, nil
	}
}

func (s *statements) seen() int { return int(s.n.Load()) }
