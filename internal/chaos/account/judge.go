package account

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// exhausted is the reason of a row that was parked since its lease expired on
// the last attempt.
const exhausted = "lease expired on the last attempt"

// Judge says what a run has shown.
func Judge(r Run) *Verdict {
	v := &Verdict{
		Rows: len(r.Rows), Parked: map[string]int{}, Duplicates: map[Reason]int{}, Behind: map[string]int{},
		Wrong: map[Wrong]int{}, Withdrawn: len(r.Withdrawn),
	}
	j := judge{Verdict: v, run: &r, evidence: newEvidence(&r), rows: map[string]*Row{}, perKill: map[string]int{}}
	for i := range r.Rows {
		j.rows[r.Rows[i].ID] = &r.Rows[i]
	}
	changes := map[string][]Change{}
	for _, c := range r.Changes {
		changes[c.ID] = append(changes[c.ID], c)
	}
	requests := map[string][]Request{}
	for _, q := range r.Requests {
		if j.rows[q.ID] == nil {
			v.violate(Uncommitted, q.ID, "delivered by %q at %v", q.Process, q.At)
			continue
		}
		requests[q.ID] = append(requests[q.ID], q)
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		j.row(row, claimsOf(row.ID, changes[row.ID], v), requests[row.ID])
	}
	for _, n := range j.perKill {
		v.PerKill = max(v.PerKill, n)
	}
	j.order(requests)
	j.transactions()
	j.processes()
	return v
}

type judge struct {
	*Verdict
	run      *Run
	evidence *evidence
	rows     map[string]*Row
	perKill  map[string]int // duplicates by process
}

// row judges one message.
func (j *judge) row(row *Row, claims map[int64]*claim, requests []Request) {
	var effects []Request
	for _, q := range requests {
		c := claims[q.Claim]
		if c == nil || c.by != q.Process || c.attempts != q.Attempt {
			j.violate(Unclaimed, row.ID, "attempt %d by %q at %v", q.Attempt, q.Process, q.At)
			continue
		}
		if q.Effect {
			c.effects = append(c.effects, q)
			effects = append(effects, q)
		}
	}
	j.Effects += len(effects)
	if len(effects) > 0 {
		j.Delivered++
	}
	switch row.Status {
	case "sent":
		j.Sent++
		j.sent(row, claims, effects)
	case "failed":
		j.parked(row)
	default:
		j.violate(Unfinished, row.ID, "%s after %d attempts", row.Status, row.Attempts)
	}
	j.duplicates(row, claims, effects)
}

// sent judges a row that is recorded as sent.
func (j *judge) sent(row *Row, claims map[int64]*claim, effects []Request) {
	recorded := recorded(claims)
	switch {
	case len(effects) == 0:
		j.violate(Lost, row.ID, "sent, and never delivered")
	case recorded == nil:
		j.violate(Unclaimed, row.ID, "sent, and no claim ended so")
	case len(recorded.effects) == 0:
		j.violate(Early, row.ID, "%q recorded it at %v without a delivery of its own", recorded.by, recorded.end)
	case recorded.effects[0].At > recorded.end:
		j.violate(Early, row.ID, "%q recorded it at %v and delivered it at %v", recorded.by, recorded.end, recorded.effects[0].At)
	}
}

// recorded returns the claim that ended with the row being sent.
func recorded(claims map[int64]*claim) *claim {
	for _, c := range claims {
		if c.ended && c.to == "sent" {
			return c
		}
	}
	return nil
}

func (j *judge) parked(row *Row) {
	switch {
	case row.Refused:
		j.Parked["refused by the receiver"]++
	case row.LastError == exhausted && row.Attempts >= j.run.MaxAttempts:
		j.Parked[exhausted]++
	default:
		j.violate(ParkedWrong, row.ID, "after %d attempts: %s", row.Attempts, row.LastError)
	}
}

// duplicates finds the reason of every effect but the one that was recorded.
func (j *judge) duplicates(row *Row, claims map[int64]*claim, effects []Request) {
	if len(effects) < 2 {
		return
	}
	kept := len(effects) - 1
	if r := recorded(claims); r != nil {
		for i, q := range effects {
			if claims[q.Claim] == r {
				kept = i
				break
			}
		}
	}
	for i, q := range effects {
		if i == kept {
			continue
		}
		why, err := j.evidence.reason(q, claims[q.Claim])
		if err != nil {
			j.violate(Unexplained, row.ID, "effect %d of %d, by %q at %v: %v", i+1, len(effects), q.Process, q.At, err)
			continue
		}
		j.Duplicates[why.reason]++
		if why.fault != "" {
			j.Behind[fmt.Sprintf("%s: %s", why.reason, why.fault)]++
		}
		if why.reason == ReasonKilled {
			j.perKill[q.Process]++
		}
	}
}

// order checks that the rows of an ordering key first took effect in order.
func (j *judge) order(requests map[string][]Request) {
	keys := map[string][]*Row{}
	for i := range j.run.Rows {
		if row := &j.run.Rows[i]; row.OrderKey != "" {
			keys[row.OrderKey] = append(keys[row.OrderKey], row)
		}
	}
	for key, rows := range keys {
		slices.SortFunc(rows, func(a, b *Row) int { return cmp.Compare(a.OrderSeq, b.OrderSeq) })
		var last *Request
		for _, row := range rows {
			first := slices.IndexFunc(requests[row.ID], func(q Request) bool { return q.Effect })
			if first < 0 {
				continue
			}
			q := &requests[row.ID][first]
			if last != nil && q.At < last.At {
				j.violate(OutOfOrder, row.ID, "number %d of %q took effect at %v, and one before it at %v", row.OrderSeq, key, q.At, last.At)
			}
			last = q
		}
	}
}

// transactions checks what producers were told against what the tables hold.
func (j *judge) transactions() {
	messages := map[string]int{}
	for i := range j.run.Rows {
		messages[j.run.Rows[i].Business]++
	}
	keys := map[string]bool{}
	for _, b := range j.run.Business {
		if messages[b.ID] != b.Messages {
			j.violate(Torn, b.ID, "%d messages, and the business row says %d", messages[b.ID], b.Messages)
		}
		delete(messages, b.ID)
		for _, key := range b.Keys {
			if keys[key] {
				j.Repeats++
			}
			keys[key] = true
		}
	}
	j.Keys = len(keys)
	for i := range j.run.Rows {
		delete(keys, j.run.Rows[i].Key)
	}
	for key := range keys {
		j.violate(Lost, key, "the key was used in a committed transaction, and no message has it")
	}
	for id, n := range messages {
		j.violate(Torn, id, "%d messages without a business row", n)
	}
	for _, id := range j.run.Committed {
		if j.rows[id] == nil {
			j.violate(Lost, id, "the server had acknowledged its commit")
		}
	}
	for _, id := range j.run.Withdrawn {
		if j.rows[id] != nil {
			j.violate(Torn, id, "its transaction was rolled back")
		}
	}
}

// processes checks that relays ended when they were told to only.
func (j *judge) processes() {
	for _, p := range j.run.Processes {
		if !p.Killed && (!p.Asked || p.Error != "" && !j.excused(p)) {
			j.violate(Ended, p.Name, "at %v: %s", p.End, strings.TrimSpace(p.Error))
		}
	}
}

// excused reports whether a fault kept a relay from a clean stop.
func (j *judge) excused(p Process) bool {
	_, found := j.evidence.faultOf("", p, p.End-5*j.run.Lease, p.End)
	return found
}
