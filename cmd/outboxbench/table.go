package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// table is where a subject keeps its messages.
type table struct {
	name string

	// fill makes rows that are due, from its arguments ? and ?: their number
	// and the payload.
	fill string

	done string // a condition on the rows that are done with
}

// firstID counts up, as the ids of the outbox do.
const firstID = "('00000000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid"

var (
	outboxTable = table{
		name: "outbox_messages",
		fill: "INSERT INTO outbox_messages (id, topic, payload, available_at, created_at, updated_at) SELECT " + firstID +
			", '" + topicName + "', p.payload, t, t, t FROM generate_series(1, ?) AS i, (SELECT ?::json AS payload) AS p, " +
			"LATERAL (SELECT statement_timestamp() - interval '1 hour' + i * interval '1 microsecond' AS t) AS times",
		done: "status = 'sent'",
	}

	// leanTable is an outbox by hand with nothing in it that can be left out.
	leanTable = table{
		name: "lean_messages",
		fill: "INSERT INTO lean_messages (id, topic, payload, available_at) SELECT " + firstID + ", '" + topicName +
			"', p.payload, statement_timestamp() - interval '1 hour' + i * interval '1 microsecond' " +
			"FROM generate_series(1, ?) AS i, (SELECT ?::json AS payload) AS p",
		done: "status = 'sent'",
	}

	riverTable = table{
		name: "river_job",
		fill: "INSERT INTO river_job (args, kind, max_attempts, queue) SELECT p.payload, '" + riverKind +
			"', 25, 'default' FROM generate_series(1, ?), (SELECT ?::jsonb AS payload) AS p",
		done: "state = 'completed'",
	}

	watermillTable = table{
		name: "watermill_" + watermillTopic,
		fill: "INSERT INTO watermill_" + watermillTopic + " (uuid, payload, metadata) SELECT gen_random_uuid()::text, p.payload, '{}' " +
			"FROM generate_series(1, ?), (SELECT ?::json AS payload) AS p",
		done: "acked",
	}
)

const tables = `
CREATE SEQUENCE growth_ids;
CREATE TABLE business (
	id bigserial PRIMARY KEY, customer text NOT NULL, total bigint NOT NULL, created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE lean_messages (
	id uuid PRIMARY KEY, topic text NOT NULL, payload json NOT NULL, status text NOT NULL DEFAULT 'pending',
	attempts integer NOT NULL DEFAULT 0, available_at timestamptz NOT NULL DEFAULT statement_timestamp(),
	created_at timestamptz NOT NULL DEFAULT statement_timestamp(), claim_token uuid, sent_at timestamptz
);
CREATE INDEX lean_messages_due ON lean_messages (available_at, id) WHERE status IN ('pending', 'claimed');
`

// migrate makes everybody's tables in an empty database.
func migrate(ctx context.Context, url string) (err error) {
	db := openBun(url)
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := (outbox.Store{DB: db}).Migrate(ctx); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, tables); err != nil {
		return err
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	std := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, std.Close()) }()
	return migrateOthers(ctx, std)
}

func migrateOthers(ctx context.Context, db *sql.DB) error {
	if err := migrateRiver(ctx, db); err != nil {
		return fmt.Errorf("migrate River: %w", err)
	}
	if err := migrateWatermill(db); err != nil {
		return fmt.Errorf("migrate Watermill: %w", err)
	}
	return nil
}

// prepare empties everybody's tables and makes so many rows in t.
func (a *arena) prepare(ctx context.Context, t table, n int, payload string) error {
	if err := a.exec(ctx, "TRUNCATE business, outbox_messages, lean_messages, river_job, "+watermillTable.name+" RESTART IDENTITY"); err != nil {
		return err
	}
	if n > 0 {
		if err := a.exec(ctx, t.fill, n, payload); err != nil {
			return fmt.Errorf("fill %s: %w", t.name, err)
		}
		if err := a.exec(ctx, "VACUUM ANALYZE "+t.name); err != nil {
			return err
		}
	}
	a.settle(ctx)
	return nil
}

// rows counts the rows of t.
func (a *arena) rows(ctx context.Context, t table) (int, error) {
	return a.count(ctx, "SELECT count(*) FROM "+t.name)
}

// left counts the rows of t that are not done with.
func (a *arena) left(ctx context.Context, t table) (int, error) {
	return a.count(ctx, "SELECT count(*) FROM "+t.name+" WHERE NOT ("+t.done+")")
}

// awaitDone waits until every row of t is done with, for those who do not say
// when it is. It looks once in a few milliseconds.
func (a *arena) awaitDone(ctx context.Context, t table) error {
	for {
		n, err := a.left(ctx, t)
		if err != nil || n == 0 {
			return err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%d rows of %s are left: %w", n, t.name, err)
		}
	}
}

// pause waits for d, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
