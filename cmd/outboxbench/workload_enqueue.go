package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// producer is a subject that writes a business row, and perhaps a message, in
// one transaction.
type producer struct {
	name  string
	table table // "" is no message

	// begin returns the function for one transaction, which several writers may
	// call at once.
	begin func(ctx context.Context, a *arena) (func(ctx context.Context, o order) error, error)
}

// insertBusiness is the write that a message is about.
const insertBusiness = "INSERT INTO business (customer, total) VALUES ('customer-0001', 4200)"

func producers() []producer {
	return []producer{
		bunProducer("bun", insertHand),
		{name: "business row alone", begin: bunAlone},
		bunProducer("bun, NOTIFY within", insertHandNotify),
		outboxProducer("outbox", viaPgdriver),
		outboxProducer("outbox, hook", hookedPgdriver),
		outboxProducer("outbox via pgx", viaPgx),
		outboxProducer("outbox via pgx, hook", hookedPgx),
		{"pgx", outboxTable, pgxProducer},
		{"river via pgx", riverTable, riverProducer},
		{"river via pgdriver", riverTable, riverBunProducer},
		{"watermill via pgx", watermillTable, watermillProducer},
	}
}

// enqueueWorkload is a transaction of a business row and a message. The waits
// are those for the transaction, BEGIN and COMMIT included. With the hook, the
// ratio is to the same without.
func (b *bench) enqueueWorkload() []contest {
	return []contest{b.enqueueContest(1, b.enqueue), b.enqueueContest(8, 4*b.enqueue)}
}

func (b *bench) enqueueContest(writers, n int) contest {
	c := contest{name: fmt.Sprintf("enqueue/w%d", writers), baseline: "bun", unit: "transactions"}
	for _, p := range producers() {
		con := contender{name: p.name, workers: writers, trial: func(ctx context.Context) (sample, error) {
			return p.measure(ctx, b.arena, writers, n)
		}}
		if without, ok := strings.CutSuffix(p.name, ", hook"); ok {
			con.against = without // what the hook costs
		}
		c.contenders = append(c.contenders, con)
	}
	return c
}

func (p producer) measure(ctx context.Context, a *arena, writers, n int) (sample, error) {
	if err := a.prepare(ctx, p.table, 0, ""); err != nil {
		return sample{}, err
	}
	enqueue, err := p.begin(ctx, a)
	if err != nil {
		return sample{}, err
	}
	o := newOrder(200)
	waits := make([]time.Duration, n)
	s, err := timed(n, func() error {
		group, ctx := errgroup.WithContext(ctx)
		for w := range writers {
			group.Go(func() error {
				for i := w; i < n; i += writers {
					begun := time.Now()
					if err := enqueue(ctx, o); err != nil {
						return err
					}
					waits[i] = time.Since(begun)
				}
				return nil
			})
		}
		return group.Wait()
	})
	if err != nil {
		return s, err
	}
	s.waits = waits
	return s, p.check(ctx, a, n)
}

// check counts the rows of n transactions.
func (p producer) check(ctx context.Context, a *arena, n int) error {
	for _, t := range []table{{name: "business"}, p.table} {
		if t.name == "" {
			continue
		}
		got, err := a.rows(ctx, t)
		if err != nil {
			return err
		}
		if got != n {
			return fmt.Errorf("%d rows in %s, not %d", got, t.name, n)
		}
	}
	return nil
}
