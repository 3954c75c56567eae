//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
)

// The settings of the relays. The lease is short, since every kill costs one, and
// shorter than a delivery may take: without renewals that would show.
const (
	claimTimeout    = 2500 * time.Millisecond
	interval        = 200 * time.Millisecond
	deliverTimeout  = 3500 * time.Millisecond
	shutdownTimeout = time.Second
	baseBackoff     = 200 * time.Millisecond
	maxBackoff      = time.Second
	concurrency     = 10
	claimBatch      = 20 // rows of the dead are delivered one by one, so that many of them at every kill would queue up
	maxAttempts     = 30

	// settleBatch is how many outcomes the relay records at once at most.
	settleBatch = 500
)

const (
	slots     = 3 // relays
	producers = 2 // processes
	workers   = 4 // of each
)

// settings is what to run.
type settings struct {
	seed     uint64
	duration time.Duration
	deadline time.Duration // for everything but the build
	rows     int
	counts   map[account.Kind]int
	json     string
	logs     string
}

func parseSettings(args []string) (settings, error) {
	s := settings{counts: map[account.Kind]int{}}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.Uint64Var(&s.seed, "seed", 0, "seed of the schedule; 0 takes one at random and prints it")
	flags.DurationVar(&s.duration, "duration", 15*time.Minute, "how long faults go on")
	flags.DurationVar(&s.deadline, "deadline", 0, "when everything is stopped, come what may; 0 is duration and a third, and 3 minutes")
	flags.IntVar(&s.rows, "rows", 210_000, "messages to commit at least")
	flags.StringVar(&s.json, "json", "", "file for the result as JSON")
	flags.StringVar(&s.logs, "logs", "", "directory for what relays and producers write; \"\" keeps nothing")
	counts := map[account.Kind]*int{}
	for _, d := range []struct {
		name string
		kind account.Kind
		n    int // in the long run
	}{
		{"kills", account.Kill, 520},
		{"stops", account.Stop, 40},
		{"deploys", account.Deploy, 25},
		{"restarts", account.Crash, 24},
		{"cuts", account.Cut, 110},
		{"silences", account.Blackhole, 20},
		{"slows", account.Slow, 20},
		{"exhaustions", account.Exhaust, 15},
		{"holds", account.Hold, 15},
		{"locks", account.Lock, 15},
	} {
		counts[d.kind] = flags.Int(d.name, -1, fmt.Sprintf("number of faults of the kind %q; -1 is %d in 15 minutes", d.kind, d.n))
		defer func() {
			n := *counts[d.kind]
			if n < 0 {
				n = int(float64(d.n)*s.duration.Minutes()/15 + 0.5)
			}
			s.counts[d.kind] = n
		}()
	}
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if s.duration <= 0 || s.rows <= 0 {
		return s, errors.New("duration and rows must be positive")
	}
	if s.seed == 0 {
		s.seed = rand.Uint64()
	}
	if s.deadline == 0 {
		s.deadline = s.duration*4/3 + 3*time.Minute
	}
	return s, nil
}
