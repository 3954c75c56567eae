package outbox_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Guarantee 8: what Retry, Discard and List choose.

// parkedRows commits failed rows of many kinds and returns their ids by name.
func parkedRows(t *testing.T, f *fixture) (ids map[string]outbox.ID, names []string) {
	t.Helper()
	ids = map[string]outbox.ID{}
	for i, row := range []struct{ topic, orderKey, reason string }{
		{"a_b.created", "", "plain"},
		{"a_bx", "o1", "50% off"},
		{"axb.created", "o1", "50 percent off"},
		{"A_b.created", "O1", "PLAIN"},
		{"a_b", "o%", "under_score"},
		{"a_", "o_", "underXscore"},
		{"b", "", `back\slash ' quote`},
		{"z/z", "", ""},
	} {
		var opts []outbox.EnqueueOption
		if row.orderKey != "" {
			opts = append(opts, outbox.OrderKey(row.orderKey))
		}
		name := fmt.Sprint(i)
		ids[name] = f.enqueue(t, topics.New[order](row.topic, nil), []string{name}, opts...)[0]
		names = append(names, name)
		f.exec(t, "UPDATE outbox_messages SET status = 'failed', attempts = 5, last_error = ? WHERE id = ?", row.reason, ids[name].String())
	}
	f.exec(t, "UPDATE outbox_messages SET last_error = NULL WHERE id = ?", ids["7"].String())
	f.shift(t, "created_at", -48*time.Hour, "id = '"+ids["0"].String()+"' OR id = '"+ids["6"].String()+"'")
	return ids, names
}

// F27: an underscore in a filter matches everything.
func TestFiltersMatchLiterally(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids, names := parkedRows(t, f)
		for _, tt := range []struct {
			what   string
			filter outbox.Filter
			want   string
		}{
			{"all", outbox.Filter{All: true}, "01234567"},
			{"by id", outbox.Filter{IDs: []outbox.ID{ids["1"], ids["3"], ids["3"], {9}}}, "13"},
			{"by topic", outbox.Filter{Topic: "a_b"}, "4"},
			{"by topic, case", outbox.Filter{Topic: "A_B"}, ""},
			{"by prefix", outbox.Filter{TopicPrefix: "a_b"}, "014"},
			{"by prefix with underscore", outbox.Filter{TopicPrefix: "a_"}, "0145"},
			{"by prefix, case", outbox.Filter{TopicPrefix: "A"}, "3"},
			{"by prefix with percent", outbox.Filter{TopicPrefix: "a%"}, ""},
			{"by prefix with backslash", outbox.Filter{TopicPrefix: `a\_`}, ""},
			{"by prefix of one letter", outbox.Filter{TopicPrefix: "z"}, "7"},
			{"by order key", outbox.Filter{OrderKey: "o1"}, "12"},
			{"by order key with percent", outbox.Filter{OrderKey: "o%"}, "4"},
			{"by order key with underscore", outbox.Filter{OrderKey: "o_"}, "5"},
			{"by error", outbox.Filter{ErrorContains: "plain"}, "0"},
			{"by error, case", outbox.Filter{ErrorContains: "PLAIN"}, "3"},
			{"by error with percent", outbox.Filter{ErrorContains: "50%"}, "1"},
			{"by error of a percent", outbox.Filter{ErrorContains: "%"}, "1"},
			{"by error with underscore", outbox.Filter{ErrorContains: "r_s"}, "4"},
			{"by error with backslash and quote", outbox.Filter{ErrorContains: `k\slash ' q`}, "6"},
			{"by age", outbox.Filter{OlderThan: 24 * time.Hour}, "06"},
			{"by age, none", outbox.Filter{OlderThan: 72 * time.Hour}, ""},
			{"before", outbox.Filter{All: true, Before: ids["3"]}, "012"},
			{"no ids", outbox.Filter{IDs: []outbox.ID{}}, ""},
			{"no ids of a topic", outbox.Filter{IDs: []outbox.ID{}, Topic: "b"}, ""},
			{"two conditions", outbox.Filter{TopicPrefix: "a_", OlderThan: 24 * time.Hour}, "0"},
			{"conditions that exclude each other", outbox.Filter{Topic: "b", OrderKey: "o1"}, ""},
			{"all with a condition", outbox.Filter{All: true, Topic: "b"}, "6"},
		} {
			list, err := f.store.List(t.Context(), tt.filter)
			require.NoError(t, err, tt.what)
			got := ""
			for _, m := range list {
				got = string(m.Payload[7]) + got // newest first
			}
			require.Equal(t, tt.want, got, "List %s", tt.what)

			change := func(what string, want outbox.Status, call func() (int, error)) {
				n, err := call()
				require.NoError(t, err, tt.what)
				require.Equal(t, len(tt.want), n, "%s %s", what, tt.what)
				for _, name := range names {
					hit := slices.Contains([]byte(tt.want), name[0])
					require.Equal(t, hit, f.get(t, ids[name]).Status == want, "%s %s: row %s", what, tt.what, name)
				}
				f.exec(t, "UPDATE outbox_messages SET status = 'failed'")
			}
			change("Retry", outbox.StatusPending, func() (int, error) { return f.store.Retry(t.Context(), tt.filter) })
			reasons := map[string]string{}
			for name, id := range ids {
				reasons[name] = f.get(t, id).LastError
			}
			change("Discard", outbox.StatusDiscarded, func() (int, error) { return f.store.Discard(t.Context(), tt.filter, "discarded") })
			for name, id := range ids {
				f.exec(t, "UPDATE outbox_messages SET last_error = ? WHERE id = ?", reasons[name], id.String())
			}
		}
	})
}

// F28: an empty filter deletes everything. It is refused, and so is an age of
// zero; see TestSweepLetsNoDeadLetterVanish.
func TestEmptyFilterChangesNothing(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		parkedRows(t, f)
		seen := f.watch()
		for _, tt := range []struct {
			what   string
			filter outbox.Filter
			want   string
		}{
			{"empty", outbox.Filter{}, "filter is empty"},
			{"a page alone", outbox.Filter{Before: outbox.ID{1}}, "filter is empty"},
			{"a limit alone", outbox.Filter{Limit: 1}, "filter is empty"},
			{"a status alone", outbox.Filter{Status: []outbox.Status{outbox.StatusFailed}}, "filter is empty"},
			{"a negative limit", outbox.Filter{All: true, Limit: -1}, "Limit is -1"},
			{"a negative age", outbox.Filter{All: true, OlderThan: -1}, "OlderThan is -1ns"},
			{"NUL", outbox.Filter{Topic: "a\x00"}, "Filter.Topic"},
			{"invalid UTF-8", outbox.Filter{ErrorContains: "\xff"}, "Filter.ErrorContains"},
			{"NUL in a prefix", outbox.Filter{TopicPrefix: "\x00"}, "Filter.TopicPrefix"},
			{"NUL in an order key", outbox.Filter{OrderKey: "\x00"}, "Filter.OrderKey"},
		} {
			n, err := f.store.Retry(t.Context(), tt.filter)
			require.ErrorContains(t, err, tt.want, "Retry %s", tt.what)
			require.Zero(t, n)
			n, err = f.store.Discard(t.Context(), tt.filter, "reason")
			require.ErrorContains(t, err, tt.want, "Discard %s", tt.what)
			require.Zero(t, n)
		}
		require.Empty(t, seen.take(), "nothing was sent")
		require.Equal(t, 8, f.count(t, outbox.StatusFailed))
		list, err := f.store.List(t.Context(), outbox.Filter{})
		require.NoError(t, err)
		require.Len(t, list, 8, "List needs no condition")
	})
}

func TestParkedStatusesThatMayNotBeChanged(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		parkedRows(t, f)
		for _, status := range []outbox.Status{
			outbox.StatusPending, outbox.StatusClaimed, outbox.StatusSent, outbox.StatusFailed, outbox.StatusDiscarded, "odd",
		} {
			filter := outbox.Filter{All: true, Status: []outbox.Status{outbox.StatusFailed, status}, Topic: "nothing"}
			_, err := f.store.Retry(t.Context(), filter)
			require.Equal(t, status == outbox.StatusFailed || status == outbox.StatusDiscarded, err == nil, "Retry %s: %v", status, err)
			_, err = f.store.Discard(t.Context(), filter, "reason")
			require.Equal(t, status == outbox.StatusFailed || status == outbox.StatusPending, err == nil, "Discard %s: %v", status, err)
		}
		require.Equal(t, 8, f.count(t, outbox.StatusFailed))
	})
}

// Only rows in a status that is asked for change, whatever else matches.
func TestParkedOtherStatusesStayAsTheyAre(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayStayClaimed = true
		ids := f.enqueue(t, plainTopic, numbers(5))
		all := []outbox.Status{outbox.StatusPending, outbox.StatusClaimed, outbox.StatusSent, outbox.StatusFailed, outbox.StatusDiscarded}
		for i, status := range all {
			token := "NULL"
			if status == outbox.StatusClaimed {
				token = "'" + ids[i].String() + "'"
			}
			f.exec(t, fmt.Sprintf("UPDATE outbox_messages SET status = '%s', claim_token = %s WHERE id = '%s'", status, token, ids[i]))
		}
		n, err := f.store.Retry(t.Context(), outbox.Filter{All: true})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		all[3] = outbox.StatusPending
		for i, id := range ids {
			require.Equal(t, all[i], f.get(t, id).Status)
		}
		n, err = f.store.Discard(t.Context(), outbox.Filter{All: true}, "reason")
		require.NoError(t, err)
		require.Zero(t, n)
	})
}

func TestParkedLimitAndPaging(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		const rows = 250
		ids := f.enqueue(t, plainTopic, numbers(rows))
		f.exec(t, "UPDATE outbox_messages SET status = 'failed'")
		list, err := f.store.List(t.Context(), outbox.Filter{})
		require.NoError(t, err)
		require.Len(t, list, 100, "the default")

		var got []outbox.ID
		for before := (outbox.ID{}); ; {
			page, err := f.store.List(t.Context(), outbox.Filter{Limit: 70, Before: before})
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			require.LessOrEqual(t, len(page), 70)
			for _, m := range page {
				got = append(got, m.ID)
			}
			before = page[len(page)-1].ID
		}
		slices.Reverse(got)
		require.Equal(t, ids, got, "every row once, newest first")

		for done := 0; done < rows; {
			n, err := f.store.Retry(t.Context(), outbox.Filter{All: true, Limit: 60})
			require.NoError(t, err)
			require.Equal(t, min(60, rows-done), n)
			done += n
			require.Equal(t, done, f.count(t, outbox.StatusPending), "no more than the limit")
		}
		n, err := f.store.Discard(t.Context(), outbox.Filter{All: true, Limit: 3, Status: []outbox.Status{outbox.StatusPending}}, "reason")
		require.NoError(t, err)
		require.Equal(t, 3, n)
		require.Equal(t, 3, f.count(t, outbox.StatusDiscarded))
	})
}

// The limit holds also while the planner knows the table as all but empty.
func TestParkedLimitHoldsWhateverThePlan(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, []string{"a"})
		f.exec(t, "ANALYZE outbox_messages")
		f.enqueue(t, plainTopic, numbers(20))
		f.exec(t, "UPDATE outbox_messages SET status = 'failed'")
		for _, setting := range []string{"enable_hashjoin", "enable_mergejoin", "enable_hashagg", "enable_material"} {
			f.exec(t, "ALTER ROLE CURRENT_USER IN DATABASE \""+f.database(t)+"\" SET "+setting+" = off")
		}
		store := outbox.Store{DB: f.connect(t, nil)}
		n, err := store.Retry(t.Context(), outbox.Filter{All: true, Limit: 3})
		require.NoError(t, err)
		require.Equal(t, 3, n)
		require.Equal(t, 3, f.count(t, outbox.StatusPending))
	})
}

func (f *fixture) database(t *testing.T) (name string) {
	t.Helper()
	require.NoError(t, f.db.NewRaw("SELECT current_database()").Scan(t.Context(), &name))
	return name
}

func TestParkedOperationsWorkInBatches(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayVanish = true
		const rows = 2500
		f.enqueueAll(t, plainTopic, make([]order, rows))
		f.exec(t, "UPDATE outbox_messages SET status = 'failed'")
		n, err := f.store.Retry(t.Context(), outbox.Filter{All: true})
		require.NoError(t, err)
		require.Equal(t, rows, n)
		n, err = f.store.Discard(t.Context(), outbox.Filter{All: true, Status: []outbox.Status{outbox.StatusPending}, Limit: 2400}, "reason")
		require.NoError(t, err)
		require.Equal(t, 2400, n)
		f.shift(t, "updated_at", -2*time.Hour, "true")
		n, err = f.store.Sweep(t.Context(), time.Hour)
		require.NoError(t, err)
		require.Equal(t, 2400, n)
		require.Equal(t, 100, f.rows(t))
	})
}
