package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// What waking relays must not cost: neither the producers nor the server.

// perConn keeps what each connection of a pool is sent apart.
type perConn struct {
	driver.Connector
	mu    sync.Mutex
	conns []*sentences
}

func (p *perConn) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := p.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	sent, through := &sentences{}, &faults{}
	sent.record(through)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, sent)
	return &faultyConn{realConn: conn.(realConn), faults: through}, nil
}

// F14: a NOTIFY within the transaction of a producer takes an instance-wide lock
// at its commit, and a payload of 8,000 bytes aborts it.
func TestNoProducerCommitsANotify(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		const writers, each = 8, 25
		connector := &perConn{Connector: f.connector(t)}
		sqldb := sql.OpenDB(connector)
		sqldb.SetMaxIdleConns(writers + 2)
		t.Cleanup(func() { require.NoError(t, sqldb.Close()) })
		db := bun.NewDB(sqldb, pgdialect.New()).WithQueryHook(&outbox.CommitHook{})
		large := topics.New[order]("orders.large", nil)
		note := strings.Repeat("x", 10_000)
		var producers sync.WaitGroup
		errs := make(chan error, writers)
		for range writers {
			producers.Go(func() {
				for i := range each {
					errs <- db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
						if err := outbox.Enqueue(ctx, tx, large, order{ID: fmt.Sprint(i), Note: note[:1+i*400]}); err != nil {
							return err
						}
						_, err := outbox.EnqueueAll(ctx, tx, plainTopic, []order{{ID: "a"}, {ID: "b"}})
						return err
					})
				}
			})
		}
		go func() { producers.Wait(); close(errs) }()
		for err := range errs {
			require.NoError(t, err)
		}
		require.Zero(t, f.queryInt(t, "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'outbox_messages'::regclass"), "nor does a trigger")
		require.Equal(t, 3*writers*each, f.rows(t))

		notified := func() (n int) {
			connector.mu.Lock() // not for longer: it may be about to connect
			defer connector.mu.Unlock()
			for _, conn := range connector.conns {
				n += len(conn.positions("done NOTIFY"))
			}
			return n
		}
		eventually(t, func() bool { return notified() > 0 }, "the relays of other processes are told, outside")
		commits := 0
		connector.mu.Lock()
		defer connector.mu.Unlock()
		for _, conn := range connector.conns {
			conn.mu.Lock()
			open := false
			for _, what := range conn.list {
				switch {
				case strings.HasPrefix(what, "sent BEGIN"):
					open = true
				case strings.HasPrefix(what, "done COMMIT"):
					open = false
					commits++
				case strings.Contains(strings.ToLower(what), "notify"):
					require.False(t, open, "%s within a transaction", what)
				}
			}
			conn.mu.Unlock()
		}
		require.Equal(t, writers*each, commits)
	})
}

// F14: whatever becomes of the NOTIFY, no commit waits for it.
func TestNoCommitWaitsForANotify(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		const writers, each = 8, 25
		stuck, sent := make(gate), make(chan struct{}, 1)
		t.Cleanup(sync.OnceFunc(stuck.open))
		f.faults.onBefore(func(query string) error {
			if strings.HasPrefix(query, "NOTIFY") {
				note(sent, struct{}{})
				stuck.pass(t)
			}
			return nil
		})
		f.enqueue(t, plainTopic, []string{"first"})
		receive(t, sent, "a NOTIFY, which gets stuck")
		var producers sync.WaitGroup
		committed := make(chan error, writers*each)
		for range writers {
			producers.Go(func() {
				for range each {
					committed <- f.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
						return outbox.Enqueue(ctx, tx, plainTopic, order{})
					})
				}
			})
		}
		for range writers * each {
			require.NoError(t, receive(t, committed, "a commit"))
		}
		producers.Wait()
		f.committed += writers * each
		require.Equal(t, f.committed, f.count(t, outbox.StatusPending))
	})
}

// F15: LISTEN dies, and everything that listened storms the server. While it is
// refused, the relay tries again ever more rarely.
func TestRefusedListenerIsNoReconnectStorm(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		log := &logs{}
		r := f.relay(handling(acknowledge))
		db := f.pool(t, "other", nil)
		db.SetMaxIdleConns(0) // so that pgx, which listens on one of the pool, connects anew
		r.DB, r.Interval, r.Logger, r.Retention = db, time.Hour, log.logger(), -1
		stop := start(t, r)
		f.waitForListener(t, "other")
		name := f.databaseName(t)
		admin := f.lastConn(t)
		begun := time.Now()
		_, err := admin.ExecContext(t.Context(), "UPDATE pg_database SET datallowconn = false WHERE datname = '"+name+"'")
		require.NoError(t, err)
		_, err = admin.ExecContext(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'other' AND query LIKE 'LISTEN%'`)
		require.NoError(t, err)
		ended := func() int { return log.count("the LISTEN connection ended") }
		eventually(t, func() bool { return ended() >= 2 && time.Since(begun) > 2500*time.Millisecond }, "it tries again")
		require.LessOrEqual(t, float64(ended()), 2+math.Log2(1+time.Since(begun).Seconds()), "in %v", time.Since(begun))
		_, err = admin.ExecContext(t.Context(), "UPDATE pg_database SET datallowconn = true WHERE datname = '"+name+"'")
		require.NoError(t, err)
		f.waitForListener(t, "other")
		require.NoError(t, stop())
	})
}

// lastConn is a connection on which a test goes on while nobody can connect.
func (f *fixture) lastConn(t *testing.T) *sql.Conn {
	t.Helper()
	conn, err := f.db.DB.Conn(bypass(t.Context()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}
