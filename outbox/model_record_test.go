package outbox_test

import (
	"context"
	"maps"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// modelReasons are what handlers return.
var modelReasons = []string{"boom", "it's 100% over", `\_ NULL`, ""}

// modelOutcome is what becomes of a delivery.
type modelOutcome struct {
	flight *modelFlight
	what   string // sent, retried, parked, released or unavailable
	reason string
	next   outbox.ID // the token of a suspect that is released
}

func (o modelOutcome) status() outbox.Status {
	switch {
	case o.what == "sent":
		return outbox.StatusSent
	case o.what == "parked":
		return outbox.StatusFailed
	case o.what == "released" && o.flight.Kind() != modelWasDue:
		return outbox.StatusClaimed
	}
	return outbox.StatusPending
}

func (o modelOutcome) attempts() int {
	if o.what == "unavailable" || o.what == "released" && o.flight.Kind() != modelWasExhausted {
		return o.flight.Message().Attempts - 1
	}
	return o.flight.Message().Attempts
}

// drawOutcome draws what becomes of a delivery, as the engine may judge.
func (m *modelMachine) drawOutcome(t *rapid.T, f *modelFlight) (modelOutcome, outbox.Outcome) {
	choice := []string{"sent", "sent", "retried", "parked", "released", "unavailable"}
	if f.Kind() == modelWasExhausted {
		choice = []string{"parked", "released"}
	}
	o := modelOutcome{flight: f, what: rapid.SampledFrom(choice).Draw(t, "outcome"), reason: rapid.SampledFrom(modelReasons).Draw(t, "reason")}
	if o.what == "retried" && f.Message().Attempts >= f.relay.most(f.Message().Topic) {
		o.what = "parked"
	}
	switch o.what {
	case "sent":
		m.returnedNil[f.ID] = true
		return o, f.Sent()
	case "retried":
		return o, f.Retried(time.Hour, o.reason)
	case "parked":
		return o, f.Parked(o.reason)
	case "unavailable":
		return o, f.Unavailable(time.Hour, o.reason)
	}
	released := f.Released()
	o.next = released.Next()
	require.Equal(t, f.Kind() == modelWasDue, o.next.IsZero(), "only a suspect stays claimed")
	require.NotEqual(t, f.Token, o.next, "a renewal on its way must not give it a lease")
	return o, released
}

// record records outcomes under live and stale tokens.
func (m *modelMachine) record(t *rapid.T) {
	r, flights := m.drawFlights(t)
	var outcomes []outbox.Outcome
	var names []string
	wantAgain, wantLost := map[outbox.ID]bool{}, map[outbox.ID]bool{}
	for _, f := range flights {
		o, outcome := m.drawOutcome(t, f)
		outcomes, names = append(outcomes, outcome), append(names, o.what)
		row := m.table.row(f.ID)
		switch {
		case !m.isLive(f):
			wantLost[f.ID] = row == nil || !o.isIn(row)
		case m.isLocked(row):
			wantAgain[f.ID] = true
			continue
		default:
			o.apply(row)
		}
		if r.held[f.ID] == f {
			delete(r.held, f.ID)
		}
	}
	maps.DeleteFunc(wantLost, func(_ outbox.ID, lost bool) bool { return !lost })
	again, lost, err := r.statements.Record(context.Background(), outcomes)
	require.NoError(t, err)
	require.Equal(t, wantAgain, again, "what %s must try again: %v", r.name, names)
	require.Equal(t, wantLost, lost, "what %s finds lost: %v", r.name, names)
}

// isIn reports whether a row that is no longer held is what its holder wrote:
// then only the answer to that was lost.
func (o modelOutcome) isIn(row *modelRow) bool {
	return row.Token == o.next && row.ClaimedBy == o.flight.relay.name && row.Status == o.status() && row.Attempts == o.attempts()
}

// apply is what recording does to a row whose token stands.
func (o modelOutcome) apply(row *modelRow) {
	row.Status, row.Attempts, row.Token = o.status(), o.attempts(), o.next
	row.due, row.updated = modelNow(), modelNow()
	switch o.what {
	case "released":
		row.due = modelTime{at: o.flight.due}
		return
	case "unavailable":
		row.due = modelIn(time.Hour)
		if row.down == (modelTime{}) {
			row.down = modelNow()
		}
	case "sent":
		row.sent, row.down = modelNow(), modelTime{}
		return
	case "retried":
		row.due, row.down = modelIn(time.Hour), modelTime{}
	default:
		row.down = modelTime{}
	}
	if o.reason != "" {
		row.LastError = o.reason
	}
}
