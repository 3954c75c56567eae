package outbox_test

import (
	"context"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// How a row comes to be claimed, as an index of a claim's tokens.
const (
	modelWasDue = iota
	modelWasSuspect
	modelWasExhausted
)

// dueFor returns the rows that a relay may take since they are due, in order.
func (m *modelMachine) dueFor(r *modelRelay) []*modelRow {
	return modelOldestFirst(m.table.that(func(row *modelRow) bool {
		return row.Status == outbox.StatusPending && m.table.isDue(row) && r.takes(row.Topic, row.Version) && m.table.inTurn(row)
	}))
}

// suspectsFor returns the rows that a relay may take over, in order.
func (m *modelMachine) suspectsFor(r *modelRelay, own []outbox.ID) []*modelRow {
	return modelOldestFirst(m.table.that(func(row *modelRow) bool {
		return row.Status == outbox.StatusClaimed && m.table.isDue(row) && r.takes(row.Topic, row.Version) && m.table.inTurn(row) &&
			!slices.Contains(own, row.Token)
	}))
}

// modelClaim is a claim with what it must take.
type modelClaim struct {
	relay   *modelRelay
	limit   int
	suspect bool
	own     []outbox.ID
	tokens  [3]outbox.ID
}

func (m *modelMachine) drawClaim(t *rapid.T) modelClaim {
	c := modelClaim{
		relay: m.drawRelay(t), limit: rapid.IntRange(1, 4).Draw(t, "limit"), suspect: rapid.Bool().Draw(t, "suspect"),
		tokens: [3]outbox.ID{modelToken(), modelToken(), modelToken()},
	}
	for _, f := range c.relay.held {
		c.own = append(c.own, f.Token)
	}
	return c
}

// requireDue checks which due rows a claim took: the oldest that nobody has
// locked, up to its limit. It may look no further than its limit when some are
// locked, but it takes something if there is anything.
func (m *modelMachine) requireDue(t *rapid.T, c modelClaim, got []outbox.ID) {
	due := m.dueFor(c.relay)
	var free, must []*modelRow
	for i, row := range due {
		if m.isLocked(row) {
			continue
		}
		free = append(free, row)
		if i < c.limit || len(free) == 1 {
			must = append(must, row)
		}
	}
	require.LessOrEqual(t, len(got), c.limit, "more than the limit")
	require.GreaterOrEqual(t, len(got), len(must), "%s must take %d of %d due rows", c.relay.name, len(must), len(due))
	require.LessOrEqual(t, len(got), len(free), "%s took rows that it must not take", c.relay.name)
	for i, id := range got {
		require.Equal(t, free[i].serial, m.serialOf(id), "%s: due row %d, oldest first", c.relay.name, i)
	}
}

func (m *modelMachine) serialOf(id outbox.ID) int {
	if r := m.table.row(id); r != nil {
		return r.serial
	}
	return -1
}

// takeSuspect returns what a claim must take over, and how. It is nil if there is
// nothing.
func (m *modelMachine) takeSuspect(c modelClaim) (*modelRow, int) {
	if !c.suspect {
		return nil, 0
	}
	for _, row := range m.suspectsFor(c.relay, c.own) {
		if m.isLocked(row) {
			continue
		}
		if row.Attempts >= c.relay.most(row.Topic) {
			return row, modelWasExhausted
		}
		return row, modelWasSuspect
	}
	return nil, 0
}

// claimed is what a claim does to a row.
func (m *modelMachine) claimed(c modelClaim, row *modelRow, kind int) {
	if kind != modelWasExhausted {
		row.Attempts++
	}
	row.Status, row.Token, row.ClaimedBy = outbox.StatusClaimed, c.tokens[kind], c.relay.name
	row.claimedAt, row.updated, row.due = modelNow(), modelNow(), modelIn(modelLease)
}

// takeOverOne ends a lease and has a relay look for such rows.
func (m *modelMachine) takeOverOne(t *rapid.T) {
	m.expireLeases(t)
	m.check(t)
	c := m.drawClaim(t)
	c.suspect = true
	m.answered(t, c)
}

// claim is one look of a relay, whose answer arrives.
func (m *modelMachine) claim(t *rapid.T) { m.answered(t, m.drawClaim(t)) }

// answered sends a claim and holds its answer against the model.
func (m *modelMachine) answered(t *rapid.T, c modelClaim) {
	flights, err := c.relay.statements.Claim(context.Background(), c.limit, c.suspect, c.own, c.tokens)
	require.NoError(t, err)
	suspect, kind := m.takeSuspect(c)
	var dueIDs []outbox.ID
	var over []*outbox.Flight
	for _, f := range flights {
		if f.Kind() == modelWasDue {
			dueIDs = append(dueIDs, f.ID)
		} else {
			require.Empty(t, dueIDs, "the suspect comes first")
			over = append(over, f)
		}
	}
	if suspect == nil {
		require.Empty(t, over, "nothing is to be taken over")
	} else {
		require.Len(t, over, 1, "%s takes over one, row %d", c.relay.name, suspect.serial)
		require.Equal(t, suspect.serial, m.serialOf(over[0].ID), "the oldest lease end first")
		require.Equal(t, kind, over[0].Kind())
	}
	m.requireDue(t, c, dueIDs)
	for _, f := range flights {
		row := m.table.row(f.ID)
		flight := &modelFlight{Flight: f, relay: c.relay, due: row.due.at}
		m.claimed(c, row, f.Kind())
		require.Equal(t, row.Attempts, f.Message().Attempts)
		require.Equal(t, row.Payload, string(f.Message().Payload))
		m.flights = append(m.flights, flight)
		c.relay.held[f.ID] = flight
	}
}

// loseClaim is a claim that takes effect and whose answer is lost.
func (m *modelMachine) loseClaim(t *rapid.T) {
	c := m.drawClaim(t)
	suspect, kind := m.takeSuspect(c)
	flights, err := c.relay.statements.Claim(context.Background(), c.limit, c.suspect, c.own, c.tokens)
	require.NoError(t, err)
	var due []outbox.ID
	for _, f := range flights {
		if f.Kind() == modelWasDue {
			due = append(due, f.ID)
		}
	}
	m.requireDue(t, c, due)
	for _, id := range due {
		m.claimed(c, m.table.row(id), modelWasDue)
	}
	if suspect != nil {
		m.claimed(c, suspect, kind)
	}
	m.orphans = append(m.orphans, c.tokens)
}

// crash makes a relay forget what it holds, in the manner of a restart. Its
// statements may still be on their way.
func (m *modelMachine) crash(t *rapid.T) {
	var holders []*modelRelay
	for _, r := range m.relays {
		if len(r.held) > 0 {
			holders = append(holders, r)
		}
	}
	clear(modelPick(t, holders, 1, "a relay that holds something")[0].held)
}

// releaseOrphan gives up a claim whose answer was lost, perhaps once more: what
// was due is due as of the claim with its attempt back, a suspect stays one, and
// what is no longer leased under these tokens stays as it is.
func (m *modelMachine) releaseOrphan(t *rapid.T) {
	if len(m.orphans) == 0 {
		t.Skip("no claim is of unknown outcome")
	}
	tokens := m.orphans[rapid.IntRange(0, len(m.orphans)-1).Draw(t, "orphan")]
	left, err := m.drawRelay(t).statements.ReleaseTokens(context.Background(), tokens)
	require.NoError(t, err)
	want := 0
	for _, row := range m.table.rows {
		kind := slices.Index(tokens[:], row.Token)
		if kind < 0 || row.Status != outbox.StatusClaimed || m.table.isDue(row) {
			continue
		}
		if m.isLocked(row) {
			want++
			continue
		}
		if kind != modelWasExhausted {
			row.Attempts--
		}
		if kind == modelWasDue {
			row.Status, row.Token = outbox.StatusPending, outbox.ID{}
		}
		row.due, row.updated = row.claimedAt, modelNow()
	}
	require.Equal(t, want, left, "rows that somebody has locked")
}

// drawFlights draws claims of different rows by one relay, live or stale ones.
func (m *modelMachine) drawFlights(t *rapid.T) (*modelRelay, []*modelFlight) {
	if len(m.flights) == 0 {
		t.Skip("nothing was claimed")
	}
	live := rapid.Bool().Draw(t, "live ones")
	var of []*modelFlight
	for _, f := range slices.Backward(m.flights) {
		if m.isLive(f) == live {
			of = append(of, f)
		}
	}
	if len(of) == 0 {
		of = m.flights
	}
	first := modelPick(t, of, 1, "flight")[0]
	out := []*modelFlight{first}
	for _, f := range m.flights {
		// Two claims of one row are never in one statement.
		if f.relay == first.relay && !slices.ContainsFunc(out, func(o *modelFlight) bool { return o.ID == f.ID }) &&
			len(out) < 4 && rapid.Bool().Draw(t, "and another") {
			out = append(out, f)
		}
	}
	return first.relay, out
}

// renew prolongs leases: those whose token stands, whether they have ended or
// not.
func (m *modelMachine) renew(t *rapid.T) {
	r, picked := m.drawFlights(t)
	var flights []*outbox.Flight
	want := map[outbox.ID]bool{}
	for _, f := range picked {
		flights = append(flights, f.Flight)
		if row := m.table.row(f.ID); m.isLive(f) && !m.isLocked(row) {
			want[f.ID] = true
			row.due, row.updated = modelIn(modelLease), modelNow()
		}
	}
	if rapid.Bool().Draw(t, "a foreign token") {
		foreign := *flights[0]
		foreign.Token = modelToken()
		if !want[foreign.ID] {
			flights = append(flights, &foreign)
		}
	}
	got, err := r.statements.Renew(context.Background(), flights)
	require.NoError(t, err)
	require.Equal(t, want, got, "what %s could renew", r.name)
}
