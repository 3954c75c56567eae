package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// perTransaction is how many rows enqueue-all writes at once.
const perTransaction = 1000

// bulk is a subject that writes many messages in one transaction.
type bulk struct {
	name  string
	table table

	// begin returns the function for one transaction.
	begin func(a *arena) (bulkWrite, error)
}

type bulkWrite func(ctx context.Context, orders []order) error

func bulks() []bulk {
	return []bulk{
		{"bun, UNNEST", outboxTable, bulkUnnest(viaPgdriver)},
		{"bun, model", outboxTable, bulkModel},
		{"bun, UNNEST, keyed", outboxTable, bulkUnnestKeyed},
		{"outbox", outboxTable, bulkOutbox(viaPgdriver)},
		{"outbox, keyed", outboxTable, bulkOutboxKeyed},
		{"outbox via pgx", outboxTable, bulkOutbox(viaPgx)},
		{"bun via pgx, UNNEST", outboxTable, bulkUnnest(viaPgx)},
		{"pgx, COPY", outboxTable, bulkCopy},
		{"river via pgdriver", riverTable, bulkRiverBun},
		{"river via pgx", riverTable, bulkRiver},
		{"river via pgx, COPY", riverTable, bulkRiverCopy},
		{"watermill via pgx", watermillTable, bulkWatermill},
	}
}

// enqueueAllWorkload writes 1,000 messages a transaction, one after the other.
// The waits are those for the transaction.
func (b *bench) enqueueAllWorkload() []contest {
	c := contest{name: "enqueue-all/" + strconv.Itoa(perTransaction), baseline: "bun, UNNEST", unit: "rows"}
	for _, k := range bulks() {
		con := contender{name: k.name, batch: perTransaction, workers: 1, trial: func(ctx context.Context) (sample, error) {
			return k.measure(ctx, b.arena, b.sizes.enqueueAll)
		}}
		if k.name == "outbox, keyed" {
			con.against = "bun, UNNEST, keyed"
		}
		c.contenders = append(c.contenders, con)
	}
	return []contest{c}
}

func (k bulk) measure(ctx context.Context, a *arena, transactions int) (sample, error) {
	if err := a.prepare(ctx, k.table, 0, ""); err != nil {
		return sample{}, err
	}
	write, err := k.begin(a)
	if err != nil {
		return sample{}, err
	}
	orders := make([]order, perTransaction)
	for i := range orders {
		orders[i] = newOrder(200)
	}
	var waits []time.Duration
	s, err := timed(transactions*perTransaction, func() error {
		for range transactions {
			begun := time.Now()
			renew(orders)
			if err := write(ctx, orders); err != nil {
				return err
			}
			waits = append(waits, time.Since(begun))
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	s.waits = waits
	got, err := a.rows(ctx, k.table)
	if err == nil && got != s.n {
		err = fmt.Errorf("%d rows in %s, not %d", got, k.table.name, s.n)
	}
	return s, err
}

// orderNumber makes keys unique in a run.
var orderNumber atomic.Int64

// renew gives every order an id, and so a key, that nobody has had.
func renew(orders []order) {
	for i := range orders {
		orders[i].ID = fmt.Sprintf("order-%09d", orderNumber.Add(1))
	}
}
