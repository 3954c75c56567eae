package main

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// contest is one piece of work for several contenders.
type contest struct {
	name       string // the workload and its case, as in drain/200B/20000/b100
	baseline   string // the contender whose figure the ratios divide by
	unit       string // what a rate counts
	by         figure // which figure is compared
	atMost     int    // rounds, for what needs no median; 0 is no bound
	contenders []contender
}

// figure is what the contenders of a contest are compared by.
type figure int

const (
	byRate figure = iota // more is better
	byWait               // less is better
	byRSS                // likewise
)

// contender is a subject that does the work of a contest.
type contender struct {
	name           string
	batch, workers int    // 0 where there is no such thing
	against        string // another baseline than the contest's, "" for that
	trial          func(ctx context.Context) (sample, error)
}

// sample is the outcome of one trial.
type sample struct {
	n       int
	elapsed time.Duration
	waits   []time.Duration // of what the contest says
	allocs  float64         // a unit of work
	rss     float64         // MiB at most
}

// timed does work on n units. It begins with a tidy heap.
func timed(n int, work func() error) (sample, error) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	begun := time.Now()
	err := work()
	s := sample{n: n, elapsed: time.Since(begun)}
	runtime.ReadMemStats(&after)
	s.allocs = float64(after.Mallocs-before.Mallocs) / float64(max(n, 1))
	return s, err
}

// trialLimit bounds one trial, the making of its rows included.
const trialLimit = 15 * time.Minute

// hold lets the contenders do their work in turns, round after round. Who
// begins changes from round to round. A contender that has failed is left out
// from there on; failed counts those.
func (c contest) hold(ctx context.Context, rounds int, complain func(string)) (results []result, failed int) {
	if c.atMost > 0 {
		rounds = min(rounds, c.atMost)
	}
	samples := make([][]sample, len(c.contenders))
	out := make([]bool, len(c.contenders))
	for round := range rounds {
		for i := range c.contenders {
			k := (i + round) % len(c.contenders)
			if out[k] || ctx.Err() != nil {
				continue
			}
			trialCtx, cancel := context.WithTimeout(ctx, trialLimit)
			s, err := c.contenders[k].trial(trialCtx)
			cancel()
			if err != nil {
				out[k] = true
				failed++
				complain(fmt.Sprintf("%s: %s: %v", c.name, c.contenders[k].name, err))
				continue
			}
			samples[k] = append(samples[k], s)
		}
	}
	for i, con := range c.contenders {
		if len(samples[i]) > 0 && !out[i] {
			results = append(results, newResult(c, con, samples[i]))
		}
	}
	c.compare(results)
	return results, failed
}

// compare fills in the ratios.
func (c contest) compare(results []result) {
	figures := map[string]float64{}
	for _, r := range results {
		figures[r.Subject] = c.figureOf(r)
	}
	for _, con := range c.contenders {
		baseline := c.baseline
		if con.against != "" {
			baseline = con.against
		}
		for k := range results {
			if results[k].Subject == con.name && figures[baseline] > 0 {
				results[k].Ratio = round3(figures[con.name] / figures[baseline])
				results[k].Baseline = baseline
				results[k].odd = con.against != ""
			}
		}
	}
}

func (c contest) figureOf(r result) float64 {
	switch c.by {
	case byWait:
		return r.P50
	case byRSS:
		return r.RSS
	}
	return r.PerSec
}
