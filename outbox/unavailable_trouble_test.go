package outbox_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Unavailable in trouble: outcomes that cannot be recorded, messages that met an
// earlier outage, destinations that ask for long waits, many that are down.

// probed starts a relay whose destination is down, and returns once the second of
// three messages is being delivered, which is a probe. Its handler waits for the
// gate.
func probed(t *testing.T, f *fixture) (d *flaky, probe outbox.ID, answer gate) {
	t.Helper()
	d = &flaky{retry: 100 * time.Millisecond}
	d.down.Store(true)
	probing := make(chan outbox.ID, 1)
	answer = make(gate)
	var n atomic.Int64
	r := f.relay(handling(func(_ context.Context, v outbox.Delivery[order]) error {
		if n.Add(1) == 2 {
			probing <- v.Message.ID
			answer.pass(t)
		}
		return d.deliver()
	}))
	r.Concurrency, r.ShutdownTimeout = 1, time.Second
	f.enqueue(t, plainTopic, numbers(3))
	start(t, r)
	return d, receive(t, probing, "a probe"), answer
}

func TestLockedProbeKeepsNoTopicPaused(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		d, probe, answer := probed(t, f)
		unlock := f.lock(t, "SELECT 1 FROM outbox_messages WHERE id = ? FOR UPDATE", probe)
		calls := d.calls.Load()
		answer.open()
		eventually(t, func() bool { return d.calls.Load() > calls+1 }, "the next probe")
		d.down.Store(false)
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 2 }, "a locked row delays itself only")
		unlock()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 3 }, "and is delivered once it is free")
	})
}

func TestRefusedProbeKeepsNoTopicPaused(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		d, probe, answer := probed(t, f)
		f.refuse(t, "id = '"+probe.String()+"' AND status = 'pending'")
		calls := d.calls.Load()
		answer.open()
		eventually(t, func() bool { return d.calls.Load() > calls }, "the probe has answered")
		d.down.Store(false)
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 2 }, "a row that is refused delays itself only")
		f.refuseNoMore(t)
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 3 }, "and is delivered once it is not")
	})
}

// The slot of suspects is free again when the outcome is recorded, or cannot be.
func TestSuspectThatCannotBeRecordedDelaysItselfOnly(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(2))
		f.abandon(t, 1, ids...)
		stuck := ids[0]
		f.refuse(t, "id = '"+stuck.String()+"' AND status = 'sent'")
		start(t, f.relay(handling(acknowledge)))
		eventually(t, func() bool { return f.get(t, ids[1]).Status == outbox.StatusSent }, "the other suspect is delivered")
		require.Equal(t, outbox.StatusClaimed, f.get(t, stuck).Status)
		f.refuseNoMore(t)
		eventually(t, func() bool { return f.get(t, stuck).Status == outbox.StatusSent }, "and this one, once it can be")
	})
}

// metBefore enqueues messages that met an outage so long ago.
func (f *fixture) metBefore(t *testing.T, n int, ago time.Duration) []outbox.ID {
	t.Helper()
	ids := f.enqueue(t, plainTopic, numbers(n), outbox.After(time.Hour))
	f.exec(t, "UPDATE outbox_messages SET unavailable_since = created_at")
	f.shift(t, "unavailable_since", -ago, "unavailable_since IS NOT NULL")
	return ids
}

// However long ago a message met an outage that has ended since: the next one
// pauses the topic as the first did, and parks nobody.
func TestBlipParksNobodyWhoMetAnEarlierOutage(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		d := &flaky{retry: 100 * time.Millisecond}
		ids := f.metBefore(t, 60, 25*time.Hour)
		var l logs
		r := f.relay(handling(d.handler))
		r.Concurrency, r.Logger = 2, l.logger()
		start(t, r)
		first := f.enqueue(t, plainTopic, []string{"first"})[0]
		eventually(t, func() bool { return f.get(t, first).Status == outbox.StatusSent }, "the destination is up")
		calls := d.calls.Load()
		d.down.Store(true)
		f.makeDue(t)
		r.Wake()
		eventually(t, func() bool { return d.calls.Load() >= calls+6 }, "it is down, and probed")
		require.NotZero(t, l.count("its topic is paused"))
		d.down.Store(false)
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == len(ids)+1 }, "everything is delivered, nobody parked")
	})
}

// A relay that starts in an outage of more than MaxOutage pauses at first, too.
func TestRelayThatStartsInALongOutagePausesAtFirst(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.metBefore(t, 20, 25*time.Hour)
		f.makeDue(t)
		d := &flaky{}
		d.down.Store(true)
		r := f.relay(handling(d.handler))
		r.Concurrency = 2
		require.Zero(t, drain(t, r))
		require.LessOrEqual(t, d.calls.Load(), int64(2))
		require.Equal(t, 20, f.count(t, outbox.StatusPending))
	})
}

// A destination may ask one message to wait for years. The topic is probed after a
// minute all the same, and no other message takes over the wait.
func TestRetryAfterOfOneMessageIsNoLongPause(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		begun, long, short := make(chan string, 2), make(gate), make(gate)
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			begun <- d.Payload.ID
			if d.Payload.ID == "0" {
				long.pass(t)
				return outbox.Unavailable(outbox.RetryAfter(10_000*time.Hour, errDown))
			}
			short.pass(t)
			return outbox.Unavailable(errDown)
		}))
		var l logs
		r.Logger = l.logger()
		ids := f.enqueue(t, plainTopic, numbers(2))
		start(t, r)
		receive(t, begun, "a delivery")
		receive(t, begun, "another")
		long.open()
		eventually(t, func() bool { return l.count("next_probe_in=1m0s") == 1 }, "the pause is bounded")
		short.open()
		for _, id := range ids {
			eventually(t, func() bool { return !f.get(t, id).UnavailableSince.IsZero() }, "recorded")
		}
		m := f.get(t, ids[0])
		require.Equal(t, 10_000*time.Hour, m.AvailableAt.Sub(m.UpdatedAt), "as it was asked to")
		m = f.get(t, ids[1])
		require.LessOrEqual(t, m.AvailableAt.Sub(m.UpdatedAt), time.Minute)
	})
}

// A later answer may know better when to come back.
func TestRetryAfterOfALaterAnswerProlongsThePause(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		begun, second := make(chan struct{}, 2), make(gate)
		var l logs
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			note(begun, struct{}{})
			if d.Payload.ID == "0" {
				return outbox.Unavailable(outbox.RetryAfter(5*time.Second, errDown))
			}
			second.pass(t)
			return outbox.Unavailable(outbox.RetryAfter(45*time.Second, errDown))
		}))
		r.Logger = l.logger()
		ids := f.enqueue(t, plainTopic, numbers(2))
		start(t, r)
		eventually(t, func() bool { return l.count("its topic is paused") >= 1 && len(begun) == 2 }, "the outage is met")
		second.open()
		eventually(t, func() bool { return !f.get(t, ids[1]).UnavailableSince.IsZero() }, "recorded")
		m := f.get(t, ids[1])
		require.Equal(t, 45*time.Second, m.AvailableAt.Sub(m.UpdatedAt).Round(time.Millisecond))
	})
}

// The second outage pauses the topic as the first did, though its messages met
// the first and others got through in between.
func TestSecondOutagePausesToo(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		d := &flaky{retry: 30 * time.Second}
		f.metBefore(t, 60, 2*time.Hour)
		r := f.relay(handling(d.handler))
		r.Concurrency = 2
		count := watched(r)
		start(t, r)
		first := f.enqueue(t, plainTopic, []string{"first"})[0]
		eventually(t, func() bool { return f.get(t, first).Status == outbox.StatusSent }, "the destination is up")
		d.down.Store(true)
		f.makeDue(t)
		r.Wake()
		eventually(t, func() bool { return count("unavailable") >= 1 && f.count(t, outbox.StatusClaimed) == 0 }, "the outage is met")
		messages, err := f.store.List(t.Context(), outbox.Filter{Status: []outbox.Status{outbox.StatusPending}, Limit: 100})
		require.NoError(t, err)
		for _, m := range messages {
			require.LessOrEqual(t, m.AvailableAt.Sub(m.UpdatedAt), time.Minute, "none waits for as long as the first outage took")
		}
		require.LessOrEqual(t, d.calls.Load(), int64(1+2), "only those in flight")
	})
}

// A delivery that had begun in an outage does not bring it back when it is over.
func TestStaleAnswerPausesNothingAnew(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		slow, begun := make(gate), make(chan struct{})
		var l logs
		var calls atomic.Int64
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			switch {
			case d.Payload.ID == "1" && calls.Add(1) == 1:
				close(begun)
				slow.pass(t)
				return outbox.Unavailable(errDown)
			case d.Payload.ID == "0" && d.Message.UnavailableSince.IsZero():
				<-begun
				return outbox.Unavailable(outbox.RetryAfter(100*time.Millisecond, errDown))
			}
			return nil
		}))
		r.Logger = l.logger()
		ids := f.enqueue(t, plainTopic, numbers(2))
		start(t, r)
		eventually(t, func() bool { return l.count("is available again") == 1 }, "the outage is over")
		slow.open()
		eventually(t, func() bool { return f.get(t, ids[1]).Status == outbox.StatusSent }, "the late one is tried again")
		require.Equal(t, 1, l.count("its topic is paused"))
	})
}

// A relay knows what it has seen: others of the topic that it delivered before
// the outage are none that got through in it.
func TestRelayThatHasNotMetTheOutagePausesToo(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		d := &flaky{retry: 100 * time.Millisecond}
		var l logs
		r := f.relay(handling(d.handler))
		r.Logger = l.logger()
		start(t, r)
		first := f.enqueue(t, plainTopic, []string{"before"})[0]
		eventually(t, func() bool { return f.get(t, first).Status == outbox.StatusSent }, "before the outage")
		d.down.Store(true)
		id := f.metBefore(t, 1, 0)[0] // through another relay
		f.makeDue(t)
		r.Wake()
		var m outbox.Message
		eventually(t, func() bool {
			m = f.get(t, id)
			return m.Status == outbox.StatusPending && m.LastError != ""
		}, "this one meets it, too")
		require.Less(t, m.AvailableAt.Sub(m.UpdatedAt), 1200*time.Millisecond, "it does not wait alone, for BaseBackoff")
		require.NotZero(t, l.count("its topic is paused"))
	})
}

// Probes take a part of the slots, however many destinations are down.
func TestProbesOfManyDeadTopicsStarveNobody(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		const dead = 12
		hold := make(gate)
		var hanging atomic.Bool
		var at, most atomic.Int64
		r := f.relay(nil)
		r.Concurrency, r.Batch = 8, 8
		r.Deliver = func(_ context.Context, m outbox.Message) error {
			if m.Topic == "healthy" {
				return nil
			}
			if hanging.Load() {
				most.Store(max(most.Load(), at.Add(1)))
				defer at.Add(-1)
				hold.pass(t)
			}
			return outbox.Unavailable(outbox.RetryAfter(100*time.Millisecond, errDown))
		}
		for i := range dead {
			f.enqueue(t, topics.New[order](fmt.Sprintf("dead%d", i), nil), []string{"x"})
		}
		start(t, r)
		eventually(t, func() bool {
			return f.queryInt(t, "SELECT count(*) FROM outbox_messages WHERE unavailable_since IS NOT NULL") == dead
		}, "all are paused")
		hanging.Store(true)
		eventually(t, func() bool { return at.Load() == 2 }, "probes hang")
		for range 3 {
			id := f.enqueue(t, topics.New[order]("healthy", nil), []string{"x"})[0]
			eventually(t, func() bool { return f.get(t, id).Status == outbox.StatusSent }, "the healthy one is delivered")
		}
		require.EqualValues(t, 2, most.Load(), "a quarter of the slots")
		hanging.Store(false)
		hold.open()
	})
}

// A probe comes when it is due, whatever the Interval.
func TestProbesDoNotWaitForTheInterval(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		answer := make(gate)
		var calls atomic.Int64
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			if calls.Add(1) > 1 {
				return nil
			}
			answer.pass(t)
			return outbox.Unavailable(outbox.RetryAfter(100*time.Millisecond, errDown))
		}))
		log := &queryLog{}
		r.DB, r.Interval = f.db.WithQueryHook(log), time.Hour
		f.enqueue(t, plainTopic, numbers(2))
		r.Batch, r.Concurrency = 1, 1
		start(t, r)
		eventually(t, func() bool { return calls.Load() == 1 }, "the first is delivered")
		answer.open()
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) >= 1 }, "the next is the probe")
	})
}

// A probe that is stuck keeps its slot, and the next waits as after an outage.
func TestStuckProbeIsAnOutage(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		hold := make(gate)
		var calls atomic.Int64
		var l logs
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			if calls.Add(1) < 5 {
				return outbox.Unavailable(outbox.RetryAfter(100*time.Millisecond, errDown))
			}
			hold.pass(t)
			return outbox.Unavailable(errDown)
		}))
		r.Concurrency, r.Logger = 4, l.logger()
		r.DeliverTimeout, r.ShutdownTimeout = 2*time.Second, 3*time.Second // or those that do answer are stuck, too
		otherTopic := topics.New[order]("others", nil)
		outbox.Handle(r.Mux, otherTopic, acknowledge)
		f.enqueue(t, plainTopic, []string{"meets it"})
		start(t, r)
		eventually(t, func() bool { return l.count("its topic is paused") >= 1 }, "the outage is met")
		f.enqueue(t, plainTopic, numbers(8))
		eventually(t, func() bool { return l.count("is stuck") == 1 }, "the probe is stuck")
		id := f.enqueue(t, otherTopic, []string{"look"})[0]
		eventually(t, func() bool { return f.get(t, id).Status == outbox.StatusSent }, "another look")
		require.EqualValues(t, 5, calls.Load(), "no probe for 16 s")
		hold.open()
	})
}

// A pause without messages costs a look now and then, and less as time goes by.
func TestIdlePauseCostsLittle(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		r := f.relay(answering(outbox.Unavailable(outbox.RetryAfter(100*time.Millisecond, errDown))))
		otherTopic := topics.New[order]("others", nil)
		outbox.Handle(r.Mux, otherTopic, acknowledge)
		log := &queryLog{}
		r.DB, r.Interval = f.db.WithQueryHook(log), 2*time.Millisecond
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		start(t, r)
		eventually(t, func() bool { return !f.get(t, id).UnavailableSince.IsZero() }, "the outage is met")
		f.exec(t, "UPDATE outbox_messages SET status = 'sent', claim_token = NULL") // by another relay
		ofPaused := func(query string) bool { return isClaimLook(query) && !containsTopic(query, otherTopic.Name()) }
		all := log.looks()
		before, _ := log.that(ofPaused)
		eventually(t, func() bool { return log.looks() > all+100 }, "many looks")
		probes, _ := log.that(ofPaused)
		require.Less(t, len(probes)-len(before), 30, "of the paused topic")
	})
}
