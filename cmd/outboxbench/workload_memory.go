package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// memoryPayload is the size of a payload, in bytes.
const memoryPayload = 1000

func memoryDrainers() []drainer {
	return []drainer{
		bunDrainer("bun", 2, 100, outboxTable, outboxSQL),
		pgxDrainer("pgx", 2, 100),
		relayDrainer("outbox", 1, 0, viaPgdriver),
		relayDrainer("outbox b1000", 1, 1000, viaPgdriver),
		relayDrainer("outbox via pgx", 1, 0, viaPgx),
		riverDrainer("river tuned", riverTuned, riverViaPgx),
		watermillDrainer("watermill, delete", 100, true),
	}
}

// memoryWorkload drains rows of 1 kB in a process of its own, whose resident
// memory is looked at. It is flat if the long queue needs no more than the
// one of a tenth.
func (b *bench) memoryWorkload() []contest {
	var all []contest
	for _, n := range []int{b.memory / 10, b.memory} {
		c := contest{name: fmt.Sprintf("memory/%d", n), baseline: "bun", unit: "rows", by: byRSS, atMost: 1}
		for _, d := range memoryDrainers() {
			c.contenders = append(c.contenders, d.contender(func(ctx context.Context) (sample, error) {
				return d.measureInChild(ctx, b.arena, n)
			}))
		}
		all = append(all, c)
	}
	return all
}

// drained is what a child tells of its work.
type drained struct {
	Delivered int
	Elapsed   time.Duration
	Allocs    float64 // a row
	RSS       float64 // MiB at most
	Error     string
}

func (d drainer) measureInChild(ctx context.Context, a *arena, n int) (s sample, err error) {
	if err := a.prepare(ctx, d.table, n, encode(newOrder(memoryPayload))); err != nil {
		return s, err
	}
	c, err := startChild(task{Role: "drain", Subject: d.name, URL: a.url, N: n})
	if err != nil {
		return s, err
	}
	defer c.stopWith(ctx)()
	var out drained
	err = c.next(&out)
	if err := errors.Join(err, c.stop()); err != nil {
		return s, err
	}
	if out.Error != "" {
		return s, errors.New(out.Error)
	}
	if out.RSS == 0 {
		return s, errors.New("the resident memory of a process cannot be read here, which needs /proc")
	}
	return sample{n: n, elapsed: out.Elapsed, allocs: out.Allocs, rss: out.RSS}, nil
}

func drainInChild(ctx context.Context, a *arena, t task, out *json.Encoder) error {
	for _, d := range memoryDrainers() {
		if d.name == t.Subject {
			s, err := d.measure(ctx, a, t.N)
			told := drained{Delivered: s.n, Elapsed: s.elapsed, Allocs: s.allocs, RSS: peakRSS()}
			if err != nil {
				told.Error = err.Error()
			}
			return out.Encode(told)
		}
	}
	return fmt.Errorf("there is no drainer %q", t.Subject)
}

// peakRSS is the most that this process has had in memory, in MiB; 0 where
// there is no /proc.
func peakRSS() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kB, err := strconv.ParseFloat(string(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))), 64)
			if err != nil {
				return 0
			}
			return kB / 1024
		}
	}
	return 0
}
