package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// operationBatch is how many rows one statement of Retry, Discard and
	// Sweep changes, so that none holds locks for long.
	operationBatch = 1000

	defaultListLimit = 100
)

// ErrNotFound is returned by Get when there is no message with that id.
var ErrNotFound = errors.New("outbox: no such message")

// List returns the messages that f chooses, newest first, at most f.Limit.
func (s Store) List(ctx context.Context, f Filter) ([]Message, error) {
	sess, err := newSession(s.DB)
	if err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	limit := f.Limit
	if limit == 0 {
		limit = defaultListLimit
	}
	where, args := f.where(sess.sqlDialect)
	return sess.messages(ctx, where+fmt.Sprintf(" ORDER BY m.id DESC LIMIT %d", limit), args...)
}

// Get returns the message with this id, or an error that matches
// [ErrNotFound].
func (s Store) Get(ctx context.Context, id ID) (Message, error) {
	sess, err := newSession(s.DB)
	if err != nil {
		return Message{}, err
	}
	found, err := sess.messages(ctx, "m.id = "+sess.uuid("?"), id.String())
	if err != nil {
		return Message{}, err
	}
	if len(found) == 0 {
		return Message{}, fmt.Errorf("%w: %s; it may have been swept", ErrNotFound, id)
	}
	return found[0], nil
}

func (s session) messages(ctx context.Context, where string, args ...any) ([]Message, error) {
	var out []Message
	err := s.query(ctx, operationTimeout, func(rows *sql.Rows) error {
		m, err := scanMessage(rows)
		out = append(out, m)
		return err
	}, "SELECT "+s.messageColumns("m")+" FROM outbox_messages AS m WHERE "+where, args...)
	if err != nil {
		return nil, explainRead(err)
	}
	return out, nil
}

// Retry makes failed messages pending again, due now and with a fresh budget of
// attempts, and returns how many. It may be repeated as often as it takes. Set
// f.Status to retry discarded ones. An empty filter is refused unless f.All is
// set. When it ends early, what it changed stays changed.
func (s Store) Retry(ctx context.Context, f Filter) (int, error) {
	d, err := dialectOfStore(s)
	if err != nil {
		return 0, err
	}
	n, err := s.change(ctx, f, []Status{StatusFailed}, []Status{StatusFailed, StatusDiscarded},
		fmt.Sprintf("status = 'pending', attempts = 0, unavailable_since = NULL, available_at = %s, updated_at = %s", d.now(), d.now()))
	if n > 0 && d.postgres {
		_ = notifyRelays(s.DB.DB) // a relay would find them at its next look
	}
	return n, err
}

// Discard gives up failed or pending messages, keeps them with the reason as
// their LastError until they are swept, and returns how many. By default it
// takes failed ones; set f.Status to discard pending ones. An empty filter is
// refused unless f.All is set, and so is an empty reason. A discarded message
// keeps its key until it is swept. When it ends early, what it changed stays
// changed.
func (s Store) Discard(ctx context.Context, f Filter, reason string) (int, error) {
	d, err := dialectOfStore(s)
	if err != nil {
		return 0, err
	}
	if strings.TrimSpace(reason) == "" {
		return 0, errors.New("outbox: Discard needs a reason; it is what the next person will read")
	}
	return s.change(ctx, f, []Status{StatusFailed}, []Status{StatusFailed, StatusPending},
		fmt.Sprintf("status = 'discarded', last_error = ?, updated_at = %s", d.now()), cleanReason(reason))
}

func dialectOfStore(s Store) (sqlDialect, error) {
	sess, err := newSession(s.DB)
	return sess.sqlDialect, err
}

// change updates what f chooses, in batches.
func (s Store) change(ctx context.Context, f Filter, byDefault, allowed []Status, set string, setArgs ...any) (int, error) {
	sess, err := newSession(s.DB)
	if err != nil {
		return 0, err
	}
	if err := f.check(); err != nil {
		return 0, err
	}
	if f.isEmpty() && !f.All {
		return 0, errEmptyFilter
	}
	if len(f.Status) == 0 {
		f.Status = byDefault
	}
	for _, status := range f.Status {
		if !slices.Contains(allowed, status) {
			return 0, fmt.Errorf("outbox: this operation does not change messages that are %s; choose Filter.Status among %v", status, allowed)
		}
	}
	where, args := f.where(sess.sqlDialect)
	return inBatches(f.Limit, func(limit int) (int, error) {
		n, err := sess.exec(ctx, operationTimeout, "UPDATE outbox_messages SET "+set+" WHERE "+sess.pick(where, "m.id", limit),
			slices.Concat(setArgs, args)...)
		return n, explainRead(err)
	})
}

// pick is a condition for at most limit rows, locked where that can be had at
// once. In an array the subquery runs once; as a set to join with, Postgres may
// run it for every row, and each run locks rows beyond the limit.
func (s session) pick(where, order string, limit int) string {
	q := fmt.Sprintf("SELECT m.id FROM outbox_messages AS m WHERE %s ORDER BY %s LIMIT %d", where, order, limit)
	if s.postgres {
		return "id = ANY (ARRAY(" + q + " FOR UPDATE OF m SKIP LOCKED))"
	}
	return "id IN (" + q + ")"
}

// inBatches calls step until it changes fewer rows than it was allowed to, or
// total is reached; 0 is no limit.
func inBatches(total int, step func(limit int) (int, error)) (int, error) {
	done := 0
	for {
		limit := operationBatch
		if total > 0 {
			limit = min(limit, total-done)
		}
		n, err := step(limit)
		done += n
		if err != nil || n < limit || total > 0 && done >= total {
			return done, err
		}
	}
}

// Sweep deletes sent and discarded messages that became so longer than
// olderThan ago, on the database's clock, in small batches, and returns how
// many. Failed, pending and claimed ones are never swept. It refuses an age of
// zero or less. When it ends early, what it deleted stays deleted.
func (s Store) Sweep(ctx context.Context, olderThan time.Duration) (int, error) {
	sess, err := newSession(s.DB)
	if err != nil {
		return 0, err
	}
	if olderThan <= 0 {
		return 0, fmt.Errorf("outbox: Sweep(%v): use a positive age", olderThan)
	}
	return inBatches(0, func(limit int) (int, error) { return sess.sweep(ctx, operationTimeout, "true", olderThan, limit) })
}

// sweep deletes one batch of done rows for which a condition on m holds.
func (s session) sweep(ctx context.Context, timeout time.Duration, condition string, olderThan time.Duration, limit int) (int, error) {
	where := "m.status IN ('sent', 'discarded') AND m.updated_at < " + s.nowPlus("?") + " AND " + condition
	n, err := s.exec(ctx, timeout, "DELETE FROM outbox_messages WHERE "+s.pick(where, "m.topic, m.updated_at", limit),
		-olderThan.Microseconds())
	return n, explainRead(err)
}

// explainRead names the remedy of an error of a statement of ours.
func explainRead(err error) error {
	switch {
	case err == nil:
		return nil
	case isMissingTable(err):
		return fmt.Errorf("%w: %w", ErrNotMigrated, err)
	}
	return fmt.Errorf("outbox: %w", err)
}
