//go:build unix

package pgcluster_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/typedoutbox/typedoutbox/internal/pgcluster"
)

// start starts a private server for t.
func start(t *testing.T, settings ...string) *pgcluster.Cluster {
	t.Helper()
	needPrograms(t)
	c, err := pgcluster.Start(settings...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// open connects to the server or database at url until t ends.
func open(t *testing.T, url string) *sql.DB {
	t.Helper()
	db := sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(url)))
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func show(t *testing.T, url, query string) (value string) {
	t.Helper()
	require.NoError(t, open(t, url).QueryRowContext(t.Context(), query).Scan(&value))
	return value
}

// databaseURL returns the URL of another database of the server.
func databaseURL(t *testing.T, c *pgcluster.Cluster, name string) string {
	t.Helper()
	u, err := url.Parse(c.URL())
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

func TestStart(t *testing.T) {
	temp := tempDir(t)
	t.Setenv("TMPDIR", temp)
	c, err := pgcluster.Start("fsync=on", "max_connections=20", "work_mem=5 MB")
	require.NoError(t, err)
	server := postmaster(t, temp)
	for name, want := range map[string]string{
		"fsync": "on", "full_page_writes": "off", "synchronous_commit": "on", "max_connections": "20", "work_mem": "5MB",
		"authentication_timeout": "10s",
		"listen_addresses":       "127.0.0.1", "unix_socket_directories": "", "server_encoding": "UTF8",
	} {
		require.Equal(t, want, show(t, c.URL(), "SHOW "+name), name)
	}
	u, err := url.Parse(c.URL())
	require.NoError(t, err)
	u.User = url.UserPassword("outbox", "wrong")
	err = open(t, u.String()).PingContext(t.Context())
	require.ErrorContains(t, err, "SQLSTATE=28P01", "the password counts")

	// Close has ended it when it returns, also with a connection open.
	conn, err := open(t, c.URL()).Conn(t.Context())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, c.Close())
	require.False(t, alive(server))
	require.Empty(t, serverDirs(t, temp))
}

func TestStartWithImpossibleSettings(t *testing.T) {
	temp := tempDir(t)
	t.Setenv("TMPDIR", temp)
	_, err := pgcluster.Start("max_connections=none")
	require.ErrorContains(t, err, `invalid value for parameter "max_connections"`)
	require.ErrorContains(t, err, "set OUTBOX_TEST_DSN")
	require.Empty(t, serverDirs(t, temp))
}

// execute is a Migrate that runs some SQL and counts its calls.
func execute(text string, calls *atomic.Int32) func(context.Context, string) error {
	return func(ctx context.Context, url string) (err error) {
		calls.Add(1)
		db := sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(url)))
		defer func() { err = errors.Join(err, db.Close()) }()
		_, err = db.ExecContext(ctx, text)
		return err
	}
}

func TestCreate(t *testing.T) {
	c := start(t)
	create := func(tpl pgcluster.Template) *pgcluster.Database {
		db, err := c.Create(t.Context(), tpl)
		require.NoError(t, err)
		return db
	}

	t.Run("the template is built once", func(t *testing.T) {
		var calls atomic.Int32
		tpl := pgcluster.Template{Content: "once", Migrate: execute("CREATE TABLE once (n int); INSERT INTO once VALUES (7)", &calls)}
		var wg sync.WaitGroup
		urls := make([]string, 8)
		errs := make([]error, len(urls))
		for i := range urls {
			wg.Go(func() {
				db, err := c.Create(t.Context(), tpl)
				if errs[i] = err; err == nil {
					urls[i] = db.URL
				}
			})
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
		require.EqualValues(t, 1, calls.Load())
		for i, u := range urls {
			require.NotContains(t, urls[:i], u)
			require.Equal(t, "7", show(t, u, "SELECT n FROM once"))
		}
	})

	t.Run("databases are private", func(t *testing.T) {
		var calls atomic.Int32
		tpl := pgcluster.Template{Content: "private", Migrate: execute("CREATE TABLE private (n int)", &calls)}
		a, b := create(tpl), create(tpl)
		_, err := open(t, a.URL).ExecContext(t.Context(), "INSERT INTO private VALUES (1)")
		require.NoError(t, err)
		require.Equal(t, "1", show(t, a.URL, "SELECT count(*) FROM private"))
		require.Equal(t, "0", show(t, b.URL, "SELECT count(*) FROM private"))
		require.Equal(t, "0", show(t, create(tpl).URL, "SELECT count(*) FROM private"))
	})

	t.Run("other content is another template", func(t *testing.T) {
		var calls atomic.Int32
		for _, content := range []string{"v1", "v2"} {
			create(pgcluster.Template{Content: content, Migrate: execute("CREATE TABLE "+content+" ()", &calls)})
		}
		require.EqualValues(t, 2, calls.Load())
	})

	t.Run("a failed migration leaves no template", func(t *testing.T) {
		var calls atomic.Int32
		_, err := c.Create(t.Context(), pgcluster.Template{Content: "fixed", Migrate: execute("CREATE TABLE fixed (n int); SELECT 1/0", &calls)})
		require.ErrorContains(t, err, "build the template: ERROR: division by zero")
		db := create(pgcluster.Template{Content: "fixed", Migrate: execute("CREATE TABLE fixed (n int)", &calls)})
		require.Equal(t, "0", show(t, db.URL, "SELECT count(*) FROM fixed"))
		require.EqualValues(t, 2, calls.Load())
	})

	t.Run("settings", func(t *testing.T) {
		set := map[string]string{"timezone": "Asia/Kolkata", "application_name": "it's \\ me"}
		u := create(pgcluster.Template{Settings: set}).URL
		for name, want := range set {
			require.Equal(t, want, show(t, u, "SHOW "+name))
		}
		require.Equal(t, "UTC", show(t, create(pgcluster.Template{}).URL, "SHOW timezone"))
		_, err := c.Create(t.Context(), pgcluster.Template{Settings: map[string]string{"timezone": "Nowhere"}})
		require.ErrorContains(t, err, "create a test database: ERROR")
	})

	t.Run("drop", func(t *testing.T) {
		db := create(pgcluster.Template{})
		conn, err := open(t, db.URL).Conn(t.Context())
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		require.NoError(t, db.Drop(t.Context()), "a connection is no obstacle")
		require.ErrorContains(t, open(t, db.URL).PingContext(t.Context()), "SQLSTATE=3D000")
		require.NoError(t, db.Drop(t.Context()))
	})
}

func TestCreateWithoutServer(t *testing.T) {
	c := start(t)
	db, err := c.Create(t.Context(), pgcluster.Template{})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	_, err = c.Create(t.Context(), pgcluster.Template{})
	require.ErrorContains(t, err, "create a test database: connect to postgres://outbox:xxxxx@127.0.0.1:")
	require.ErrorContains(t, db.Drop(t.Context()), "drop a test database: connect to")
}
