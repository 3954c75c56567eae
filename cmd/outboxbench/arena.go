package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/typedoutbox/typedoutbox/internal/pgcluster"
	"github.com/typedoutbox/typedoutbox/outbox"
)

// arena is a Postgres database with the tables of every subject, and a pool for
// each way to get there.
type arena struct {
	url       string
	bun       *bun.DB       // over pgdriver
	hooked    *bun.DB       // the same with a CommitHook
	viaPgx    *bun.DB       // over pgx/stdlib
	hookedPgx *bun.DB       // the same with a CommitHook
	pgx       *pgxpool.Pool // without bun and database/sql
	admin     *bun.DB       // for rows to be made and counted, which may take a while
	watch     *stopwatch    // of all pools but admin
	drop      func() error  // nil: it is another process's
}

const (
	// poolSize is enough for eight writers, or four relays.
	poolSize = 16

	// adminTimeout is for filling a table with millions of rows.
	adminTimeout = 10 * time.Minute
)

// startCluster starts a server with default durability, or finds the one of
// OUTBOX_TEST_DSN.
func startCluster() (*pgcluster.Cluster, error) {
	if os.Getenv("OUTBOX_TEST_DSN") != "" {
		return pgcluster.Shared()
	}
	// Else the server would live in memory, as is right for tests.
	if os.Getenv("TMPDIR") == "" {
		if err := os.Setenv("TMPDIR", os.TempDir()); err != nil {
			return nil, err
		}
	}
	return pgcluster.Start("fsync=on", "full_page_writes=on", "shared_buffers=256MB", "max_wal_size=4GB")
}

// newArena makes a database of its own.
func newArena(ctx context.Context, cluster *pgcluster.Cluster) (*arena, error) {
	db, err := cluster.Create(ctx, pgcluster.Template{Content: "outboxbench", Migrate: migrate})
	if err != nil {
		return nil, err
	}
	drop := func() error { return db.Drop(context.WithoutCancel(ctx)) }
	a, err := openArena(ctx, db.URL)
	if err != nil {
		return nil, errors.Join(err, drop())
	}
	a.drop = drop
	if err := a.warm(ctx, poolSize/2); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// openArena opens the pools of a database that newArena has made, perhaps in
// another process.
func openArena(ctx context.Context, url string) (*arena, error) {
	a := &arena{url: url, admin: openBun(url), watch: &stopwatch{}}
	a.bun = newBun(sql.OpenDB(watchedConnector{pgdriver.NewConnector(pgdriver.WithDSN(url)), a.watch}))
	a.hooked = a.bun.WithQueryHook(&outbox.CommitHook{})
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = poolSize
	config.ConnConfig.Tracer = a.watch
	a.viaPgx = newBun(stdlib.OpenDB(*config.ConnConfig))
	a.hookedPgx = a.viaPgx.WithQueryHook(&outbox.CommitHook{})
	if a.pgx, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// openBun opens a database for what is not measured.
func openBun(url string) *bun.DB {
	return newBun(sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(url),
		pgdriver.WithReadTimeout(adminTimeout), pgdriver.WithWriteTimeout(adminTimeout))))
}

func newBun(db *sql.DB) *bun.DB {
	db.SetMaxOpenConns(poolSize)
	db.SetMaxIdleConns(poolSize)
	return bun.NewDB(db, pgdialect.New())
}

// warm opens connections of every pool, since to authenticate takes longer than
// most statements.
func (a *arena) warm(ctx context.Context, connections int) error {
	pools := []func() (release func(), err error){
		func() (func(), error) { return sqlConn(ctx, a.bun.DB) },
		func() (func(), error) { return sqlConn(ctx, a.viaPgx.DB) },
		func() (func(), error) {
			conn, err := a.pgx.Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return conn.Release, nil
		},
	}
	for _, acquire := range pools {
		var wg sync.WaitGroup
		releases := make([]func(), connections)
		errs := make([]error, connections)
		for i := range connections {
			wg.Go(func() { releases[i], errs[i] = acquire() })
		}
		wg.Wait()
		for _, release := range releases {
			if release != nil {
				release()
			}
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("connect: %w", err)
		}
	}
	return nil
}

func sqlConn(ctx context.Context, db *sql.DB) (func(), error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return func() { _ = conn.Close() }, nil
}

func (a *arena) close() error {
	if a.pgx != nil {
		a.pgx.Close()
	}
	err := errors.Join(a.bun.Close(), a.viaPgx.Close(), a.admin.Close())
	if a.drop != nil {
		err = errors.Join(err, a.drop())
	}
	return err
}

// exec runs a statement that is not measured.
func (a *arena) exec(ctx context.Context, query string, args ...any) error {
	_, err := a.admin.ExecContext(ctx, query, args...)
	return err
}

// count is the value of a query for one number.
func (a *arena) count(ctx context.Context, query string, args ...any) (n int, err error) {
	err = a.admin.QueryRowContext(ctx, query, args...).Scan(&n)
	return n, err
}

// settle does now what the server would do in the middle of a measurement: it
// writes everything out.
func (a *arena) settle(ctx context.Context) {
	_ = a.exec(ctx, "CHECKPOINT") // only a superuser may
}
