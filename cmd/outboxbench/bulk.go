package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// columns are what an outbox by hand sends to the server.
type columns struct{ ids, keys, payloads []string }

func columnsOf(orders []order) (columns, error) {
	var c columns
	for _, o := range orders {
		id, err := uuid.NewV7()
		if err != nil {
			return c, err
		}
		c.ids = append(c.ids, id.String())
		c.keys = append(c.keys, o.ID)
		c.payloads = append(c.payloads, encode(o))
	}
	return c, nil
}

func bulkUnnest(via func(*arena) *bun.DB) func(*arena) (bulkWrite, error) {
	return func(a *arena) (bulkWrite, error) {
		return func(ctx context.Context, orders []order) error {
			return via(a).RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				c, err := columnsOf(orders)
				if err != nil {
					return err
				}
				_, err = tx.ExecContext(ctx, "INSERT INTO outbox_messages (id, topic, version, payload) SELECT u.id, '"+topicName+
					"', 1, u.payload::json FROM unnest(?::uuid[], ?::text[]) AS u (id, payload)", pgdialect.Array(c.ids), pgdialect.Array(c.payloads))
				return err
			})
		}, nil
	}
}

// bulkUnnestKeyed does what keys need: it learns which of the rows are new.
func bulkUnnestKeyed(a *arena) (bulkWrite, error) {
	return func(ctx context.Context, orders []order) error {
		return a.bun.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			c, err := columnsOf(orders)
			if err != nil {
				return err
			}
			rows, err := tx.QueryContext(ctx, "INSERT INTO outbox_messages (id, topic, key, version, payload) SELECT u.id, '"+topicName+
				"', u.key, 1, u.payload::json FROM unnest(?::uuid[], ?::text[], ?::text[]) AS u (id, key, payload)"+
				" ON CONFLICT (key) WHERE key IS NOT NULL DO NOTHING RETURNING id",
				pgdialect.Array(c.ids), pgdialect.Array(c.keys), pgdialect.Array(c.payloads))
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			written := map[string]bool{}
			for rows.Next() {
				var id string
				if err := rows.Scan(&id); err != nil {
					return err
				}
				written[id] = true
			}
			if len(written) != len(orders) {
				return fmt.Errorf("wrote %d of %d rows", len(written), len(orders))
			}
			return rows.Err()
		})
	}, nil
}

// handModel is the row as one would declare it for bun.
type handModel struct {
	bun.BaseModel `bun:"table:outbox_messages"`

	ID      string `bun:"id,pk"`
	Topic   string `bun:"topic"`
	Version int    `bun:"version"`
	Payload string `bun:"payload"`
}

func bulkModel(a *arena) (bulkWrite, error) {
	return func(ctx context.Context, orders []order) error {
		return a.bun.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			c, err := columnsOf(orders)
			if err != nil {
				return err
			}
			models := make([]handModel, len(orders))
			for i := range orders {
				models[i] = handModel{ID: c.ids[i], Topic: topicName, Version: 1, Payload: c.payloads[i]}
			}
			_, err = tx.NewInsert().Model(&models).Exec(ctx)
			return err
		})
	}, nil
}

func bulkCopy(a *arena) (bulkWrite, error) {
	return func(ctx context.Context, orders []order) error {
		return pgx.BeginFunc(ctx, a.pgx, func(tx pgx.Tx) error {
			c, err := columnsOf(orders)
			if err != nil {
				return err
			}
			_, err = tx.CopyFrom(ctx, pgx.Identifier{outboxTable.name}, []string{"id", "topic", "version", "payload"},
				pgx.CopyFromSlice(len(orders), func(i int) ([]any, error) {
					return []any{c.ids[i], topicName, 1, c.payloads[i]}, nil
				}))
			return err
		})
	}, nil
}

func bulkOutbox(via func(*arena) *bun.DB) func(*arena) (bulkWrite, error) {
	return func(a *arena) (bulkWrite, error) {
		return func(ctx context.Context, orders []order) error {
			return via(a).RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				_, err := outbox.EnqueueAll(ctx, tx, orderTopic, orders)
				return err
			})
		}, nil
	}
}

func bulkOutboxKeyed(a *arena) (bulkWrite, error) {
	return func(ctx context.Context, orders []order) error {
		return a.bun.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			receipts, err := outbox.EnqueueAll(ctx, tx, keyedTopic, orders)
			for _, r := range receipts {
				if r.Duplicate {
					return errors.New("a key was taken already")
				}
			}
			return err
		})
	}, nil
}

func bulkRiver(a *arena) (bulkWrite, error) {
	client, err := river.NewClient(riverpgxv5.New(a.pgx), insertOnly())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, orders []order) error {
		return pgx.BeginFunc(ctx, a.pgx, func(tx pgx.Tx) error {
			_, err := client.InsertManyTx(ctx, tx, riverParams(orders))
			return err
		})
	}, nil
}

// bulkRiverCopy is the variant without results.
func bulkRiverCopy(a *arena) (bulkWrite, error) {
	client, err := river.NewClient(riverpgxv5.New(a.pgx), insertOnly())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, orders []order) error {
		return pgx.BeginFunc(ctx, a.pgx, func(tx pgx.Tx) error {
			_, err := client.InsertManyFastTx(ctx, tx, riverParams(orders))
			return err
		})
	}, nil
}

func bulkRiverBun(a *arena) (bulkWrite, error) {
	client, err := river.NewClient(riverdatabasesql.New(a.bun.DB), insertOnly())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, orders []order) error {
		return a.bun.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			_, err := client.InsertManyTx(ctx, tx.Tx, riverParams(orders))
			return err
		})
	}, nil
}

func bulkWatermill(a *arena) (bulkWrite, error) {
	return func(ctx context.Context, orders []order) error {
		return a.viaPgx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			return watermillPublish(ctx, tx.Tx, orders...)
		})
	}, nil
}
