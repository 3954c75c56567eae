package outbox_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// modelAge is more than any test takes and less than what age makes of a row.
const modelAge = 24 * time.Hour

// drawFilter draws a filter that narrows, or All.
func (m *modelMachine) drawFilter(t *rapid.T, statuses [][]outbox.Status) outbox.Filter {
	f := outbox.Filter{Status: rapid.SampledFrom(statuses).Draw(t, "status"), Limit: rapid.IntRange(0, 2).Draw(t, "limit")}
	switch rapid.SampledFrom([]string{"all", "all", "ids", "topic", "prefix", "order key", "error", "no ids"}).Draw(t, "filter") {
	case "all":
		f.All = true
	case "ids":
		f.IDs = modelIDs(modelPick(t, m.table.rows, 3, "ids"))
	case "topic":
		f.Topic = rapid.SampledFrom([]string{"ord_new", "bill"}).Draw(t, "topic")
	case "prefix":
		f.TopicPrefix = "ord_"
	case "order key":
		f.OrderKey = "o1"
	case "error":
		f.ErrorContains = rapid.SampledFrom([]string{"boom", "%", `\_`, "BOOM"}).Draw(t, "part of the error")
	case "no ids":
		f.IDs = []outbox.ID{}
	}
	return f
}

// chosen returns the rows that a filter chooses, but for its limit, by id.
func (m *modelMachine) chosen(f outbox.Filter) []*modelRow {
	rows := m.table.that(func(r *modelRow) bool {
		return (f.IDs == nil || slices.Contains(f.IDs, r.ID)) &&
			(f.Topic == "" || r.Topic == f.Topic) && strings.HasPrefix(r.Topic, f.TopicPrefix) &&
			(f.OrderKey == "" || r.OrderKey == f.OrderKey) &&
			(len(f.Status) == 0 || slices.Contains(f.Status, r.Status)) &&
			(f.ErrorContains == "" || r.LastError != "-" && strings.Contains(r.LastError, f.ErrorContains))
	})
	slices.SortFunc(rows, func(a, b *modelRow) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return rows
}

// changedBy returns the rows that an operation changes: those that nobody has
// locked, up to the limit.
func (m *modelMachine) changedBy(f outbox.Filter, byDefault outbox.Status) []*modelRow {
	if len(f.Status) == 0 {
		f.Status = []outbox.Status{byDefault}
	}
	rows := slices.DeleteFunc(m.chosen(f), m.isLocked)
	if f.Limit > 0 {
		rows = rows[:min(len(rows), f.Limit)]
	}
	return rows
}

func (m *modelMachine) retry(t *rapid.T) {
	m.needs(t, outbox.StatusFailed, outbox.StatusDiscarded)
	f := m.drawFilter(t, [][]outbox.Status{nil, nil, {outbox.StatusFailed}, {outbox.StatusDiscarded}, {outbox.StatusFailed, outbox.StatusDiscarded}})
	rows := m.changedBy(f, outbox.StatusFailed)
	n, err := m.store.Retry(context.Background(), f)
	require.NoError(t, err)
	require.Equal(t, len(rows), n, "Retry(%+v)", f)
	for _, r := range rows {
		r.Status, r.Attempts, r.due, r.updated, r.down = outbox.StatusPending, 0, modelNow(), modelNow(), modelTime{}
	}
}

func (m *modelMachine) discard(t *rapid.T) {
	m.needs(t, outbox.StatusFailed, outbox.StatusPending)
	f := m.drawFilter(t, [][]outbox.Status{nil, nil, {outbox.StatusFailed}, {outbox.StatusPending}})
	if f.Limit == 0 && len(f.Status) > 0 { // too much would come to an end
		f.Limit = 1
	}
	rows := m.changedBy(f, outbox.StatusFailed)
	n, err := m.store.Discard(context.Background(), f, "given up")
	require.NoError(t, err)
	require.Equal(t, len(rows), n, "Discard(%+v)", f)
	for _, r := range rows {
		r.Status, r.LastError, r.updated = outbox.StatusDiscarded, "given up", modelNow()
	}
}

// sweep deletes what has been done for long: all of it, or what one relay takes.
func (m *modelMachine) sweep(t *rapid.T) {
	gone := func(r *modelRow) bool {
		return (r.Status == outbox.StatusSent || r.Status == outbox.StatusDiscarded) && !m.isLocked(r) &&
			m.table.clock.Sub(r.updated.at) > modelAge
	}
	m.needs(t, outbox.StatusSent, outbox.StatusDiscarded, outbox.StatusFailed)
	if rapid.Bool().Draw(t, "by a person") {
		n, err := m.store.Sweep(context.Background(), modelAge)
		require.NoError(t, err)
		require.Equal(t, len(m.table.that(gone)), n, "a person sweeps everything")
		m.table.remove(gone)
		return
	}
	relay := m.drawRelay(t)
	ofTopics := func(r *modelRow) bool { return gone(r) && relay.sweeps(r.Topic) }
	n, err := relay.statements.Sweep(context.Background(), modelAge, 1000)
	require.NoError(t, err)
	require.Equal(t, len(m.table.that(ofTopics)), n, "%s sweeps its topics", relay.name)
	m.table.remove(ofTopics)
}

// look asks what people ask.
func (m *modelMachine) look(t *rapid.T) {
	ctx := context.Background()
	switch rapid.SampledFrom([]string{"list", "get", "stats", "unhandled", "refused"}).Draw(t, "look") {
	case "list":
		f := m.drawFilter(t, [][]outbox.Status{nil, nil, {outbox.StatusFailed}, {outbox.StatusPending, outbox.StatusClaimed}, {outbox.StatusSent}})
		want := m.chosen(f)
		slices.Reverse(want)
		if f.Limit > 0 {
			want = want[:min(len(want), f.Limit)]
		}
		got, err := m.store.List(ctx, f)
		require.NoError(t, err)
		require.Len(t, got, len(want), "List(%+v)", f)
		for i, r := range want {
			r.requireIs(t, got[i])
		}
	case "get":
		r := modelPick(t, m.table.rows, 1, "a row")[0]
		got, err := m.store.Get(ctx, r.ID)
		require.NoError(t, err)
		r.requireIs(t, got)
		_, err = m.store.Get(ctx, modelToken())
		require.ErrorIs(t, err, outbox.ErrNotFound)
	case "stats":
		stats, err := m.store.Stats(ctx)
		require.NoError(t, err)
		require.Equal(t, m.counts(func(*modelRow) bool { return true }), modelCounts(stats.Topics))
	case "unhandled":
		relay := m.drawRelay(t)
		got, err := relay.relay.Unhandled(ctx)
		require.NoError(t, err)
		require.Equal(t, m.counts(func(r *modelRow) bool {
			return (r.Status == outbox.StatusPending || r.Status == outbox.StatusClaimed) && m.table.isDue(r) && !relay.takes(r.Topic, r.Version)
		}), modelCounts(got), "what %s leaves alone", relay.name)
	case "refused":
		_, err := m.store.Retry(ctx, outbox.Filter{})
		require.Error(t, err)
		_, err = m.store.Discard(ctx, outbox.Filter{Status: []outbox.Status{outbox.StatusPending}}, "r")
		require.Error(t, err)
		_, err = m.store.Retry(ctx, outbox.Filter{All: true, Status: []outbox.Status{outbox.StatusSent}})
		require.Error(t, err)
		_, err = m.store.Sweep(ctx, 0)
		require.Error(t, err)
	}
}

// requireIs compares a message with the row that it is.
func (r *modelRow) requireIs(t *rapid.T, got outbox.Message) {
	headers := "-"
	if got.Headers != nil {
		headers = `{"h":"` + got.Headers["h"] + `"}`
	}
	require.Equal(t, r.modelCells, modelCells{
		ID: got.ID, Topic: got.Topic, Key: modelText(got.Key), OrderKey: modelText(got.OrderKey), Version: got.Version,
		Payload: string(got.Payload), Headers: headers, Status: got.Status, Attempts: got.Attempts,
		LastError: modelText(got.LastError), ClaimedBy: modelText(got.ClaimedBy), Token: r.Token,
	})
	require.True(t, got.AvailableAt.Equal(r.due.at) && got.ClaimedAt.Equal(r.claimedAt.at) && got.CreatedAt.Equal(r.created.at) &&
		got.UpdatedAt.Equal(r.updated.at) && got.SentAt.Equal(r.sent.at) && got.UnavailableSince.Equal(r.down.at), "times of row %d: %+v", r.serial, got)
}

// modelGroup is what Stats groups by.
type modelGroup struct {
	topic  string
	status outbox.Status
}

func (m *modelMachine) counts(condition func(*modelRow) bool) map[modelGroup][2]int {
	out := map[modelGroup][2]int{}
	for _, r := range m.table.that(condition) {
		g := modelGroup{r.Topic, r.Status}
		out[g] = [2]int{out[g][0] + 1, max(out[g][1], r.Attempts)}
	}
	return out
}

func modelCounts(list []outbox.TopicStats) map[modelGroup][2]int {
	out := map[modelGroup][2]int{}
	for _, s := range list {
		out[modelGroup{s.Topic, s.Status}] = [2]int{s.Count, s.MaxAttempts}
	}
	return out
}
