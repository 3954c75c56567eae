package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// sqliteWorkload compares with raw SQL on SQLite, through bun and the same
// driver. Every trial has a file of its own.
func (b *bench) sqliteWorkload() []contest {
	enqueue := contest{name: "sqlite/enqueue", baseline: "bun", unit: "transactions"}
	for _, p := range []struct {
		name    string
		message func(ctx context.Context, tx bun.Tx, o order) error // nil: none
	}{
		{"bun", sqliteInsert},
		{"business row alone", nil},
		{"outbox", func(ctx context.Context, tx bun.Tx, o order) error { return outbox.Enqueue(ctx, tx, orderTopic, o) }},
	} {
		enqueue.contenders = append(enqueue.contenders, contender{name: p.name, workers: 1, trial: func(ctx context.Context) (sample, error) {
			return withSQLite(ctx, func(db *bun.DB) (sample, error) { return sqliteEnqueue(ctx, db, b.sizes.enqueue, p.message) })
		}})
	}
	all := contest{name: fmt.Sprintf("sqlite/enqueue-all/%d", perTransaction), baseline: "bun", unit: "rows"}
	for _, w := range []struct {
		name  string
		write func(ctx context.Context, tx bun.Tx, orders []order) error
	}{{"bun", sqliteInsertAll}, {"outbox", func(ctx context.Context, tx bun.Tx, orders []order) error {
		_, err := outbox.EnqueueAll(ctx, tx, orderTopic, orders)
		return err
	}}} {
		all.contenders = append(all.contenders, contender{name: w.name, batch: perTransaction, workers: 1, trial: func(ctx context.Context) (sample, error) {
			return withSQLite(ctx, func(db *bun.DB) (sample, error) { return sqliteEnqueueAll(ctx, db, b.sizes.enqueueAll, w.write) })
		}})
	}
	return []contest{enqueue, all, b.sqliteDrain(100), b.sqliteDrain(1000)}
}

func sqliteInsert(ctx context.Context, tx bun.Tx, o order) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, insertHand, id.String(), encode(o))
	return err
}

// sqliteInsertAll is one statement over a JSON array.
func sqliteInsertAll(ctx context.Context, tx bun.Tx, orders []order) error {
	c, err := columnsOf(orders)
	if err != nil {
		return err
	}
	rows := make([][2]string, len(orders))
	for i := range orders {
		rows[i] = [2]string{c.ids[i], c.payloads[i]}
	}
	list, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO outbox_messages (id, topic, version, payload) SELECT json_extract(value, '$[0]'), '"+
		topicName+"', 1, json_extract(value, '$[1]') FROM json_each(?)", string(list))
	return err
}

func sqliteEnqueue(ctx context.Context, db *bun.DB, n int, message func(context.Context, bun.Tx, order) error) (sample, error) {
	o := newOrder(200)
	waits := make([]time.Duration, n)
	s, err := timed(n, func() error {
		for i := range n {
			begun := time.Now()
			err := db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				if _, err := tx.ExecContext(ctx, insertBusiness); err != nil || message == nil {
					return err
				}
				return message(ctx, tx, o)
			})
			if err != nil {
				return err
			}
			waits[i] = time.Since(begun)
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	s.waits = waits
	tables := []string{"business", "outbox_messages"}
	if message == nil {
		tables = tables[:1]
	}
	return s, expectSQLite(ctx, db, n, tables...)
}

func sqliteEnqueueAll(ctx context.Context, db *bun.DB, transactions int, write func(context.Context, bun.Tx, []order) error) (sample, error) {
	orders := make([]order, perTransaction)
	for i := range orders {
		orders[i] = newOrder(200)
	}
	s, err := timed(transactions*perTransaction, func() error {
		for range transactions {
			renew(orders)
			if err := db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return write(ctx, tx, orders) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	return s, expectSQLite(ctx, db, s.n, "outbox_messages")
}

// sqliteDrain empties a queue in batches of a size.
func (b *bench) sqliteDrain(batch int) contest {
	c := contest{name: fmt.Sprintf("sqlite/drain/b%d", batch), baseline: "bun", unit: "rows"}
	for _, d := range []struct {
		name  string
		drain func(ctx context.Context, db *bun.DB, n int, t *tally) error
	}{
		{"bun", func(ctx context.Context, db *bun.DB, _ int, t *tally) error {
			return drainByHand(ctx, sqliteClaimer{db}, 1, batch, t)
		}},
		{"outbox", func(ctx context.Context, db *bun.DB, n int, t *tally) error {
			return drainOutbox(ctx, db, 1, batch, n, t)
		}},
	} {
		c.contenders = append(c.contenders, contender{name: d.name, batch: batch, workers: 1, trial: func(ctx context.Context) (sample, error) {
			return withSQLite(ctx, func(db *bun.DB) (s sample, err error) {
				if err := fillSQLite(ctx, db, b.sqlite, encode(newOrder(200))); err != nil {
					return s, err
				}
				var t tally
				if s, err = timed(b.sqlite, func() error { return d.drain(ctx, db, b.sqlite, &t) }); err != nil {
					return s, err
				}
				if got := int(t.delivered.Load()); got != b.sqlite {
					return s, fmt.Errorf("delivered %d times, with %d rows", got, b.sqlite)
				}
				return s, expectSQLite(ctx, db, b.sqlite, "outbox_messages WHERE status = 'sent'")
			})
		}})
	}
	return c
}

// expectSQLite counts the rows of tables.
func expectSQLite(ctx context.Context, db *bun.DB, n int, tables ...string) error {
	for _, t := range tables {
		got, err := countSQLite(ctx, db, "SELECT count(*) FROM "+t)
		if err != nil {
			return err
		}
		if got != n {
			name, _, _ := strings.Cut(t, " ")
			return fmt.Errorf("%d rows in %s, not %d", got, name, n)
		}
	}
	return nil
}
