//go:build linux

package main

import (
	"github.com/typedoutbox/typedoutbox/topics"
)

// parcel is the payload of every message.
type parcel struct {
	Business string `json:"business"`        // the row written with it
	Seq      int    `json:"seq,omitempty"`   // its number within its ordering key
	Plan     plan   `json:"plan,omitempty"`  // what the receiver is to do
	Delay    int64  `json:"delay,omitempty"` // milliseconds, as given to After
	Key      string `json:"key,omitempty"`
	Order    string `json:"order,omitempty"`
}

// plan is how the receiver answers.
type plan string

const (
	planSlow   plan = "slow"   // it takes a while
	planHang   plan = "hang"   // at first, the effect happens and no answer comes
	planLate   plan = "late"   // at first, the effect happens after the caller has given up
	planFlaky  plan = "flaky"  // at first, an error and no effect
	planRefuse plan = "refuse" // an error for good
)

// Two topics, so that ordering keys cross them.
var (
	parcelTopic = topics.New("chaos.parcel", &topics.Options[parcel]{
		Key:   func(p parcel) string { return p.Key },
		Order: func(p parcel) string { return p.Order },
	})
	letterTopic = topics.New("chaos.letter", &topics.Options[parcel]{
		Order: func(p parcel) string { return p.Order },
	})
)

// schema is what a run has beside the outbox: business rows, counters that
// number the rows of an ordering key and serialise their writers, and a history
// of every claim and settlement, written in the transaction of each, with the
// session that made it.
const schema = `
CREATE TABLE chaos_business (id text PRIMARY KEY, messages int NOT NULL, keys text NOT NULL);
CREATE TABLE chaos_order (key text PRIMARY KEY, n int NOT NULL);
CREATE TABLE chaos_history (
	seq bigserial PRIMARY KEY, id uuid NOT NULL, at timestamptz NOT NULL, session text NOT NULL,
	old_status text NOT NULL, new_status text NOT NULL, old_by text, new_by text,
	old_claim timestamptz, new_claim timestamptz, lease_end timestamptz NOT NULL, attempts int NOT NULL
);
CREATE FUNCTION chaos_note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO chaos_history (id, at, session, old_status, new_status, old_by, new_by, old_claim, new_claim, lease_end, attempts)
	VALUES (NEW.id, clock_timestamp(), current_setting('application_name'), OLD.status, NEW.status, OLD.claimed_by, NEW.claimed_by,
		OLD.claimed_at, NEW.claimed_at, OLD.available_at, NEW.attempts);
	RETURN NULL;
END $$;
CREATE TRIGGER chaos_note AFTER UPDATE ON outbox_messages FOR EACH ROW
	WHEN (OLD.status <> 'claimed' OR NEW.status <> 'claimed' OR OLD.claim_token <> NEW.claim_token OR OLD.attempts <> NEW.attempts)
	EXECUTE FUNCTION chaos_note();
CREATE FUNCTION chaos_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'a message was deleted, and retention is off';
END $$;
CREATE TRIGGER chaos_gone BEFORE DELETE ON outbox_messages FOR EACH ROW EXECUTE FUNCTION chaos_gone();
`
