// Package demo puts the app through an evening that nobody would wish for: a
// warehouse that fails one call in three, payments that fail at the last moment,
// and a relay that is killed while it delivers.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/examples/orders/internal/api"
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/database"
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/picking"
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/shop"
	"github.com/typedoutbox/typedoutbox/examples/orders/internal/warehouse"
	"github.com/typedoutbox/typedoutbox/outbox"
)

const (
	// patience bounds the demonstration, which takes some three seconds.
	patience = 2 * time.Minute

	lookEvery = 100 * time.Millisecond

	// holdAfter is how many orders are picked before a relay is killed.
	holdAfter = 60

	// closePatience bounds how long a server waits for the calls under way.
	closePatience = 10 * time.Second
)

// Options say how to run a demonstration. The zero value is the default.
type Options struct {
	DSN string // of a Postgres database. Default an SQLite file of its own

	// Keep leaves the database and the logs where they are. They are left in
	// any case if the demonstration fails.
	Keep bool
}

// ErrBroken is returned by Run when the outbox has not kept its promise.
var ErrBroken = errors.New("the outbox has not kept its promise")

// Run runs a demonstration and tells out about it. It returns when every process
// that it has started has ended.
func Run(ctx context.Context, out io.Writer, opts Options) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it is not done after %v", patience))
	defer cancel()
	term := newTerminal(out)
	defer term.clear()

	v, err := newVenue(ctx, opts.DSN)
	if err != nil {
		return err
	}
	defer func() {
		term.clear()
		if opts.Keep || err != nil && !interrupted(ctx) {
			term.say("left for a look: %s, and the logs of the relays in %s", v.shown, v.dir)
			return
		}
		err = errors.Join(err, v.remove())
	}()
	db, err := database.Open(v.dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := shop.Migrate(ctx, db); err != nil {
		return err
	}
	if err := addCustomers(ctx, db); err != nil {
		return err
	}
	s := &show{term: term, db: db, venue: v, warehouse: warehouse.New(warehouse.Options{HoldAfter: holdAfter})}
	if err := s.run(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return err
	}
	result, err := compare(ctx, db, s.warehouse, &s.crowd)
	if err != nil {
		return err
	}
	term.say("")
	result.Print(out)
	term.say("")
	if !result.OK() {
		return ErrBroken
	}
	return nil
}

// interrupted reports whether somebody has lost patience before we did.
func interrupted(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// show is one demonstration under way.
type show struct {
	term      *terminal
	db        *bun.DB
	venue     venue
	warehouse *warehouse.Warehouse
	crowd     crowd
	relays    []*relayProcess // alive, as far as we know
}

func (s *show) run(ctx context.Context) (err error) {
	begun := time.Now()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	shopURL, closeShop, err := serve(api.New(&shop.Service{DB: s.db}, log))
	if err != nil {
		return err
	}
	defer closeShop()
	warehouseURL, closeWarehouse, err := serve(s.warehouse)
	if err != nil {
		return err
	}
	defer closeWarehouse()
	s.crowd.url, s.crowd.client = shopURL, &http.Client{}
	defer s.crowd.client.CloseIdleConnections()

	defer func() { err = errors.Join(err, s.stopRelays()) }()
	for _, name := range []string{"relay-1", "relay-2"} {
		p, err := startRelay(ctx, name, s.venue.dir, "DATABASE_URL="+s.venue.dsn, "WAREHOUSE_URL="+warehouseURL)
		if err != nil {
			return err
		}
		s.relays = append(s.relays, p)
	}
	s.term.say("%s; two relays, pids %d and %d; a warehouse that fails %.0f %% of all calls",
		s.venue.shown, s.relays[0].cmd.Process.Pid, s.relays[1].cmd.Process.Pid, 100*warehouse.FailureRate)

	customers, goHome := context.WithCancel(ctx)
	var placing sync.WaitGroup
	defer func() { goHome(); placing.Wait() }()
	placed := make(chan error, 1)
	placing.Go(func() { placed <- s.crowd.placeAll(customers) })
	if err := s.watch(ctx, placed); err != nil {
		return err
	}
	s.term.say("everything is delivered after %.1f s", time.Since(begun).Seconds())
	return nil
}

// watch shows progress and kills a relay in mid-delivery, until the orders are
// placed and the outbox is empty.
func (s *show) watch(ctx context.Context, placed <-chan error) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	open, killed := true, false
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-placed:
			if err != nil {
				return err
			}
			open = false
		case name := <-s.warehouse.Held():
			if err := s.killInDelivery(name); err != nil {
				return err
			}
			killed = true
		case <-tick.C:
		}
		if err := s.relayFailure(); err != nil {
			return err
		}
		stats, err := outbox.Store{DB: s.db}.Stats(ctx)
		if err != nil {
			return err
		}
		left := stats.Count(outbox.StatusPending) + stats.Count(outbox.StatusClaimed)
		s.showProgress(left)
		switch {
		case open || left > 0:
		case !killed:
			return errors.New("no relay was killed in mid-delivery, which leaves nothing to show; run it again")
		default:
			return nil
		}
	}
}

// relayFailure says which relay has ended by itself, if one has.
func (s *show) relayFailure() error {
	for _, p := range s.relays {
		select {
		case <-p.ended:
			return p.failure()
		default:
		}
	}
	return nil
}

func (s *show) showProgress(left int) {
	counts := s.warehouse.Counts()
	s.term.progress(fmt.Sprintf("placed %d/%d, picked %d, to go %d; calls %d, failed %d, duplicates %d",
		s.crowd.placed.Load()+s.crowd.declined.Load(), ordersToPlace, counts.Picked, left,
		counts.Calls, counts.Failed, counts.Duplicates))
}

// killInDelivery kills the relay to which the warehouse owes an answer.
func (s *show) killInDelivery(name string) error {
	i := slices.IndexFunc(s.relays, func(p *relayProcess) bool { return p.name == name })
	if i < 0 {
		return fmt.Errorf("the warehouse was called by %q, which is no relay of this demonstration", name)
	}
	p := s.relays[i]
	if err := p.kill(); err != nil {
		return err
	}
	s.relays = slices.Delete(s.relays, i, i+1)
	s.term.say("%s (pid %d) was killed with SIGKILL while the warehouse answered it; its claims wait for the end of their leases, %v",
		name, p.cmd.Process.Pid, picking.ClaimTimeout)
	return nil
}

// stopRelays ends the processes that are left.
func (s *show) stopRelays() error {
	var errs []error
	for _, p := range s.relays {
		errs = append(errs, p.stop())
	}
	s.relays = nil
	return errors.Join(errs...)
}

// serve serves h on a port that the kernel chooses, until close is called.
func serve(h http.Handler) (url string, closeServer func(), err error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("listen on 127.0.0.1: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l) // until Close
	}()
	return "http://" + l.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close()
		}
		<-served
	}, nil
}
