package main

import (
	"context"
	"time"

	watermillsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/driver/pgdriver"
)

func consumeOutbox(via func(*arena) *bun.DB) func(context.Context, *arena, func(order) error) error {
	return func(ctx context.Context, a *arena, handle func(order) error) error {
		return newRelay(via(a), 0, handle).Start(ctx)
	}
}

// consumeBun is by hand with LISTEN on a connection of pgdriver.
func consumeBun(ctx context.Context, a *arena, handle func(order) error) error {
	ln := pgdriver.NewListener(a.bun)
	// pgdriver does not notice that a context without a deadline has ended.
	unhook := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer func() {
		if unhook() {
			_ = ln.Close()
		}
	}()
	if err := ln.Listen(ctx, handChannel); err != nil {
		return ignoreEnd(ctx, err)
	}
	return consumeByHand(ctx, bunClaimer{a.bun, outboxSQL}, handle, func() error {
		_, _, err := ln.ReceiveTimeout(ctx, 0)
		return err
	})
}

// consumePgx is by hand with LISTEN on a connection of pgx.
func consumePgx(ctx context.Context, a *arena, handle func(order) error) error {
	conn, err := a.pgx.Acquire(ctx)
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	defer func() { _ = conn.Hijack().Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+handChannel); err != nil {
		return ignoreEnd(ctx, err)
	}
	return consumeByHand(ctx, pgxClaimer{a.pgx, outboxSQL}, handle, func() error {
		_, err := conn.Conn().WaitForNotification(ctx)
		return err
	})
}

// consumeByHand empties the table, waits to be told, and begins anew.
func consumeByHand(ctx context.Context, c claimer, handle func(order) error, wait func() error) error {
	t := &tally{handler: handle}
	for {
		for {
			n, _, err := step(ctx, c, 100, t)
			if err != nil {
				return ignoreEnd(ctx, err)
			}
			if n == 0 {
				break
			}
		}
		if err := wait(); err != nil {
			return ignoreEnd(ctx, err)
		}
	}
}

func consumeRiver(s riverSettings) func(context.Context, *arena, func(order) error) error {
	return func(ctx context.Context, a *arena, handle func(order) error) error {
		client, err := riverViaPgx(a, s.config(handle))
		if err != nil {
			return err
		}
		if err := client.Start(ctx); err != nil {
			return ignoreEnd(ctx, err)
		}
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return client.StopAndCancel(stop)
	}
}

func consumeWatermill(poll time.Duration) func(context.Context, *arena, func(order) error) error {
	s := watermillSettings{poll: poll, remove: poll > 0}
	return func(ctx context.Context, a *arena, handle func(order) error) error {
		t := &tally{handler: handle}
		return s.consume(ctx, watermillsql.BeginnerFromStdSQL(a.bun.DB), t.decode)
	}
}

// ignoreEnd is err, unless it comes from the end of ctx.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
