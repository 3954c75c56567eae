package testutil

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// statementTimeout bounds each statement. It is a deadline because pgdriver heeds
// no other end of a context.
const statementTimeout = 10 * time.Second

// readMessages returns the messages for which a condition holds, by created_at
// and id.
func readMessages(t testing.TB, q bun.IDB, where string, args ...any) ([]outbox.Message, error) {
	columns := "id, topic, key, order_key, version, payload, headers, status, attempts, last_error," +
		" available_at, claimed_at, claimed_by, created_at, updated_at, sent_at, unavailable_since"
	if q.Dialect().Name() == dialect.PG {
		// Text and numbers depend neither on the driver nor on the session's
		// TimeZone.
		columns = "id::text, topic, key, order_key, version, payload::text, headers::text, status, attempts, last_error, " +
			micros("available_at") + ", " + micros("claimed_at") + ", claimed_by, " +
			micros("created_at") + ", " + micros("updated_at") + ", " + micros("sent_at") + ", " + micros("unavailable_since")
	}
	var messages []outbox.Message
	err := query(t, q, func(rows *sql.Rows) error {
		m, err := scanMessage(rows)
		messages = append(messages, m)
		return err
	}, "SELECT "+columns+" FROM outbox_messages WHERE "+where+" ORDER BY created_at, id", args...)
	return messages, err
}

func micros(column string) string {
	return "(extract(epoch FROM " + column + ") * 1000000)::bigint"
}

func scanMessage(rows *sql.Rows) (m outbox.Message, err error) {
	var (
		payload                                                    string
		key, orderKey, headers, lastError, claimedBy               sql.NullString
		availableAt, claimedAt, createdAt, updatedAt, sentAt, down instant
	)
	if err := rows.Scan(&m.ID, &m.Topic, &key, &orderKey, &m.Version, &payload, &headers, &m.Status, &m.Attempts,
		&lastError, &availableAt, &claimedAt, &claimedBy, &createdAt, &updatedAt, &sentAt, &down); err != nil {
		return m, err
	}
	m.Payload = json.RawMessage(payload)
	m.Key, m.OrderKey, m.LastError, m.ClaimedBy = key.String, orderKey.String, lastError.String, claimedBy.String
	m.AvailableAt, m.ClaimedAt, m.CreatedAt = availableAt.Time, claimedAt.Time, createdAt.Time
	m.UpdatedAt, m.SentAt, m.UnavailableSince = updatedAt.Time, sentAt.Time, down.Time
	if headers.Valid {
		if err := json.Unmarshal([]byte(headers.String), &m.Headers); err != nil {
			return m, fmt.Errorf("headers of message %s: %w", m.ID, err)
		}
	}
	return m, nil
}

// instant scans a stored time, as micros reads it on Postgres and as text on
// SQLite. NULL is the zero time.
type instant struct{ time.Time }

// Scan implements sql.Scanner.
func (i *instant) Scan(src any) (err error) {
	switch v := src.(type) {
	case nil:
		i.Time = time.Time{}
	case int64:
		i.Time = time.UnixMicro(v).UTC()
	case string:
		i.Time, err = time.Parse(time.DateTime, v) // takes a fraction, too
	case []byte:
		i.Time, err = time.Parse(time.DateTime, string(v))
	default:
		err = fmt.Errorf("a stored time is a %T", src)
	}
	return err
}

// query calls scan for each row of a query.
func query(t testing.TB, q bun.IDB, scan func(*sql.Rows) error, text string, args ...any) error {
	ctx, cancel := statementContext(t)
	defer cancel()
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// exec runs a statement that changes rows and returns how many.
func exec(t testing.TB, q bun.IDB, text string, args ...any) (int, error) {
	ctx, cancel := statementContext(t)
	defer cancel()
	res, err := q.ExecContext(ctx, text, args...)
	if err != nil {
		return 0, explainLocked(t, q, err)
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// statementContext is not t.Context itself, which has ended when cleanups run.
func statementContext(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), statementTimeout)
}
