package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// heldWorkload drains while a transaction somewhere else holds a snapshot, as a
// long report does: no dead row and no dead index entry can be removed. The
// waits are those of claims, and the ratio is to the same without.
func (b *bench) heldWorkload() []contest {
	c := contest{name: fmt.Sprintf("held/%d", b.held), unit: "rows"}
	for _, d := range []drainer{
		bunDrainer("bun", 2, 100, outboxTable, outboxSQL),
		relayDrainer("outbox", 1, 100, viaPgdriver),
		relayDrainer("outbox b1000", 1, 1000, viaPgdriver),
		riverDrainer("river tuned", riverTuned, riverViaPgx),
		watermillDrainer("watermill", 100, false),
	} {
		free := d.contender(d.trial(b.arena, b.held, b.payloads[0]))
		held := free
		held.name, held.against = d.name+", held", d.name
		held.trial = func(ctx context.Context) (sample, error) { return d.measureHeld(ctx, b.arena, b.held, b.payloads[0]) }
		c.contenders = append(c.contenders, free, held)
	}
	return []contest{c}
}

// measureHeld is trial with a snapshot from before the first claim.
func (d drainer) measureHeld(ctx context.Context, a *arena, n, payload int) (s sample, err error) {
	if err := a.prepare(ctx, d.table, n, encode(newOrder(payload))); err != nil {
		return s, err
	}
	tx, err := a.admin.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	var seen int
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM "+d.table.name).Scan(&seen); err != nil {
		return s, err
	}
	s, err = d.measure(ctx, a, n)
	if err != nil {
		return s, err
	}
	// Else the snapshot was not held.
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM "+d.table.name+" WHERE NOT ("+d.table.done+")").Scan(&seen); err != nil {
		return s, err
	}
	if seen != n {
		err = fmt.Errorf("the held snapshot shows %d rows that are not done with, not %d", seen, n)
	}
	return s, err
}
