package outbox_test

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// The settings of a relay: zero is the default, and whatever is absurd is in
// one error.

// acknowledge is a handler that has nothing to do.
func acknowledge(context.Context, outbox.Delivery[order]) error { return nil }

// runs are the ways into a relay that check its settings.
func runs(t *testing.T, r *outbox.Relay) map[string]error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, drainErr := r.Drain(ctx)
	_, unhandledErr := r.Unhandled(ctx)
	return map[string]error{"Start": r.Start(ctx), "Drain": drainErr, "Unhandled": unhandledErr}
}

func TestAbsurdSettingsAreListedInOneError(t *testing.T) {
	f := newFixture(t, "sqlite", "")
	for _, c := range []struct {
		name  string
		spoil func(r *outbox.Relay)
		want  []string
	}{
		{"negative", func(r *outbox.Relay) {
			r.Interval, r.BaseBackoff, r.MaxBackoff, r.ClaimTimeout = -1, -1, -1, -1
			r.DeliverTimeout, r.ShutdownTimeout, r.MaxOutage = -1, -1, -1
			r.Batch, r.Concurrency, r.MaxAttempts = -1, -1, -1
		}, []string{
			"Interval is -1ns", "Batch is -1", "Concurrency is -1", "MaxAttempts is -1", "BaseBackoff is -1ns", "MaxBackoff is -1ns",
			"ClaimTimeout is -1ns", "DeliverTimeout is -1ns", "ShutdownTimeout is -1ns", "MaxOutage is -1ns",
		}},
		{"too small", func(r *outbox.Relay) {
			r.Interval, r.MaxBackoff, r.ClaimTimeout = time.Microsecond, time.Millisecond, time.Millisecond
		}, []string{"Interval is 1µs", "MaxBackoff is 1ms", "ClaimTimeout is 1ms", "BaseBackoff 5s is longer than MaxBackoff 1ms"}},
		{"too large", func(r *outbox.Relay) {
			r.Interval, r.BaseBackoff, r.MaxBackoff, r.ClaimTimeout = math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64
			r.DeliverTimeout, r.ShutdownTimeout, r.Retention = math.MaxInt64, math.MaxInt64, math.MaxInt64
			r.Batch, r.Concurrency, r.MaxAttempts = math.MaxInt, math.MaxInt, math.MaxInt
		}, []string{
			"Interval is", "Batch is", "Concurrency is", "MaxAttempts is", "BaseBackoff is", "MaxBackoff is", "ClaimTimeout is",
			"DeliverTimeout is", "ShutdownTimeout is", "Retention is",
		}},
		{"backoffs the wrong way round", func(r *outbox.Relay) { r.BaseBackoff, r.MaxBackoff = time.Hour, time.Minute }, []string{
			"BaseBackoff 1h0m0s is longer than MaxBackoff 1m0s",
		}},
		{"a name that cannot be stored", func(r *outbox.Relay) { r.Name = "a\x00b" }, []string{"relay name", "NUL"}},
		{"a name that is too long", func(r *outbox.Relay) { r.Name = strings.Repeat("x", 1025) }, []string{"relay name", "1025 bytes"}},
		{"a prefix that matches nothing", func(r *outbox.Relay) { r.Mux, r.Deliver, r.TopicPrefix = nil, deliverNothing, "orders.%" }, []string{
			`TopicPrefix "orders.%" matches no topic`,
		}},
		{"neither Mux nor Deliver", func(r *outbox.Relay) { r.Mux = nil }, []string{"neither Mux nor Deliver is set"}},
		{"both Mux and Deliver", func(r *outbox.Relay) { r.Deliver = deliverNothing }, []string{"both Mux and Deliver are set"}},
		{"a Mux without handlers", func(r *outbox.Relay) { r.Mux = outbox.NewMux() }, []string{"the Mux has no handler"}},
		{"a handler outside TopicPrefix", func(r *outbox.Relay) { r.TopicPrefix = "invoices." }, []string{
			`topic "orders.created"`, `outside TopicPrefix "invoices."`, "relay_settings_test.go:",
		}},
		{"an alias outside TopicPrefix", func(r *outbox.Relay) {
			outbox.Handle(r.Mux, topics.New("orders.x", &topics.Options[order]{Aliases: []string{"legacy.x"}}), acknowledge)
			r.TopicPrefix = "orders."
		}, []string{`topic "legacy.x"`, `outside TopicPrefix "orders."`}},
		{"a required topic without a handler", func(r *outbox.Relay) { r.Mux.Require(plainTopic.Info(), foreignTopic.Info()) }, []string{
			`"invoices.paid", declared at ` + foreignTopic.Info().Source,
		}},
		{"no database", func(r *outbox.Relay) { r.DB = nil }, []string{"DB is nil"}},
		{"everything at once", func(r *outbox.Relay) {
			r.DB, r.Name, r.Batch, r.Interval, r.TopicPrefix = nil, "\xff", -3, -4, "invoices."
			r.Mux.Require(foreignTopic.Info())
		}, []string{"DB is nil", "relay name", "Batch is -3", "Interval is -4ns", `outside TopicPrefix "invoices."`, `"invoices.paid", declared at`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &outbox.Relay{DB: f.db, Mux: handling(acknowledge)}
			outboxHandleHere(r)
			c.spoil(r)
			for run, err := range runs(t, r) {
				require.Error(t, err, run)
				for _, want := range c.want {
					require.ErrorContains(t, err, want, run)
				}
			}
		})
	}
	r := &outbox.Relay{DB: f.db, Mux: handling(acknowledge)}
	r.Mux.Require(foreignTopic.Info())
	_, err := r.Drain(t.Context())
	require.ErrorIs(t, err, outbox.ErrNoHandler)
}

func deliverNothing(context.Context, outbox.Message) error { return nil }

// outboxHandleHere gives the relay a Mux whose handler is registered in this
// file.
func outboxHandleHere(r *outbox.Relay) {
	r.Mux = outbox.NewMux()
	outbox.Handle(r.Mux, plainTopic, acknowledge)
}

func TestBoundsAndDefaultsOfSettingsAreAccepted(t *testing.T) {
	f := newFixture(t, "sqlite", "")
	for _, r := range []*outbox.Relay{
		{},
		{Interval: time.Millisecond, Batch: 1, Concurrency: 1, MaxAttempts: 1, BaseBackoff: 1, MaxBackoff: 100 * time.Millisecond, ClaimTimeout: 100 * time.Millisecond, DeliverTimeout: time.Second, ShutdownTimeout: time.Second, Retention: 1},
		{Batch: 10_000, Concurrency: 10_000, MaxAttempts: 1_000_000, ClaimTimeout: 24 * time.Hour, Retention: -1},
		{BaseBackoff: time.Hour}, // above the default of MaxBackoff, which follows
		{TopicPrefix: "orders."},
		{Name: strings.Repeat("x", 1024)},
	} {
		r.DB, r.Mux = f.db, handling(acknowledge)
		r.Mux.Require(plainTopic.Info())
		_, err := r.Unhandled(t.Context())
		require.NoError(t, err)
		// The shortest lease leaves a claim 50 ms, which a busy machine may miss.
		eventually(t, func() bool {
			_, err := r.Drain(t.Context())
			return err == nil
		}, "it runs")
	}
}

func TestDefaultNameTellsProcessesApart(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		host, err := os.Hostname()
		require.NoError(t, err)
		names := map[string]bool{}
		for range 2 {
			ids := f.enqueue(t, plainTopic, []string{"a"})
			require.Equal(t, 1, drain(t, f.relay(handling(acknowledge))))
			names[f.get(t, ids[0]).ClaimedBy] = true
		}
		require.Len(t, names, 2)
		for name := range names {
			require.True(t, strings.HasPrefix(name, host+"-"), name)
		}
		ids := f.enqueue(t, plainTopic, []string{"a"})
		r := f.relay(handling(acknowledge))
		r.Name = "of my own"
		require.Equal(t, 1, drain(t, r))
		require.Equal(t, "of my own", f.get(t, ids[0]).ClaimedBy)
	})
}

func TestPoolOfOneIsRefusedOnPostgres(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		db := f.connect(t, nil)
		db.SetMaxOpenConns(1)
		r := f.relay(handling(acknowledge))
		r.DB = db
		_, err := r.Drain(t.Context())
		if f.postgres {
			require.ErrorContains(t, err, "SetMaxOpenConns")
		} else {
			require.NoError(t, err)
		}
		db.SetMaxOpenConns(2)
		require.Zero(t, drain(t, r))
	})
}

// foreignDialect is one that the outbox does not know.
type foreignDialect struct{ schema.Dialect }

func (foreignDialect) Name() dialect.Name { return dialect.MySQL }

func TestUnsupportedDialectIsRefused(t *testing.T) {
	f := newFixture(t, "sqlite", "")
	store := outbox.Store{DB: bun.NewDB(f.db.DB, foreignDialect{sqlitedialect.New()})}
	r := &outbox.Relay{DB: store.DB, Mux: handling(acknowledge)}
	errs := runs(t, r)
	errs["Migrate"], errs["Validate"] = store.Migrate(t.Context()), store.Validate(t.Context())
	_, errs["Stats"] = store.Stats(t.Context())
	_, errs["Sweep"] = store.Sweep(t.Context(), time.Hour)
	_, errs["List"] = store.List(t.Context(), outbox.Filter{})
	_, errs["Get"] = store.Get(t.Context(), outbox.ID{1})
	_, errs["Retry"] = store.Retry(t.Context(), outbox.Filter{All: true})
	_, errs["Discard"] = store.Discard(t.Context(), outbox.Filter{All: true}, "why")
	errs["Enqueue"] = store.DB.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		return outbox.Enqueue(ctx, tx, plainTopic, order{})
	})
	for operation, err := range errs {
		require.ErrorContains(t, err, "dialect mysql is not supported", operation)
	}
	_, err := outbox.Store{}.Stats(t.Context())
	require.ErrorContains(t, err, "DB is nil")
}

func TestWakeBeforeStartIsRemembered(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		seen := &queryLog{}
		r := f.relay(handling(acknowledge))
		r.DB, r.Interval = f.connect(t, f.faults).WithQueryHook(seen), time.Hour
		for range 10 {
			r.Wake() // never blocks
		}
		stop := start(t, r)
		eventually(t, func() bool { return seen.looks() >= 2 }, "a look for the start and one for the wake")
		require.NoError(t, stop())
	})
}
