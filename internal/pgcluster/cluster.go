package pgcluster

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/uptrace/bun/driver/pgdriver"
)

// Cluster is a Postgres server on which databases may be created. It is safe
// for concurrent use.
type Cluster struct {
	url     *url.URL
	stop    func() error // nil: not ours to stop
	crash   func() error // likewise
	restart func() error // likewise
	pool    *sql.DB      // of connections to the maintenance database; nil: one is made each time
	hold    any          // what keeps a shared server alive, not to be collected
}

// Shared returns the server of this run of go test: that of OUTBOX_TEST_DSN, a
// postgres:// URL, or else a throwaway cluster that is started for the test
// binaries of the run. Its error is [ErrUnavailable] where there is no Postgres.
// The server is looked for once in a process, which then holds it until it ends.
func Shared() (*Cluster, error) { return shared() }

// shared is the one piece of state that a process keeps: its hold on the server.
// It cannot belong to a test, since nothing tells the last test of a process
// from the one before; the end of the process lets go of it.
var shared = sync.OnceValues(func() (*Cluster, error) {
	c, err := sharedCluster()
	if err == nil {
		// To connect takes longer than to clone a database: SCRAM is slow by design.
		c.pool = c.open()
		c.pool.SetMaxIdleConns(4)
	}
	return c, err
})

func sharedCluster() (*Cluster, error) {
	if dsn := os.Getenv("OUTBOX_TEST_DSN"); dsn != "" {
		return connect(dsn)
	}
	return join()
}

// Start starts a private throwaway server. Each setting, such as "fsync=on", is
// one of postgresql.conf and comes after the defaults, which are those of
// Postgres but for fsync=off, full_page_writes=off, max_connections=200 and
// authentication_timeout=10s. The caller closes it; it also stops when this
// process ends, however it does. The error is [ErrUnavailable] where there is no
// Postgres.
func Start(settings ...string) (*Cluster, error) {
	return startPrivate(settings)
}

// URL returns the address of the maintenance database, with the credentials of
// a superuser if the cluster is a throwaway. It suits pgdriver, pgx and libpq.
func (c *Cluster) URL() string { return c.url.String() }

// Close stops the server and removes its files, if it came from [Start];
// otherwise it does nothing. Databases and connections need not be closed first.
// Another Close returns what the first did.
func (c *Cluster) Close() error {
	if c.stop == nil {
		return nil
	}
	return c.stop()
}

// Crash ends the processes of the server at once, as pg_ctl stop -m immediate
// does: without a checkpoint, and with every connection cut. [Cluster.Restart]
// recovers what was committed. It returns an error unless the cluster came from
// [Start] and is running. It and Restart must not run at the same time.
func (c *Cluster) Crash() error {
	if c.crash == nil {
		return errNotOurs
	}
	return c.crash()
}

// Restart starts a server that [Cluster.Crash] has ended again, on the same
// data and the same port, and returns once it accepts connections.
func (c *Cluster) Restart() error {
	if c.restart == nil {
		return errNotOurs
	}
	return c.restart()
}

var errNotOurs = errors.New("the server is not private; crash one of Start")

// connect returns the server of a URL, once it answers.
func connect(dsn string) (*Cluster, error) {
	u, err := url.Parse(dsn)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		// The text of err would repeat the password.
		return nil, errors.New("OUTBOX_TEST_DSN is not a postgres:// URL; write it as postgres://user:password@host:port/database?sslmode=disable")
	}
	c := &Cluster{url: u}
	if err := c.admin(context.Background(), c.sweep); err != nil {
		return nil, fmt.Errorf("use the server of OUTBOX_TEST_DSN: %w", err)
	}
	return c, nil
}

// adminTimeout bounds the work on databases: one of them may have to wait until
// another process has built the template, and for checkpoints.
const adminTimeout = time.Minute

func (c *Cluster) open() *sql.DB {
	return sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(c.URL()), pgdriver.WithReadTimeout(adminTimeout)))
}

// admin runs f on one connection to the maintenance database.
func (c *Cluster) admin(ctx context.Context, f func(context.Context, *sql.Conn) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	db := c.pool
	if db == nil {
		db = c.open()
		defer func() { err = errors.Join(err, db.Close()) }()
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.url.Redacted(), err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return f(ctx, conn)
}
