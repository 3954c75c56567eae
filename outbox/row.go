package outbox

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
)

// messageColumns is the SELECT list that scanMessage reads, of the row m.
func (d sqlDialect) messageColumns(alias string) string {
	columns := []string{
		alias + ".id", alias + ".topic", alias + ".key", alias + ".order_key", alias + ".version",
		alias + ".payload", alias + ".headers", alias + ".status", alias + ".attempts",
		alias + ".last_error", alias + ".claimed_by",
	}
	for _, t := range []string{"available_at", "claimed_at", "created_at", "updated_at", "sent_at", "unavailable_since"} {
		columns = append(columns, d.micros(alias+"."+t))
	}
	return strings.Join(columns, ", ")
}

// scanMessage reads the columns of messageColumns, and what extra asks for
// after them.
func scanMessage(rows *sql.Rows, extra ...any) (Message, error) {
	var (
		m                                                          Message
		key, orderKey, headers, lastError, claimedBy               sql.NullString
		payload, status                                            string
		availableAt, claimedAt, createdAt, updatedAt, sentAt, down dbTime
	)
	dest := append([]any{
		&m.ID, &m.Topic, &key, &orderKey, &m.Version, &payload, &headers, &status, &m.Attempts,
		&lastError, &claimedBy, &availableAt, &claimedAt, &createdAt, &updatedAt, &sentAt, &down,
	}, extra...)
	if err := rows.Scan(dest...); err != nil {
		return m, fmt.Errorf("outbox: read a message: %w", err)
	}
	m.Key, m.OrderKey, m.LastError, m.ClaimedBy = key.String, orderKey.String, lastError.String, claimedBy.String
	m.Payload, m.Status = json.RawMessage(payload), Status(status)
	m.AvailableAt, m.ClaimedAt, m.CreatedAt = availableAt.Time, claimedAt.Time, createdAt.Time
	m.UpdatedAt, m.SentAt, m.UnavailableSince = updatedAt.Time, sentAt.Time, down.Time
	if headers.Valid {
		if err := json.Unmarshal([]byte(headers.String), &m.Headers); err != nil {
			// Enqueue writes an object of strings; whatever else stands there
			// must not keep the row from being handled.
			m.Headers = map[string]string{"": headers.String}
		}
	}
	return m, nil
}
