package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// consumer is a subject that waits for messages.
type consumer struct {
	name     string
	producer producer
	poll     time.Duration // how often it looks by itself, 0 if that does not matter

	// consume calls handle for every message until ctx ends.
	consume func(ctx context.Context, a *arena, handle func(order) error) error
}

func consumers() []consumer {
	return []consumer{
		{"bun, LISTEN", bunProducer("", insertHandNotify), 0, consumeBun},
		{"pgx, LISTEN", producer{"", outboxTable, pgxNotifyProducer}, 0, consumePgx},
		{"outbox", outboxProducer("", hookedPgdriver), 0, consumeOutbox(hookedPgdriver)},
		{"outbox via pgx", outboxProducer("", hookedPgx), 0, consumeOutbox(hookedPgx)},
		{"river", producer{"", riverTable, riverProducer}, time.Second, consumeRiver(riverDefault)},
		{"river tuned", producer{"", riverTable, riverProducer}, 0, consumeRiver(riverTuned)},
		{"watermill", producer{"", watermillTable, watermillProducer}, time.Second, consumeWatermill(0)},
		{"watermill tuned", producer{"", watermillTable, watermillProducer}, 0, consumeWatermill(10 * time.Millisecond)},
	}
}

// latencyWorkload is the time from the return of the commit to the handler, of
// one message after the other, each when everybody is idle.
func (b *bench) latencyWorkload() []contest {
	one := contest{name: "latency/one-process", baseline: "bun, LISTEN", unit: "messages", by: byWait}
	two := contest{name: "latency/two-processes", baseline: "bun, LISTEN", unit: "messages", by: byWait}
	for _, c := range consumers() {
		n := b.latency
		if c.poll > 0 {
			n = b.latencySlow
		}
		if n == 0 {
			continue
		}
		one.contenders = append(one.contenders, contender{name: c.name, workers: 1, trial: func(ctx context.Context) (sample, error) {
			return c.measure(ctx, b.arena, n, c.here)
		}})
		two.contenders = append(two.contenders, contender{name: c.name, workers: 1, trial: func(ctx context.Context) (sample, error) {
			return c.measure(ctx, b.arena, n, c.elsewhere)
		}})
	}
	return []contest{one, two}
}

// hearing is a consumer that runs: when it was handed messages.
type hearing struct {
	handled chan time.Time
	stop    func() error
}

// warmUps are messages before the first that counts: plans, connections and
// LISTEN must be there.
func (c consumer) warmUps() int {
	if c.poll > 0 {
		return 1 // each takes a second
	}
	return 3
}

func (c consumer) measure(ctx context.Context, a *arena, n int, start func(context.Context, *arena) (*hearing, error)) (s sample, err error) {
	if err := a.prepare(ctx, c.producer.table, 0, ""); err != nil {
		return s, err
	}
	enqueue, err := c.producer.begin(ctx, a)
	if err != nil {
		return s, err
	}
	h, err := start(ctx, a)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	o := newOrder(200)
	s.n = n
	for i := range c.warmUps() + n {
		if i > 0 { // until everybody is idle, and not in step with who polls
			if err := pause(ctx, 20*time.Millisecond+rand.N(c.poll+10*time.Millisecond)); err != nil {
				return s, err
			}
		}
		if err := enqueue(ctx, o); err != nil {
			return s, err
		}
		committed := time.Now()
		select {
		case at, ok := <-h.handled:
			if !ok {
				return s, errors.New("the consumer ended")
			}
			if i >= c.warmUps() {
				s.waits = append(s.waits, at.Sub(committed))
				s.elapsed += at.Sub(committed)
			}
		case <-ctx.Done():
			return s, fmt.Errorf("message %d was not handled: %w", i+1, ctx.Err())
		}
	}
	return s, a.awaitDone(ctx, c.producer.table)
}

// here runs the consumer in this process.
func (c consumer) here(ctx context.Context, a *arena) (*hearing, error) {
	ctx, cancel := context.WithCancel(ctx)
	h := &hearing{handled: make(chan time.Time, 1)}
	ended := make(chan error, 1)
	go func() {
		defer close(h.handled)
		ended <- c.consume(ctx, a, func(order) error {
			h.handled <- time.Now()
			return nil
		})
	}()
	h.stop = func() error {
		cancel()
		return <-ended
	}
	return h, nil
}

// elsewhere runs the consumer in a child. The processes share a clock.
func (c consumer) elsewhere(ctx context.Context, a *arena) (*hearing, error) {
	child, err := startChild(task{Role: "consume", Subject: c.name, URL: a.url})
	if err != nil {
		return nil, err
	}
	done := child.stopWith(ctx)
	h := &hearing{handled: make(chan time.Time, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(h.handled)
		var nanos int64
		for child.next(&nanos) == nil {
			h.handled <- time.Unix(0, nanos)
		}
	}()
	h.stop = func() error {
		defer done()
		_ = child.stdin.Close()
		<-read
		return child.stop()
	}
	return h, nil
}

func consumeInChild(ctx context.Context, a *arena, t task, out *json.Encoder) error {
	for _, c := range consumers() {
		if c.name == t.Subject {
			return c.consume(ctx, a, func(order) error { return out.Encode(time.Now().UnixNano()) })
		}
	}
	return fmt.Errorf("there is no consumer %q", t.Subject)
}
