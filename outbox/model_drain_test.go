package outbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// TestModelOfDrains steps whole relays: their handlers follow a script, between
// claims of relays that have crashed or stalled.
func TestModelOfDrains(t *testing.T) {
	onModel(t, func(m *modelMachine) map[string]func(*rapid.T) {
		all := m.common()
		all["drain"], all["drain more"] = m.drain, m.drain
		return all
	})
}

// What a handler does.
var modelActs = []string{"nil", "nil", "error", "permanent", "retry after", "panic", "lose the lease", "lose the lease and fail"}

// modelScript is what the handlers of one drain do, and what they have seen.
type modelScript struct {
	acts      []string // by the row's serial
	before    map[outbox.ID]modelCells
	earlier   map[outbox.ID][]outbox.ID // rows that must be sent before
	mayThieve func(topic string, attempts int) bool

	begun    []outbox.ID // in order
	sent     map[outbox.ID]bool
	suspects int // in flight
	thieves  map[outbox.ID]outbox.ID
	wrong    []string
}

func (s *modelScript) act(serial int) string { return s.acts[serial%len(s.acts)] }

// actOn is what the handler of a row does, given what it was before the drain.
func (s *modelScript) actOn(serial int, was modelCells) string {
	act := s.act(serial)
	if strings.HasPrefix(act, "lose") && !s.mayThieve(was.Topic, was.Attempts+2) {
		return "error"
	}
	return act
}

// deliver is the handler of every topic.
func (m *modelMachine) deliver(ctx context.Context, msg outbox.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.script
	was, known := s.before[msg.ID]
	complain := func(what string) { s.wrong = append(s.wrong, what+" "+string(msg.Payload)) }
	switch {
	case !known:
		complain("a row that must not exist")
		return nil
	case slices.Contains(s.begun, msg.ID):
		complain("delivered twice")
	case msg.Attempts != was.Attempts+1:
		complain("attempts do not count at claim")
	case msg.Status != outbox.StatusClaimed || string(msg.Payload) != was.Payload || msg.Topic != was.Topic || msg.Version != was.Version:
		complain("not the row")
	case slices.ContainsFunc(s.earlier[msg.ID], func(id outbox.ID) bool { return !s.sent[id] }):
		complain("out of turn")
	}
	s.begun = append(s.begun, msg.ID)
	if was.Status == outbox.StatusClaimed {
		if s.suspects++; s.suspects > 1 {
			complain("two suspects at once")
		}
		defer func() { s.suspects-- }()
		m.mu.Unlock() // others may begin
		m.mu.Lock()
	}
	switch act := s.actOn(m.serialIn(msg), was); act {
	case "error":
		return errors.New("boom")
	case "permanent":
		return outbox.Permanent(errors.New("no good"))
	case "retry after":
		return outbox.RetryAfter(time.Hour, errors.New("later"))
	case "panic":
		panic("ouch")
	case "nil":
		s.sent[msg.ID] = true
		return nil
	default:
		token := modelToken()
		s.thieves[msg.ID] = token
		if err := m.takeOver(msg.ID, token); err != nil {
			complain(err.Error())
		}
		if act == "lose the lease" {
			return nil
		}
		return errors.New("too late")
	}
}

// serialIn reads the number of a row from its payload.
func (m *modelMachine) serialIn(msg outbox.Message) int {
	return m.serialOf(msg.ID)
}

// takeOver is what another relay does once the lease has ended.
func (m *modelMachine) takeOver(id, token outbox.ID) error {
	now, later := "strftime('%Y-%m-%d %H:%M:%f', 'now')", "strftime('%Y-%m-%d %H:%M:%f', 'now', '3 hours')"
	if m.postgres {
		now, later = "statement_timestamp()", "statement_timestamp() + interval '3 hours'"
	}
	_, err := m.db.ExecContext(context.Background(), "UPDATE outbox_messages SET attempts = attempts + 1, claim_token = ?, claimed_by = 'the thief', claimed_at = "+
		now+", updated_at = "+now+", available_at = "+later+" WHERE id = ?", uuid.UUID(token).String(), id)
	return err
}

// drain steps a relay until nothing is due.
func (m *modelMachine) drain(t *rapid.T) {
	r := m.drawRelay(t)
	r.relay.Batch = rapid.IntRange(1, 4).Draw(t, "batch")
	r.relay.Concurrency = rapid.IntRange(1, 3).Draw(t, "concurrency")
	s := &modelScript{
		acts:   rapid.SliceOfN(rapid.SampledFrom(modelActs), 7, 7).Draw(t, "script"),
		before: map[outbox.ID]modelCells{}, earlier: map[outbox.ID][]outbox.ID{},
		sent: map[outbox.ID]bool{}, thieves: map[outbox.ID]outbox.ID{},
		mayThieve: func(topic string, attempts int) bool { return attempts <= modelMostAttempts(topic) },
	}
	for _, row := range m.table.rows {
		s.before[row.ID] = row.modelCells
		for _, e := range m.table.rows {
			if e.blocks(row) {
				s.earlier[row.ID] = append(s.earlier[row.ID], e.ID)
			}
		}
	}
	inOrder := m.dueFor(r)
	m.mu.Lock()
	m.script = s
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	n, err := r.relay.Drain(ctx)
	require.NoError(t, err)

	m.mu.Lock()
	defer m.mu.Unlock()
	require.Empty(t, s.wrong)
	delivered, sent := m.drained(t, r, s)
	require.ElementsMatch(t, delivered, m.serialsOf(s.begun), "what %s delivers", r.name)
	require.Equal(t, sent, n, "what Drain returns")
	for id := range s.sent {
		m.returnedNil[id] = true
	}
	if r.relay.Concurrency == 1 {
		m.requireOldestFirst(t, inOrder, s.begun)
	}
}

func (m *modelMachine) serialsOf(ids []outbox.ID) []int {
	out := []int{}
	for _, id := range ids {
		out = append(out, m.serialOf(id))
	}
	return out
}

// requireOldestFirst checks the order of those that were due from the beginning.
func (m *modelMachine) requireOldestFirst(t *rapid.T, due []*modelRow, begun []outbox.ID) {
	want := []int{}
	for _, row := range due {
		if slices.Contains(begun, row.ID) {
			want = append(want, row.serial)
		}
	}
	got := slices.DeleteFunc(m.serialsOf(begun), func(serial int) bool { return !slices.Contains(want, serial) })
	require.Equal(t, want, got, "oldest due first")
}

// drained applies what a drain must do, one row after another until none is left.
// It returns which rows a handler must have seen and how many are sent.
func (m *modelMachine) drained(t *rapid.T, r *modelRelay, s *modelScript) (delivered []int, sent int) {
	delivered = []int{}
	for {
		next := slices.DeleteFunc(slices.Concat(m.dueFor(r), m.suspectsFor(r, nil)), func(row *modelRow) bool {
			return m.isLocked(row) || row.due.fresh
		})
		if len(next) == 0 {
			return delivered, sent
		}
		row := next[0]
		was := row.modelCells
		row.ClaimedBy, row.claimedAt, row.updated, row.due = r.name, modelNow(), modelNow(), modelNow()
		row.Token = outbox.ID{}
		down := row.down
		row.down = modelTime{} // whatever a handler returns here
		if was.Status == outbox.StatusClaimed && was.Attempts >= r.most(row.Topic) {
			row.Status, row.LastError = outbox.StatusFailed, "lease expired on the last attempt"
			continue
		}
		delivered = append(delivered, row.serial)
		row.Attempts++
		act := s.actOn(row.serial, was)
		if text, failed := map[string]string{
			"error": "boom", "permanent": "no good", "retry after": "later (retry after 1h0m0s)", "panic": "the handler panicked: ouch",
		}[act]; failed {
			row.LastError = text
			if act == "permanent" || row.Attempts >= r.most(row.Topic) {
				row.Status = outbox.StatusFailed
				continue
			}
			row.Status = outbox.StatusPending
			if act == "retry after" {
				row.due = modelIn(time.Hour)
				continue
			}
			wait := min(modelBackoff<<(row.Attempts-1), modelMaxWait)
			row.due = modelTime{fresh: true, offset: wait, slack: wait/10 + modelSlack}
			continue
		}
		if act == "nil" {
			row.Status, row.sent = outbox.StatusSent, modelNow()
			sent++
			continue
		}
		row.Status, row.Attempts, row.ClaimedBy, row.due = outbox.StatusClaimed, row.Attempts+1, "the thief", modelIn(modelLease)
		row.Token, row.down = s.thieves[row.ID], down
	}
}
