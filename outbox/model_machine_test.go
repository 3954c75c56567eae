package outbox_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"pgregory.net/rapid"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// The model test: random interleavings of what producers, relays and people do
// are held against a model that knows the guarantees and nothing of the SQL.
// After each step the whole table is compared with it. A longer search:
//
//	go test ./outbox -run TestModel -rapid.checks=5000
//
// modelChecks is what fits into an ordinary run.
const modelChecks = 30

// modelMachine is one database with the model of it.
type modelMachine struct {
	db       *bun.DB
	store    outbox.Store
	postgres bool
	relays   []*modelRelay

	table       modelTable
	flights     []*modelFlight // of every claim that was answered, live or stale
	orphans     [][3]outbox.ID // tokens of claims whose answers were lost
	open        []*modelTx
	locks       []*modelLock
	returnedNil map[outbox.ID]bool // what a handler said
	serial      int

	mu     sync.Mutex
	script *modelScript // of the drain that runs
}

// modelFlight is a claim of one row, with what a release must restore.
type modelFlight struct {
	*outbox.Flight
	relay *modelRelay
	due   time.Time
}

func (m *modelMachine) isLive(f *modelFlight) bool {
	r := m.table.row(f.ID)
	return r != nil && r.Token == f.Token
}

// reset empties the table and forgets it.
func (m *modelMachine) reset(t *rapid.T) {
	m.end()
	m.exec(t, "DELETE FROM outbox_messages")
	m.table, m.flights, m.orphans, m.serial = modelTable{}, nil, nil, 0
	m.returnedNil = map[outbox.ID]bool{}
	for _, r := range m.relays {
		r.held = map[outbox.ID]*modelFlight{}
	}
}

// end rolls back what is open.
func (m *modelMachine) end() {
	for _, tx := range m.open {
		_ = tx.tx.Rollback()
	}
	for _, l := range m.locks {
		_ = l.tx.Rollback()
	}
	m.open, m.locks = nil, nil
}

// onModel runs a machine on SQLite and on Postgres, one database for all checks.
func onModel(t *testing.T, actions func(m *modelMachine) map[string]func(*rapid.T)) {
	modelDefaults(t)
	t.Parallel()
	for _, name := range []string{"sqlite", "pgdriver"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, name, "")
			f.mayVanish, f.mayStayClaimed = true, true
			m := &modelMachine{db: f.connect(t, nil), postgres: f.postgres}
			m.store = outbox.Store{DB: m.db}
			for _, take := range modelTakes {
				m.relays = append(m.relays, m.newRelay(t, take))
			}
			t.Cleanup(m.end)
			all := actions(m)
			all[""] = m.check
			rapid.Check(t, func(t *rapid.T) {
				m.reset(t)
				t.Repeat(all)
			})
		})
	}
}

// modelDefaults sets how long rapid searches, unless the command line says so. It
// runs before any parallel test does.
func modelDefaults(t *testing.T) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		require.NoError(t, flag.Lookup("rapid.checks").Value.Set(fmt.Sprint(modelChecks)))
	}
}

// TestModelOfStatements sends the statements of several relays one by one, so
// that stale ones come as late as it pleases.
func TestModelOfStatements(t *testing.T) {
	onModel(t, func(m *modelMachine) map[string]func(*rapid.T) {
		all := m.common()
		all["claim more"], all["record more"], all["take over more"] = m.claim, m.record, m.takeOverOne
		all["renew"], all["release an orphan"] = m.renew, m.releaseOrphan
		return all
	})
}

// common are the actions of every machine.
func (m *modelMachine) common() map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){
		"enqueue": m.enqueue, "enqueue more": m.enqueue,
		"claim": m.claim, "take over": m.takeOverOne, "lose the answer to a claim": m.loseClaim, "crash": m.crash,
		"record": m.record, "make due": m.makeDue, "expire leases": m.expireLeases,
		"retry": m.retry, "discard": m.discard, "sweep": m.sweep, "age": m.age, "look": m.look,
	}
	if m.postgres { // SQLite has one writer
		all["end a transaction"], all["lock"], all["unlock"] = m.endTx, m.lock, m.unlock
	}
	return all
}

// modelPick draws from 1 to most different things, in any order, or skips the
// action if there are none.
func modelPick[T any](t *rapid.T, from []T, most int, what string) []T {
	if len(from) == 0 {
		t.Skip("there is nothing for " + what)
	}
	indexes := rapid.SliceOfNDistinct(rapid.IntRange(0, len(from)-1), 1, min(most, len(from)), rapid.ID[int]).Draw(t, what)
	out := make([]T, len(indexes))
	for i, n := range indexes {
		out[i] = from[n]
	}
	return out
}

func (m *modelMachine) drawRelay(t *rapid.T) *modelRelay {
	return m.relays[rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "relay")]
}

// needs skips an action that would find nothing to do.
func (m *modelMachine) needs(t *rapid.T, statuses ...outbox.Status) {
	if len(m.table.that(func(r *modelRow) bool { return slices.Contains(statuses, r.Status) })) == 0 {
		t.Skip("no row is", statuses)
	}
}

func modelToken() outbox.ID { return outbox.ID(uuid.New()) }

// modelLock is a session that holds rows.
type modelLock struct {
	tx   bun.Tx
	rows []*modelRow
}

func (m *modelMachine) isLocked(r *modelRow) bool {
	return slices.ContainsFunc(m.locks, func(l *modelLock) bool { return slices.Contains(l.rows, r) })
}

func (m *modelMachine) unlockedThat(condition func(*modelRow) bool) []*modelRow {
	return m.table.that(func(r *modelRow) bool { return !m.isLocked(r) && condition(r) })
}

// lock holds rows in the manner of a person in psql.
func (m *modelMachine) lock(t *rapid.T) {
	if len(m.locks) >= 2 {
		t.Skip("enough is locked")
	}
	rows := modelPick(t, m.unlockedThat(func(*modelRow) bool { return true }), 3, "rows to lock")
	tx, err := m.db.BeginTx(context.Background(), nil)
	require.NoError(t, err)
	m.locks = append(m.locks, &modelLock{tx, rows})
	_, err = tx.ExecContext(context.Background(), "SELECT id FROM outbox_messages WHERE id IN (?) FOR UPDATE", bun.List(modelIDs(rows)))
	require.NoError(t, err)
}

func (m *modelMachine) unlock(t *rapid.T) {
	if len(m.locks) == 0 {
		t.Skip("nothing is locked")
	}
	require.NoError(t, m.locks[0].tx.Rollback())
	m.locks = m.locks[1:]
}

func modelIDs(rows []*modelRow) []outbox.ID {
	ids := make([]outbox.ID, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	return ids
}

// moveBack sets a time of some rows to so many minutes ago, negative for the
// future.
func (m *modelMachine) moveBack(t *rapid.T, column string, rows []*modelRow, minutes int, field func(*modelRow) *modelTime) {
	moved := fmt.Sprintf("strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '%d minutes')", -minutes)
	if m.postgres {
		moved = fmt.Sprintf("statement_timestamp() - interval '%d minutes'", minutes)
	}
	m.exec(t, "UPDATE outbox_messages SET "+column+" = "+moved+" WHERE id IN (?)", bun.List(modelIDs(rows)))
	for _, r := range rows {
		*field(r) = modelIn(time.Duration(-minutes) * time.Minute)
	}
}

func modelDue(r *modelRow) *modelTime { return &r.due }

// makeDue moves when pending rows are due, mostly into the past.
func (m *modelMachine) makeDue(t *rapid.T) {
	rows := modelPick(t, m.unlockedThat(func(r *modelRow) bool { return r.Status == outbox.StatusPending }), 3, "pending rows")
	minutes := rapid.IntRange(-1, 20).Draw(t, "ten minutes")
	m.moveBack(t, "available_at", rows, minutes*10, modelDue)
}

// expireLeases ends leases.
func (m *modelMachine) expireLeases(t *rapid.T) {
	rows := modelPick(t, m.unlockedThat(func(r *modelRow) bool { return r.Status == outbox.StatusClaimed }), 3, "claimed rows")
	m.moveBack(t, "available_at", rows, 10*rapid.IntRange(1, 20).Draw(t, "ten minutes"), modelDue)
}

// age makes rows look as if nothing had happened to them for days.
func (m *modelMachine) age(t *rapid.T) {
	rows := modelPick(t, m.unlockedThat(func(*modelRow) bool { return true }), 5, "rows to age")
	m.moveBack(t, "updated_at", rows, 60*48, func(r *modelRow) *modelTime { return &r.updated })
}
