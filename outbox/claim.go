package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// claimKind says how a row came to be claimed.
type claimKind int

const (
	claimDue       claimKind = iota // it was due
	claimSuspect                    // its lease had expired: whoever held it may have died of it
	claimExhausted                  // likewise, on its last attempt: to be parked, not delivered
)

// claimRequest is one look of a relay.
type claimRequest struct {
	take     takeSet
	limit    int           // due rows at most, perhaps none
	deep     bool          // look past rows in front that others have locked
	suspect  bool          // and one row whose lease expired
	own      []ID          // tokens under which the relay itself still works: those are no suspects
	name     string        // claimed_by
	lease    time.Duration // from the time of the statement
	deadline time.Duration // a claim that runs later than this takes nothing
	tokens   [3]ID         // by claimKind, fresh
}

// foreign is a condition on the row m, with an AND: it is not one that the relay
// itself still works on, though its lease may have ended in an outage. Taking it
// over from itself would deliver twice what it can still record.
func (r claimRequest) foreign(d sqlDialect) string {
	if len(r.own) == 0 {
		return ""
	}
	tokens := make([]string, len(r.own))
	for i, token := range r.own {
		tokens[i] = d.uuid("'" + token.String() + "'")
	}
	return "m.claim_token NOT IN (" + strings.Join(tokens, ", ") + ") AND "
}

// claimed is one row that a claim took.
type claimed struct {
	msg  Message
	kind claimKind
	due  any // its previous available_at, as the database gave it

	unreadable error // a row of another hand, which must not stop the others
}

// claim takes due rows, oldest first, and at most one suspect.
func (s session) claim(ctx context.Context, req claimRequest) ([]claimed, error) {
	var out []claimed
	var err error
	if s.postgres {
		out, err = s.claimPostgres(ctx, req)
	} else {
		out, err = s.claimSQLite(ctx, req)
	}
	// Neither database promises an order of what UPDATE returns.
	slices.SortFunc(out, func(a, b claimed) int {
		if byKind := cmp.Compare(b.kind, a.kind); byKind != 0 { // suspects first
			return byKind
		}
		if byDue := compareDue(a.due, b.due); byDue != 0 {
			return byDue
		}
		return slices.Compare(a.msg.ID[:], b.msg.ID[:])
	})
	return out, err
}

func compareDue(a, b any) int {
	if x, ok := a.(int64); ok {
		y, _ := b.(int64)
		return cmp.Compare(x, y)
	}
	x, _ := a.(string)
	y, _ := b.(string)
	return cmp.Compare(x, y)
}

// manyCandidates is how deep a claim looks that is to see past locked rows.
const manyCandidates = 10_000

// claimPostgres is one statement. It first finds candidates without locking
// them, with one index scan a topic, then locks the oldest that nobody else has
// locked: locking within the scans would touch far more rows than it takes.
// There are twice as many candidates as asked for, so that two relays that look
// at once both find work, and manyCandidates in a deep claim. The row m is
// checked again under its lock.
//
// The claim carries its own expiry: one that was held up, say by a lock on the
// table, until its client had given up takes nothing, instead of burning the
// attempts of rows under a token that nobody holds.
//
// Postgres plans it anew each time, which takes as long as to claim dozens of
// rows, so nothing is in it that is not asked for.
func (s session) claimPostgres(ctx context.Context, req claimRequest) ([]claimed, error) {
	inTime := fmt.Sprintf("clock_timestamp() < statement_timestamp() + interval '%d microseconds'", req.deadline.Microseconds())
	parts, picked := []string{}, []string{}
	if req.limit > 0 {
		candidates := 2 * req.limit
		if req.deep {
			candidates = max(candidates, manyCandidates)
		}
		parts = append(parts, req.take.taken(), fmt.Sprintf(`due AS MATERIALIZED (
	SELECT m.id, m.available_at FROM outbox_messages AS m
	WHERE m.id = ANY (ARRAY(
			SELECT c.id FROM take CROSS JOIN LATERAL (
				SELECT m.id, m.available_at FROM outbox_messages AS m
				WHERE m.topic = take.topic AND m.status = 'pending' AND m.available_at <= statement_timestamp()
					AND m.version <= take.version AND %s
				ORDER BY m.available_at, m.id LIMIT %d) AS c
			ORDER BY c.available_at, c.id LIMIT %d))
		AND m.status = 'pending' AND m.available_at <= statement_timestamp() AND %s
	ORDER BY m.available_at, m.id LIMIT %d FOR NO KEY UPDATE OF m SKIP LOCKED
)`, inTurn, candidates, candidates, inTime, req.limit))
		picked = append(picked, fmt.Sprintf("SELECT id, available_at, %d AS kind FROM due", claimDue))
	}
	if req.suspect {
		parts = append(parts, fmt.Sprintf(`suspect AS MATERIALIZED (
	SELECT m.id, m.available_at, CASE WHEN %s THEN %d ELSE %d END AS kind
	FROM outbox_messages AS m
	WHERE m.status = 'claimed' AND m.available_at <= statement_timestamp() AND %s AND %s AND %s
	ORDER BY m.available_at, m.id LIMIT 1 FOR NO KEY UPDATE OF m SKIP LOCKED
)`, req.take.exhausted(), claimExhausted, claimSuspect, req.foreign(s.sqlDialect)+req.take.takes(), inTurn, inTime))
		picked = append(picked, "SELECT id, available_at, kind FROM suspect")
	}
	query := fmt.Sprintf(`WITH RECURSIVE %s
UPDATE outbox_messages AS m
SET status = 'claimed', attempts = m.attempts + CASE WHEN picked.kind = %d OR m.attempts > %d THEN 0 ELSE 1 END,
	claimed_at = statement_timestamp(), claimed_by = ?,
	claim_token = (CASE picked.kind WHEN %d THEN ? WHEN %d THEN ? ELSE ? END)::uuid,
	available_at = statement_timestamp() + interval '%d microseconds', updated_at = statement_timestamp()
FROM (%s) AS picked WHERE m.id = picked.id
RETURNING %s, picked.kind, %s`,
		strings.Join(parts, ", "), claimExhausted, maxMaxAttempts, claimDue, claimSuspect, req.lease.Microseconds(),
		strings.Join(picked, " UNION ALL "), s.messageColumns("m"), s.micros("picked.available_at"))

	var out []claimed
	err := s.query(ctx, req.deadline, func(rows *sql.Rows) error {
		var c claimed
		var due dbTime
		c.msg, c.unreadable = scanMessage(rows, &c.kind, &due)
		c.due = due.raw
		out = append(out, c)
		return nil
	}, query, req.name, req.tokens[claimDue].String(), req.tokens[claimSuspect].String(), req.tokens[claimExhausted].String())
	if err != nil {
		return nil, err
	}
	return out, nil
}

// candidate is a row that a look on SQLite found.
type candidate struct {
	ID   string    `json:"id"`
	Due  string    `json:"due"`
	Kind claimKind `json:"kind"`
}

// claimSQLite looks without a lock first, so that an idle look never stands in
// the way of a writer, and then claims what has not changed since.
func (s session) claimSQLite(ctx context.Context, req claimRequest) ([]claimed, error) {
	looks, err := s.looksSQLite(ctx, req)
	if err != nil {
		return nil, err
	}
	found := map[string]candidate{}
	for _, look := range looks {
		err := s.query(ctx, req.deadline, func(rows *sql.Rows) error {
			var c candidate
			if err := rows.Scan(&c.ID, &c.Due, &c.Kind); err != nil {
				return err
			}
			found[c.ID] = c
			return nil
		}, look)
		if err != nil {
			return nil, err
		}
	}
	picked := make([]candidate, 0, len(found))
	for _, c := range found {
		picked = append(picked, c)
	}
	slices.SortFunc(picked, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.Kind, a.Kind), cmp.Compare(a.Due, b.Due), cmp.Compare(a.ID, b.ID))
	})
	if due := slices.IndexFunc(picked, func(c candidate) bool { return c.Kind == claimDue }); due >= 0 {
		picked = picked[:min(len(picked), due+req.limit)]
	}
	if len(picked) == 0 {
		return nil, nil
	}
	query := fmt.Sprintf(`UPDATE outbox_messages AS m
SET status = 'claimed', attempts = m.attempts + CASE WHEN r.kind = %d OR m.attempts > %d THEN 0 ELSE 1 END,
	claimed_at = %s, claimed_by = ?, claim_token = CASE r.kind WHEN %d THEN ? WHEN %d THEN ? ELSE ? END,
	available_at = %s, updated_at = %s
FROM %s WHERE m.id = r.id AND m.available_at = r.due
	AND m.status = CASE r.kind WHEN %d THEN 'pending' ELSE 'claimed' END
RETURNING %s`,
		claimExhausted, maxMaxAttempts, s.now(), claimDue, claimSuspect, s.nowPlus("?"), s.now(),
		s.recordSet("r", recordColumn{"id", ""}, recordColumn{"due", ""}, recordColumn{"kind", ""}), claimDue,
		strings.ReplaceAll(s.messageColumns("m"), "m.", ""))
	var out []claimed
	err = s.query(ctx, req.deadline, func(rows *sql.Rows) error {
		m, err := scanMessage(rows)
		c, known := found[m.ID.String()]
		if err == nil && !known { // no later statement would find it
			err = fmt.Errorf("its id is not written as %s", m.ID)
		}
		out = append(out, claimed{msg: m, kind: c.Kind, due: c.Due, unreadable: err})
		return nil
	}, query, req.name, req.tokens[claimDue].String(), req.tokens[claimSuspect].String(), req.tokens[claimExhausted].String(),
		req.lease.Microseconds(), record(picked))
	if err != nil {
		return nil, err
	}
	return out, nil
}

// maxCompound is the number of terms that SQLite allows in a UNION ALL, with
// room to spare.
const maxCompound = 400

// looksSQLite returns the queries for (id, available_at, kind) of candidates:
// one scan of the index a topic, merged.
func (s session) looksSQLite(ctx context.Context, req claimRequest) ([]string, error) {
	listed := req.take.listed
	if len(listed) == 0 {
		err := s.query(ctx, req.deadline, func(rows *sql.Rows) error {
			t := takenTopic{version: anyVersion}
			defer func() { listed = append(listed, t) }()
			return rows.Scan(&t.name)
		}, "WITH RECURSIVE "+req.take.taken()+" SELECT topic FROM take")
		if err != nil {
			return nil, err
		}
	}
	var looks []string
	for chunk := range slices.Chunk(listed, maxCompound) {
		var scans []string
		for _, t := range chunk {
			scans = append(scans, fmt.Sprintf(`SELECT * FROM (SELECT m.id, m.available_at, %d AS kind FROM outbox_messages AS m
	WHERE m.topic = %s AND m.status = 'pending' AND m.available_at <= %s AND m.version <= %d AND %s
	ORDER BY m.available_at, m.id LIMIT %d)`,
				claimDue, quote(t.name), s.now(), t.version, inTurn, req.limit))
		}
		looks = append(looks, strings.Join(scans, " UNION ALL ")+fmt.Sprintf(" ORDER BY 2, 1 LIMIT %d", req.limit))
	}
	if req.suspect {
		looks = append(looks, fmt.Sprintf(`SELECT m.id, m.available_at, CASE WHEN %s THEN %d ELSE %d END AS kind
	FROM outbox_messages AS m WHERE m.status = 'claimed' AND m.available_at <= %s AND %s AND %s
	ORDER BY m.available_at, m.id LIMIT 1`,
			req.take.exhausted(), claimExhausted, claimSuspect, s.now(), req.foreign(s.sqlDialect)+req.take.takes(), inTurn))
	}
	return looks, nil
}
