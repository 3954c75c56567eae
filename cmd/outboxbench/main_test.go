package main

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/pgcluster"
)

// The test binary is also the child that the program starts.
func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		os.Exit(runChild(context.Background()))
	}
	os.Exit(m.Run())
}

// tinySizes are the least that goes through everything.
var tinySizes = sizes{
	enqueue: 4, enqueueAll: 1,
	drain: 120, drainLong: 130, drainSlow: 20, payloads: []int{200},
	latency: 1, latencySlow: 0, // which would wait for polls
	sent: []int{0, 50}, delayed: 20, parked: 10, foreign: 30, growth: 50, looks: 2,
	held: 120, relays: 120, sqlite: 120, memory: 300,
	idle: 200 * time.Millisecond,
}

// TestEveryContest runs everything once, at sizes that tell nothing about speed:
// the trials check what they deliver and record.
func TestEveryContest(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Postgres server that flushes to disk")
	}
	b := &bench{sizes: tinySizes, arena: &arena{}}
	t.Cleanup(func() { require.NoError(t, b.close()) })
	err := b.open(t.Context())
	if errors.Is(err, pgcluster.ErrUnavailable) && os.Getenv("OUTBOX_TEST_REQUIRE") != "postgres" {
		t.Skipf("this test needs Postgres: %v", err)
	}
	require.NoError(t, err)
	for _, c := range b.workloads() {
		t.Run(c.name, func(t *testing.T) {
			results, failed := c.hold(t.Context(), 1, func(problem string) { t.Error(problem) })
			require.Zero(t, failed)
			require.Len(t, results, len(c.contenders))
			for _, r := range results {
				require.Equal(t, c.name, r.Workload)
				if c.name != "idle" { // between two looks, perhaps
					require.Positive(t, r.N, r.Subject)
				}
			}
		})
	}
}
