package account

import "fmt"

// Verdict is what a run has shown.
type Verdict struct {
	Rows       int            `json:"rows"`
	Sent       int            `json:"sent"`
	Delivered  int            `json:"delivered"` // rows with an effect
	Effects    int            `json:"effects"`
	Parked     map[string]int `json:"parked"`                   // rows by reason
	Duplicates map[Reason]int `json:"duplicates"`               // effects too many
	Behind     map[string]int `json:"faults_behind_duplicates"` // by reason and kind of fault
	PerKill    int            `json:"most_duplicates_of_a_kill"`
	Keys       int            `json:"keys"`      // idempotency keys used
	Repeats    int            `json:"repeats"`   // uses of a key that another transaction had used
	Withdrawn  int            `json:"withdrawn"` // messages rolled back

	Wrong      map[Wrong]int `json:"wrong"`
	Violations []Violation   `json:"violations"` // at most maxViolations of a kind
}

// maxViolations is how many violations of a kind are told one by one.
const maxViolations = 20

// Wrong is a kind of violation.
type Wrong string

// The kinds of violation.
const (
	Lost        Wrong = "lost"                  // committed, and never delivered
	Uncommitted Wrong = "delivered uncommitted" // delivered, and not in the table
	Unexplained Wrong = "duplicated without reason"
	OutOfOrder  Wrong = "out of order" // within an ordering key
	Unfinished  Wrong = "unfinished"   // pending or claimed after everything was drained
	ParkedWrong Wrong = "parked without reason"
	Torn        Wrong = "business row and messages differ"
	Unclaimed   Wrong = "delivered without a claim"
	Early       Wrong = "recorded as sent before it was delivered"
	Stolen      Wrong = "claimed under a live lease"
	Unfenced    Wrong = "written by a relay without the claim"
	Revived     Wrong = "changed after it was sent"
	Ended       Wrong = "a relay ended by itself"
)

// Reason is why an effect was not the only one of its message.
type Reason string

// The reasons.
const (
	ReasonKilled    Reason = "killed"
	ReasonTimedOut  Reason = "timed out during delivery"
	ReasonCancelled Reason = "cancelled during delivery"
	ReasonLeaseLost Reason = "lease lost"
	ReasonSettle    Reason = "settlement failed"
)

// Reasons are all reasons in the order of the report.
var Reasons = [...]Reason{ReasonKilled, ReasonTimedOut, ReasonCancelled, ReasonLeaseLost, ReasonSettle}

// Violation is one thing that must not happen.
type Violation struct {
	Wrong  Wrong  `json:"wrong"`
	ID     string `json:"id"`
	Detail string `json:"detail"`
}

// OK reports whether nothing is wrong.
func (v *Verdict) OK() bool { return len(v.Wrong) == 0 }

func (v *Verdict) violate(w Wrong, id, format string, args ...any) {
	if v.Wrong[w]++; v.Wrong[w] <= maxViolations {
		v.Violations = append(v.Violations, Violation{Wrong: w, ID: id, Detail: fmt.Sprintf(format, args...)})
	}
}
