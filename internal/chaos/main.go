//go:build linux

// Chaos runs producers, three relay processes and a receiver on a Postgres
// server of its own, and does to them what happens in production and more: it
// kills relays, stops and continues them, crashes the server, cuts, silences and
// slows connections, uses all of them up, holds a long transaction and locks the
// table. One relay has a wall clock that is hours off. Then it lets everything
// drain and accounts for each row and each delivery:
//
//	make chaos                        # the long run, about 15 minutes
//	go run . -duration 1m -rows 12000 # a short one
//
// Package account says what it looks for. The exit code is 1 if a row was lost,
// delivered uncommitted, delivered twice without a reason, or if any other
// promise was broken; 2 if the run itself failed. Everything that it starts ends
// with it.
//
// The program is all roles: it starts itself as relay and producer. It needs
// Linux, the go command (the relay with the wrong clock is built from a changed
// standard library) and the programs of Postgres.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var role func(context.Context) error
	if len(args) > 0 {
		role = map[string]func(context.Context) error{"relay": runRelay, "producer": runProducer}[args[0]]
	}
	if role != nil {
		if err := role(ctx); err != nil {
			fmt.Fprintln(os.Stderr, args[0]+":", err)
			return 2
		}
		return 0
	}
	s, err := parseSettings(args)
	if err != nil {
		if err != flag.ErrHelp {
			fmt.Fprintln(os.Stderr, "chaos:", err)
		}
		return 2
	}
	ok, err := conduct(ctx, s)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "chaos:", err)
		return 2
	case !ok:
		return 1
	}
	return 0
}
