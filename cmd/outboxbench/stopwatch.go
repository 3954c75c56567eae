package main

import (
	"context"
	"database/sql/driver"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun/driver/pgdriver"
)

// stopwatch sees every statement on the pools of an arena, whoever sends it:
// below database/sql with pgdriver, and as a pgx.QueryTracer. It counts them, and
// takes the time of claims until their last row is read. BEGIN, COMMIT and
// ROLLBACK are not counted.
type stopwatch struct {
	mu     sync.Mutex
	claims []time.Duration
	n      int
}

// claimMarks are parts of statements that take rows: those of this library and
// by hand, of River, and of Watermill.
var claimMarks = []string{"SET status = 'claimed'", "-- name: JobGetAvailable", "WHERE acked = false"}

// claimMarkWithin is how far into a statement a mark is looked for: some are
// long.
const claimMarkWithin = 8 << 10

func isClaim(query string) bool {
	query = query[:min(len(query), claimMarkWithin)]
	for _, mark := range claimMarks {
		if strings.Contains(query, mark) {
			return true
		}
	}
	return false
}

func (w *stopwatch) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
}

func (w *stopwatch) claim(took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims = append(w.claims, took)
}

// take returns the claims so far and begins anew.
func (w *stopwatch) take() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	claims := w.claims
	w.claims = nil
	return claims
}

// seen is how many claims there are to take.
func (w *stopwatch) seen() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.claims)
}

// statements is how many statements there were.
func (w *stopwatch) statements() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

// watchedConnector makes watched connections of pgdriver.
type watchedConnector struct {
	*pgdriver.Connector
	watch *stopwatch
}

// Connect implements driver.Connector.
func (c watchedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return watchedConn{conn.(*pgdriver.Conn), c.watch}, nil
}

type watchedConn struct {
	*pgdriver.Conn
	watch *stopwatch
}

// ExecContext implements driver.ExecerContext.
func (c watchedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.watch.count()
	return c.Conn.ExecContext(ctx, query, args)
}

// QueryContext implements driver.QueryerContext.
func (c watchedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.watch.count()
	begun := time.Now()
	rows, err := c.Conn.QueryContext(ctx, query, args)
	if err != nil || !isClaim(query) {
		return rows, err
	}
	return watchedRows{rows, c.watch, begun}, nil
}

type watchedRows struct {
	driver.Rows
	watch *stopwatch
	begun time.Time
}

// Close implements driver.Rows. database/sql calls it after the last row.
func (r watchedRows) Close() error {
	r.watch.claim(time.Since(r.begun))
	return r.Rows.Close()
}

type begunKey struct{}

// TraceQueryStart implements pgx.QueryTracer.
func (w *stopwatch) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	word, _, _ := strings.Cut(strings.TrimSpace(data.SQL), " ")
	switch strings.ToLower(word) {
	case "begin", "commit", "rollback":
		return ctx
	}
	w.count()
	if isClaim(data.SQL) {
		return context.WithValue(ctx, begunKey{}, time.Now())
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (w *stopwatch) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	if begun, ok := ctx.Value(begunKey{}).(time.Time); ok && data.Err == nil {
		w.claim(time.Since(begun))
	}
}
