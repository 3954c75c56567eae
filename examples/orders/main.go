// Orders is a shop in small, written as a team would write it, and a
// demonstration that puts its outbox to the test. Run it with nothing but Go:
//
//	go run ./examples/orders
//
// It places 200 orders through its own HTTP API, 20 of which fail after their
// event was enqueued. Two relay processes tell a warehouse, which fails 30 % of
// all calls, some of them after it has done the work; one of the relays is killed
// in mid-delivery. At the end a table compares what was committed with what the
// warehouse has picked, and the exit code is 0 if nothing was lost, invented or
// picked twice.
//
// # Where to read
//
// The app, which is what you would copy:
//
//  1. events/events.go: an event is an annotated struct. events/outbox_gen.go is
//     what go generate makes of it.
//  2. internal/shop/service.go: Place writes the order and its event in one
//     transaction.
//  3. internal/picking/relay.go: a relay and its handler, and in client.go how
//     an HTTP response becomes "delivered", "try again" or "never".
//  4. internal/database/database.go: the settings that the outbox asks of SQLite,
//     and the CommitHook that saves a relay from waiting for its next look.
//  5. relay.go: a process that relays until it is told to stop.
//  6. internal/api/api.go: the HTTP API, which knows nothing of all this.
//  7. internal/shop/service_test.go: how to test that an order has its event, and
//     a failed one has none.
//
// The demonstration, which you would not: internal/demo and internal/warehouse.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/typedoutbox/typedoutbox/examples/orders/internal/demo"
)

const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program without its process. It returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command := runDemo
	if len(args) > 0 && args[0] == "relay" {
		command, args = runRelay, args[1:]
	}
	switch err := command(ctx, args, stdout, stderr); {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errUsage):
		return exitUsage
	default:
		fmt.Fprintf(stderr, "orders: %v\n", err)
		return exitError
	}
}

// errUsage says that the command line is wrong and that the user knows.
var errUsage = errors.New("wrong usage")

const usage = `usage: orders [-dsn url] [-keep]
       orders relay

Without arguments, a demonstration on an SQLite file in a temporary directory.
With relay, only a relay, until it is told to stop; DATABASE_URL, WAREHOUSE_URL
and RELAY_NAME are read from the environment.

-dsn takes the URL of a Postgres database, such as
postgres://user:password@127.0.0.1:5432/db?sslmode=disable. The user must be
allowed to create a schema there (CREATE on the database). The demonstration
makes one of its own, touches nothing else and drops it at the end, so the
database need not be empty.

`

func runDemo(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("orders", flag.ContinueOnError)
	var opts demo.Options
	flags.StringVar(&opts.DSN, "dsn", "", "`url` of a Postgres database (default an SQLite file)")
	flags.BoolVar(&opts.Keep, "keep", false, "keep the database and the relays' logs")
	if err := parse(flags, args, stdout, stderr); err != nil {
		return err
	}
	return demo.Run(ctx, stdout, opts)
}

// parse parses args. Help that was asked for goes to stdout, a complaint to
// stderr.
func parse(flags *flag.FlagSet, args []string, stdout, stderr io.Writer) error {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	err := flags.Parse(args)
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return err
	}
	fmt.Fprintf(stderr, "orders: %v; see orders -h\n", err)
	return errUsage
}
