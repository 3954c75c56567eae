// Package bun stands in for the real one, whose dependencies would all be
// loaded from source.
package bun

import (
	"context"
	"database/sql"
)

type IConn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

type IDB interface {
	IConn
	NewSelect() *SelectQuery
	NewInsert() *InsertQuery
	BeginTx(ctx context.Context, opts *sql.TxOptions) (Tx, error)
	RunInTx(ctx context.Context, opts *sql.TxOptions, f func(ctx context.Context, tx Tx) error) error
}

type DB struct{ *sql.DB }

func (db *DB) Dialect() string         { return "" }
func (db *DB) NewSelect() *SelectQuery { return nil }
func (db *DB) NewInsert() *InsertQuery { return nil }
func (db *DB) Begin() (Tx, error)      { return Tx{}, nil }

func (db *DB) BeginTx(ctx context.Context, opts *sql.TxOptions) (Tx, error) { return Tx{}, nil }

func (db *DB) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return nil, nil
}

func (db *DB) RunInTx(ctx context.Context, opts *sql.TxOptions, f func(ctx context.Context, tx Tx) error) error {
	return nil
}

type Conn struct{}

func (c Conn) NewSelect() *SelectQuery { return nil }

func (c Conn) RunInTx(ctx context.Context, opts *sql.TxOptions, f func(ctx context.Context, tx Tx) error) error {
	return nil
}

type Tx struct{ *sql.Tx }

func (tx Tx) Dialect() string         { return "" }
func (tx Tx) NewSelect() *SelectQuery { return nil }
func (tx Tx) NewInsert() *InsertQuery { return nil }
func (tx Tx) Begin() (Tx, error)      { return tx, nil }
func (tx Tx) Commit() error           { return nil }
func (tx Tx) Rollback() error         { return nil }

func (tx Tx) BeginTx(ctx context.Context, opts *sql.TxOptions) (Tx, error) { return tx, nil }

func (tx Tx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	return nil, nil
}

func (tx Tx) RunInTx(ctx context.Context, opts *sql.TxOptions, f func(ctx context.Context, tx Tx) error) error {
	return nil
}

type SelectQuery struct{}

func (q *SelectQuery) Conn(db IConn) *SelectQuery                       { return q }
func (q *SelectQuery) Model(model any) *SelectQuery                     { return q }
func (q *SelectQuery) TableExpr(query string, args ...any) *SelectQuery { return q }
func (q *SelectQuery) Where(query string, args ...any) *SelectQuery     { return q }
func (q *SelectQuery) Scan(ctx context.Context, dest ...any) error      { return nil }
func (q *SelectQuery) Count(ctx context.Context) (int64, error)         { return 0, nil }

type InsertQuery struct{}

func (q *InsertQuery) Model(model any) *InsertQuery                              { return q }
func (q *InsertQuery) Exec(ctx context.Context, dest ...any) (sql.Result, error) { return nil, nil }
