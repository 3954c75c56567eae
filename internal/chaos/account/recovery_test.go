package account_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
)

// struck is a run in which a is killed at 1 s while it holds m, which b brings
// again at 3.05 s. Healthy rows keep coming to b from 1.3 s on.
func struck() account.Run {
	r := taken()
	r.Processes[0] = account.Process{Name: "a", Slot: "one", End: 1001 * ms, Killed: true}
	r.Processes = append(r.Processes, account.Process{Name: "a2", Slot: "one", Start: 1100 * ms, End: 10 * time.Second, Asked: true})
	r.Faults = []account.Fault{{Kind: account.Kill, Slot: "one", Process: "a", Begin: time.Second, End: 1001 * ms}}
	for n, q := range []account.Request{
		{Process: "b", Attempt: 1, At: 900 * ms},
		{Process: "a", Attempt: 1, At: 1002 * ms}, // on its way when a died
		{Process: "b", Attempt: 2, At: 1200 * ms}, // not healthy
		{Process: "b", Attempt: 1, At: 1300 * ms},
		{Process: "a2", Attempt: 1, At: 1400 * ms},
	} {
		q.ID, q.Effect = string(rune('p'+n)), true
		r.Rows = append(r.Rows, account.Row{ID: q.ID, Status: "sent"})
		r.Requests = append(r.Requests, q)
	}
	return r
}

// recovery returns the recovery of one kind, the zero one if there is none.
func recovery(r account.Run, kind account.Kind, measure account.Measure) account.Recovery {
	for _, rec := range account.Recoveries(r) {
		if rec.Kind == kind && rec.Measure == measure {
			return rec
		}
	}
	return account.Recovery{}
}

func TestRecoveryFromAKill(t *testing.T) {
	t.Parallel()
	r := struck()
	healthy := recovery(r, account.Kill, account.Healthy)
	require.Equal(t, 300*ms, healthy.Worst)
	require.Equal(t, 300*ms, healthy.Median)
	require.Equal(t, 2*time.Second, healthy.Aim)
	require.Equal(t, 1, healthy.Undisturbed)
	suspect := recovery(r, account.Kill, account.Suspect)
	require.Equal(t, 2050*ms, suspect.Worst)
	require.Equal(t, lease+2*time.Second, suspect.Aim)
	require.False(t, suspect.Missed())
	require.Equal(t, 399*ms, recovery(r, account.Kill, account.Itself).Worst)

	// From when the row was due, if there was none to deliver before.
	for i := range r.Rows {
		r.Rows[i].Due = 1250 * ms
	}
	require.Equal(t, 50*ms, recovery(r, account.Kill, account.Healthy).Worst)
	// But not if an older one waited behind it.
	r.Rows = append(r.Rows, account.Row{ID: "late"})
	r.Requests = append(r.Requests, account.Request{ID: "late", Process: "b", Attempt: 1, At: 5 * time.Second})
	require.Equal(t, 300*ms, recovery(r, account.Kill, account.Healthy).Worst)
}

func TestAimIsMissed(t *testing.T) {
	t.Parallel()
	r := struck()
	r.Requests[1].At = 5500 * ms // of the suspect
	rec := recovery(r, account.Kill, account.Suspect)
	require.Equal(t, 4500*ms, rec.Worst)
	require.True(t, rec.Missed())
}

func TestDisturbedSamplesDoNotCount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		fault     account.Fault
		disturbed bool
	}{
		{"the server was away", account.Fault{Kind: account.Crash, Begin: 1100 * ms, End: 1200 * ms}, true},
		{"it was before", account.Fault{Kind: account.Crash, Begin: 500 * ms, End: 900 * ms}, false},
		{"it was away for another relay", account.Fault{Kind: account.Cut, Slot: "two", Begin: 1100 * ms, End: 1200 * ms}, false},
		{"the machine stood still", account.Fault{Kind: account.Stall, Begin: 1100 * ms, End: 1200 * ms}, true},
		{"another process was killed", account.Fault{Kind: account.Kill, Process: "c", Slot: "three", Begin: 1100 * ms, End: 1200 * ms}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := struck()
			r.Faults = append(r.Faults, tt.fault)
			for _, measure := range []account.Measure{account.Healthy, account.Suspect} {
				rec := recovery(r, account.Kill, measure)
				require.Equal(t, tt.disturbed, rec.Worst == 0, measure)
				require.Equal(t, tt.disturbed, rec.WorstDisturbed > 0, measure)
			}
		})
	}
}

func TestSuspectWhoseHeirDied(t *testing.T) {
	t.Parallel()
	r := struck()
	const thirdClaim = int64(6_000_000)
	last := claimed("c", "claimed", "b", thirdClaim, 3)
	last.OldClaim = secondClaim
	other := claimed("c", "claimed", "a", 6_500_000, 2) // of another row that a held
	first := claimed("a", "pending", "", firstClaim, 1)
	other.ID, first.ID = "late", "late"
	r.Changes = []account.Change{r.Changes[0], r.Changes[1], last, first, other}
	r.Requests = append(r.Requests[:1], account.Request{ID: "late", Process: "c", Claim: 6_500_000, Attempt: 2, At: 6600 * ms})
	r.Rows = append(r.Rows, account.Row{ID: "late"})
	r.Faults = append(r.Faults, account.Fault{Kind: account.Kill, Slot: "two", Process: "b", Begin: 3010 * ms, End: 3011 * ms})
	rec := recovery(r, account.Kill, account.Suspect)
	require.Zero(t, rec.Undisturbed)
	require.Equal(t, 5600*ms, rec.WorstDisturbed)
}

func TestRecoveryFromARestartOfTheServer(t *testing.T) {
	t.Parallel()
	r := struck()
	r.Faults = []account.Fault{{Kind: account.Crash, Begin: 950 * ms, End: 1250 * ms}}
	require.Equal(t, 50*ms, recovery(r, account.Crash, account.Healthy).Worst)
	require.Equal(t, 150*ms, recovery(r, account.Crash, account.Itself).Worst, "of the slowest relay")
	require.Zero(t, recovery(r, account.Crash, account.Suspect).Samples)
}
