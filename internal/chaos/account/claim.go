package account

import "time"

// claim is one claim of one row.
type claim struct {
	by       string
	at       time.Duration
	attempts int
	effects  []Request

	// How it ended.
	ended      bool
	to         string        // status; "claimed" if another claim came
	givenBack  bool          // as the suspect that it had been
	by2        string        // who ended it
	end        time.Duration // when
	leaseEndAt time.Duration // when its lease was to end, as of then
}

// takenOver reports whether the outcome of the claim was never recorded.
func (c *claim) takenOver() bool { return !c.ended || c.to == "claimed" && !c.givenBack }

// claimsOf follows a row through its changes and notes what no relay may do.
func claimsOf(id string, changes []Change, v *Verdict) map[int64]*claim {
	claims := map[int64]*claim{}
	var now *claim
	for _, c := range changes {
		if c.From == "sent" || c.From == "discarded" {
			v.violate(Revived, id, "%s became %s at %v, by %q", c.From, c.To, c.At, c.Session)
		}
		if c.From == "claimed" && now != nil {
			isClaim := c.To == "claimed" && c.NewClaim != c.OldClaim
			switch {
			case isClaim && c.LeaseEnd > c.NewClaim:
				v.violate(Stolen, id, "%q took it over from %q at %v, and the lease would have ended %v later",
					c.NewBy, c.OldBy, c.At, time.Duration(c.LeaseEnd-c.NewClaim)*time.Microsecond)
			case !isClaim && c.Session != c.OldBy:
				v.violate(Unfenced, id, "%q made it %s at %v, under the claim of %q", c.Session, c.To, c.At, c.OldBy)
			}
			if !now.ended {
				now.ended, now.to, now.by2, now.end, now.leaseEndAt = true, c.To, c.Session, c.At, c.LeaseEndAt
				now.givenBack = c.To == "claimed" && !isClaim
			}
		}
		if c.To == "claimed" && (c.From != "claimed" || c.NewClaim != c.OldClaim) {
			now = &claim{by: c.NewBy, at: c.At, attempts: c.Attempts}
			claims[c.NewClaim] = now
			if c.NewBy != c.Session {
				v.violate(Unfenced, id, "%q claimed it at %v in the name of %q", c.Session, c.At, c.NewBy)
			}
		}
	}
	return claims
}
