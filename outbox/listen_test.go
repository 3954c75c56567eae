package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// LISTEN is only about latency, and not every driver has it.

// F15: LISTEN dies silently. See TestRefusedListenerIsNoReconnectStorm for what
// happens while it cannot be had.
func TestKilledListenerCostsLatencyOnly(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		log := &logs{}
		var calls atomic.Int64
		handler, delivered := counted(&calls)
		r := f.relay(handling(handler))
		r.DB, r.Interval, r.Logger = f.pool(t, "other", nil), time.Hour, log.logger()
		stop := start(t, r)
		f.waitForListener(t, "other")
		ids := numbers(4)
		for kill := range 2 {
			var pid int
			var killed time.Time
			require.NoError(t, f.db.NewRaw(`SELECT pid, clock_timestamp() FROM pg_stat_activity WHERE datname = current_database()
				AND application_name = 'other' AND query LIKE 'LISTEN%' AND state = 'idle'`).Scan(t.Context(), &pid, &killed))
			require.Equal(t, 1, f.queryInt(t, "SELECT count(pg_terminate_backend(?))", pid))
			eventually(t, func() bool { return log.count("the LISTEN connection ended") == kill+1 }, "it is noticed")
			// Nobody listens now; a look finds what was committed all the same.
			f.enqueue(t, plainTopic, ids[2*kill:][:1])
			r.Wake()
			require.Equal(t, ids[2*kill], receive(t, delivered, "a delivery while nobody listens"))

			// It comes back after a while: trying at once would be a storm.
			eventually(t, func() bool {
				return f.queryInt(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'other'
					AND query LIKE 'LISTEN%' AND state = 'idle' AND query_start > ?::timestamptz + interval '700 ms'`, killed) == 1
			}, "it listens again")
			require.Equal(t, kill+1, log.count("the LISTEN connection ended"))
			f.enqueue(t, plainTopic, ids[2*kill+1:][:1])
			require.Equal(t, ids[2*kill+1], receive(t, delivered, "a delivery after a NOTIFY"))
		}
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 4 }, "all are recorded")
		require.NoError(t, stop())
		require.Zero(t, log.count(outageLine))
	})
}

// wrapper opens connections that hide what driver they belong to, as those of
// tracing libraries do.
type wrapper struct {
	inner driver.Driver
	url   string
}

func (w wrapper) Connect(context.Context) (driver.Conn, error) {
	conn, err := w.inner.Open(w.url)
	if err != nil {
		return nil, err
	}
	return &faultyConn{realConn: conn.(realConn), faults: &faults{}}, nil
}

func (w wrapper) Driver() driver.Driver            { return w }
func (w wrapper) Open(string) (driver.Conn, error) { return w.Connect(context.Background()) }

func TestDriverWithoutListenIsPolled(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		sqldb := sql.OpenDB(wrapper{inner: f.db.Driver(), url: f.url})
		t.Cleanup(func() { require.NoError(t, sqldb.Close()) })
		log := &logs{}
		var calls atomic.Int64
		handler, delivered := counted(&calls)
		r := f.relay(handling(handler))
		r.DB, r.Logger = bun.NewDB(sqldb, pgdialect.New()), log.logger()
		stop := start(t, r)
		for _, id := range numbers(3) {
			f.unhooked(t).enqueue(t, plainTopic, []string{id})
			require.Equal(t, id, receive(t, delivered, "a delivery"))
		}
		eventually(t, func() bool { return log.count("no LISTEN; the relay looks every Interval") == 1 }, "it says so")
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 3 }, "all are recorded")
		require.NoError(t, stop())
		require.Equal(t, 1, log.count("no LISTEN"), "once")
		require.Zero(t, log.count(outageLine))
		require.Equal(t, 0, drain(t, r))
	})
}
