// Package account judges a chaos run: what was committed, claimed, delivered,
// recorded and broken goes in, a verdict comes out. It touches no database and
// no clock.
//
// Every time is the distance from the beginning of the run, on the wall clock of
// the machine that all processes and the server share.
package account

import "time"

// Run is everything that is known of a run once it is over.
type Run struct {
	Lease       time.Duration // ClaimTimeout
	Longest     time.Duration // after which a handler that has not returned is stuck
	MaxAttempts int

	Rows      []Row      // outbox_messages
	Changes   []Change   // in the order in which they happened to a row
	Requests  []Request  // in the order in which the receiver saw them
	Returns   []Return   // of handlers
	Losses    []Report   // leases that a relay says it has lost
	Stuck     []Report   // deliveries that a relay says it has given up, their handlers still running
	Processes []Process  // relays
	Faults    []Fault    // what was done to them
	Business  []Business // rows that a message was enqueued for
	Committed []string   // ids of messages whose COMMIT was answered
	Withdrawn []string   // ids of messages whose transaction was rolled back
}

// Row is a message as it stands in the table at the end.
type Row struct {
	ID, Key   string
	OrderKey  string
	OrderSeq  int    // its place within OrderKey, as the producer counted
	Business  string // the business row that it belongs to
	Refused   bool   // the receiver refuses it for good
	Status    string
	Attempts  int
	LastError string
	Due       time.Duration // when it first was
}

// Change is an update of a row's status, token or attempts, written by a trigger
// in the transaction of the update.
type Change struct {
	ID                 string
	At                 time.Duration
	Session            string // the process, by its application_name
	From, To           string // status
	OldBy, NewBy       string // claimed_by
	OldClaim, NewClaim int64  // claimed_at, which identifies a claim of a row
	LeaseEnd           int64  // available_at before, on the clock of the claims
	Attempts           int    // after
	// LeaseEndAt is LeaseEnd as the distance from the beginning of the run.
	LeaseEndAt time.Duration
}

// Request is a delivery that reached the receiver.
type Request struct {
	ID, Process string
	Claim       int64
	Attempt     int
	At          time.Duration // when the effect took place, or the request came if there was none
	Effect      bool
}

// Return is the end of a handler, told by its relay.
type Return struct {
	ID, Process string
	Claim       int64
	At          time.Duration
	Error       string // "" for success
	Cause       Cause  // why the context of the delivery had ended
}

// Cause is why the context of a delivery has ended.
type Cause string

// The causes. A context that has not ended has none.
const (
	CauseDeadline  Cause = "deadline"
	CauseShutdown  Cause = "shutdown"
	CauseLeaseLost Cause = "lease lost"
)

// Report is what a relay says of a message.
type Report struct {
	ID, Process string
	At          time.Duration
}

// Process is one relay process from start to end.
type Process struct {
	Name, Slot string
	Start, End time.Duration
	Killed     bool   // by SIGKILL; otherwise it was asked to stop, or not even that
	Asked      bool   // to stop
	Error      string // how it ended, if neither killed nor clean
}

// Fault is something that was done to the system.
type Fault struct {
	Kind       Kind
	Begin, End time.Duration // equal for what takes no time
	Slot       string        // the relay concerned, "" for all
	Process    string        // the process concerned, "" for any of Slot
	IDs        []string      // the messages concerned, nil for all
}

// Kind is a kind of fault.
type Kind string

// The kinds of fault.
const (
	Kill      Kind = "kill"             // SIGKILL
	Stop      Kind = "stop"             // SIGSTOP for longer than the lease, then SIGCONT
	Deploy    Kind = "deploy"           // SIGTERM
	Crash     Kind = "server restart"   // immediate stop of Postgres; ends when it accepts connections
	Cut       Kind = "cut"              // connections closed, half of them with a reset
	Blackhole Kind = "silence"          // connections that neither answer nor end
	Slow      Kind = "slow connection"  // latency on every packet
	Exhaust   Kind = "exhaustion"       // no connection left
	Hold      Kind = "long transaction" // an old snapshot and some locked rows
	Lock      Kind = "table lock"       // ACCESS EXCLUSIVE
	Stall     Kind = "stall"            // not done but measured: the machine stood still
)

// Kinds are those that a run does, in the order of the report.
var Kinds = [...]Kind{Kill, Stop, Deploy, Crash, Cut, Blackhole, Slow, Exhaust, Hold, Lock}

// ofDatabase reports whether the fault keeps a relay from renewing and
// recording while it runs on.
func (k Kind) ofDatabase() bool {
	switch k {
	case Crash, Cut, Blackhole, Slow, Exhaust, Hold, Lock:
		return true
	}
	return false
}

// Business is a committed business row.
type Business struct {
	ID       string
	Messages int      // how many messages its transaction wrote
	Keys     []string // that it used, whether or not another transaction had used them first
}
