// Package database opens the app's database.
package database

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/driver/pgdriver"
	"github.com/uptrace/bun/driver/sqliteshim"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// sqliteSettings are those that the outbox asks for: readers beside a writer,
// patience with a busy file, and transactions that take the write lock when
// they begin.
const sqliteSettings = "?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_txlock=immediate"

// Open returns the database of dsn, a postgres:// URL or the path of an SQLite
// file. It connects when it is first used. Its CommitHook wakes relays as soon
// as an order commits.
func Open(dsn string) (*bun.DB, error) {
	if dsn == "" {
		return nil, errors.New("there is no database; give a postgres:// URL or the path of an SQLite file")
	}
	var db *bun.DB
	if IsPostgres(dsn) {
		connector, err := postgresConnector(dsn)
		if err != nil {
			return nil, err
		}
		db = bun.NewDB(sql.OpenDB(connector), pgdialect.New())
	} else {
		sqldb, err := sql.Open(sqliteshim.ShimName, "file:"+(&url.URL{Path: dsn}).EscapedPath()+sqliteSettings)
		if err != nil {
			return nil, fmt.Errorf("open the SQLite file %s: %w", dsn, err)
		}
		db = bun.NewDB(sqldb, sqlitedialect.New())
	}
	return db.WithQueryHook(&outbox.CommitHook{}), nil
}

// IsPostgres reports whether dsn is meant as the URL of a Postgres database.
func IsPostgres(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// postgresConnector returns an error where pgdriver would panic.
func postgresConnector(dsn string) (connector *pgdriver.Connector, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the postgres:// URL cannot be used: %v; write it as postgres://user:password@host:5432/database?sslmode=disable", v)
		}
	}()
	return pgdriver.NewConnector(pgdriver.WithDSN(dsn)), nil
}
