// Package pgtest gives tests Postgres databases of their own, with
// outbox_messages in place.
package pgtest

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/typedoutbox/typedoutbox/internal/pgcluster"
	"github.com/typedoutbox/typedoutbox/outbox"
)

// Options say what is special about a database. The zero value is the default.
type Options struct {
	// TimeZone is the TimeZone of the database's sessions, such as
	// Asia/Kolkata. Default that of the server.
	TimeZone string

	// Base is what the database is a clone of. Default one with outbox_messages
	// and nothing else.
	Base *Base

	// Server returns the server. Default pgcluster.Shared.
	Server func() (*pgcluster.Cluster, error)
}

// Base is a database to clone, made by [NewBase].
type Base struct{ db *pgcluster.Database }

// NewBase makes a database with outbox_messages in it, calls fill with its URL,
// and returns what can be cloned once fill has closed its connections. It goes
// when the server does, or as the leftover of a killed test would. Without
// Postgres, it ends t as [Open] does.
func NewBase(t testing.TB, fill func(ctx context.Context, url string) error) (*Base, error) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	db, err := connect(t, Options{}).Create(ctx, pgcluster.Template{Content: content(t), Migrate: migrate})
	if err != nil {
		return nil, err
	}
	err = fill(ctx, db.URL)
	if err == nil {
		err = db.Freeze(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.Drop(ctx))
	}
	return &Base{db: db}, nil
}

// Open returns the URL of a fresh, migrated database that is private to t; it
// suits pgdriver and pgx. When t ends, after the cleanups that were registered
// later, the database is dropped with the connections to it.
//
// Where there is no Postgres, Open skips t, or fails it if the environment has
// OUTBOX_TEST_REQUIRE=postgres. It fails t if Postgres is there and does not
// work.
func Open(t testing.TB, opts Options) string {
	t.Helper()
	cluster := connect(t, opts)
	template := pgcluster.Template{Content: content(t), Migrate: migrate}
	if opts.Base != nil {
		template = pgcluster.Template{From: opts.Base.db}
	}
	if opts.TimeZone != "" {
		template.Settings = map[string]string{"timezone": opts.TimeZone}
	}
	// Not t.Context, which ends before the cleanups run.
	ctx := context.WithoutCancel(t.Context())
	db, err := cluster.Create(ctx, template)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Drop(ctx); err != nil {
			t.Log(err) // the server goes after the run, or drops it in a later one
		}
	})
	return db.URL
}

// Require ends t as [Open] does where there is no Postgres.
func Require(t testing.TB) {
	t.Helper()
	connect(t, Options{})
}

// connect returns the server, or ends t.
func connect(t testing.TB, opts Options) *pgcluster.Cluster {
	t.Helper()
	server := opts.Server
	if server == nil {
		server = pgcluster.Shared
	}
	cluster, err := server()
	switch {
	case errors.Is(err, pgcluster.ErrUnavailable) && os.Getenv("OUTBOX_TEST_REQUIRE") != "postgres":
		t.Skipf("this test needs Postgres: %v", err)
	case err != nil:
		t.Fatalf("this test needs Postgres: %v", err)
	}
	return cluster
}

// content is the text of the migrations, whose change makes another template.
func content(t testing.TB) string {
	t.Helper()
	steps, err := outbox.Migrations(dialect.PG)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, step := range steps {
		b.WriteString(step.Name + "\n" + step.SQL + "\n")
	}
	return b.String()
}

func migrate(ctx context.Context, url string) (err error) {
	db := bun.NewDB(sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(url))), pgdialect.New())
	defer func() { err = errors.Join(err, db.Close()) }()
	return outbox.Store{DB: db}.Migrate(ctx)
}
