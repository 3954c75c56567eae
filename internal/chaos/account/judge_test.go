package account_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
)

const ms = time.Millisecond

// The claims of the stories below, as claimed_at in microseconds.
const (
	firstClaim  = int64(100_000)
	secondClaim = int64(3_000_000)
)

// lease is the ClaimTimeout of the stories.
const lease = 2 * time.Second

// clean is a run in which relay a delivers one message, and nothing happens.
func clean() account.Run {
	return account.Run{
		Lease: lease, Longest: 3 * time.Second, MaxAttempts: 30,
		Rows:     []account.Row{{ID: "m", Business: "b", Status: "sent", Attempts: 1}},
		Business: []account.Business{{ID: "b", Messages: 1}},
		Changes: []account.Change{
			claimed("a", "pending", "", firstClaim, 1),
			settled("a", firstClaim, 120*ms, "sent"),
		},
		Requests: []account.Request{effect("a", firstClaim, 1, 110*ms)},
		Returns:  []account.Return{{ID: "m", Process: "a", Claim: firstClaim, At: 115 * ms}},
		Processes: []account.Process{
			{Name: "a", Slot: "one", End: 10 * time.Second, Asked: true},
			{Name: "b", Slot: "two", End: 10 * time.Second, Asked: true},
		},
		Committed: []string{"m"},
	}
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// claimed is a claim of m by a process, from pending or over the claim of
// another, whose lease had ended a moment before.
func claimed(by, from, over string, claim int64, attempts int) account.Change {
	c := account.Change{
		ID: "m", At: micros(claim), Session: by, From: from, To: "claimed", OldBy: over, NewBy: by,
		NewClaim: claim, LeaseEnd: claim - 1000, LeaseEndAt: micros(claim - 1000), Attempts: attempts,
	}
	if from == "claimed" {
		c.OldClaim = firstClaim
	}
	return c
}

// settled is the end of a claim.
func settled(by string, claim int64, at time.Duration, to string) account.Change {
	return account.Change{
		ID: "m", At: at, Session: by, From: "claimed", To: to, OldBy: by, NewBy: by, OldClaim: claim, NewClaim: claim,
		LeaseEnd: at.Microseconds() + 1, LeaseEndAt: at + 1000,
	}
}

func effect(by string, claim int64, attempt int, at time.Duration) account.Request {
	return account.Request{ID: "m", Process: by, Claim: claim, Attempt: attempt, At: at, Effect: true}
}

// taken is a run in which a delivers, its lease ends, and b delivers again.
func taken() account.Run {
	r := clean()
	r.Rows[0].Attempts = 2
	r.Changes = []account.Change{
		claimed("a", "pending", "", firstClaim, 1),
		claimed("b", "claimed", "a", secondClaim, 2),
		settled("b", secondClaim, 3100*ms, "sent"),
	}
	r.Requests = []account.Request{effect("a", firstClaim, 1, 110*ms), effect("b", secondClaim, 2, 3050*ms)}
	r.Returns = []account.Return{{ID: "m", Process: "b", Claim: secondClaim, At: 3060 * ms}}
	return r
}

// retried is a run in which a delivers twice, since its handler failed at first.
func retried(cause account.Cause) account.Run {
	r := clean()
	r.Rows[0].Attempts = 2
	r.Changes = []account.Change{
		claimed("a", "pending", "", firstClaim, 1),
		settled("a", firstClaim, 2200*ms, "pending"),
		claimed("a", "pending", "a", secondClaim, 2),
		settled("a", secondClaim, 3100*ms, "sent"),
	}
	r.Requests = []account.Request{effect("a", firstClaim, 1, 110*ms), effect("a", secondClaim, 2, 3050*ms)}
	r.Returns = []account.Return{
		{ID: "m", Process: "a", Claim: firstClaim, At: 2100 * ms, Error: "no answer", Cause: cause},
		{ID: "m", Process: "a", Claim: secondClaim, At: 3060 * ms},
	}
	return r
}

// stuck makes relay a give its first delivery up at some time.
func stuck(r *account.Run, at time.Duration) {
	r.Changes[1].At, r.Changes[2].At, r.Changes[3].At = at, at+100*ms, at+200*ms
	r.Returns[0].At, r.Returns[0].Error, r.Requests[1].At = at, "", at+150*ms
	r.Stuck = []account.Report{{ID: "m", Process: "a", At: at}}
}

func TestCleanRun(t *testing.T) {
	t.Parallel()
	v := account.Judge(clean())
	require.True(t, v.OK(), v.Violations)
	require.Empty(t, v.Duplicates)
	require.Equal(t, 1, v.Rows)
	require.Equal(t, 1, v.Sent)
	require.Equal(t, 1, v.Delivered)
	require.Equal(t, 1, v.Effects)
}

func TestReasons(t *testing.T) {
	t.Parallel()
	fault := func(kind account.Kind, slot string, begin, end time.Duration) account.Fault {
		return account.Fault{Kind: kind, Slot: slot, Begin: begin, End: end}
	}
	lost := account.Report{ID: "m", Process: "a", At: 3200 * ms}
	returned := account.Return{ID: "m", Process: "a", Claim: firstClaim, At: 115 * ms}
	tests := []struct {
		name   string
		run    account.Run
		change func(*account.Run)
		want   account.Reason // "" if there is none
	}{
		{"killed", taken(), func(r *account.Run) {
			r.Processes[0] = account.Process{Name: "a", Slot: "one", End: 500 * ms, Killed: true}
		}, account.ReasonKilled},
		{"killed, and the request was on its way", taken(), func(r *account.Run) {
			r.Processes[0] = account.Process{Name: "a", Slot: "one", End: 105 * ms, Killed: true}
		}, account.ReasonKilled},
		{"killed long before the effect", taken(), func(r *account.Run) {
			r.Processes[0] = account.Process{Name: "a", Slot: "one", End: 500 * ms, Killed: true}
			r.Requests[0].At = 2 * time.Second
		}, ""},
		{"killed after the lease was lost", taken(), func(r *account.Run) {
			r.Processes[0] = account.Process{Name: "a", Slot: "one", End: 4 * time.Second, Killed: true}
		}, ""},
		{"another was killed", taken(), func(r *account.Run) {
			r.Processes[1].Killed = true
		}, ""},
		{"timed out", retried(account.CauseDeadline), nil, account.ReasonTimedOut},
		{"cancelled", retried(account.CauseShutdown), nil, account.ReasonCancelled},
		{"cancelled, and given back as the suspect that it was", retried(account.CauseShutdown), func(r *account.Run) {
			r.Changes[1].To = "claimed"
			r.Changes[2] = claimed("b", "claimed", "a", secondClaim, 2)
			r.Changes[3].Session, r.Changes[3].OldBy, r.Requests[1].Process = "b", "b", "b"
		}, account.ReasonCancelled},
		{"the handler saw the lease end", retried(account.CauseLeaseLost), nil, account.ReasonLeaseLost},
		{"failed although the context lived", retried(""), nil, ""},
		{"tried again although the handler returned nil", retried(account.CauseDeadline), func(r *account.Run) {
			r.Returns[0].Error = ""
		}, ""},
		{"tried again before the handler returned", retried(account.CauseDeadline), func(r *account.Run) {
			r.Returns = r.Returns[1:]
		}, ""},
		{"stopped", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{{Kind: account.Stop, Slot: "one", Process: "a", Begin: 500 * ms, End: 3500 * ms}}
			r.Losses = []account.Report{lost}
		}, account.ReasonLeaseLost},
		{"stopped, and never learnt it", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{{Kind: account.Stop, Slot: "one", Process: "a", Begin: 500 * ms, End: 3500 * ms}}
		}, ""},
		{"stopped, and killed before it could learn it", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{{Kind: account.Stop, Slot: "one", Process: "a", Begin: 500 * ms, End: 3500 * ms}}
			r.Processes[0].Killed = true
		}, account.ReasonLeaseLost},
		{"another was stopped", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{{Kind: account.Stop, Slot: "two", Process: "b", Begin: 500 * ms, End: 2500 * ms}}
			r.Losses = []account.Report{lost}
		}, ""},
		{"a predecessor was stopped", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{{Kind: account.Stop, Slot: "one", Process: "a-before", Begin: 500 * ms, End: 3500 * ms}}
			r.Losses = []account.Report{lost}
		}, ""},
		{"the server was away while it delivered", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{fault(account.Crash, "", 1200*ms, 2500*ms)}
			r.Losses = []account.Report{lost}
		}, account.ReasonLeaseLost},
		{"the server was away while it recorded", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{fault(account.Crash, "", 1200*ms, 2500*ms)}
			r.Losses, r.Returns = []account.Report{lost}, append(r.Returns, returned)
		}, account.ReasonSettle},
		{"its connections were cut", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{fault(account.Blackhole, "one", 1200*ms, 2500*ms)}
			r.Losses = []account.Report{lost}
		}, account.ReasonLeaseLost},
		{"those of another were cut", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{fault(account.Blackhole, "two", 1200*ms, 2500*ms)}
			r.Losses = []account.Report{lost}
		}, ""},
		{"the server was away before the last renewal", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{fault(account.Crash, "", 200*ms, 900*ms)}
			r.Losses = []account.Report{lost}
		}, ""},
		{"its row was locked", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{{Kind: account.Hold, Begin: 1200 * ms, End: 2900 * ms, IDs: []string{"l", "m"}}}
			r.Losses, r.Returns = []account.Report{lost}, append(r.Returns, returned)
		}, account.ReasonSettle},
		{"another row was locked", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{{Kind: account.Hold, Begin: 1200 * ms, End: 2900 * ms, IDs: []string{"l"}}}
			r.Losses, r.Returns = []account.Report{lost}, append(r.Returns, returned)
		}, ""},
		{"no row was locked", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{{Kind: account.Hold, Begin: 1200 * ms, End: 2900 * ms, IDs: []string{}}}
			r.Losses = []account.Report{lost}
		}, ""},
		{"the machine stood still", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{fault(account.Stall, "", 1200*ms, 3500*ms)}
			r.Losses = []account.Report{lost}
		}, account.ReasonLeaseLost},
		{"nothing had happened", taken(), func(r *account.Run) { r.Losses = []account.Report{lost} }, ""},
		{"stopped cleanly without recording", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{fault(account.Crash, "", 1200*ms, 2500*ms)}
			r.Processes[0].End = 2600 * ms
		}, ""},
		{"could not record before it stopped", taken(), func(r *account.Run) {
			r.Faults = []account.Fault{fault(account.Crash, "", 1200*ms, 2500*ms)}
			r.Processes[0].End, r.Processes[0].Error = 2600*ms, "1 outcomes could not be recorded"
			r.Returns = append(r.Returns, returned)
		}, account.ReasonSettle},
		{"given up when it went on after a stop", retried(""), func(r *account.Run) {
			stuck(r, 3500*ms)
			r.Faults = []account.Fault{{Kind: account.Stop, Slot: "one", Process: "a", Begin: 500 * ms, End: 3450 * ms}}
		}, account.ReasonTimedOut},
		{"given up when it went on, and the effect came last", retried(""), func(r *account.Run) {
			stuck(r, 3500*ms)
			r.Requests[0].At = 3490 * ms
			r.Faults = []account.Fault{{Kind: account.Stop, Slot: "one", Process: "a", Begin: 105 * ms, End: 3450 * ms}}
		}, account.ReasonTimedOut},
		{"given up too early", retried(""), func(r *account.Run) {
			stuck(r, 2500*ms)
			r.Faults = []account.Fault{{Kind: account.Stop, Slot: "one", Process: "a", Begin: 500 * ms, End: 2450 * ms}}
		}, ""},
		{"given up although nothing had stopped it", retried(""), func(r *account.Run) {
			stuck(r, 3500*ms)
			r.Faults = []account.Fault{fault(account.Crash, "", 500*ms, 3450*ms)}
		}, ""},
		{"twice under one claim", clean(), func(r *account.Run) {
			r.Requests = append(r.Requests, effect("a", firstClaim, 1, 112*ms))
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.change != nil {
				tt.change(&tt.run)
			}
			v := account.Judge(tt.run)
			if tt.want == "" {
				require.Equal(t, map[account.Wrong]int{account.Unexplained: 1}, v.Wrong)
				require.Empty(t, v.Duplicates)
				return
			}
			require.True(t, v.OK(), v.Violations)
			require.Equal(t, map[account.Reason]int{tt.want: 1}, v.Duplicates)
		})
	}
}

func TestTwiceUnderTheClaimOfADeadRelay(t *testing.T) {
	t.Parallel()
	r := taken()
	r.Processes[0] = account.Process{Name: "a", Slot: "one", End: 500 * ms, Killed: true}
	r.Requests = append([]account.Request{effect("a", firstClaim, 1, 109*ms)}, r.Requests...)
	v := account.Judge(r)
	require.Equal(t, map[account.Wrong]int{account.Unexplained: 2}, v.Wrong, "death explains one effect")
}

func TestDuplicatesOfOneKill(t *testing.T) {
	t.Parallel()
	r := taken()
	r.Processes[0] = account.Process{Name: "a", Slot: "one", End: 500 * ms, Killed: true}
	for _, id := range []string{"n", "o"} {
		row, business := r.Rows[0], r.Business[0]
		row.ID, row.Business, business.ID = id, id, id
		r.Rows, r.Business = append(r.Rows, row), append(r.Business, business)
		for _, c := range r.Changes[:3] {
			c.ID = id
			r.Changes = append(r.Changes, c)
		}
		for _, q := range r.Requests[:2] {
			q.ID = id
			r.Requests = append(r.Requests, q)
		}
	}
	v := account.Judge(r)
	require.True(t, v.OK(), v.Violations)
	require.Equal(t, 3, v.Duplicates[account.ReasonKilled])
	require.Equal(t, 3, v.PerKill)
}
