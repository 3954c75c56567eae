//go:build linux

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
)

// result is what a run writes as JSON.
type result struct {
	Seed         uint64               `json:"seed"`
	Duration     time.Duration        `json:"duration_ns"`
	Drained      time.Duration        `json:"drained_ns"` // after the last fault and producer
	Acknowledged int64                `json:"acknowledged"`
	Faults       map[account.Kind]int `json:"faults"`
	Shifted      int                  `json:"relays_with_a_shifted_clock"`
	Clocks       []string             `json:"clocks_that_are_not_as_intended"`
	*account.Verdict
	Recoveries []account.Recovery `json:"recoveries"`
	Missed     []string           `json:"aims_missed"`
	OK         bool               `json:"ok"`
}

// report judges the run, prints the result and writes it.
func (c *conductor) report(drained time.Duration) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := result{
		Seed: c.seed, Duration: c.duration, Drained: drained, Acknowledged: c.committed.Load(), Faults: map[account.Kind]int{},
		Clocks: c.wrongClocks, Verdict: account.Judge(c.run), Recoveries: account.Recoveries(c.run),
	}
	for _, f := range c.run.Faults {
		r.Faults[f.Kind]++
	}
	for _, n := range c.shifts {
		r.Shifted += n
	}
	r.Missed = missed(r)
	r.OK = r.Verdict.OK() && len(r.Clocks) == 0 && r.Shifted > 0
	r.print(os.Stdout)
	if c.json != "" {
		text, err := json.MarshalIndent(r, "", "\t")
		if err != nil {
			return false, err
		}
		if err := os.WriteFile(c.json, append(text, '\n'), 0o644); err != nil {
			return false, err
		}
	}
	return r.OK, nil
}

// missed lists the aims that did not hold.
func missed(r result) (aims []string) {
	for _, rec := range r.Recoveries {
		if rec.Missed() {
			aims = append(aims, fmt.Sprintf("%s after the %s at %v: %v instead of %v", rec.Measure, rec.Kind, rec.WorstAt, rounded(rec.Worst), rec.Aim))
		}
	}
	if limit := concurrency + settleBatch; r.PerKill > limit {
		aims = append(aims, fmt.Sprintf("%d duplicates of one kill instead of %d", r.PerKill, limit))
	}
	return aims
}

func rounded(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }

// print writes tables in markdown, and then what is wrong.
func (r result) print(w io.Writer) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
	say("\n| what | number |\n|---|---:|\n")
	for _, l := range []struct {
		what string
		n    int
	}{
		{"rows committed", r.Rows},
		{"rows rolled back or never committed, none delivered", r.Withdrawn},
		{"idempotency keys used", r.Keys},
		{"keys used again", r.Repeats},
		{"rows delivered", r.Delivered},
		{"rows lost", r.Wrong[account.Lost]},
		{"rows delivered uncommitted", r.Wrong[account.Uncommitted]},
		{"rows out of order", r.Wrong[account.OutOfOrder]},
		{"duplicates without a reason", r.Wrong[account.Unexplained]},
	} {
		say("| %s | %d |\n", l.what, l.n)
	}
	for _, reason := range account.Reasons {
		say("| duplicates: %s | %d |\n", reason, r.Duplicates[reason])
	}
	for _, behind := range slices.Sorted(maps.Keys(r.Behind)) {
		say("| of which, %s | %d |\n", behind, r.Behind[behind])
	}
	say("| most duplicates of one kill | %d |\n", r.PerKill)
	for _, reason := range slices.Sorted(maps.Keys(r.Parked)) {
		say("| parked: %s | %d |\n", reason, r.Parked[reason])
	}
	for _, kind := range append(account.Kinds[:], account.Stall) {
		say("| events: %s | %d |\n", kind, r.Faults[kind])
	}
	say("| relays with a clock 2 h fast or slow | %d |\n", r.Shifted)

	say("\n| after | until | samples | undisturbed | median | worst | aim | worst while something else was broken too |\n")
	say("|---|---|---:|---:|---:|---:|---:|---:|\n")
	for _, rec := range r.Recoveries {
		aim := "-"
		if rec.Aim > 0 {
			aim = rec.Aim.String()
		}
		say("| %s | %s | %d | %d | %v | %v | %s | %v |\n", rec.Kind, rec.Measure, rec.Samples, rec.Undisturbed, rounded(rec.Median), rounded(rec.Worst), aim, rounded(rec.WorstDisturbed))
	}
	say("\nseed %d, %v of faults, drained %v later\n", r.Seed, r.Duration, rounded(r.Drained))
	for _, aim := range r.Missed {
		say("AIM MISSED: %s\n", aim)
	}
	for _, clock := range r.Clocks {
		say("WRONG CLOCK: %s\n", clock)
	}
	slices.SortStableFunc(r.Violations, func(a, b account.Violation) int { return cmp.Compare(a.Wrong, b.Wrong) })
	for _, v := range r.Violations {
		say("VIOLATION: %s: %s: %s\n", v.Wrong, v.ID, v.Detail)
	}
	for _, wrong := range slices.Sorted(maps.Keys(r.Wrong)) {
		say("FAILED: %d times: %s\n", r.Wrong[wrong], wrong)
	}
	if r.OK {
		say("ok: nothing lost, nothing delivered uncommitted, every duplicate explained\n")
	}
}
