package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// maxReasonBytes is the longest last_error that is stored.
const maxReasonBytes = 8 << 10

// lease names one claim of one row.
type lease struct {
	ID    ID `json:"id"`
	Token ID `json:"token"`
}

// verdict is what becomes of a claimed row.
type verdict struct {
	lease
	Status   Status `json:"status"`
	Attempts int    `json:"attempts"`
	Wait     *int64 `json:"wait,omitempty"`   // due this many microseconds from now
	Due      any    `json:"due,omitempty"`    // or due again when it was before the claim
	Reason   string `json:"reason,omitempty"` // the new last_error
	Down     bool   `json:"down,omitempty"`   // its destination is unavailable
	Anew     bool   `json:"anew,omitempty"`   // likewise, in an outage that began now
	Next     *ID    `json:"next,omitempty"`   // the new claim_token of a row that stays claimed
}

var verdictColumns = []recordColumn{
	{"id", "uuid"},
	{"token", "uuid"},
	{"status", "text"},
	{"attempts", "integer"},
	{"wait", "bigint"},
	{"due", "bigint"},
	{"reason", "text"},
	{"down", "boolean"},
	{"anew", "boolean"},
	{"next", "uuid"},
}

// settle records verdicts and returns the ids of the rows that it changed. It
// names the token of each, so that it changes nothing that another relay has
// taken over. On Postgres it locks in id order and skips what is locked: a row
// that somebody holds in psql delays itself and not its batch, and renewals and
// settlements cannot deadlock.
//
// No two verdicts may be of one id.
func (s session) settle(ctx context.Context, timeout time.Duration, verdicts []verdict) (map[ID]bool, error) {
	set := fmt.Sprintf(`SET status = r.status, attempts = r.attempts,
	available_at = CASE WHEN r.due IS NOT NULL THEN %s WHEN r.wait IS NOT NULL THEN %s ELSE %s END,
	unavailable_since = CASE WHEN r.anew THEN %s WHEN r.down THEN coalesce(m.unavailable_since, %s) WHEN r.due IS NOT NULL THEN m.unavailable_since END,
	last_error = coalesce(r.reason, m.last_error), claim_token = r.next,
	sent_at = CASE r.status WHEN 'sent' THEN %s END, updated_at = %s`,
		s.timestamp("r.due"), s.nowPlus("r.wait"), s.now(), s.now(), s.now(), s.now(), s.now())
	return s.changed(ctx, timeout, s.underLock(set, verdictColumns), record(verdicts))
}

// renew prolongs leases and returns the ids of those that it could.
func (s session) renew(ctx context.Context, timeout, lease time.Duration, leases []lease) (map[ID]bool, error) {
	set := fmt.Sprintf("SET available_at = %s, updated_at = %s", s.nowPlus(fmt.Sprint(lease.Microseconds())), s.now())
	return s.changed(ctx, timeout, s.underLock(set, verdictColumns[:2]), record(leases))
}

// underLock is an UPDATE of the rows m that a record set r names by id and
// token.
func (s session) underLock(set string, columns []recordColumn) string {
	if !s.postgres {
		return "UPDATE outbox_messages AS m " + set + " FROM " + s.recordSet("r", columns...) +
			" WHERE m.id = r.id AND m.claim_token = r.token RETURNING id"
	}
	return "WITH r AS MATERIALIZED (SELECT * FROM " + s.recordSet("r", columns...) + `), l AS MATERIALIZED (
	SELECT m.id, m.claim_token FROM r JOIN outbox_messages AS m ON m.id = r.id AND m.claim_token = r.token
	ORDER BY m.id FOR NO KEY UPDATE OF m SKIP LOCKED
)
UPDATE outbox_messages AS m ` + set + ` FROM r JOIN l ON l.id = r.id AND l.claim_token = r.token
WHERE m.id = r.id RETURNING m.id`
}

func (s session) changed(ctx context.Context, timeout time.Duration, query string, args ...any) (map[ID]bool, error) {
	ids := map[ID]bool{}
	err := s.query(ctx, timeout, func(rows *sql.Rows) error {
		var id ID
		if err := rows.Scan(&id); err != nil {
			return err
		}
		ids[id] = true
		return nil
	}, query, args...)
	return ids, err
}

// holding is what a row looks like to one who wonders whether a claim is still
// its own.
type holding struct {
	token     ID // zero if the row is not claimed
	status    Status
	attempts  int
	claimedBy string
}

// holdings reads rows back. An id that is missing in the result is gone.
func (s session) holdings(ctx context.Context, timeout time.Duration, ids []ID) (map[ID]holding, error) {
	quoted := make([]string, len(ids))
	for i, id := range ids {
		quoted[i] = "'" + id.String() + "'"
	}
	out := map[ID]holding{}
	err := s.query(ctx, timeout, func(rows *sql.Rows) error {
		var id ID
		var h holding
		var by sql.NullString
		if err := rows.Scan(&id, &h.token, &h.status, &h.attempts, &by); err != nil {
			return err
		}
		h.claimedBy = by.String
		out[id] = h
		return nil
	}, "SELECT id, claim_token, status, attempts, claimed_by FROM outbox_messages WHERE id IN ("+strings.Join(quoted, ", ")+")")
	return out, err
}

// releaseTokens gives up claims of which it is not known whether they were
// committed: due rows become pending again with their attempt back, suspects
// stay suspects. When the rows had been due is not known here, so they are due
// as of the claim. It returns how many rows are left, since somebody has locked
// them.
func (s session) releaseTokens(ctx context.Context, timeout time.Duration, claims ...[3]ID) (left int, err error) {
	of := func(kinds ...claimKind) string {
		var list []string
		for _, tokens := range claims {
			for _, kind := range kinds {
				list = append(list, s.uuid("'"+tokens[kind].String()+"'"))
			}
		}
		return "claim_token IN (" + strings.Join(list, ", ") + ")"
	}
	held := fmt.Sprintf("status = 'claimed' AND available_at > %s AND %s", s.now(), of(claimDue, claimSuspect, claimExhausted))
	where := held
	if s.postgres {
		where = "id = ANY (ARRAY(SELECT id FROM outbox_messages WHERE " + held + " ORDER BY id FOR NO KEY UPDATE SKIP LOCKED))"
	}
	_, err = s.exec(ctx, timeout, fmt.Sprintf(`UPDATE outbox_messages
SET status = CASE WHEN %[1]s THEN 'pending' ELSE 'claimed' END,
	attempts = attempts - CASE WHEN %[2]s THEN 0 ELSE 1 END,
	claim_token = CASE WHEN %[1]s THEN NULL ELSE claim_token END,
	available_at = claimed_at, updated_at = %[3]s
WHERE %[4]s`, of(claimDue), of(claimExhausted), s.now(), where))
	if err != nil || !s.postgres {
		return 0, err
	}
	err = s.query(ctx, timeout, func(rows *sql.Rows) error { return rows.Scan(&left) },
		"SELECT count(*) FROM outbox_messages WHERE "+held)
	return left, err
}

// cleanReason makes a reason storable: valid UTF-8, no NUL, at most
// maxReasonBytes.
func cleanReason(reason string) string {
	if len(reason) > maxReasonBytes+utf8.UTFMax {
		reason = reason[:maxReasonBytes+utf8.UTFMax] // what is dropped below is whole runes
	}
	reason = strings.ToValidUTF8(reason, "�")
	reason = strings.ReplaceAll(reason, "\x00", "�")
	for len(reason) > maxReasonBytes {
		_, size := utf8.DecodeLastRuneInString(reason)
		reason = reason[:len(reason)-size]
	}
	return reason
}
