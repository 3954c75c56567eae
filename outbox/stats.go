package outbox

import (
	"context"
	"database/sql"
	"math"
	"time"
)

// operationTimeout bounds one statement of an operation of Store.
const operationTimeout = time.Minute

// TopicStats counts the rows of one topic in one status.
type TopicStats struct {
	Topic       string
	Status      Status
	Count       int
	MaxAttempts int // the most attempts of any of them

	// OldestDue is how long the oldest of them has been due, on the database's
	// clock; for claimed rows, how long the oldest lease has been over. Zero
	// if none is due. It grows while no relay runs: alert on it.
	OldestDue time.Duration
}

// Stats is the state of the table.
type Stats struct {
	Topics []TopicStats // by topic and status
}

// Count returns the number of rows in a status, over all topics.
func (s Stats) Count(status Status) int {
	n := 0
	for _, t := range s.Topics {
		if t.Status == status {
			n += t.Count
		}
	}
	return n
}

// OldestDue returns how long the oldest due row of any topic has been due, zero
// if none is.
func (s Stats) OldestDue() time.Duration {
	var d time.Duration
	for _, t := range s.Topics {
		d = max(d, t.OldestDue)
	}
	return d
}

// Stats counts the rows by topic and status. It reads the whole table, which
// takes a while where there are millions of rows.
func (s Store) Stats(ctx context.Context) (Stats, error) {
	sess, err := newSession(s.DB)
	if err != nil {
		return Stats{}, err
	}
	list, err := sess.topicStats(ctx, "true")
	return Stats{Topics: list}, err
}

func (s session) topicStats(ctx context.Context, where string, args ...any) ([]TopicStats, error) {
	since := "m.available_at"
	if s.postgres {
		since = "greatest(m.available_at, timestamptz 'epoch')" // nothing can be subtracted from -infinity
	}
	due := "min(CASE WHEN m.status IN ('pending', 'claimed') AND m.available_at <= " + s.now() + " THEN " + since + " END)"
	age := "CAST((julianday('now') - julianday(" + due + ")) * 86400000000 AS INTEGER)"
	if s.postgres {
		age = "(extract(epoch FROM statement_timestamp() - " + due + ") * 1000000)::bigint"
	}
	var out []TopicStats
	err := s.query(ctx, operationTimeout, func(rows *sql.Rows) error {
		var t TopicStats
		var oldest sql.NullInt64
		if err := rows.Scan(&t.Topic, &t.Status, &t.Count, &t.MaxAttempts, &oldest); err != nil {
			return err
		}
		t.OldestDue = time.Duration(min(max(oldest.Int64, 0), math.MaxInt64/1000)) * time.Microsecond
		out = append(out, t)
		return nil
	}, "SELECT m.topic, m.status, count(*), max(m.attempts), "+age+" FROM outbox_messages AS m WHERE "+where+
		" GROUP BY m.topic, m.status ORDER BY m.topic, m.status", args...)
	return out, explainRead(err)
}

// unhandled counts the due rows that no relay with this takeSet takes.
func (s session) unhandled(ctx context.Context, take takeSet) ([]TopicStats, error) {
	return s.topicStats(ctx, "m.status IN ('pending', 'claimed') AND m.available_at <= "+s.now()+" AND NOT "+take.takes())
}
