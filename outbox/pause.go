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
)

// probeWait returns how long a topic is paused after n outages in a row, from
// 1: firstProbe, doubling to lastProbe, jittered.
func probeWait(n int) time.Duration {
	return jitter(min(firstProbe<<min(n-1, 6), lastProbe))
}

// topicPause is a topic whose handler has said [Unavailable]. The relay claims
// nothing of it but one message at a time, each a probe, until a handler says
// anything else. The engine's mutex guards it.
type topicPause struct {
	since  time.Time
	met    int       // outages in a row
	last   time.Time // when the latest was met: deliveries that had begun by then say nothing new
	until  time.Time // then the next probe
	probes int       // in flight
	idle   bool      // the last look for a probe found nothing due

	silence time.Duration
	nextLog time.Time
}

// pauses are the topics that are paused, and what the relay knows of the others.
type pauses struct {
	paused  map[string]*topicPause // by destination
	flowing map[string]bool        // destinations that have answered since they last were down
}

// destination is the name under which a topic is paused: that of its handler's
// topic, so that an alias is paused with it.
func (e *engine) destination(topic string) string {
	if e.mux != nil {
		if r := e.mux.route(topic); r != nil {
			return r.info.Name
		}
	}
	return topic
}

// errand is one claim of a look: what it takes and, of a paused topic, for which
// pause it is a probe.
type errand struct {
	take  takeSet
	probe *topicPause
}

// errands lists the claims of a look: one for all topics that are not paused,
// and one for each paused topic whose probe is due. A drain does not probe. The
// caller holds mu.
func (e *engine) errands(now time.Time) []errand {
	if len(e.paused) == 0 {
		return []errand{{take: e.take}}
	}
	var out []errand
	if take, some := e.take.without(func(topic string) bool { return e.paused[e.destination(topic)] != nil }, e.pausedNames()); some {
		out = append(out, errand{take: take})
	}
	if e.drain {
		return out
	}
	for _, name := range e.pausedNames() {
		if p := e.paused[name]; p.probes == 0 && !now.Before(p.until) {
			out = append(out, errand{take: e.take.only(func(topic string) bool { return e.destination(topic) == name }, name), probe: p})
		}
	}
	return out
}

func (e *engine) pausedNames() []string {
	names := make([]string, 0, len(e.paused))
	for name := range e.paused {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// untilProbe returns how long to wait for the next probe, at most d.
func (e *engine) untilProbe(d time.Duration) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.paused {
		if p.probes == 0 && !p.idle {
			d = min(d, time.Until(p.until))
		}
	}
	return max(d, time.Millisecond)
}

// unavailable decides what becomes of a delivery that met an outage of its
// destination: the attempt is given back, and the topic is paused. The caller
// holds mu.
func (e *engine) unavailable(f *flight, err error, after time.Duration) outcome {
	e.metrics.unavailable(f.msg.Topic)
	var down time.Duration // on the database's clock
	if since := f.msg.UnavailableSince; !since.IsZero() {
		down = f.msg.ClaimedAt.Sub(since)
	}
	if down > e.maxOutage {
		return e.park(f, fmt.Errorf("the destination was unavailable for %v, longer than MaxOutage: %w", down.Round(time.Second), err))
	}
	name := e.destination(f.msg.Topic)
	if topics.CheckName(name) != nil { // a row of another hand; its name is in no statement of ours
		return f.postponed(max(after, lastProbe), err.Error())
	}
	if e.paused[name] == nil && e.flowing[name] && !f.msg.UnavailableSince.IsZero() {
		// Others of its topic have got through since: this is about the message.
		wait := min(max(jitter(max(down, e.baseBackoff)), after, minBackoff), e.maxBackoff)
		e.log.Warn("outbox: a message says again that its destination is unavailable, while others of its topic get through; only this message waits",
			f.attrs("in", wait.Round(time.Millisecond), "error", err)...)
		return f.postponed(wait, err.Error())
	}
	return f.postponed(e.pauseTopic(f, name, err, after), err.Error())
}

// pauseTopic pauses the topic of a flight, or goes on doing so, and returns how long
// the message is to wait. The caller holds mu.
func (e *engine) pauseTopic(f *flight, name string, err error, after time.Duration) time.Duration {
	now := time.Now()
	p := e.paused[name]
	if p == nil {
		p = &topicPause{since: now, silence: time.Second, nextLog: now}
		e.paused[name] = p
		delete(e.flowing, name)
		e.giveBack(name)
	} else if !f.started.After(p.last) { // it was in flight when the outage was met
		return max(p.until.Sub(now), minBackoff)
	}
	p.met++
	wait := probeWait(p.met)
	if after > 0 {
		wait = min(max(after, minBackoff), maxDuration)
	}
	p.last, p.until, p.idle = now, now.Add(wait), false
	if !now.Before(p.nextLog) {
		e.log.Error("outbox: a destination is unavailable; its topic is paused and probed", f.attrs("for", now.Sub(p.since).Round(time.Millisecond),
			"next_probe_in", wait.Round(time.Millisecond), "error", err)...)
		p.nextLog = now.Add(p.silence)
		p.silence = min(2*p.silence, maxOutageSilence)
	}
	return wait
}

// giveBack releases what waits for a slot of a topic that is paused now. The
// caller holds mu.
func (e *engine) giveBack(name string) {
	e.ready = slices.DeleteFunc(e.ready, func(f *flight) bool {
		if e.destination(f.msg.Topic) != name {
			return false
		}
		e.release(f)
		return true
	})
}

// isPaused reports whether a flight must not be delivered now, since its topic
// was paused while it was being claimed. The caller holds mu.
func (e *engine) isPaused(f *flight) bool {
	return f.probe == nil && len(e.paused) > 0 && e.paused[e.destination(f.msg.Topic)] != nil
}

// reached notes that a handler has returned something else than Unavailable, so
// that its destination works. A payload that does not decode never got there.
// The caller holds mu.
func (e *engine) reached(f *flight, err error) {
	var decode *topics.DecodeError
	if errors.As(err, &decode) {
		return
	}
	name := e.destination(f.msg.Topic)
	p := e.paused[name]
	if p == nil {
		e.flowing[name] = true
		return
	}
	if !f.started.After(p.last) {
		return
	}
	delete(e.paused, name)
	e.flowing[name] = true
	e.log.Info("outbox: a destination is available again; its topic goes on", "topic", f.msg.Topic, "after", time.Since(p.since).Round(time.Millisecond))
	if !e.stopping {
		nudge(e.wake)
	}
}
