package outbox_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Statements of the relay, by what only they contain.
func isClaim(query string) bool {
	return strings.Contains(query, "SET status = 'claimed', attempts = ")
}
func isSettle(query string) bool  { return strings.Contains(query, "sent_at = ") }
func isRenew(query string) bool   { return strings.Contains(query, "SET available_at = ") }
func isRelease(query string) bool { return strings.Contains(query, "attempts = attempts - CASE") }
func isDelete(query string) bool  { return strings.Contains(query, "DELETE FROM outbox_messages") }

// isLook is isClaim, and on SQLite the query for candidates before it.
func isLook(query string) bool {
	return isClaim(query) || strings.Contains(query, "SELECT * FROM (SELECT m.id, m.available_at")
}

// afterCommit calls fn when the transaction of each statement that is chosen has
// been committed and before its answer arrives. What fn returns is the answer.
// On SQLite the transaction ends when fn returns.
func (f *fixture) afterCommit(chosen func(query string) bool, fn func() error) {
	hook := func(query string) error {
		if chosen(query) {
			return fn()
		}
		return nil
	}
	if f.driver == "pgx" {
		f.faults.onCommitted(hook)
	} else {
		f.faults.onAfter(hook)
	}
}

// loseAnswers loses the answers to the first n of the chosen statements, which
// take effect all the same. It returns how many it has lost.
func (f *fixture) loseAnswers(n int, chosen func(query string) bool) (lost func() int) {
	var mu sync.Mutex
	done := 0
	f.afterCommit(chosen, func() error {
		mu.Lock()
		defer mu.Unlock()
		if done >= n {
			return nil
		}
		done++
		return io.ErrUnexpectedEOF
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return done
	}
}

// on returns the fixture of another pool on the same database, with faults of
// its own and without a CommitHook.
func (f *fixture) on(t *testing.T) *fixture {
	t.Helper()
	other := &fixture{driver: f.driver, postgres: f.postgres, url: f.url, faults: &faults{}}
	other.db = other.connect(t, other.faults)
	other.store = outbox.Store{DB: other.db}
	return other
}

// holdRenewals holds every renewal back before it is sent, until release is
// called. The first that is held is announced.
func (f *fixture) holdRenewals(t *testing.T) (held <-chan struct{}, release func()) {
	t.Helper()
	waiting, g := make(chan struct{}, 1), make(gate)
	release = sync.OnceFunc(g.open)
	t.Cleanup(release)
	f.faults.onBefore(func(query string) error {
		if isRenew(query) {
			note(waiting, struct{}{})
			g.pass(t)
		}
		return nil
	})
	return waiting, release
}

// deaf returns a relay that looks once and then only when it has work: it never
// takes a second suspect on its own account.
func (f *fixture) deaf(mux *outbox.Mux) *outbox.Relay {
	r := f.relay(mux)
	r.Interval = time.Hour
	return r
}

// abandon makes rows look as if a relay had died of them long ago, on this
// attempt. Earlier ones have the older leases.
func (f *fixture) abandon(t *testing.T, attempt int, ids ...outbox.ID) {
	t.Helper()
	for i, id := range ids {
		token := uuid.NewString()
		require.Equal(t, 1, f.exec(t, "UPDATE outbox_messages SET status = 'claimed', attempts = ?, claim_token = ?, claimed_by = 'the dead' WHERE id = ?",
			attempt, token, id))
		f.shift(t, "available_at", -24*time.Hour+time.Duration(i)*time.Minute, "id = '"+id.String()+"'")
	}
}

// token returns the claim_token of a row, "" if it has none.
func (f *fixture) token(t *testing.T, id outbox.ID) string {
	t.Helper()
	var token *string
	require.NoError(t, f.db.NewRaw("SELECT claim_token FROM outbox_messages WHERE id = ?", id).Scan(bypass(context.Background()), &token))
	if token == nil {
		return ""
	}
	return *token
}

// row is everything that a stale relay must not change.
type row struct {
	outbox.Message
	token string
}

func (f *fixture) row(t *testing.T, id outbox.ID) row {
	t.Helper()
	return row{f.get(t, id), f.token(t, id)}
}

// requireHeld checks that nobody but its holder has touched a claimed row, which
// at most has renewed its lease.
func (f *fixture) requireHeld(t *testing.T, want row) {
	t.Helper()
	got := f.row(t, want.ID)
	require.False(t, got.AvailableAt.Before(want.AvailableAt), "the lease was shortened from %v to %v", want.AvailableAt, got.AvailableAt)
	got.AvailableAt, got.UpdatedAt = want.AvailableAt, want.UpdatedAt
	require.Equal(t, want, got)
}

// leaseOver reports whether the lease of a claimed row has ended.
func (f *fixture) leaseOver(t *testing.T, id outbox.ID) bool {
	t.Helper()
	now := "strftime('%Y-%m-%d %H:%M:%f', 'now')"
	if f.postgres {
		now = "clock_timestamp()"
	}
	var n int
	require.NoError(t, f.db.NewRaw("SELECT count(*) FROM outbox_messages WHERE id = ? AND status = 'claimed' AND available_at < "+now, id).
		Scan(bypass(context.Background()), &n))
	return n == 1
}

// clock reads the database's clock.
func (f *fixture) clock(t *testing.T) time.Time {
	t.Helper()
	query := "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
	if f.postgres {
		query = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
	}
	var millis int64
	require.NoError(t, f.db.NewRaw(query).Scan(bypass(context.Background()), &millis))
	return time.UnixMilli(millis)
}

// leases returns by how much the lease of each row ends after its claim.
func (f *fixture) leases(t *testing.T, ids []outbox.ID) []time.Duration {
	t.Helper()
	out := make([]time.Duration, len(ids))
	for i, id := range ids {
		m := f.get(t, id)
		require.Equal(t, outbox.StatusClaimed, m.Status)
		out[i] = m.AvailableAt.Sub(m.ClaimedAt)
	}
	return out
}

// lock holds rows in an open transaction of another connection, in the manner
// of a person in psql, until the returned function is called.
func (f *fixture) lock(t *testing.T, query string, args ...any) (unlock func()) {
	t.Helper()
	tx, err := f.db.BeginTx(bypass(context.Background()), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(bypass(context.Background()), query, args...)
	require.NoError(t, err)
	unlock = sync.OnceFunc(func() { _ = tx.Rollback() })
	t.Cleanup(unlock)
	return unlock
}

// gate holds handlers back.
type gate chan struct{}

func (g gate) open() { close(g) }

// pass waits until the gate is open, whatever becomes of the context.
func (g gate) pass(t *testing.T) {
	select {
	case <-g:
	case <-time.After(patience):
		t.Error("a gate stayed shut")
	}
}

// note sends without ever blocking.
func note[T any](c chan<- T, v T) {
	select {
	case c <- v:
	default:
	}
}

// counters is a MeterProvider that counts what relays count, by relay.
type counters struct {
	noop.MeterProvider
	mu     sync.Mutex
	values map[counterKey]int
}

type counterKey struct{ relay, name string }

// counting installs counters for the whole test binary.
var counting = sync.OnceValue(func() *counters {
	c := &counters{values: map[counterKey]int{}}
	otel.SetMeterProvider(c)
	return c
})

// watched gives a relay a name that is unique in the test binary and returns its
// counters.
func watched(r *outbox.Relay) (count func(name string) int) {
	c := counting()
	r.Name = "relay-" + uuid.NewString()
	return func(name string) int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.values[counterKey{r.Name, "outbox.relay." + name}]
	}
}

func (c *counters) Meter(string, ...metric.MeterOption) metric.Meter { return meter{counters: c} }

type meter struct {
	noop.Meter
	counters *counters
}

func (m meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return counter{counters: m.counters, name: name}, nil
}

type counter struct {
	noop.Int64Counter
	counters *counters
	name     string
}

func (c counter) Add(_ context.Context, n int64, opts ...metric.AddOption) {
	set := metric.NewAddConfig(opts).Attributes()
	relay, _ := set.Value(attribute.Key("outbox.relay"))
	c.counters.mu.Lock()
	defer c.counters.mu.Unlock()
	c.counters.values[counterKey{relay.AsString(), c.name}] += int(n)
}
