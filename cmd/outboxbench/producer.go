package main

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
)

const (
	// insertHand is the row of the library, written by hand.
	insertHand = "INSERT INTO outbox_messages (id, topic, version, payload) VALUES (?, '" + topicName + "', 1, ?)"

	// handChannel is where outboxes by hand tell of new rows.
	handChannel = "hand_messages"

	// insertHandNotify tells at commit, in the same round trip.
	insertHandNotify = insertHand + "; NOTIFY " + handChannel
)

// bunProducer is by hand through bun.
func bunProducer(name, insert string) producer {
	return producer{name, outboxTable, func(_ context.Context, a *arena) (func(context.Context, order) error, error) {
		return func(ctx context.Context, o order) error {
			return a.bun.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				if _, err := tx.ExecContext(ctx, insertBusiness); err != nil {
					return err
				}
				id, err := uuid.NewV7()
				if err != nil {
					return err
				}
				_, err = tx.ExecContext(ctx, insert, id.String(), encode(o))
				return err
			})
		}, nil
	}}
}

// bunAlone writes no message.
func bunAlone(_ context.Context, a *arena) (func(context.Context, order) error, error) {
	return func(ctx context.Context, _ order) error {
		return a.bun.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			_, err := tx.ExecContext(ctx, insertBusiness)
			return err
		})
	}, nil
}

func hookedPgdriver(a *arena) *bun.DB { return a.hooked }
func hookedPgx(a *arena) *bun.DB      { return a.hookedPgx }

// outboxProducer is this library.
func outboxProducer(name string, via func(*arena) *bun.DB) producer {
	return producer{name, outboxTable, func(_ context.Context, a *arena) (func(context.Context, order) error, error) {
		db := via(a)
		return func(ctx context.Context, o order) error {
			return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				if _, err := tx.ExecContext(ctx, insertBusiness); err != nil {
					return err
				}
				return outbox.Enqueue(ctx, tx, orderTopic, o)
			})
		}, nil
	}}
}

// pgxProducer is by hand through pgx.
func pgxProducer(_ context.Context, a *arena) (func(context.Context, order) error, error) {
	return func(ctx context.Context, o order) error {
		return pgx.BeginFunc(ctx, a.pgx, func(tx pgx.Tx) error { return pgxEnqueue(ctx, tx, o) })
	}, nil
}

// pgxNotifyProducer also tells at commit.
func pgxNotifyProducer(_ context.Context, a *arena) (func(context.Context, order) error, error) {
	return func(ctx context.Context, o order) error {
		return pgx.BeginFunc(ctx, a.pgx, func(tx pgx.Tx) error {
			if err := pgxEnqueue(ctx, tx, o); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "NOTIFY "+handChannel)
			return err
		})
	}, nil
}

func pgxEnqueue(ctx context.Context, tx pgx.Tx, o order) error {
	if _, err := tx.Exec(ctx, insertBusiness); err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make an id: %w", err)
	}
	_, err = tx.Exec(ctx, numbered(insertHand), id.String(), encode(o))
	return err
}
