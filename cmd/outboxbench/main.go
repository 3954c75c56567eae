// Outboxbench measures the outbox beside what people use instead: raw SQL
// through bun and through pgx, River and Watermill SQL, on the same work in one
// run.
//
//	go -C cmd/outboxbench run . -quick      # does everything work? Within a minute
//	go -C cmd/outboxbench run .             # the figures, which take their time
//	go -C cmd/outboxbench run . -only '^drain' -rounds 5
//
// It starts a throwaway Postgres with default durability (fsync and
// synchronous_commit on, in TMPDIR or else /tmp, which should be on the disk that you
// mean to measure), or uses the server that OUTBOX_TEST_DSN names. Everything that
// it starts ends with it.
//
// # How it measures
//
// A workload is a list of contests, and a contest is the same work done by
// several subjects in turns, for -rounds rounds, so that all of them meet the
// same noise. A figure is the median of its rounds, and the ratio divides it by
// that of the contest's baseline, which is raw SQL through bun and pgdriver
// unless the line says otherwise. Absolute figures tell about the machine;
// the ratios are what can be compared.
//
// Every trial counts what it did: rows that are missing, or delivered and not
// recorded, fail it. The exit code is 1 if a trial failed, and 2 if the run did.
//
// # Flags
//
//	-quick        small sizes, one round: whether it works, not how fast it is
//	-json         one object a line and result instead of a table
//	-only regexp  contests to run, such as 'enqueue/' or '^drain/200B'
//	-rounds n     rounds of every contest. Default 3
//	-plot file    write a bar chart as SVG
//	-list         print the names of the contests and stop
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitError  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run is the program without its process. It returns the exit code.
func run(ctx context.Context, args []string) int {
	if os.Getenv(childVar) != "" {
		return runChild(ctx)
	}
	s, err := parseSettings(args)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	var failed int
	if err == nil {
		failed, err = measure(ctx, s)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "outboxbench:", err)
		return exitError
	case failed > 0:
		fmt.Fprintf(os.Stderr, "outboxbench: %d trials failed\n", failed)
		return exitFailed
	}
	return exitOK
}

// settings is what to run and how to tell.
type settings struct {
	sizes  sizes
	rounds int
	only   *regexp.Regexp
	json   bool
	list   bool
	plot   string // file, "" for none
}

func parseSettings(args []string) (settings, error) {
	s := settings{sizes: fullSizes}
	flags := flag.NewFlagSet("outboxbench", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "small sizes, one round: whether it works, not how fast it is")
	flags.BoolVar(&s.json, "json", false, "print one JSON object a line and result instead of a table")
	only := flags.String("only", "", "`regexp` of the contests to run")
	flags.IntVar(&s.rounds, "rounds", 0, "rounds of every contest; 0 is 3, or 1 with -quick")
	flags.StringVar(&s.plot, "plot", "", "`file` for a bar chart as SVG")
	flags.BoolVar(&s.list, "list", false, "print the names of the contests and stop")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if s.rounds < 0 {
		return s, fmt.Errorf("-rounds is %d; use 1 or more", s.rounds)
	}
	if s.rounds == 0 {
		s.rounds = 3
		if *quick {
			s.rounds = 1
		}
	}
	if *quick {
		s.sizes = quickSizes
	}
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return s, fmt.Errorf("-only: %w", err)
	}
	return s, nil
}
