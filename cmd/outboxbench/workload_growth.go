package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// growthWorkload is what claims cost in a table with history: sent, delayed and
// parked rows, and due ones of topics that nobody here takes. The waits are those
// of claims of due rows in one contest, and of looks that find nothing in the
// other; the ratio is to the same subject on an empty table.
func (b *bench) growthWorkload() []contest {
	claim := contest{name: "growth/claim", unit: "rows", by: byWait}
	look := contest{name: "growth/idle-look", unit: "looks", by: byWait}
	histories := make([]*history, len(b.sent))
	for i, sent := range b.sent {
		histories[i] = &history{bench: b, sent: sent}
	}
	for _, g := range []grower{
		{"bun", 100, func(ctx context.Context, db *bun.DB, n int) error {
			return drainByHand(ctx, bunClaimer{db, outboxSQL}, 2, 100, &tally{})
		}, lookByHand},
		{"outbox", 0, func(ctx context.Context, db *bun.DB, n int) error { return drainOutbox(ctx, db, 1, 0, n, &tally{}) }, lookOutbox},
		{"outbox b1000", 1000, func(ctx context.Context, db *bun.DB, n int) error { return drainOutbox(ctx, db, 1, 1000, n, &tally{}) }, lookOutbox},
	} {
		for i, sent := range b.sent {
			con := contender{
				name: fmt.Sprintf("%s, %d sent", g.name, sent), against: fmt.Sprintf("%s, %d sent", g.name, b.sent[0]),
				batch: g.batch, workers: 1,
			}
			con.trial = func(ctx context.Context) (sample, error) { return g.claims(ctx, histories[i], b.growth) }
			claim.contenders = append(claim.contenders, con)
			if g.name == "outbox b1000" {
				continue // it looks in the same way
			}
			con.trial = func(ctx context.Context) (sample, error) { return g.looks(ctx, histories[i], b.looks) }
			look.contenders = append(look.contenders, con)
		}
	}
	return []contest{claim, look}
}

// grower is a subject whose claims are timed.
type grower struct {
	name  string
	batch int
	drain func(ctx context.Context, db *bun.DB, n int) error
	look  func(ctx context.Context, a *arena, n int) error
}

// grow makes the history of a table from its arguments: the number of sent,
// delayed, parked and foreign rows, and a payload.
const grow = `INSERT INTO outbox_messages (id, topic, payload, status, attempts, available_at, created_at, updated_at, sent_at)
SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(nextval('growth_ids')), 12, '0'))::uuid, topic, ?4::json, status, attempts,
	statement_timestamp() + wait + i * interval '1 microsecond', statement_timestamp(), statement_timestamp(),
	CASE status WHEN 'sent' THEN statement_timestamp() END
FROM (
	SELECT i, '` + topicName + `' AS topic, 'sent' AS status, 1 AS attempts, interval '-2 hours' AS wait FROM generate_series(1, ?0) AS i
	UNION ALL SELECT i, '` + topicName + `', 'pending', 1, interval '1 day' FROM generate_series(1, ?1) AS i
	UNION ALL SELECT i, '` + topicName + `', 'failed', 12, interval '-2 hours' FROM generate_series(1, ?2) AS i
	UNION ALL SELECT i, 'foreign.' || i % 10, 'pending', 0, interval '-2 hours' FROM generate_series(1, ?3) AS i
) AS history`

// history is a table that has grown, in an arena of its own. With no sent row it
// is empty.
type history struct {
	bench *bench
	sent  int
	arena *arena // nil until it is asked for
}

// open makes the history when it is first asked for. What is to be empty is
// emptied before every trial.
func (h *history) open(ctx context.Context) (*arena, error) {
	if h.arena == nil {
		a, err := newArena(ctx, h.bench.cluster)
		if err != nil {
			return nil, err
		}
		h.bench.closers = append(h.bench.closers, a.close)
		if h.sent > 0 {
			if err := a.exec(ctx, grow, h.sent, h.bench.delayed, h.bench.parked, h.bench.foreign, encode(newOrder(200))); err != nil {
				return nil, fmt.Errorf("make a history: %w", err)
			}
		}
		h.arena = a
	}
	if h.sent == 0 {
		if err := h.arena.exec(ctx, "TRUNCATE outbox_messages"); err != nil {
			return nil, err
		}
	}
	return h.arena, nil
}

// tidy removes what trials have left in the indexes.
func (h *history) tidy(ctx context.Context) error {
	err := h.arena.exec(ctx, "VACUUM (INDEX_CLEANUP on, ANALYZE) outbox_messages")
	h.arena.settle(ctx)
	return err
}

// claims drains n more rows.
func (g grower) claims(ctx context.Context, h *history, n int) (s sample, err error) {
	a, err := h.open(ctx)
	if err != nil {
		return s, err
	}
	const due = `INSERT INTO outbox_messages (id, topic, payload, available_at)
SELECT ('00000000-0000-7000-8000-' || lpad(to_hex(nextval('growth_ids')), 12, '0'))::uuid, '` + topicName + `', ?::json,
	statement_timestamp() - interval '1 hour' + i * interval '1 microsecond' FROM generate_series(1, ?) AS i`
	if err := a.exec(ctx, due, encode(newOrder(200)), n); err != nil {
		return s, err
	}
	if err := h.tidy(ctx); err != nil {
		return s, err
	}
	a.watch.take()
	if s, err = timed(n, func() error { return g.drain(ctx, a.bun, n) }); err != nil {
		return s, err
	}
	if s.waits = a.watch.take(); len(s.waits) == 0 {
		return s, errNoClaims
	}
	left, err := a.count(ctx, "SELECT count(*) FROM outbox_messages WHERE topic = ? AND status = 'pending' AND available_at <= now()", topicName)
	if err == nil && left > 0 {
		err = fmt.Errorf("%d due rows are left", left)
	}
	return s, err
}

var errNoClaims = errors.New("the stopwatch saw no claim; tell it how a claim reads now")

// looks has the subject look in vain n times.
func (g grower) looks(ctx context.Context, h *history, n int) (s sample, err error) {
	a, err := h.open(ctx)
	if err != nil {
		return s, err
	}
	if err := h.tidy(ctx); err != nil {
		return s, err
	}
	a.watch.take()
	if s, err = timed(n, func() error { return g.look(ctx, a, n) }); err != nil {
		return s, err
	}
	s.waits = a.watch.take()
	s.elapsed = 0 // most of it is waiting for the next look
	if len(s.waits) < n {
		err = errNoClaims
	}
	return s, err
}

func lookByHand(ctx context.Context, a *arena, n int) error {
	for range n {
		found, _, err := step(ctx, bunClaimer{a.bun, outboxSQL}, 100, &tally{})
		if err == nil && found > 0 {
			err = fmt.Errorf("an idle look found %d rows", found)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lookOutbox lets a relay that has nothing to do look every few milliseconds.
func lookOutbox(ctx context.Context, a *arena, n int) error {
	relay := newRelay(a.bun, 0, func(order) error { return errors.New("an idle look found a row") })
	relay.Interval = 5 * time.Millisecond
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- relay.Start(ctx) }()
	for a.watch.seen() < n && ctx.Err() == nil {
		if pause(ctx, 5*time.Millisecond) != nil {
			break
		}
	}
	stop()
	return <-ended
}
