//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

const (
	orderKeys = 60 // shared by all producers
	burst     = 60 // rows of a large EnqueueAll
)

var errWithdrawn = errors.New("withdrawn on purpose")

// producer writes business rows and messages until it is told to stop.
type producer struct {
	task task
	db   *bun.DB
	log  *slog.Logger
	rows atomic.Int64 // enqueued and not rolled back
}

func runProducer(ctx context.Context) error {
	t, ctx, err := loadTask(ctx)
	if err != nil {
		return err
	}
	p := &producer{task: t, db: openDatabase(t, 2*workers), log: newLog()}
	defer func() { _ = p.db.Close() }()
	p.log.Info(eventReady, "shift", clockShift())
	begun := time.Now()
	var all sync.WaitGroup
	for n := range workers {
		all.Go(func() {
			w := worker{producer: p, name: fmt.Sprintf("%s-%d", t.Name, n), rng: rand.New(rand.NewPCG(t.Seed, uint64(n)))}
			for ctx.Err() == nil {
				if float64(p.rows.Load()) > t.Rate*time.Since(begun).Seconds() {
					wait(ctx.Done(), 5*time.Millisecond)
					continue
				}
				if !w.transaction(ctx) {
					wait(ctx.Done(), 50*time.Millisecond)
				}
			}
		})
	}
	all.Wait()
	return nil
}

// worker does one transaction after another.
type worker struct {
	*producer
	name string
	n    int
	rng  *rand.Rand
}

// transaction enqueues something, tells what is known of its outcome and reports
// whether the database went along.
func (w *worker) transaction(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 6*time.Second)
	defer cancel()
	w.n++
	b := order{business: fmt.Sprintf("%s-%d", w.name, w.n)}
	withdraw := w.rng.IntN(20) == 0
	reached := false
	err := w.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if err := w.enqueue(ctx, tx, &b); err != nil {
			return err
		}
		_, err := tx.NewRaw("INSERT INTO chaos_business (id, messages, keys) VALUES (?, ?, ?)", b.business, len(b.ids), strings.Join(b.keys, " ")).Exec(ctx)
		if err == nil && withdraw {
			err = errWithdrawn
		}
		reached = err == nil
		return err
	})
	event := eventUnknown
	switch {
	case err == nil:
		event = eventCommitted
	case !reached: // no COMMIT was sent
		event = eventWithdrawn
	}
	if reached {
		w.rows.Add(int64(len(b.ids)))
	}
	if len(b.ids) > 0 {
		w.log.Info(event, "ids", b.ids)
	}
	return err == nil || errors.Is(err, errWithdrawn)
}

// order is one transaction.
type order struct {
	business string
	ids      []string
	keys     []string
}

func (o *order) add(receipts ...outbox.Receipt) {
	for _, r := range receipts {
		if !r.Duplicate {
			o.ids = append(o.ids, r.ID.String())
		}
	}
}

// enqueue writes the messages of one transaction. What is in b counts even if it
// fails half way.
func (w *worker) enqueue(ctx context.Context, tx bun.Tx, b *order) error {
	one := func(topic topics.Topic[parcel], p parcel, opts ...outbox.EnqueueOption) error {
		var r outbox.Receipt
		if err := outbox.Enqueue(ctx, tx, topic, p, append(opts, outbox.Into(&r))...); err != nil {
			return err
		}
		b.add(r)
		return nil
	}
	p := parcel{Business: b.business, Plan: w.plan()}
	switch n := w.rng.IntN(100); {
	case n < 50:
		return one(parcelTopic, p)
	case n < 60: // one of a sequence of keys along which all workers walk
		p.Key = fmt.Sprintf("key-%d", w.n/2)
		b.keys = append(b.keys, p.Key)
		return one(parcelTopic, p)
	case n < 70:
		p.Delay = 50 + w.rng.Int64N(2000)
		return one(letterTopic, p, outbox.After(time.Duration(p.Delay)*time.Millisecond))
	case n < 88:
		return w.ordered(ctx, tx, b, one)
	}
	many := make([]parcel, 2+w.rng.IntN(8))
	if w.rng.IntN(12) == 0 {
		many = make([]parcel, burst)
	}
	for i := range many {
		many[i] = parcel{Business: b.business, Plan: w.plan()}
		if i%10 == 1 {
			many[i].Key = fmt.Sprintf("batch-key-%d-%d", w.n/2, i)
			b.keys = append(b.keys, many[i].Key)
		}
	}
	receipts, err := outbox.EnqueueAll(ctx, tx, parcelTopic, many)
	b.add(receipts...)
	return err
}

// ordered enqueues some rows of one ordering key, in both topics. The counter's
// row serialises the writers of the key, as the promise of order asks for.
func (w *worker) ordered(ctx context.Context, tx bun.Tx, b *order, one func(topics.Topic[parcel], parcel, ...outbox.EnqueueOption) error) error {
	key := fmt.Sprintf("order-%d", w.rng.IntN(orderKeys))
	n := 1 + w.rng.IntN(3)
	var last int
	err := tx.NewRaw("INSERT INTO chaos_order AS o (key, n) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET n = o.n + excluded.n RETURNING n", key, n).Scan(ctx, &last)
	if err != nil {
		return err
	}
	for seq := last - n + 1; seq <= last; seq++ {
		topic := parcelTopic
		if w.rng.IntN(2) == 0 {
			topic = letterTopic
		}
		p := parcel{Business: b.business, Seq: seq, Order: key}
		if w.rng.IntN(100) == 0 {
			p.Plan = planFlaky
		}
		if err := one(topic, p); err != nil {
			return err
		}
	}
	return nil
}

// plan is what the receiver does with a message that has no ordering key.
func (w *worker) plan() plan {
	switch n := w.rng.IntN(2000); {
	case n < 4:
		return planHang
	case n < 6:
		return planLate
	case n < 8:
		return planRefuse
	case n < 28:
		return planFlaky
	case n < 58:
		return planSlow
	}
	return ""
}
