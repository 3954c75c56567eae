package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/typedoutbox/typedoutbox/examples/orders/internal/database"
)

// tidyTimeout bounds the removal of a Postgres schema.
const tidyTimeout = 10 * time.Second

// venue is where a demonstration takes place: a database with nothing in it, and
// a directory for logs.
type venue struct {
	dsn    string
	shown  string // for people, without a password
	dir    string
	remove func() error
}

// newVenue makes a venue: an SQLite file in a temporary directory, or a schema of
// its own in the Postgres database of dsn, so that whatever else is there is left
// alone.
func newVenue(ctx context.Context, dsn string) (venue, error) {
	dir, err := os.MkdirTemp("", "orders-example-")
	if err != nil {
		return venue{}, fmt.Errorf("make a directory for the demonstration: %w; point TMPDIR to one that can be written", err)
	}
	removeDir := func() error { return os.RemoveAll(dir) }
	if dsn == "" {
		file := filepath.Join(dir, "orders.db")
		return venue{dsn: file, shown: "SQLite file " + file, dir: dir, remove: removeDir}, nil
	}
	schema := "orders_example_" + strings.ToLower(rand.Text()[:10])
	inSchema, err := withSearchPath(dsn, schema)
	if err == nil {
		err = execOn(ctx, dsn, "CREATE SCHEMA "+schema)
	}
	if err != nil {
		return venue{}, errors.Join(err, removeDir())
	}
	v := venue{dsn: inSchema, shown: "schema " + schema + " of the Postgres database", dir: dir}
	v.remove = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
		defer cancel()
		return errors.Join(execOn(ctx, dsn, "DROP SCHEMA "+schema+" CASCADE"), removeDir())
	}
	return v, nil
}

func withSearchPath(dsn, schema string) (string, error) {
	if !database.IsPostgres(dsn) {
		return "", errors.New("-dsn is not a postgres:// URL; write it as postgres://user:password@host:5432/database?sslmode=disable, or leave it out for SQLite")
	}
	u, err := url.Parse(dsn)
	if err != nil {
		// The text of err would repeat the password.
		return "", errors.New("-dsn is not a valid URL; escape special characters of the password, as in p%40ss for p@ss")
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

func execOn(ctx context.Context, dsn, query string) (err error) {
	db, err := database.Open(dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, query); err != nil {
		return fmt.Errorf("%s: %w; check that the server of -dsn answers, and that the user may create schemas in that database", query, err)
	}
	return nil
}
