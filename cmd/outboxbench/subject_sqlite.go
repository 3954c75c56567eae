package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/driver/sqliteshim"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// sqliteOptions are what the outbox asks for, in the spellings of both drivers
// behind sqliteshim. SQLite's own durability stays: it flushes every commit.
const sqliteOptions = "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_journal_mode=WAL&_busy_timeout=5000&_txlock=immediate"

// withSQLite gives work a database file of its own.
func withSQLite(ctx context.Context, work func(db *bun.DB) (sample, error)) (s sample, err error) {
	dir, err := os.MkdirTemp("", "outboxbench-")
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := (&url.URL{Path: filepath.Join(dir, "outbox.db")}).EscapedPath()
	std, err := sql.Open(sqliteshim.ShimName, "file:"+file+sqliteOptions)
	if err != nil {
		return s, err
	}
	db := bun.NewDB(std, sqlitedialect.New())
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := (outbox.Store{DB: db}).Migrate(ctx); err != nil {
		return s, err
	}
	const business = "CREATE TABLE business (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, total INTEGER NOT NULL, created_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP)"
	if _, err := db.ExecContext(ctx, business); err != nil {
		return s, err
	}
	return work(db)
}

// fillSQLite makes n rows that are due.
func fillSQLite(ctx context.Context, db *bun.DB, n int, payload string) error {
	_, err := db.ExecContext(ctx, `WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < ?)
INSERT INTO outbox_messages (id, topic, payload, available_at)
SELECT printf('00000000-0000-7000-8000-%012x', i), '`+topicName+`', ?, strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 hour', (i / 1000.0) || ' seconds') FROM c`, n, payload)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	_, err = db.ExecContext(ctx, "ANALYZE")
	return err
}

// countSQLite is the value of a query for one number.
func countSQLite(ctx context.Context, db *bun.DB, query string) (n int, err error) {
	err = db.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

const sqliteNow = "strftime('%Y-%m-%d %H:%M:%f', 'now')"

// sqliteClaimer is by hand through bun on SQLite.
type sqliteClaimer struct{ db *bun.DB }

func (c sqliteClaimer) claim(ctx context.Context, token string, limit int) ([]handRow, error) {
	return scanHand(c.db.QueryContext(ctx, `UPDATE outbox_messages
SET status = 'claimed', attempts = attempts + 1, claim_token = ?, claimed_at = `+sqliteNow+`, claimed_by = 'hand',
	available_at = strftime('%Y-%m-%d %H:%M:%f', 'now', '60 seconds'), updated_at = `+sqliteNow+`
WHERE id IN (
	SELECT id FROM outbox_messages WHERE topic = '`+topicName+`' AND status = 'pending' AND available_at <= `+sqliteNow+`
	ORDER BY available_at, id LIMIT ?)
RETURNING id, payload`, token, limit))
}

func (c sqliteClaimer) mark(ctx context.Context, token string, ids []string) (int, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return 0, err
	}
	return affected(c.db.ExecContext(ctx, `UPDATE outbox_messages
SET status = 'sent', claim_token = NULL, available_at = `+sqliteNow+`, sent_at = `+sqliteNow+`, updated_at = `+sqliteNow+`
WHERE id IN (SELECT value FROM json_each(?)) AND claim_token = ?`, string(list), token))
}
