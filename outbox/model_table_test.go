package outbox_test

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// modelSlack is how far a time may be from where the model expects it. All
// intervals of the model are longer by far, so that a slow machine, or a step of
// its clock, changes no relation.
const modelSlack = time.Minute

// modelTime is a time as the model knows it: exactly, or as a distance from the
// database's clock until the table is read next.
type modelTime struct {
	at     time.Time // zero: NULL
	fresh  bool
	offset time.Duration
	slack  time.Duration
}

func modelIn(offset time.Duration) modelTime {
	return modelTime{fresh: true, offset: offset, slack: modelSlack}
}

func modelNow() modelTime { return modelIn(0) }

// meet compares the time with what is stored and learns it.
func (m *modelTime) meet(got, clock time.Time) error {
	if !m.fresh {
		if !got.Equal(m.at) {
			return fmt.Errorf("is %v, want %v", got, m.at)
		}
		return nil
	}
	if off := got.Sub(clock) - m.offset; got.IsZero() || off.Abs() > m.slack {
		return fmt.Errorf("is %v at %v, want an offset of %v", got, clock, m.offset)
	}
	*m = modelTime{at: got}
	return nil
}

// modelCells are the columns of a row that are no times. "-" is NULL.
type modelCells struct {
	ID                   outbox.ID
	Topic, Key, OrderKey string
	Version              int
	Payload, Headers     string
	Status               outbox.Status
	Attempts             int
	LastError, ClaimedBy string
	Token                outbox.ID // zero: NULL
}

// modelRow is a row as it must be.
type modelRow struct {
	modelCells
	serial                                       int
	due, claimedAt, created, updated, sent, down modelTime
}

func modelText(s string) string { return cmp.Or(s, "-") }

// modelTable is what must be in the table.
type modelTable struct {
	rows  []*modelRow // in the order of their commits
	clock time.Time   // the database's, when the table was read last
}

func (m *modelTable) row(id outbox.ID) *modelRow {
	for _, r := range m.rows {
		if r.ID == id {
			return r
		}
	}
	return nil
}

func (m *modelTable) that(condition func(*modelRow) bool) []*modelRow {
	var out []*modelRow
	for _, r := range m.rows {
		if condition(r) {
			out = append(out, r)
		}
	}
	return out
}

func (m *modelTable) remove(gone func(*modelRow) bool) {
	m.rows = slices.DeleteFunc(m.rows, gone)
}

// isDue reports whether the time of a row has come: to be delivered, or while it
// is claimed for its lease to end.
func (m *modelTable) isDue(r *modelRow) bool { return !r.due.at.After(m.clock) }

// inTurn reports whether nothing of the same order key comes first.
func (m *modelTable) inTurn(r *modelRow) bool {
	return r.OrderKey == "-" || !slices.ContainsFunc(m.rows, func(e *modelRow) bool {
		return e.blocks(r)
	})
}

// blocks reports whether r must wait for e.
func (e *modelRow) blocks(r *modelRow) bool {
	return r.OrderKey != "-" && e.OrderKey == r.OrderKey && e.before(r) &&
		e.Status != outbox.StatusSent && e.Status != outbox.StatusDiscarded
}

func (e *modelRow) before(r *modelRow) bool {
	return cmp.Or(e.created.at.Compare(r.created.at), bytes.Compare(e.ID[:], r.ID[:])) < 0
}

// modelOldestFirst sorts rows by when they are due.
func modelOldestFirst(rows []*modelRow) []*modelRow {
	slices.SortFunc(rows, func(a, b *modelRow) int {
		return cmp.Or(a.due.at.Compare(b.due.at), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return rows
}

// modelStored is a row as it is.
type modelStored struct {
	modelCells
	due, claimedAt, created, updated, sent, down time.Time
}

// readTable reads the whole table and the clock in one statement.
func (m *modelMachine) readTable(t *rapid.T) (clock time.Time, stored []modelStored) {
	instant := func(column string) string { return "coalesce(" + column + ", '')" }
	now := "strftime('%Y-%m-%d %H:%M:%f', 'now')"
	if m.postgres {
		instant = func(column string) string {
			return "coalesce((extract(epoch FROM " + column + ") * 1000000)::bigint::text, '')"
		}
		now = "statement_timestamp()"
	}
	var columns []string
	for _, column := range []string{"id", "topic", "key", "order_key", "version", "payload", "headers", "status", "attempts", "last_error", "claimed_by", "claim_token"} {
		columns = append(columns, "coalesce(CAST(m."+column+" AS text), '-')")
	}
	for _, column := range []string{"available_at", "claimed_at", "created_at", "updated_at", "sent_at", "unavailable_since"} {
		columns = append(columns, instant("m."+column))
	}
	rows, err := m.db.DB.QueryContext(context.Background(), "SELECT "+instant("c.clock")+", "+strings.Join(columns, ", ")+
		" FROM (SELECT "+now+" AS clock) AS c LEFT JOIN outbox_messages AS m ON 1 = 1")
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	for rows.Next() {
		var r modelStored
		var at, id, version, status, attempts, token, due, claimedAt, created, updated, sent, down string
		require.NoError(t, rows.Scan(&at, &id, &r.Topic, &r.Key, &r.OrderKey, &version, &r.Payload, &r.Headers, &status, &attempts,
			&r.LastError, &r.ClaimedBy, &token, &due, &claimedAt, &created, &updated, &sent, &down))
		clock = m.parseTime(t, at)
		if id == "-" {
			continue // the table is empty
		}
		r.ID, r.Token = modelID(t, id), modelID(t, token)
		r.Version, r.Attempts, r.Status = modelInt(t, version), modelInt(t, attempts), outbox.Status(status)
		r.due, r.claimedAt, r.created = m.parseTime(t, due), m.parseTime(t, claimedAt), m.parseTime(t, created)
		r.updated, r.sent, r.down = m.parseTime(t, updated), m.parseTime(t, sent), m.parseTime(t, down)
		stored = append(stored, r)
	}
	require.NoError(t, rows.Err())
	return clock, stored
}

func (m *modelMachine) parseTime(t *rapid.T, text string) time.Time {
	if text == "" {
		return time.Time{}
	}
	if m.postgres {
		return time.UnixMicro(int64(modelInt(t, text))).UTC()
	}
	at, err := time.Parse("2006-01-02 15:04:05.000", text)
	require.NoError(t, err)
	return at
}

func modelInt(t *rapid.T, text string) int {
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

func modelID(t *rapid.T, text string) outbox.ID {
	if text == "-" {
		return outbox.ID{}
	}
	id, err := outbox.ParseID(text)
	require.NoError(t, err)
	return id
}

// check compares the whole table with the model, row by row, and then what must
// hold of any table.
func (m *modelMachine) check(t *rapid.T) {
	clock, stored := m.readTable(t)
	m.table.clock = clock
	seen := map[outbox.ID]bool{}
	for _, got := range stored {
		seen[got.ID] = true
		want := m.table.row(got.ID)
		require.NotNil(t, want, "a row that must not exist: %+v", got.modelCells)
		require.Equal(t, want.modelCells, got.modelCells, "row %d", want.serial)
		for _, column := range []struct {
			name string
			want *modelTime
			got  time.Time
		}{
			{"available_at", &want.due, got.due},
			{"claimed_at", &want.claimedAt, got.claimedAt},
			{"created_at", &want.created, got.created},
			{"updated_at", &want.updated, got.updated},
			{"sent_at", &want.sent, got.sent},
			{"unavailable_since", &want.down, got.down},
		} {
			if err := column.want.meet(column.got, clock); err != nil {
				require.NoError(t, err, "row %d, %s: %s", want.serial, want.Status, column.name)
			}
		}
		require.Equal(t, got.Status == outbox.StatusClaimed, !got.Token.IsZero(), "row %d is claimed if and only if it has a token", want.serial)
		require.LessOrEqual(t, got.Attempts, modelMostAttempts(got.Topic), "row %d: attempts", want.serial)
		require.GreaterOrEqual(t, got.Attempts, 0, "row %d: attempts", want.serial)
		if got.Status == outbox.StatusSent {
			require.True(t, m.returnedNil[got.ID], "row %d was sent, but no handler returned nil", want.serial)
		}
	}
	for _, want := range m.table.rows {
		require.True(t, seen[want.ID], "row %d is lost: %+v", want.serial, want.modelCells)
	}
	live := map[outbox.ID]outbox.ID{}
	for _, f := range m.flights {
		if !m.isLive(f) {
			continue
		}
		if token, ok := live[f.ID]; ok {
			require.Equal(t, token, f.Token, "two live tokens for one row")
		}
		live[f.ID] = f.Token
	}
}

// modelExec runs a statement of the test's own.
func (m *modelMachine) exec(t *rapid.T, query string, args ...any) sql.Result {
	res, err := m.db.ExecContext(context.Background(), query, args...)
	require.NoError(t, err)
	return res
}
