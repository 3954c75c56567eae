package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
	"github.com/uptrace/bun/driver/pgdriver"
)

// maxAnswerGrace is how much longer than the server a client waits for the
// answer, so that the outcome of a statement which the server ended is known;
// at most as long again as the statement may take.
const maxAnswerGrace = 2 * time.Second

// patience is how long a client waits for a statement that the server ends
// after timeout.
func patience(timeout time.Duration) time.Duration {
	return timeout + min(timeout, maxAnswerGrace)
}

// session runs the library's own statements. On Postgres each of them is a
// transaction of its own at READ COMMITTED, flushed before it is acknowledged
// and ended by the server after its timeout, whatever the defaults of the role;
// the settings are local to that transaction, so that nothing leaks into the
// application's pool.
type session struct {
	db bun.IDB
	sqlDialect

	// oneTrip: rows may be read from the last of several statements in one
	// string, which makes settings and statement a single round trip. pgdriver
	// can, pgx cannot.
	oneTrip bool
}

// newSession returns a session on db, or an error if it is of neither
// supported dialect.
func newSession(db *bun.DB) (session, error) {
	if db == nil || db.DB == nil {
		return session{}, fmt.Errorf("outbox: DB is nil; set it to the *bun.DB that holds outbox_messages")
	}
	d, err := dialectOf(db.Dialect().Name())
	if err != nil {
		return session{}, err
	}
	_, bunDriver := db.Driver().(pgdriver.Driver)
	return session{db: db, sqlDialect: d, oneTrip: bunDriver}, nil
}

// settings is what goes before every statement on Postgres. Compiling is no use
// to statements of a millisecond: the planner, which cannot know how few rows a
// LATERAL scan will touch, would spend 150 ms on it at each look.
func settings(timeout time.Duration) string {
	return fmt.Sprintf("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; "+
		"SET LOCAL statement_timeout = %d; SET LOCAL jit = off; SET LOCAL synchronous_commit = on; ", max(timeout.Milliseconds(), 1))
}

// exec runs a statement that returns no rows and says how many it changed.
func (s session) exec(ctx context.Context, timeout time.Duration, query string, args ...any) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, patience(timeout))
	defer cancel()
	if s.postgres {
		query = settings(timeout) + query
	}
	res, err := s.db.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// query runs a statement and calls scan for each of its rows.
func (s session) query(ctx context.Context, timeout time.Duration, scan func(*sql.Rows) error, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, patience(timeout))
	defer cancel()
	switch {
	case !s.postgres:
		return queryOn(ctx, s.db, scan, query, args)
	case s.oneTrip:
		return queryOn(ctx, s.db, scan, settings(timeout)+query, args)
	}
	ctx = context.WithValue(ctx, ownTxKey{}, true)
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, settings(timeout)+
		fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d", patience(timeout).Milliseconds())); err != nil {
		return err
	}
	if err := queryOn(ctx, tx, scan, query, args); err != nil {
		return err
	}
	return tx.Commit()
}

func queryOn(ctx context.Context, db bun.IDB, scan func(*sql.Rows) error, query string, args []any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return rows.Close()
}

// dropConnection closes one idle connection of the pool, the one that was used
// last.
func dropConnection(ctx context.Context, db *sql.DB) {
	ctx, cancel := context.WithTimeout(ctx, maxAnswerGrace)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		return
	}
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

// dialectOf returns the SQL of a supported dialect.
func dialectOf(name dialect.Name) (sqlDialect, error) {
	switch name {
	case dialect.PG:
		return sqlDialect{postgres: true}, nil
	case dialect.SQLite:
		return sqlDialect{}, nil
	}
	return sqlDialect{}, fmt.Errorf("outbox: dialect %s is not supported; use pgdialect or sqlitedialect", name)
}
