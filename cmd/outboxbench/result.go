package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// result is one line of the output: the medians over the rounds of a contest.
type result struct {
	Workload string  `json:"workload"`
	Subject  string  `json:"subject"`
	N        int     `json:"n"`       // units of work a round
	Batch    int     `json:"batch"`   // 0: no such thing, or the default
	Workers  int     `json:"workers"` // writers, claimers or relays
	PerSec   float64 `json:"per_sec"`
	P50      float64 `json:"p50_ms"` // of what the workload says, 0 if it says nothing
	P99      float64 `json:"p99_ms"`
	RSS      float64 `json:"rss_mb"` // at most, 0 if it was not looked at
	Allocs   float64 `json:"allocs"` // a unit of work, in this process
	Ratio    float64 `json:"ratio"`  // to the baseline, 0 if there is none
	Baseline string  `json:"baseline"`

	odd bool // the baseline is not that of the contest
}

func newResult(c contest, con contender, samples []sample) result {
	of := func(f func(sample) float64) float64 {
		values := make([]float64, len(samples))
		for i, s := range samples {
			values[i] = f(s)
		}
		return round3(median(values))
	}
	return result{
		Workload: c.name, Subject: con.name, N: samples[0].n, Batch: con.batch, Workers: con.workers,
		PerSec: of(func(s sample) float64 {
			if s.elapsed <= 0 {
				return 0
			}
			return float64(s.n) / s.elapsed.Seconds()
		}),
		P50:    of(func(s sample) float64 { return percentile(s.waits, 50) }),
		P99:    of(func(s sample) float64 { return percentile(s.waits, 99) }),
		RSS:    of(func(s sample) float64 { return s.rss }),
		Allocs: of(func(s sample) float64 { return s.allocs }),
	}
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// percentile is in milliseconds, 0 of nothing.
func percentile(waits []time.Duration, p int) float64 {
	if len(waits) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(waits))
	return float64(sorted[min(len(sorted)*p/100, len(sorted)-1)]) / float64(time.Millisecond)
}

// round3 keeps three decimals.
func round3(v float64) float64 { return math.Round(v*1000) / 1000 }
