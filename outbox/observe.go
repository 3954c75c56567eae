package outbox

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// observeTimeout bounds each statement of Observe.
const observeTimeout = 5 * time.Second

// Observe registers what to alert on with an OpenTelemetry meter, by outbox.topic:
//
//   - outbox.oldest_due, in seconds: how long the oldest due message has been
//     due, on the database's clock; of a claimed one, how long its lease has been
//     over. Zero if messages wait and none is due.
//   - outbox.parked: how many messages are failed.
//
// Both come from the table at each collection, so that they grow while no relay
// runs; observe them from a process that runs when relays may not, and from one
// is enough. They are read from indexes, in a time that does not grow with sent
// and delayed messages. A topic without such messages is not reported.
//
// Unregister ends it. It is safe for concurrent use. An error of the database is
// an error of the collection.
func (s Store) Observe(meter metric.Meter) (metric.Registration, error) {
	sess, err := newSession(s.DB)
	if err != nil {
		return nil, err
	}
	oldest, err1 := meter.Float64ObservableGauge("outbox.oldest_due", metric.WithUnit("s"),
		metric.WithDescription("How long the oldest due message has been due."))
	parked, err2 := meter.Int64ObservableGauge("outbox.parked", metric.WithDescription("Messages parked as failed."))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		err := sess.query(ctx, observeTimeout, func(rows *sql.Rows) error {
			var topic string
			var seconds float64
			if err := rows.Scan(&topic, &seconds); err != nil {
				return err
			}
			o.ObserveFloat64(oldest, min(max(seconds, 0), math.MaxInt32), metric.WithAttributes(attribute.String("outbox.topic", topic)))
			return nil
		}, sess.oldestDue())
		if err != nil {
			return explainRead(err)
		}
		return explainRead(sess.query(ctx, observeTimeout, func(rows *sql.Rows) error {
			var topic string
			var n int64
			if err := rows.Scan(&topic, &n); err != nil {
				return err
			}
			o.ObserveInt64(parked, n, metric.WithAttributes(attribute.String("outbox.topic", topic)))
			return nil
		}, "SELECT topic, count(*) FROM outbox_messages WHERE status = 'failed' GROUP BY topic"))
	}, oldest, parked)
}

// oldestDue is a query for (topic, seconds) of every topic with pending rows or
// expired leases: one probe of an index for each topic.
func (s session) oldestDue() string {
	// A time that is not over, or none, is no age: somebody may hold a row back
	// with 'infinity'.
	age := "coalesce(max((julianday('now') - julianday(min(due))) * 86400, 0), 0)"
	if s.postgres {
		age = "CASE WHEN min(due) <= statement_timestamp() THEN extract(epoch FROM statement_timestamp() - greatest(min(due), timestamptz 'epoch')) ELSE 0 END::float8"
	}
	return "WITH RECURSIVE " + takeSet{}.taken() + `, oldest AS (
	SELECT topic, (SELECT min(m.available_at) FROM outbox_messages AS m WHERE m.topic = take.topic AND m.status = 'pending') AS due FROM take
	UNION ALL
	SELECT topic, available_at FROM outbox_messages WHERE status = 'claimed' AND available_at <= ` + s.now() + `
)
SELECT topic, ` + age + ` FROM oldest WHERE due IS NOT NULL GROUP BY topic`
}
