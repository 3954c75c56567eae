package outbox

import (
	"context"
	"errors"
	"net"
	"strings"
)

// failure says what an error of the database means for the relay.
type failure int

const (
	failureOutage     failure = iota // the database cannot answer: wait and try again
	failureContention                // a collision with another transaction: try again at once
	failureRefused                   // the database refuses these values: trying again is no use
	failureInvalid                   // the database is reachable, but not set up for us
)

// classify sorts an error of a statement of ours. What it does not know is an
// outage, since trying again harms nothing.
func classify(err error) failure {
	if errors.Is(err, ErrNotMigrated) || errors.Is(err, errInvalidDatabase) {
		return failureInvalid
	}
	if state := sqlState(err); state != "" {
		switch {
		case state == "40001" || state == "40P01":
			return failureContention
		case strings.HasPrefix(state, "22"), strings.HasPrefix(state, "23"), strings.HasPrefix(state, "P0"):
			return failureRefused
		case strings.HasPrefix(state, "28"), strings.HasPrefix(state, "3D"), strings.HasPrefix(state, "42"):
			return failureInvalid
		}
		return failureOutage
	}
	switch sqliteCode(err) {
	case sqliteBusy, sqliteLocked:
		return failureContention
	case sqliteConstraint:
		return failureRefused
	}
	return failureOutage
}

// sqlState returns the SQLSTATE of a Postgres error, "" if there is none. It
// asks for the methods of pgdriver.Error and pgconn.PgError, not for the types.
func sqlState(err error) string {
	var pgx interface {
		error
		SQLState() string
	}
	if errors.As(err, &pgx) {
		return pgx.SQLState()
	}
	var bun interface {
		error
		Field(byte) string
	}
	if errors.As(err, &bun) {
		return bun.Field('C')
	}
	return ""
}

// The primary result codes of SQLite that matter here.
const (
	sqliteBusy       = 5
	sqliteLocked     = 6
	sqliteConstraint = 19
)

// sqliteCode returns the primary result code of an SQLite error, 0 if it is
// none.
func sqliteCode(err error) int {
	var coded interface {
		error
		Code() int
	}
	if errors.As(err, &coded) {
		return coded.Code() & 0xff
	}
	if err == nil {
		return 0
	}
	// mattn/go-sqlite3 has its code in a field.
	switch text := err.Error(); {
	case strings.Contains(text, "database is locked"):
		return sqliteBusy
	case strings.Contains(text, "database table is locked"):
		return sqliteLocked
	case strings.Contains(text, "constraint failed"):
		return sqliteConstraint
	}
	return 0
}

// isMissingTable reports whether err says that the table or one of its columns
// does not exist.
func isMissingTable(err error) bool {
	switch sqlState(err) {
	case "42P01", "42703":
		return true
	case "":
		text := err.Error()
		return strings.Contains(text, "no such table") || strings.Contains(text, "no such column") ||
			strings.Contains(text, "has no column named")
	}
	return false
}

// unknownOutcome reports whether a statement that failed with err may
// nevertheless have been committed: the server did not answer it.
func unknownOutcome(err error) bool {
	state := sqlState(err)
	if state == "57P03" { // a server that starts or stops has refused the connection
		return false
	}
	if strings.HasPrefix(state, "08") || strings.HasPrefix(state, "57P") || state == "40003" {
		return true
	}
	if state != "" || sqliteCode(err) != 0 {
		return false
	}
	// A connection that could not be opened has sent nothing.
	var op *net.OpError
	return !(errors.As(err, &op) && op.Op == "dial") || errors.Is(err, context.DeadlineExceeded)
}
