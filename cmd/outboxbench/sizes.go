package main

import "time"

// sizes is how much work there is. The unit is a row unless it says otherwise.
type sizes struct {
	enqueue     int           // transactions of one writer; eight do four times as many
	enqueueAll  int           // transactions of 1,000 rows
	drain       int           // pending, the short queue
	drainLong   int           // and the long one
	drainSlow   int           // for who needs a millisecond and more a row
	payloads    []int         // bytes
	latency     int           // messages, one after the other
	latencySlow int           // for who polls once a second; 0 leaves those out
	sent        []int         // rows in a table that has grown
	delayed     int           // due in an hour, in a table that has grown
	parked      int           // failed, likewise
	foreign     int           // due, of topics that nobody takes, likewise
	growth      int           // to claim in a table that has grown
	looks       int           // idle looks, likewise
	held        int           // to drain beside a held snapshot
	relays      int           // to drain by several relays
	sqlite      int           // to drain on SQLite
	memory      int           // of 1 kB, to drain in a process of its own
	idle        time.Duration // how long an idle relay is watched
}

// fullSizes are those of the figures.
var fullSizes = sizes{
	enqueue: 2000, enqueueAll: 30,
	drain: 20_000, drainLong: 200_000, drainSlow: 5000, payloads: []int{200, 4000},
	latency: 300, latencySlow: 30,
	sent: []int{0, 1_000_000, 3_000_000}, delayed: 100_000, parked: 10_000, foreign: 1_000_000, growth: 20_000, looks: 200,
	held: 100_000, relays: 40_000, sqlite: 20_000, memory: 1_000_000,
	idle: 20 * time.Second,
}

// quickSizes are enough to see that everything works.
var quickSizes = sizes{
	enqueue: 40, enqueueAll: 1,
	drain: 1000, drainLong: 3000, drainSlow: 200, payloads: []int{200, 4000},
	latency: 10, latencySlow: 0,
	sent: []int{0, 2000}, delayed: 500, parked: 100, foreign: 2000, growth: 1000, looks: 10,
	held: 1000, relays: 1000, sqlite: 1000, memory: 1000,
	idle: 500 * time.Millisecond,
}
