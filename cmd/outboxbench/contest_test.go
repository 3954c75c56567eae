package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rates returns a trial that does 100 units in the time of each of its rounds.
func rates(rounds ...time.Duration) func(context.Context) (sample, error) {
	return func(context.Context) (sample, error) {
		s := sample{n: 100, elapsed: rounds[0], waits: []time.Duration{rounds[0], 4 * rounds[0]}}
		rounds = rounds[1:]
		return s, nil
	}
}

func TestContestTakesMediansAndRatios(t *testing.T) {
	const second = time.Second
	c := contest{name: "c", baseline: "raw", contenders: []contender{
		{name: "raw", trial: rates(second, 10*second, 2*second)},
		{name: "ours", batch: 7, workers: 3, trial: rates(second, second, 50*second)},
		{name: "other", against: "ours", trial: rates(4*second, 4*second, 4*second)},
	}}
	results, failed := c.hold(t.Context(), 3, func(problem string) { t.Error(problem) })
	require.Zero(t, failed)
	require.Equal(t, []result{
		{Workload: "c", Subject: "raw", N: 100, PerSec: 50, P50: 8000, P99: 8000, Ratio: 1, Baseline: "raw"},
		{Workload: "c", Subject: "ours", N: 100, Batch: 7, Workers: 3, PerSec: 100, P50: 4000, P99: 4000, Ratio: 2, Baseline: "raw"},
		{Workload: "c", Subject: "other", N: 100, PerSec: 25, P50: 16000, P99: 16000, Ratio: 0.25, Baseline: "ours", odd: true},
	}, results)

	c.by = byWait
	c.compare(results)
	require.InDelta(t, 0.5, results[1].Ratio, 0, "ours waits half as long")
	require.InDelta(t, 4, results[2].Ratio, 0)
	require.Equal(t, "0.50", ratio(results[1]))
	require.Equal(t, "4.00 of ours", ratio(results[2]))
}

func TestContestCountsFailures(t *testing.T) {
	trials := 0
	c := contest{name: "c", baseline: "good", contenders: []contender{
		{name: "good", trial: rates(time.Second, time.Second, time.Second)},
		{name: "bad", trial: func(context.Context) (sample, error) {
			trials++
			if trials == 2 {
				return sample{}, errors.New("lost a row")
			}
			return sample{n: 1, elapsed: time.Second}, nil
		}},
	}}
	var problems []string
	results, failed := c.hold(t.Context(), 3, func(problem string) { problems = append(problems, problem) })
	require.Equal(t, 1, failed)
	require.Equal(t, []string{"c: bad: lost a row"}, problems)
	require.Equal(t, 2, trials, "who has failed is left out from there on")
	require.Len(t, results, 1, "and has no result")
}

func TestContestTakesTurns(t *testing.T) {
	var turns strings.Builder
	turn := func(name string) contender {
		return contender{name: name, trial: func(context.Context) (sample, error) {
			turns.WriteString(name)
			return sample{n: 1, elapsed: time.Second}, nil
		}}
	}
	_, failed := contest{contenders: []contender{turn("a"), turn("b"), turn("c")}}.hold(t.Context(), 3, nil)
	require.Zero(t, failed)
	require.Equal(t, "abcbcacab", turns.String())

	turns.Reset()
	contest{atMost: 1, contenders: []contender{turn("a"), turn("b")}}.hold(t.Context(), 3, nil)
	require.Equal(t, "ab", turns.String())
}

func TestPercentile(t *testing.T) {
	var waits []time.Duration
	for ms := 100; ms >= 1; ms-- {
		waits = append(waits, time.Duration(ms)*time.Millisecond)
	}
	require.InDelta(t, 51, percentile(waits, 50), 0)
	require.InDelta(t, 100, percentile(waits, 99), 0)
	require.Zero(t, percentile(nil, 50))
}

func TestTellers(t *testing.T) {
	c := contest{name: "drain/x", unit: "rows"}
	results := []result{{Workload: "drain/x", Subject: "bun", N: 20000, Batch: 100, Workers: 2, PerSec: 35200.4, P50: 1.875, Ratio: 1, Baseline: "bun"}}
	var table, lines bytes.Buffer
	require.NoError(t, newTeller(&table, false)(c, results))
	require.Equal(t, "\ndrain/x\n"+
		"  subject       n  batch  workers  rows/s  p50 ms  p99 ms  RSS MiB  allocs  ratio\n"+
		"  bun      20,000    100        2  35,200    1.88                            1.00\n", table.String())
	require.NoError(t, newTeller(&lines, true)(c, results))
	require.Equal(t, `{"workload":"drain/x","subject":"bun","n":20000,"batch":100,"workers":2,"per_sec":35200.4,"p50_ms":1.875,"p99_ms":0,"rss_mb":0,"allocs":0,"ratio":1,"baseline":"bun"}`+"\n",
		lines.String())
}

func TestPlotIsWellFormed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plot.svg")
	require.NoError(t, plot(file, []result{
		{Workload: "drain/x", Subject: "bun", PerSec: 100, Ratio: 1},
		{Workload: "drain/x", Subject: "outbox", PerSec: 50, Ratio: 0.5},
		{Workload: "latency/x", Subject: "outbox", P50: 3},
	}))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	decoder := xml.NewDecoder(bytes.NewReader(text))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	full := plotWidth - labelWidth - valueWidth
	require.Contains(t, string(text), newPanel([]result{{Workload: "latency/x", Subject: "outbox", P50: 3}}, 0).Title)
	bars := newChart([]result{{Workload: "drain/x", PerSec: 100}, {Workload: "drain/x", PerSec: 50}}).Panels[0].Bars
	require.Equal(t, []int{full, full / 2}, []int{bars[0].Width, bars[1].Width})
}

func TestSettings(t *testing.T) {
	s, err := parseSettings([]string{"-quick", "-only", "^drain"})
	require.NoError(t, err)
	require.Equal(t, 1, s.rounds)
	require.Equal(t, quickSizes, s.sizes)
	b := &bench{sizes: s.sizes, arena: &arena{}}
	chosen := b.chosen(s)
	require.NotEmpty(t, chosen)
	for _, c := range chosen {
		require.True(t, strings.HasPrefix(c.name, "drain/"), c.name)
	}
	for _, args := range [][]string{{"-only", "("}, {"-rounds", "-1"}, {"what"}} {
		_, err := parseSettings(args)
		require.Error(t, err, args)
	}
}

// Who is compared with must be there, and nobody may be there twice.
func TestContestsAreSound(t *testing.T) {
	b := &bench{sizes: quickSizes, arena: &arena{}}
	seen := map[string]bool{}
	for _, c := range b.workloads() {
		require.False(t, seen[c.name], c.name)
		seen[c.name] = true
		names := map[string]bool{}
		for _, con := range c.contenders {
			require.False(t, names[con.name], "%s: %s", c.name, con.name)
			names[con.name] = true
		}
		for _, con := range c.contenders {
			for _, baseline := range []string{c.baseline, con.against} {
				require.True(t, baseline == "" || names[baseline], "%s: %s", c.name, baseline)
			}
		}
	}
}

func TestOrdersAreAsLargeAsAsked(t *testing.T) {
	for _, bytes := range []int{200, 1000, 4000} {
		require.Len(t, encode(newOrder(bytes)), bytes)
	}
	require.Equal(t, "$1 and $2", numbered("? and ?"))
}
