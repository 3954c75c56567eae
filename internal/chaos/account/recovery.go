package account

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Measure is what a recovery time is the time of.
type Measure string

// The measures.
const (
	Healthy Measure = "next healthy row"     // a first attempt, by whichever relay
	Suspect Measure = "first suspect"        // a row that the relay held
	Itself  Measure = "the relay's next row" // of every relay concerned
)

// slack is what the aims allow beyond the lease.
const slack = 2 * time.Second

// Recovery is how long it took after the faults of one kind. A sample is
// disturbed if meanwhile something else was in the way; the aim is for the
// others.
type Recovery struct {
	Kind           Kind          `json:"kind"`
	Measure        Measure       `json:"measure"`
	Samples        int           `json:"samples"`
	Undisturbed    int           `json:"undisturbed"`
	Median         time.Duration `json:"median_ns"`
	Worst          time.Duration `json:"worst_ns"`
	WorstAt        time.Duration `json:"worst_at_ns"` // when its fault began
	WorstDisturbed time.Duration `json:"worst_disturbed_ns"`
	Aim            time.Duration `json:"aim_ns,omitempty"` // 0 for none
}

// Missed reports whether the aim did not hold.
func (r Recovery) Missed() bool { return r.Aim > 0 && r.Worst > r.Aim }

// Recoveries measures a run.
func Recoveries(r Run) []Recovery {
	m := newMeter(&r)
	var out []Recovery
	for _, kind := range Kinds {
		for _, measure := range []Measure{Healthy, Suspect, Itself} {
			if rec := m.measure(kind, measure); rec.Samples > 0 {
				out = append(out, rec)
			}
		}
	}
	return out
}

// meter is a Run, sorted for measuring.
type meter struct {
	run     *Run
	healthy []waiting                  // by when they were delivered
	held    map[string][]held          // by process
	effects map[string][]arrival       // by slot, sorted
	hurt    map[string][]time.Duration // when a process was killed or stopped
}

// arrival is a delivery that reached the receiver.
type arrival struct {
	at      time.Duration
	process string
}

// waiting is a healthy row.
type waiting struct {
	arrival
	due time.Duration // the earliest of this row and those delivered later
}

const never = time.Duration(math.MaxInt64)

// held is a claim that was taken over.
type held struct {
	from, to  time.Duration
	delivered time.Duration // when the row reached the receiver again, or never
	by        string        // which relay brought it
}

func newMeter(r *Run) *meter {
	m := &meter{run: r, held: map[string][]held{}, effects: map[string][]arrival{}, hurt: map[string][]time.Duration{}}
	slots := map[string]string{}
	for _, p := range r.Processes {
		slots[p.Name] = p.Slot
	}
	for _, f := range r.Faults {
		if f.Kind == Kill || f.Kind == Stop {
			m.hurt[f.Process] = append(m.hurt[f.Process], f.Begin)
		}
	}
	first := map[string]arrival{}
	arrived := map[delivery]Request{}
	for _, q := range r.Requests {
		if _, ok := arrived[delivery{q.ID, q.Claim}]; !ok {
			arrived[delivery{q.ID, q.Claim}] = q
		}
		m.effects[slots[q.Process]] = append(m.effects[slots[q.Process]], arrival{q.At, q.Process})
		if _, ok := first[q.ID]; !ok && q.Attempt == 1 {
			first[q.ID] = arrival{q.At, q.Process}
		}
	}
	byTime := func(a, b arrival) int { return cmp.Compare(a.at, b.at) }
	for _, arrivals := range m.effects {
		slices.SortFunc(arrivals, byTime)
	}
	for _, row := range r.Rows {
		if a, ok := first[row.ID]; ok && row.OrderKey == "" {
			m.healthy = append(m.healthy, waiting{a, row.Due})
		}
	}
	slices.SortFunc(m.healthy, func(a, b waiting) int { return byTime(a.arrival, b.arrival) })
	for i := len(m.healthy) - 2; i >= 0; i-- {
		m.healthy[i].due = min(m.healthy[i].due, m.healthy[i+1].due)
	}
	began := map[delivery]time.Duration{}
	for _, c := range r.Changes {
		if c.To != "claimed" || c.NewClaim == c.OldClaim && c.From == "claimed" {
			continue
		}
		began[delivery{c.ID, c.NewClaim}] = c.At
		if c.From != "claimed" {
			continue
		}
		h := held{from: began[delivery{c.ID, c.OldClaim}], to: c.At, by: c.NewBy, delivered: never}
		if q, ok := arrived[delivery{c.ID, c.NewClaim}]; ok {
			h.delivered = q.At
		}
		m.held[c.OldBy] = append(m.held[c.OldBy], h)
	}
	return m
}

// since is when the recovery from a fault begins.
func since(f Fault) time.Duration {
	switch f.Kind {
	case Kill, Stop, Deploy, Hold:
		return f.Begin
	}
	return f.End
}

func (m *meter) measure(kind Kind, measure Measure) Recovery {
	rec := Recovery{Kind: kind, Measure: measure}
	switch {
	case measure == Healthy && (kind == Kill || kind == Crash):
		rec.Aim = slack
	case measure == Suspect && kind == Kill:
		rec.Aim = m.run.Lease + slack
	}
	var clear []time.Duration
	for i, f := range m.run.Faults {
		if f.Kind != kind {
			continue
		}
		from, took, disturbed, ok := m.sample(f, measure)
		if !ok {
			continue
		}
		rec.Samples++
		if disturbed || m.disturbed(i, from, from+took) {
			rec.WorstDisturbed = max(rec.WorstDisturbed, took)
			continue
		}
		clear = append(clear, took)
		if took > rec.Worst {
			rec.Worst, rec.WorstAt = took, f.Begin
		}
	}
	slices.Sort(clear)
	if rec.Undisturbed = len(clear); len(clear) > 0 {
		rec.Median = clear[len(clear)/2]
	}
	return rec
}

// disturbed reports whether a fault other than number i kept the database from
// all relays, or the machine from everybody, between from and to. What hits one
// relay is no disturbance: the others are there to go on.
func (m *meter) disturbed(i int, from, to time.Duration) bool {
	for k, f := range m.run.Faults {
		if k != i && f.Slot == "" && f.Kind != Hold && f.Begin < to && f.End > from {
			return true
		}
	}
	return false
}

func (m *meter) sample(f Fault, measure Measure) (from, took time.Duration, disturbed, ok bool) {
	from = since(f)
	switch measure {
	case Healthy:
		i, _ := slices.BinarySearchFunc(m.healthy, from, func(w waiting, t time.Duration) int { return cmp.Compare(w.at, t) })
		for ; i < len(m.healthy); i++ {
			if w := m.healthy[i]; !struck(f, w.process) {
				from = max(from, w.due)
				return from, max(0, w.at-from), false, true
			}
		}
		return from, 0, false, false
	case Suspect:
		if f.Kind != Kill && f.Kind != Stop {
			return from, 0, false, false
		}
		return m.suspect(f)
	}
	if f.Kind == Exhaust || f.Kind == Hold || f.Kind == Lock {
		return from, 0, false, false
	}
	if f.Kind == Stop || f.Kind == Kill || f.Kind == Deploy {
		from = f.End
	}
	return m.itself(f, from)
}

// struck reports whether f left process with requests on their way that are no
// sign of life.
func struck(f Fault, process string) bool {
	return f.Process == process && (f.Kind == Kill || f.Kind == Stop)
}

// suspect is the first row that the relay held when f struck it and that another
// one brought.
func (m *meter) suspect(f Fault) (from, took time.Duration, disturbed, ok bool) {
	at := never
	var rows []held
	for _, h := range m.held[f.Process] {
		if h.from <= f.Begin && h.to > f.Begin {
			rows = append(rows, h)
			at = min(at, h.delivered)
		}
	}
	if at == never {
		return f.Begin, 0, false, false
	}
	// Whoever took one over earlier may have died of the next fault.
	for _, h := range rows {
		for _, t := range m.hurt[h.by] {
			disturbed = disturbed || t > h.to && t < at
		}
	}
	return f.Begin, at - f.Begin, disturbed, true
}

// itself is when the last of the relays concerned delivered again.
func (m *meter) itself(f Fault, from time.Duration) (_, took time.Duration, disturbed, ok bool) {
	for slot, arrivals := range m.effects {
		if f.Slot != "" && f.Slot != slot {
			continue
		}
		i, _ := slices.BinarySearchFunc(arrivals, from, func(a arrival, t time.Duration) int { return cmp.Compare(a.at, t) })
		for i < len(arrivals) && (f.Kind == Kill || f.Kind == Deploy) && arrivals[i].process == f.Process {
			i++
		}
		if i == len(arrivals) {
			return from, 0, false, false
		}
		took, ok = max(took, arrivals[i].at-from), true
		for _, other := range m.run.Faults {
			isOther := other.Kind != f.Kind || other.Begin != f.Begin
			disturbed = disturbed || isOther && other.Slot == slot && other.Begin < arrivals[i].at && other.End >= from
		}
	}
	return from, took, disturbed, ok
}
