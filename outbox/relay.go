package outbox

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/uptrace/bun"
)

// Relay delivers committed messages. It is a struct literal with defaults, in
// the manner of http.Server: set DB and one of Mux and Deliver, then call
// Start. Any number of relays, in any number of processes, may work on one
// table: each claims rows under a lease of its own.
//
// On Postgres a relay uses a connection of the pool for its renewals, others in
// passing, and one more for LISTEN: outside of the pool with pgdriver, of the
// pool with pgx. The pool must allow two at least. No transaction is open while
// a handler runs.
//
// The fields must not change while the relay runs, and a Relay must not be
// copied.
type Relay struct {
	// DB holds the table; see Store.Migrate. Required. Give it a *bun.DB with
	// a CommitHook to be woken by commits.
	DB *bun.DB

	// Mux holds typed handlers. The relay claims only their topics, and of
	// those only versions up to the one that the Topic knows; what only a
	// newer release knows is left alone. Exactly one of Mux and Deliver is
	// set.
	Mux *Mux

	// Deliver receives every message of the topics that start with
	// TopicPrefix, undecoded.
	Deliver DeliverFunc

	// Name is stored as claimed_by. No two relays should have the same.
	// Default the host name, the process id and a random suffix.
	Name string

	// TopicPrefix restricts the relay to topics that start with it, literally.
	// With a Mux, a handler outside of it is an error. Default "", every topic.
	TopicPrefix string

	// Interval is how often to look for due messages when the last look found
	// none, give or take 10 %. At least 1 ms. Default 1s.
	Interval time.Duration

	// Batch is how many rows one claim takes at most, and how many wait in
	// memory for a free slot. Lower it when deliveries are slow and several
	// relays should share a backlog. At most 10,000. Default 100.
	Batch int

	// Concurrency is how many deliveries run at once. At most 10,000.
	// Default 10.
	Concurrency int

	// MaxAttempts is after how many attempts a message is parked as failed.
	// Default 12, which with the default backoff spans 1 h 42 m 35 s of
	// waiting.
	MaxAttempts int

	// BaseBackoff is the wait after the first failed attempt; it doubles with
	// each further one, give or take 10 %, and is never less than 100 ms.
	// Default 5s.
	BaseBackoff time.Duration

	// MaxBackoff caps the wait between attempts. At least 100 ms and at least
	// BaseBackoff. Default 30m, or BaseBackoff if that is longer.
	MaxBackoff time.Duration

	// MaxOutage is for how long a message may meet a destination that is down
	// before it is parked as failed; see [Unavailable]. It is counted in the
	// table, across restarts, from the first time that the message met it.
	// Default 24h.
	MaxOutage time.Duration

	// ClaimTimeout is the lease: how long a crash goes unnoticed. Leases are
	// renewed from claim to recording, so it need not exceed the slowest
	// delivery. From 100 ms to 24 h. Default 1m.
	ClaimTimeout time.Duration

	// DeliverTimeout is the deadline of one delivery's context. A handler that
	// runs on for ShutdownTimeout after it is recorded as failed; it keeps its
	// slot until it returns. Default 1m.
	DeliverTimeout time.Duration

	// ShutdownTimeout is the grace for deliveries in flight when ctx ends,
	// before their contexts are cancelled. Default 15s.
	ShutdownTimeout time.Duration

	// Retention is how long sent and discarded rows of the relay's topics are
	// kept before they are swept, and with them their keys. Negative keeps
	// them all. Failed rows are always kept. Default 7 days.
	Retention time.Duration

	// Logger receives what the person on call should know. Default
	// slog.Default().
	Logger *slog.Logger

	mu      sync.Mutex
	running bool
	wake    chan struct{}
}

var errRelayRunning = errors.New("outbox: this Relay is running already; use one Relay for each Start or Drain")

// Start delivers messages until ctx ends, then shuts down and returns nil. It
// stops claiming, releases what it has not begun, gives deliveries in flight
// ShutdownTimeout to finish, cancels the rest and records every outcome.
//
// It returns an error at once if the settings are absurd (one error lists all
// of them), a required topic has no handler, or the database can be reached but
// is not ready ([ErrNotMigrated]); and after ctx has ended if a handler still
// ran or an outcome could not be recorded. Once it has begun, an outage of the
// database is logged and waited for, whatever it is.
func (r *Relay) Start(ctx context.Context) error {
	_, err := r.run(ctx, false)
	return err
}

// Drain delivers what is due, until a look finds nothing due, and returns how
// many rows were recorded as sent. A failed delivery is no error: it is due
// later. Nor is a destination that is down: the due messages of its topic are
// left. A database error is one, and so is the end of ctx. Use it in tests, in
// scheduled jobs and to step a relay by hand.
func (r *Relay) Drain(ctx context.Context) (int, error) {
	return r.run(ctx, true)
}

// Wake makes the relay look for due messages now instead of at the end of its
// Interval. It never blocks and is safe for concurrent use; a Wake before Start
// is remembered.
func (r *Relay) Wake() {
	select {
	case r.wakeChan() <- struct{}{}:
	default:
	}
}

func (r *Relay) wakeChan() chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wake == nil {
		r.wake = make(chan struct{}, 1)
	}
	return r.wake
}

// Unhandled returns the topics of due rows that this relay would never take,
// because it has no handler for them, their version is newer than it knows or
// they are outside TopicPrefix. Start need not have been called.
func (r *Relay) Unhandled(ctx context.Context) ([]TopicStats, error) {
	cfg, err := r.settings()
	if err != nil {
		return nil, err
	}
	return cfg.session.unhandled(ctx, cfg.take)
}

func (r *Relay) run(ctx context.Context, drain bool) (int, error) {
	cfg, err := r.settings()
	if err != nil {
		return 0, err
	}
	wake := r.wakeChan()
	r.mu.Lock()
	if r.running {
		r.mu.Unlock()
		return 0, errRelayRunning
	}
	r.running = true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.running = false
		r.mu.Unlock()
	}()

	hooks := &registration{wake: r.Wake}
	defer hooks.end()
	e := newEngine(cfg, wake, hooks, drain)
	return e.run(ctx)
}
