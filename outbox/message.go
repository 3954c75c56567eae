package outbox

import (
	"encoding/json"
	"time"
)

// Status is the state of a message in the table.
type Status string

// The states of a message.
const (
	StatusPending   Status = "pending"   // waits until it is due
	StatusClaimed   Status = "claimed"   // leased by a relay
	StatusSent      Status = "sent"      // a handler returned nil
	StatusFailed    Status = "failed"    // parked: out of attempts, or refused for good
	StatusDiscarded Status = "discarded" // given up by a person, with a reason
)

// statuses are all of them.
var statuses = []Status{StatusPending, StatusClaimed, StatusSent, StatusFailed, StatusDiscarded}

// Message is one row of the table, with the payload undecoded. Times are in
// UTC; a time that is not set is the zero time.
type Message struct {
	ID       ID
	Topic    string          // the name under which the row is stored, perhaps an alias
	Key      string          // idempotency key, "" if there is none
	OrderKey string          // ordering key, "" if there is none
	Version  int             // version of the payload's schema
	Payload  json.RawMessage // byte for byte what Topic.Encode returned
	Headers  map[string]string
	Status   Status
	Attempts int // deliveries begun, this one included

	// LastError is the reason of the latest failed attempt, or of the
	// discarding; at most 8 KiB. It stays when a later attempt succeeds.
	LastError string

	// AvailableAt is when the message is due; while it is claimed, when the
	// lease ends. Once it is sent or failed, it is when that was recorded.
	AvailableAt time.Time

	ClaimedAt time.Time // when it was last claimed
	ClaimedBy string    // the name of the relay that last claimed it
	CreatedAt time.Time
	UpdatedAt time.Time
	SentAt    time.Time

	// UnavailableSince is when a handler first answered [Unavailable], in the
	// outage that the message has met last. It is zero once a handler has
	// returned anything else, and after a Retry.
	UnavailableSince time.Time
}

// Delivery is what a handler receives: the decoded payload and the row that it
// came from.
type Delivery[T any] struct {
	Payload T
	Message Message
}
