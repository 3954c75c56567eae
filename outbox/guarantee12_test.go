package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/driver/sqliteshim"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 12: the relay outlives its database. This file is about Start; see
// guarantee12_outage_test.go for what happens afterwards.

// What a relay logs about an outage and about its end.
const (
	outageLine   = "the database does not answer as it should"
	recoveryLine = "the database answers again"
)

// counted is a handler that counts its calls and hands out the ids.
func counted(calls *atomic.Int64) (func(context.Context, outbox.Delivery[order]) error, <-chan string) {
	ids := make(chan string, 10_000)
	return func(_ context.Context, d outbox.Delivery[order]) error {
		calls.Add(1)
		ids <- d.Payload.ID
		return nil
	}, ids
}

func TestUnreachableAtStartIsAnOutageThatIsWaitedFor(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, []string{"a"})
		unreachable := &faults{}
		var refused atomic.Int64
		unreachable.onConnect(func() error {
			refused.Add(1)
			return &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		})
		var calls atomic.Int64
		handler, delivered := counted(&calls)
		r, log := f.relay(handling(handler)), &logs{}
		r.DB, r.Logger = f.connect(t, unreachable), log.logger()
		stop := start(t, r)
		eventually(t, func() bool { return refused.Load() >= 3 && log.count(outageLine) > 0 }, "it is logged, and it tries again")
		require.Zero(t, calls.Load())
		unreachable.clear()
		require.Equal(t, "a", receive(t, delivered, "the delivery after the outage"))
		require.Equal(t, 1, log.count(recoveryLine))
		require.NoError(t, stop())
	})
}

func TestUnreachableAtStartEndsWithItsContext(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		unreachable := &faults{}
		refused := make(chan struct{}, 1000)
		unreachable.onConnect(func() error {
			refused <- struct{}{}
			return io.ErrUnexpectedEOF
		})
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		r.DB = f.connect(t, unreachable)
		stop := start(t, r)
		receive(t, refused, "a connection that is refused")
		require.NoError(t, stop())
	})
}

func TestClosedPortAtStartIsAnOutage(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, []string{"a"})
		real, err := url.Parse(f.url)
		require.NoError(t, err)
		addr, listen := closedPort(t)
		moved := *real
		moved.Host = addr
		server := *f
		server.url = moved.String()

		var calls atomic.Int64
		handler, delivered := counted(&calls)
		r, log := f.relay(handling(handler)), &logs{}
		r.DB, r.Logger = server.connect(t, nil), log.logger()
		stop := start(t, r)
		eventually(t, func() bool { return log.count(outageLine) > 0 }, "the outage is logged")
		require.Positive(t, log.count("connection refused"), "with its reason")

		forward(t, listen(), real.Host)
		require.Equal(t, "a", receive(t, delivered, "the delivery after the server is there"))
		require.NoError(t, stop())
	})
}

// closedPort returns an address that refuses connections until listen is called.
// It is taken all the time, so that nobody else gets it meanwhile.
func closedPort(t *testing.T) (addr string, listen func() net.Listener) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	socket := os.NewFile(uintptr(fd), "socket")
	t.Cleanup(func() { require.NoError(t, socket.Close()) })
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port), func() net.Listener {
		require.NoError(t, syscall.Listen(fd, syscall.SOMAXCONN))
		ln, err := net.FileListener(socket)
		require.NoError(t, err)
		return ln
	}
}

// forward passes connections to ln on to a server.
func forward(t *testing.T, ln net.Listener, server string) {
	t.Helper()
	var pipes sync.WaitGroup
	pipes.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server)
			if err != nil {
				_ = in.Close()
				continue
			}
			for _, pipe := range [][2]net.Conn{{in, out}, {out, in}} {
				pipes.Go(func() {
					_, _ = io.Copy(pipe[0], pipe[1])
					_, _ = pipe[0].Close(), pipe[1].Close()
				})
			}
		}
	})
	t.Cleanup(func() { _ = ln.Close() })
}

func TestNotMigratedAtStartIsAnError(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.exec(t, "DROP TABLE outbox_messages")
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := r.Start(ctx)
		require.ErrorIs(t, err, outbox.ErrNotMigrated)
		require.ErrorContains(t, err, "Store.Migrate", "the remedy")
		_, err = r.Drain(t.Context())
		require.ErrorIs(t, err, outbox.ErrNotMigrated)

		require.NoError(t, f.store.Migrate(t.Context()))
		f.exec(t, "DROP INDEX outbox_messages_due")
		err = r.Start(ctx)
		require.ErrorIs(t, err, outbox.ErrNotMigrated)
		require.ErrorContains(t, err, "outbox_messages_due")

		require.NoError(t, f.store.Migrate(t.Context()))
		require.Zero(t, drain(t, r))
	})
}

// F29, of a file that is opened without what keeps it from being busy.
func TestUnsuitableSQLiteAtStartIsAnErrorThatNamesTheSetting(t *testing.T) {
	for _, c := range []struct {
		name, settings string
		want           []string
		maxOpen        int
	}{
		{name: "suitable", settings: "_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate"},
		{
			name: "rollback journal", settings: "_pragma=journal_mode(DELETE)&_pragma=busy_timeout(5000)&_txlock=immediate",
			want: []string{"journal_mode is delete"},
		},
		{
			name: "impatient", settings: "_pragma=journal_mode(WAL)&_pragma=busy_timeout(0)&_txlock=immediate",
			want: []string{"busy_timeout is 0"},
		},
		{
			name: "deferred", settings: "_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=deferred",
			want: []string{"do not begin IMMEDIATE"},
		},
		{
			name: "by default", settings: "_pragma=journal_mode(DELETE)",
			want: []string{"journal_mode is delete", "busy_timeout is 0", "_txlock=immediate"},
		},
		{
			name: "deferred on one connection", settings: "_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=deferred",
			maxOpen: 1, // which excludes itself
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sqldb, err := sql.Open(sqliteshim.ShimName, "file:"+filepath.Join(t.TempDir(), "outbox.db")+"?"+c.settings)
			require.NoError(t, err)
			defer func() { require.NoError(t, sqldb.Close()) }()
			sqldb.SetMaxOpenConns(c.maxOpen)
			store := outbox.Store{DB: bun.NewDB(sqldb, sqlitedialect.New())}
			migrateErr := store.Migrate(t.Context())
			for _, want := range c.want {
				require.ErrorContains(t, migrateErr, want)
			}
			r := &outbox.Relay{DB: store.DB, Deliver: func(context.Context, outbox.Message) error { return nil }}
			if len(c.want) == 0 {
				require.NoError(t, store.Validate(t.Context()))
				_, err = r.Drain(t.Context())
				require.NoError(t, err)
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err = r.Start(ctx)
			require.Error(t, err)
			require.NotErrorIs(t, err, outbox.ErrNotMigrated, "a migration is not the remedy")
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.Equal(t, err, store.Validate(t.Context()))
			var busy int
			require.NoError(t, sqldb.QueryRow("PRAGMA busy_timeout").Scan(&busy))
			require.Equal(t, strings.Contains(c.settings, "5000"), busy == 5000, "the probe left busy_timeout alone")
		})
	}
}

func TestWrongEncodingAtStartIsAnErrorThatNamesIt(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		name := "outbox_ascii_" + f.driver + fmt.Sprint(time.Now().UnixNano())
		f.exec(t, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'")
		t.Cleanup(func() {
			_, err := f.db.ExecContext(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)")
			require.NoError(t, err)
		})
		u, err := url.Parse(f.url)
		require.NoError(t, err)
		u.Path = "/" + name
		ascii := *f
		ascii.url = u.String()
		store := outbox.Store{DB: ascii.connect(t, nil)}
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		r.DB = store.DB
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for _, err := range []error{store.Validate(ctx), r.Start(ctx)} {
			require.ErrorContains(t, err, "server_encoding")
			require.ErrorContains(t, err, "ENCODING 'UTF8'", "the remedy")
			require.NotErrorIs(t, err, outbox.ErrNotMigrated)
		}
	})
}

// dead is a database that nobody can connect to.
type dead struct {
	err      error
	attempts atomic.Int64
}

func (d *dead) Connect(context.Context) (driver.Conn, error) {
	d.attempts.Add(1)
	return nil, d.err
}
func (d *dead) Driver() driver.Driver { return sqliteshim.Driver() }

func TestOutageIsLoggedAtOnceAndThenAtDoublingIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		database := &dead{err: io.ErrUnexpectedEOF}
		sqldb := sql.OpenDB(database)
		var at []time.Duration
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		r := &outbox.Relay{
			DB:      bun.NewDB(sqldb, sqlitedialect.New()),
			Deliver: func(context.Context, outbox.Message) error { return nil },
			Logger:  slog.New(lineHandler(func(slog.Record) { at = append(at, time.Since(begun)) })),
		}
		require.NoError(t, r.Start(ctx))
		require.NoError(t, sqldb.Close())

		require.Zero(t, at[0])
		silence := time.Second
		for i := 1; i < len(at); i++ {
			// The line comes with the first failure after the silence.
			require.InDelta(t, silence+500*time.Millisecond, at[i]-at[i-1], float64(700*time.Millisecond), "line %d", i)
			silence = min(2*silence, 5*time.Minute)
		}
		require.InDelta(t, 32, len(at), 2, "lines in two hours")
		// One attempt a second, give or take the jitter; a spin would be
		// thousands of them.
		require.InDelta(t, 7200, database.attempts.Load(), 750)
	})
}

// lineHandler calls a function for each line that is logged.
type lineHandler func(slog.Record)

func (h lineHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h lineHandler) Handle(_ context.Context, r slog.Record) error {
	h(r)
	return nil
}
func (h lineHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h lineHandler) WithGroup(string) slog.Handler      { return h }
