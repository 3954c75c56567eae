package account_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
)

func TestViolations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		run    account.Run
		change func(*account.Run)
		want   []account.Wrong
	}{
		{"sent and never delivered", clean(), func(r *account.Run) { r.Requests = nil }, []account.Wrong{account.Lost}},
		{"sent after a request without an effect", clean(), func(r *account.Run) {
			r.Requests[0].Effect = false
		}, []account.Wrong{account.Lost}},
		{"an acknowledged commit is gone", clean(), func(r *account.Run) {
			r.Committed = append(r.Committed, "n")
		}, []account.Wrong{account.Lost}},
		{"a key without its message", clean(), func(r *account.Run) {
			r.Business[0].Keys = []string{"k"}
		}, []account.Wrong{account.Lost}},
		{"delivered, and not in the table", clean(), func(r *account.Run) {
			r.Requests = append(r.Requests, account.Request{ID: "n", Process: "a", Effect: true})
		}, []account.Wrong{account.Uncommitted}},
		{"refused, and not in the table", clean(), func(r *account.Run) {
			r.Requests = append(r.Requests, account.Request{ID: "n", Process: "a"})
		}, []account.Wrong{account.Uncommitted}},
		{"rolled back, and in the table", clean(), func(r *account.Run) {
			r.Withdrawn = []string{"m"}
		}, []account.Wrong{account.Torn}},
		{"a message without a business row", clean(), func(r *account.Run) { r.Business = nil }, []account.Wrong{account.Torn}},
		{"a business row without a message", clean(), func(r *account.Run) {
			r.Business = append(r.Business, account.Business{ID: "c", Messages: 1})
		}, []account.Wrong{account.Torn}},
		{"left pending", clean(), func(r *account.Run) {
			r.Rows[0].Status, r.Changes, r.Requests = "pending", nil, nil
		}, []account.Wrong{account.Unfinished}},
		{"left claimed", clean(), func(r *account.Run) {
			r.Rows[0].Status, r.Changes = "claimed", r.Changes[:1]
		}, []account.Wrong{account.Unfinished}},
		{"parked without reason", clean(), func(r *account.Run) {
			r.Rows[0].Status, r.Changes[1].To = "failed", "failed"
		}, []account.Wrong{account.ParkedWrong}},
		{"parked early", clean(), func(r *account.Run) {
			r.Rows[0].Status, r.Changes[1].To, r.Rows[0].LastError = "failed", "failed", "lease expired on the last attempt"
		}, []account.Wrong{account.ParkedWrong}},
		{"delivered without a claim", clean(), func(r *account.Run) {
			r.Requests = append(r.Requests, effect("b", secondClaim, 1, 3*time.Second))
		}, []account.Wrong{account.Unclaimed}},
		{"delivered under the claim of another", clean(), func(r *account.Run) {
			r.Requests[0].Process = "b"
		}, []account.Wrong{account.Unclaimed, account.Lost}},
		{"delivered as another attempt", clean(), func(r *account.Run) {
			r.Requests[0].Attempt = 2
		}, []account.Wrong{account.Unclaimed, account.Lost}},
		{"recorded before it was delivered", clean(), func(r *account.Run) {
			r.Requests[0].At = 130 * ms
		}, []account.Wrong{account.Early}},
		{"recorded for the delivery of another", taken(), func(r *account.Run) {
			r.Requests = r.Requests[:1]
		}, []account.Wrong{account.Early}},
		{"taken over under a live lease", taken(), func(r *account.Run) {
			r.Processes[0] = account.Process{Name: "a", Slot: "one", End: 500 * ms, Killed: true}
			r.Changes[1].LeaseEnd = secondClaim + 1
		}, []account.Wrong{account.Stolen}},
		{"recorded by one who does not hold it", clean(), func(r *account.Run) {
			r.Changes[1].Session = "b"
		}, []account.Wrong{account.Unfenced}},
		{"claimed in the name of another", clean(), func(r *account.Run) {
			r.Changes[0].Session = "b"
		}, []account.Wrong{account.Unfenced}},
		{"changed after it was sent", clean(), func(r *account.Run) {
			r.Changes = append(r.Changes, account.Change{ID: "m", Session: "b", From: "sent", To: "sent", OldBy: "a", NewBy: "b"})
		}, []account.Wrong{account.Revived}},
		{"a relay ended by itself", clean(), func(r *account.Run) {
			r.Processes[1].Asked = false
		}, []account.Wrong{account.Ended}},
		{"a relay did not stop cleanly", clean(), func(r *account.Run) {
			r.Processes[1].Error = "exit status 2"
		}, []account.Wrong{account.Ended}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.change(&tt.run)
			v := account.Judge(tt.run)
			want := map[account.Wrong]int{}
			for _, w := range tt.want {
				want[w] = 1
			}
			require.Equal(t, want, v.Wrong)
			require.Len(t, v.Violations, len(tt.want))
		})
	}
}

func TestParked(t *testing.T) {
	t.Parallel()
	r := clean()
	r.Rows[0].Status, r.Rows[0].Refused, r.Changes[1].To, r.Requests[0].Effect = "failed", true, "failed", false
	v := account.Judge(r)
	require.True(t, v.OK(), v.Violations)
	require.Equal(t, map[string]int{"refused by the receiver": 1}, v.Parked)
	require.Zero(t, v.Delivered)

	r = clean()
	r.Rows[0].Status, r.Rows[0].Attempts, r.Rows[0].LastError = "failed", 30, "lease expired on the last attempt"
	r.Changes[1].To = "failed"
	v = account.Judge(r)
	require.True(t, v.OK(), v.Violations)
	require.Equal(t, map[string]int{"lease expired on the last attempt": 1}, v.Parked)
}

func TestCleanStopInAnOutage(t *testing.T) {
	t.Parallel()
	r := clean()
	r.Processes[1].Error = "exit status 2"
	for _, f := range []account.Fault{
		{Kind: account.Crash, Begin: 9 * time.Second, End: 9500 * ms},
		{Kind: account.Hold, Begin: 9 * time.Second, End: 9500 * ms, IDs: []string{"one of its rows"}},
	} {
		r.Faults = []account.Fault{f}
		v := account.Judge(r)
		require.True(t, v.OK(), v.Violations)
	}
}

func TestViolationsAreCountedAndToldInPart(t *testing.T) {
	t.Parallel()
	r := clean()
	for range 100 {
		r.Withdrawn = append(r.Withdrawn, "m")
	}
	v := account.Judge(r)
	require.Equal(t, 100, v.Wrong[account.Torn])
	require.Len(t, v.Violations, 20)
}

func TestOrder(t *testing.T) {
	t.Parallel()
	rows := func(first, second, third time.Duration) account.Run {
		r := clean()
		r.Rows, r.Changes, r.Requests, r.Returns, r.Business[0].Messages = nil, nil, nil, nil, 3
		for n, at := range []time.Duration{first, second, third} {
			id := []string{"m", "n", "o"}[n]
			r.Rows = append(r.Rows, account.Row{ID: id, Business: "b", Status: "sent", OrderKey: "k", OrderSeq: n + 1})
			for _, c := range []account.Change{claimed("a", "pending", "", firstClaim, 1), settled("a", firstClaim, at+ms, "sent")} {
				c.ID = id
				r.Changes = append(r.Changes, c)
			}
			if at > 0 {
				q := effect("a", firstClaim, 1, at)
				q.ID = id
				r.Requests = append(r.Requests, q)
			}
		}
		return r
	}
	require.True(t, account.Judge(rows(200*ms, 300*ms, 400*ms)).OK())
	require.Equal(t, map[account.Wrong]int{account.OutOfOrder: 1}, account.Judge(rows(200*ms, 400*ms, 300*ms)).Wrong)
	require.Equal(t, map[account.Wrong]int{account.OutOfOrder: 1}, account.Judge(rows(300*ms, 200*ms, 400*ms)).Wrong)

	other := rows(200*ms, 400*ms, 300*ms)
	other.Rows[2].OrderKey = "another"
	require.True(t, account.Judge(other).OK(), "keys do not wait for each other")

	none := rows(200*ms, 400*ms, 300*ms)
	for i := range none.Rows {
		none.Rows[i].OrderKey = ""
	}
	require.True(t, account.Judge(none).OK(), "what has no key has no order")
}
