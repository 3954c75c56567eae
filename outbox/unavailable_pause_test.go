package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Unavailable: the topic pauses and is probed, instead of being walked through.

// flaky is a destination that can be down.
type flaky struct {
	down    atomic.Bool
	retry   time.Duration // what it says about the next try
	calls   atomic.Int64
	reached atomic.Int64
	pair    chan struct{} // if set, the second and the third that get through wait for each other
	at      atomic.Int64  // deliveries in progress
	mu      sync.Mutex
	most    int64
}

func (d *flaky) deliver() error {
	now := d.at.Add(1)
	defer d.at.Add(-1)
	down := d.down.Load() // before the count, so that who waits for the call may change it
	d.calls.Add(1)
	d.mu.Lock()
	d.most = max(d.most, now)
	d.mu.Unlock()
	if down {
		return outbox.Unavailable(outbox.RetryAfter(d.retry, errDown))
	}
	if n := d.reached.Add(1); d.pair != nil && (n == 2 || n == 3) {
		select { // the two must run at once
		case d.pair <- struct{}{}:
		case <-d.pair:
		case <-time.After(patience):
			return errors.New("nobody else is delivered at the same time")
		}
	}
	return nil
}

// atOnce returns how many deliveries ran at once since the last call.
func (d *flaky) atOnce() (most int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	most, d.most = d.most, 0
	return most
}

func (d *flaky) handler(context.Context, outbox.Delivery[order]) error {
	return d.deliver()
}

func TestProbesGrow(t *testing.T) {
	for n := 1; n <= 1000; n++ {
		want := min(time.Second<<min(n-1, 10), time.Minute)
		require.InDelta(t, want, outbox.ProbeWait(n), float64(want)/10+1, "outage %d in a row", n)
	}
}

func TestOutageOfADestinationDoesNotWalkThroughTheBacklog(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		d := &flaky{retry: 100 * time.Millisecond, pair: make(chan struct{})}
		d.down.Store(true)
		ids := f.enqueue(t, plainTopic, numbers(150))
		due := map[outbox.ID]time.Time{}
		for _, id := range ids {
			due[id] = f.get(t, id).AvailableAt
		}
		var l logs
		r := f.relay(handling(d.handler))
		r.Batch, r.Concurrency, r.Interval, r.Logger = 50, 5, 10*time.Millisecond, l.logger()
		begun := time.Now()
		start(t, r)
		eventually(t, func() bool { return d.calls.Load() >= 5 && f.count(t, outbox.StatusClaimed) == 0 }, "the outage is met by all in flight")
		met := d.calls.Load()
		eventually(t, func() bool { return d.calls.Load() >= met+5 }, "probes")
		d.atOnce()
		eventually(t, func() bool { return d.calls.Load() >= met+8 }, "more probes")
		require.EqualValues(t, 1, d.atOnce(), "one probe at a time")
		logged := l.count("its topic is paused")
		lines := 1 + bits.Len(uint(time.Since(begun)/time.Second)) // at 0 s, 1 s, 3 s, 7 s
		require.LessOrEqual(t, logged, lines, "logged at once and at doubling intervals")

		tried := 0
		for _, id := range ids {
			m := f.get(t, id)
			if m.Status == outbox.StatusClaimed { // the probe of this moment
				tried++
				continue
			}
			require.Equal(t, outbox.StatusPending, m.Status)
			require.Zero(t, m.Attempts)
			if m.UnavailableSince.IsZero() {
				require.Equal(t, due[id], m.AvailableAt, "what was not tried is due as it was")
			} else {
				tried++
			}
		}
		calls := d.calls.Load()
		require.LessOrEqual(t, calls, 5+int64(time.Since(begun)/d.retry), "those in flight, and a probe each time that it asked for")
		require.LessOrEqual(t, int64(tried), calls+1, "and one that is just claimed")

		d.down.Store(false)
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == len(ids) }, "everything is delivered")
		require.Equal(t, 1, l.count("is available again"))
		for _, id := range ids {
			m := f.get(t, id)
			require.Equal(t, 1, m.Attempts)
			require.Zero(t, m.UnavailableSince)
		}
	})
}

func TestOutageOfADestinationConcernsItsTopicAndAliasesOnly(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		d := &flaky{retry: time.Hour}
		d.down.Store(true)
		former := topics.New[order]("orders.former", nil)
		current := topics.New("orders.current", &topics.Options[order]{Aliases: []string{"orders.former"}})
		mux := outbox.NewMux()
		outbox.Handle(mux, current, d.handler)
		outbox.Handle(mux, plainTopic, acknowledge)
		r := f.relay(mux)
		start(t, r)
		f.enqueue(t, former, []string{"meets it"})
		eventually(t, func() bool { return d.calls.Load() == 1 && f.count(t, outbox.StatusClaimed) == 0 }, "the outage is met")

		held := f.enqueue(t, current, []string{"a"})[0]
		alias := f.enqueue(t, former, []string{"b"})[0]
		other := f.enqueue(t, plainTopic, []string{"c"})[0]
		eventually(t, func() bool { return f.get(t, other).Status == outbox.StatusSent }, "the other topic flows")
		for _, id := range []outbox.ID{held, alias} {
			require.Equal(t, outbox.StatusPending, f.get(t, id).Status)
			require.Zero(t, f.get(t, id).Attempts)
		}
		require.EqualValues(t, 1, d.calls.Load())
	})
}

// A relay with one raw function pauses the topics of its prefix one by one.
func TestOutageOfARawDestinationPausesTopicByTopic(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		const short, long, none = 0, 1, 2
		var down atomic.Int64 // short
		var calls [3]atomic.Int64
		dead, alive := topics.New[order]("raw.dead", nil), topics.New[order]("raw.zalive", nil)
		r := f.relay(nil)
		r.TopicPrefix = "raw."
		r.Deliver = func(_ context.Context, m outbox.Message) error {
			if m.Topic != dead.Name() {
				return nil
			}
			kind := down.Load()
			calls[kind].Add(1)
			switch kind {
			case short:
				return outbox.Unavailable(outbox.RetryAfter(100*time.Millisecond, errDown))
			case long:
				return outbox.Unavailable(outbox.RetryAfter(time.Second, errDown))
			}
			return nil
		}
		look := func(what string) {
			id := f.enqueue(t, alive, []string{what})[0]
			eventually(t, func() bool { return f.get(t, id).Status == outbox.StatusSent }, "the other topic flows: %s", what)
		}
		f.enqueue(t, dead, numbers(3))
		start(t, r)
		eventually(t, func() bool { return calls[short].Load() >= 5 }, "the outage is met and probed")
		look("beside the outage")

		down.Store(long)
		eventually(t, func() bool { return calls[long].Load() >= 1 && f.count(t, outbox.StatusClaimed) == 0 }, "a long pause")
		before := calls[long].Load()
		held := f.enqueue(t, dead, []string{"held"})[0]
		look("a look while the topic is paused")
		if m := f.get(t, held); m.Status == outbox.StatusPending && calls[long].Load() == before { // it is no probe yet
			require.Equal(t, m.CreatedAt, m.UpdatedAt, "it was not even claimed")
		}
		down.Store(none)
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 6 }, "the dead one is alive")
	})
}

// Only a delivery that began after the outage was met says anything new.
func TestOutageOfADestinationIsNotEndedByWhatWasInFlight(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		old, stillDown, begun := make(gate), make(gate), make(chan string, 10)
		var calls atomic.Int64
		mux := handling(func(_ context.Context, d outbox.Delivery[order]) error {
			calls.Add(1)
			begun <- d.Payload.ID
			switch d.Payload.ID {
			case "0":
				old.pass(t)
				return nil
			case "1":
				stillDown.pass(t)
			}
			return outbox.Unavailable(outbox.RetryAfter(time.Hour, errDown))
		})
		otherTopic := topics.New[order]("others", nil)
		outbox.Handle(mux, otherTopic, acknowledge)
		var l logs
		r := f.relay(mux)
		r.Logger = l.logger()
		ids := f.enqueue(t, plainTopic, numbers(3))
		start(t, r)
		for range ids {
			receive(t, begun, "a delivery")
		}
		eventually(t, func() bool { return l.count("its topic is paused") == 1 }, "the outage is met")
		old.open()
		eventually(t, func() bool { return f.get(t, ids[0]).Status == outbox.StatusSent }, "the old delivery is recorded")
		stillDown.open()
		eventually(t, func() bool { return !f.get(t, ids[1]).UnavailableSince.IsZero() }, "and the other")

		held := f.enqueue(t, plainTopic, []string{"held"})[0]
		other := f.enqueue(t, otherTopic, []string{"c"})[0]
		eventually(t, func() bool { return f.get(t, other).Status == outbox.StatusSent }, "a look that leaves the topic out")
		require.Equal(t, outbox.StatusPending, f.get(t, held).Status)
		require.EqualValues(t, 3, calls.Load())
		require.Zero(t, l.count("is available again"))
		m := f.get(t, ids[1])
		require.InDelta(t, time.Hour, m.AvailableAt.Sub(m.UpdatedAt), float64(patience), "due at the next probe")
	})
}

// What ends a pause is an answer of the destination.
func TestOutageOfADestinationEndsWithAnyOtherAnswer(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		for _, answer := range []error{nil, errors.New("no"), outbox.Permanent(errors.New("no"))} {
			var l logs
			var calls atomic.Int64
			r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
				if calls.Add(1) == 1 {
					return outbox.Unavailable(outbox.RetryAfter(100*time.Millisecond, errDown))
				}
				return answer
			}))
			r.Logger = l.logger()
			f.enqueue(t, plainTopic, []string{fmt.Sprint(answer)})
			stop := start(t, r)
			eventually(t, func() bool { return l.count("is available again") == 1 }, "%v ends it", answer)
			require.NoError(t, stop())
		}
	})
}

// A payload that does not decode never gets to the destination.
func TestOutageOfADestinationIsNotEndedByAnUndecodablePayload(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		var l logs
		r := f.relay(answering(outbox.Unavailable(outbox.RetryAfter(100*time.Millisecond, errDown))))
		r.Logger, r.MaxAttempts = l.logger(), 1
		f.enqueue(t, plainTopic, []string{"a"})
		start(t, r)
		eventually(t, func() bool { return l.count("its topic is paused") >= 1 }, "the outage is met")
		corrupt := f.enqueue(t, plainTopic, []string{"corrupt"}, outbox.After(time.Hour))[0]
		f.exec(t, "UPDATE outbox_messages SET payload = '[1]' WHERE id = ?", corrupt)
		f.shift(t, "available_at", -24*time.Hour, "id = '"+corrupt.String()+"'")
		r.Wake()
		eventually(t, func() bool { return f.get(t, corrupt).Status == outbox.StatusFailed }, "it is a probe")
		require.Zero(t, l.count("is available again"))
	})
}

// A drain does not wait for a destination.
func TestDrainLeavesATopicWhoseDestinationIsDown(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		d := &flaky{retry: 100 * time.Millisecond}
		d.down.Store(true)
		f.enqueue(t, plainTopic, numbers(50))
		r := f.relay(handling(d.handler))
		r.Concurrency = 4
		require.Zero(t, drain(t, r))
		require.LessOrEqual(t, d.calls.Load(), int64(4))
		require.Equal(t, 50, f.count(t, outbox.StatusPending))
		d.down.Store(false)
		f.makeDue(t)
		require.Equal(t, 50, drain(t, r))
	})
}

// A message whose lease has ended is taken over by a probe, too.
func TestOutageOfADestinationIsProbedWithASuspectAlone(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		d := &flaky{retry: 100 * time.Millisecond}
		d.down.Store(true)
		f.enqueue(t, plainTopic, []string{"a"})
		r := f.relay(handling(d.handler))
		start(t, r)
		eventually(t, func() bool { return d.calls.Load() >= 1 }, "the outage is met")
		suspect := f.enqueue(t, plainTopic, []string{"suspect"}, outbox.After(time.Hour))[0]
		f.abandon(t, 2, suspect)
		var m outbox.Message
		eventually(t, func() bool {
			m = f.get(t, suspect)
			return m.Status == outbox.StatusPending
		}, "it was delivered")
		require.Equal(t, 2, m.Attempts)
		d.down.Store(false)
		f.shift(t, "available_at", -24*time.Hour, "id = '"+suspect.String()+"'")
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 2 }, "both are sent")
	})
}

// However many deliveries meet an outage at once, it is one: the next probe is
// not put off by each.
func TestOutageOfADestinationThatManyMeetAtOnceIsOne(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		var all sync.WaitGroup
		all.Add(10)
		ids := f.enqueue(t, plainTopic, numbers(10))
		drain(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			all.Done()
			all.Wait()
			return outbox.Unavailable(errDown)
		})))
		for _, id := range ids {
			m := f.get(t, id)
			require.LessOrEqual(t, m.AvailableAt.Sub(m.UpdatedAt), 1100*time.Millisecond)
		}
	})
}

// The next probe waits for the outcome of this one, however long it takes.
func TestOutageOfADestinationIsProbedByOneMessageAtATime(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		hold, begun := make(gate), make(chan struct{}, 10)
		var calls atomic.Int64
		mux := handling(func(context.Context, outbox.Delivery[order]) error {
			if calls.Add(1) > 1 {
				note(begun, struct{}{})
				hold.pass(t)
			}
			return outbox.Unavailable(outbox.RetryAfter(100*time.Millisecond, errDown))
		})
		otherTopic := topics.New[order]("others", nil)
		outbox.Handle(mux, otherTopic, acknowledge)
		r := f.relay(mux)
		r.Concurrency, r.Batch = 3, 1
		first := f.enqueue(t, plainTopic, []string{"meets it"})[0]
		start(t, r)
		eventually(t, func() bool { return !f.get(t, first).UnavailableSince.IsZero() }, "the outage is met")
		f.enqueue(t, plainTopic, numbers(5))
		receive(t, begun, "a probe")
		for i := range 3 {
			id := f.enqueue(t, otherTopic, []string{fmt.Sprint(i)})[0]
			eventually(t, func() bool { return f.get(t, id).Status == outbox.StatusSent }, "another look")
		}
		require.EqualValues(t, 2, calls.Load(), "no second probe beside the first")
		hold.open()
		receive(t, begun, "the next probe")
	})
}

// A drain that goes on for another topic's sake does not probe either.
func TestDrainDoesNotProbe(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		var calls atomic.Int64
		mux := handling(func(context.Context, outbox.Delivery[order]) error {
			calls.Add(1)
			return outbox.Unavailable(outbox.RetryAfter(100*time.Millisecond, errDown))
		})
		down := f.enqueue(t, plainTopic, []string{"down"})[0]
		slowTopic := topics.New[order]("slow", nil)
		outbox.Handle(mux, slowTopic, func(context.Context, outbox.Delivery[order]) error {
			eventually(t, func() bool { return !f.get(t, down).UnavailableSince.IsZero() }, "the outage is met")
			eventually(t, func() bool {
				stats, err := f.store.Stats(t.Context())
				return err == nil && stats.OldestDue() > 100*time.Millisecond
			}, "the message is due again")
			return nil
		})
		f.enqueue(t, slowTopic, []string{"slow"})
		require.Equal(t, 1, drain(t, f.relay(mux)))
		require.EqualValues(t, 1, calls.Load())
	})
}
