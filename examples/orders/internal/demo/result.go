package demo

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/examples/orders/events"
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/shop"
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/warehouse"
	"github.com/typedoutbox/typedoutbox/outbox"
)

// Result compares what the database says with what the warehouse has done.
type Result struct {
	Placed     int // orders sent to the API
	Committed  int // in the database
	RolledBack int // their transaction failed after Enqueue
	Events     int // in the outbox, whatever became of them
	Picked     int // distinct orders
	Calls      int // of the relays, to the warehouse
	Failed     int // of those
	Duplicates int // calls for an order that the warehouse had picked before
	Lost       int // committed, never picked
	Phantoms   int // picked, never committed
	Twice      int // picked under two message ids
	OutOfTurn  int // picked before an earlier order of the same customer
	Parked     int // given up by the relays
}

// compare reads the database and the warehouse.
func compare(ctx context.Context, db *bun.DB, w *warehouse.Warehouse, c *crowd) (Result, error) {
	var committed []string
	if err := db.NewSelect().Model((*shop.Order)(nil)).Column("id").Scan(ctx, &committed); err != nil {
		return Result{}, fmt.Errorf("read the orders back: %w", err)
	}
	stats, err := outbox.Store{DB: db}.Stats(ctx)
	if err != nil {
		return Result{}, err
	}
	counts, picked := w.Counts(), w.Orders()
	r := Result{
		Placed: ordersToPlace, Committed: len(committed), RolledBack: int(c.declined.Load()), Picked: len(picked),
		Calls: counts.Calls, Failed: counts.Failed, Duplicates: counts.Duplicates, OutOfTurn: counts.OutOfTurn, Parked: stats.Count(outbox.StatusFailed),
	}
	for _, t := range stats.Topics {
		if t.Topic == events.OrderCreatedTopic.Name() {
			r.Events += t.Count
		}
	}
	for _, id := range committed {
		switch picked[id] {
		case 0:
			r.Lost++
		case 1:
		default:
			r.Twice++
		}
		delete(picked, id)
	}
	r.Phantoms = len(picked)
	return r, nil
}

// OK reports whether the outbox has kept its promise.
func (r Result) OK() bool {
	return r.Committed == r.Picked && r.Committed == r.Events && r.Committed+r.RolledBack == r.Placed &&
		r.Lost == 0 && r.Phantoms == 0 && r.Twice == 0 && r.OutOfTurn == 0 && r.Parked == 0
}

// Print writes the result as a table.
func (r Result) Print(out io.Writer) {
	for _, row := range []struct {
		name  string
		n     int
		about string
	}{
		{"orders placed", r.Placed, "through the API"},
		{"rolled back", r.RolledBack, "the payment failed after Enqueue, and the event went with the order"},
		{"orders committed", r.Committed, ""},
		{"calls to the warehouse", r.Calls, fmt.Sprintf("%d of them failed", r.Failed)},
		{"distinct orders picked", r.Picked, ""},
		{"duplicates recognised", r.Duplicates, "calls that the warehouse knew by their message id"},
		{"lost", r.Lost, "committed, never picked"},
		{"never committed, yet picked", r.Phantoms, ""},
		{"picked twice", r.Twice, ""},
		{"picked out of turn", r.OutOfTurn, "before an earlier order of the same customer"},
		{"parked", r.Parked, "given up after too many attempts"},
	} {
		line := fmt.Sprintf("  %-28s %5d  %s", row.name, row.n, row.about)
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}
