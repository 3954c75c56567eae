package main

import "fmt"

// relaysWorkload drains with several relays, or claimers, at once. The waits are
// those of claims.
func (b *bench) relaysWorkload() []contest {
	var all []contest
	for _, relays := range []int{1, 2, 4} {
		c := contest{name: fmt.Sprintf("relays/%d", relays), baseline: "bun", unit: "rows"}
		for _, d := range []drainer{
			bunDrainer("bun", relays, 100, outboxTable, outboxSQL),
			pgxDrainer("pgx", relays, 100),
			relayDrainer("outbox", relays, 100, viaPgdriver),
			relayDrainer("outbox via pgx", relays, 100, viaPgx),
		} {
			c.contenders = append(c.contenders, d.contender(d.trial(b.arena, b.relays, b.payloads[0])))
		}
		all = append(all, c)
	}
	return all
}
