package outbox

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/typedoutbox/typedoutbox/topics"
)

const (
	// firstProbe and lastProbe are the shortest and the longest wait for the
	// next probe of a topic whose destination is down.
	firstProbe = time.Second
	lastProbe  = time.Minute

	// firstIdleLook is how long to wait for something to probe with; it doubles to
	// lastProbe. The message that met the outage may just not be recorded yet.
	firstIdleLook = 100 * time.Millisecond

	// maxIdlePause is after how long without anything to probe with a pause is
	// forgotten.
	maxIdlePause = 2 * lastProbe

	// maxBlamers bounds the memory of messages that have blamed their
	// destination.
	maxBlamers = 10_000
)

// probeWait returns how long a topic is paused after n outages in a row, from
// 1: firstProbe, doubling to lastProbe, jittered.
func probeWait(n int) time.Duration {
	return jitter(min(firstProbe<<min(n-1, 6), lastProbe))
}

// destinations is what a relay knows of where the messages of its topics go. The
// engine's mutex guards it.
type destinations struct {
	known   map[string]*destination
	paused  map[string]*topicPause
	blamers map[ID]time.Time // messages that have blamed their destination, and when
	probing int              // probes in flight
}

func newDestinations() destinations {
	return destinations{known: map[string]*destination{}, paused: map[string]*topicPause{}, blamers: map[ID]time.Time{}}
}

// destination is where the messages of one topic go. A zero time is never.
type destination struct {
	reached time.Time // when a handler last returned something else than Unavailable
	claimed time.Time // when such a message was claimed last, on the database's clock
	blamed  time.Time // when a handler last returned Unavailable
	resumed time.Time // when the latest pause ended
}

// topicPause is a topic whose handler has said [Unavailable]. The relay claims
// nothing of it but one message at a time, each a probe, until a handler says
// anything else.
type topicPause struct {
	since  time.Time
	met    int       // outages in a row
	last   time.Time // when the latest was met: deliveries that had begun by then say nothing new
	until  time.Time // then the next probe
	probes int       // in flight: one at most

	idleSince time.Time // since when there has been nothing to probe with; zero if there was something
	idleLooks int

	silence time.Duration
	nextLog time.Time
}

// nameOf is the name under which the destination of a topic is known: that of
// its handler's topic, so that an alias is paused with it.
func (e *engine) nameOf(topic string) string {
	if e.mux != nil {
		if r := e.mux.route(topic); r != nil {
			return r.info.Name
		}
	}
	return topic
}

func (e *engine) destination(name string) *destination {
	d := e.known[name]
	if d == nil {
		d = &destination{}
		e.known[name] = d
	}
	return d
}

// errand is one claim of a look: what it takes and, of a paused topic, for which
// pause it is a probe.
type errand struct {
	take  takeSet
	probe *topicPause
}

// errands lists the claims of a look: one for all topics that are not paused,
// and one for each paused topic whose probe is due, longest overdue first, as far
// as there is room for probes. A drain does not probe. The caller holds mu.
func (e *engine) errands(now time.Time) []errand {
	if len(e.paused) == 0 {
		return []errand{{take: e.take}}
	}
	var out []errand
	var names, due []string
	for name, p := range e.paused {
		names = append(names, name)
		if p.probes == 0 && !now.Before(p.until) {
			due = append(due, name)
		}
	}
	slices.Sort(names)
	if take, some := e.take.without(func(topic string) bool { return e.paused[e.nameOf(topic)] != nil }, names); some {
		out = append(out, errand{take: take})
	}
	if e.drain {
		return out
	}
	slices.SortFunc(due, func(a, b string) int { return e.paused[a].until.Compare(e.paused[b].until) })
	for _, name := range due[:min(len(due), max(e.maxProbes()-e.probing, 0))] {
		out = append(out, errand{take: e.take.only(func(topic string) bool { return e.nameOf(topic) == name }, name), probe: e.paused[name]})
	}
	return out
}

// maxProbes is how many slots destinations that are down may take from the
// others.
func (e *engine) maxProbes() int { return max(e.concurrency/4, 1) }

// untilProbe returns how long to wait for the next probe, at most d.
func (e *engine) untilProbe(d time.Duration) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.probing < e.maxProbes() {
		for _, p := range e.paused {
			if p.probes == 0 {
				d = min(d, time.Until(p.until))
			}
		}
	}
	return max(d, time.Millisecond)
}

// idle notes that there was nothing to probe a paused topic with. The caller
// holds mu.
func (e *engine) idle(p *topicPause, now time.Time) {
	if p.idleSince.IsZero() {
		p.idleSince = now
	}
	p.until = now.Add(min(firstIdleLook<<min(p.idleLooks, 10), lastProbe))
	p.idleLooks++
	if now.Sub(p.idleSince) < maxIdlePause {
		return
	}
	for name, other := range e.paused {
		if other == p { // should it be down still, whatever comes will meet that anew
			delete(e.paused, name)
			e.log.Debug("outbox: a paused topic has no messages; its pause is forgotten", "topic", name)
		}
	}
}

// probeOver ends a probe, whose outcome may take long to be recorded. The caller
// holds mu.
func (e *engine) probeOver(f *flight) {
	if f.probe == nil {
		return
	}
	f.probe.probes--
	e.probing--
	f.probe = nil
	if !e.stopping {
		nudge(e.wake)
	}
}

// unavailable decides what becomes of a delivery that met an outage of its
// destination: the attempt is given back, and the topic is paused. The caller
// holds mu.
func (e *engine) unavailable(f *flight, err error, after time.Duration) outcome {
	e.metrics.unavailable(f.msg.Topic)
	after = min(after, maxDuration)
	name := e.nameOf(f.msg.Topic)
	if topics.CheckName(name) != nil { // a row of another hand; its name is in no statement of ours
		return f.postponed(max(after, lastProbe), err.Error())
	}
	now, d, p := time.Now(), e.destination(name), e.paused[name]
	// For how long it has met this outage, or an earlier one: both times are the
	// database's.
	since := f.msg.UnavailableSince
	down, over := f.msg.ClaimedAt.Sub(since), d.claimed.After(since)
	if since.IsZero() {
		down, over = 0, false
	}
	blamed, again := e.blamers[f.ID]
	inVain := p == nil && again && d.reached.After(blamed) && d.reached.After(d.blamed)
	if len(e.blamers) >= maxBlamers {
		clear(e.blamers)
	}
	e.blamers[f.ID], d.blamed = now, now

	switch {
	case down <= e.maxOutage:
	case inVain:
		return e.park(f, tooLong(down, err))
	case p != nil && !over && now.Sub(p.since) >= min(e.maxOutage, lastProbe): // a blip parks nobody
		e.pauseTopic(f, name, err, after)
		return e.park(f, tooLong(down, err))
	}
	switch {
	case inVain:
		wait := max(min(max(jitter(max(down, e.baseBackoff)), minBackoff), e.maxBackoff), after)
		e.log.Warn("outbox: a message says again that its destination is unavailable, while others of its topic get through; only this message waits",
			f.attrs("in", wait.Round(time.Millisecond), "error", err)...)
		return f.postponed(wait, err.Error())
	case p == nil && f.started.Before(d.resumed): // it had begun before the outage ended that it met
		return f.postponed(max(firstProbe, after), err.Error())
	}
	o := f.postponed(max(e.pauseTopic(f, name, err, after), after), err.Error())
	o.verdict.Anew = over
	return o
}

func tooLong(down time.Duration, err error) error {
	return fmt.Errorf("the destination was unavailable for %v, longer than MaxOutage: %w", down.Round(time.Second), err)
}

// pauseTopic pauses the topic of a flight, or goes on doing so, and returns when
// it is probed next. The caller holds mu.
func (e *engine) pauseTopic(f *flight, name string, err error, after time.Duration) time.Duration {
	now := time.Now()
	p := e.paused[name]
	asked := time.Duration(0) // by the destination
	if after > 0 {
		asked = min(max(after, minBackoff), lastProbe)
	}
	if p == nil {
		p = &topicPause{since: now, silence: time.Second, nextLog: now}
		e.paused[name] = p
		e.giveBack(name)
	} else if !f.started.After(p.last) { // it was in flight when the outage was met
		if until := now.Add(asked); until.After(p.until) {
			p.until = until
		}
		return max(p.until.Sub(now), minBackoff)
	}
	p.met++
	wait := probeWait(p.met)
	if asked > 0 {
		wait = asked
	}
	p.last, p.until = now, now.Add(wait)
	if !now.Before(p.nextLog) {
		e.log.Error("outbox: a destination is unavailable; its topic is paused and probed", f.attrs("for", now.Sub(p.since).Round(time.Millisecond),
			"next_probe_in", wait.Round(time.Millisecond), "error", err)...)
		p.nextLog = now.Add(p.silence)
		p.silence = min(2*p.silence, maxOutageSilence)
	}
	if !e.stopping {
		nudge(e.wake) // the next look may be due sooner than the loop knows
	}
	return wait
}

// stuckProbe puts the next probe off as an outage does. The caller holds mu.
func (e *engine) stuckProbe(f *flight) {
	if p := f.probe; p != nil {
		p.met++
		p.last = time.Now()
		p.until = p.last.Add(probeWait(p.met))
	}
}

// giveBack releases what waits for a slot of a topic that is paused now. The
// caller holds mu.
func (e *engine) giveBack(name string) {
	e.ready = slices.DeleteFunc(e.ready, func(f *flight) bool {
		if e.nameOf(f.msg.Topic) != name {
			return false
		}
		e.release(f)
		return true
	})
}

// isPaused reports whether a flight must not be delivered now, since its topic
// was paused while it was being claimed. The caller holds mu.
func (e *engine) isPaused(f *flight) bool {
	return f.probe == nil && len(e.paused) > 0 && e.paused[e.nameOf(f.msg.Topic)] != nil
}

// reached notes that a handler has returned something else than Unavailable, so
// that its destination works. A payload that does not decode never got there.
// The caller holds mu.
func (e *engine) reached(f *flight, err error) {
	delete(e.blamers, f.ID)
	var decode *topics.DecodeError
	if errors.As(err, &decode) {
		return
	}
	name := e.nameOf(f.msg.Topic)
	p := e.paused[name]
	if p != nil && !f.started.After(p.last) {
		return
	}
	d := e.destination(name)
	d.reached = time.Now()
	if f.msg.ClaimedAt.After(d.claimed) {
		d.claimed = f.msg.ClaimedAt
	}
	if p == nil {
		return
	}
	delete(e.paused, name)
	d.resumed = d.reached
	e.log.Info("outbox: a destination is available again; its topic goes on", "topic", f.msg.Topic, "after", time.Since(p.since).Round(time.Millisecond))
	if !e.stopping {
		nudge(e.wake)
	}
}
