package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Unavailable: an outage of the destination is no fault of the message. What
// becomes of the message; the pause of its topic is in unavailable_pause_test.go.

// errDown is what a handler gets from a destination that is down.
var errDown = errors.New("connection refused")

// answering returns a Mux whose handler of plainTopic always answers err.
func answering(err error) *outbox.Mux {
	return handling(func(context.Context, outbox.Delivery[order]) error { return err })
}

func TestUnavailableSpendsNoAttempt(t *testing.T) {
	require.NoError(t, outbox.Unavailable(nil))
	onEvery(t, func(t *testing.T, f *fixture) {
		for _, w := range wrappings {
			err := w.wrap(outbox.Unavailable(errDown))
			require.ErrorIs(t, err, errDown)
			id := f.enqueue(t, plainTopic, []string{w.what})[0]
			r := f.relay(answering(err))
			r.MaxAttempts = 1 // which would be the last
			count := watched(r)
			require.Zero(t, drain(t, r))

			m := f.get(t, id)
			require.Equal(t, outbox.StatusPending, m.Status, w.what)
			require.Zero(t, m.Attempts, w.what)
			require.Equal(t, err.Error(), m.LastError)
			require.Equal(t, m.UpdatedAt, m.UnavailableSince)
			require.InDelta(t, time.Second, m.AvailableAt.Sub(m.UpdatedAt), float64(100*time.Millisecond), "due at the first probe")
			require.Equal(t, 1, count("unavailable"))
			require.Zero(t, count("failed"))
			require.Zero(t, count("parked"))
			f.exec(t, "UPDATE outbox_messages SET status = 'sent'") // or it is due again in a second
		}
	})
}

func TestUnavailableLastsUntilAHandlerReturnsAnythingElse(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		for _, c := range []struct {
			what   string
			err    error
			status outbox.Status
		}{
			{"nil", nil, outbox.StatusSent},
			{"an ordinary error", errors.New("no"), outbox.StatusPending},
			{"a permanent error", outbox.Permanent(errors.New("no")), outbox.StatusFailed},
		} {
			id := f.enqueue(t, plainTopic, []string{c.what})[0]
			drain(t, f.relay(answering(outbox.Unavailable(errDown))))
			f.makeDue(t)
			f.shift(t, "unavailable_since", -time.Hour, "unavailable_since IS NOT NULL")
			first := f.get(t, id).UnavailableSince
			drain(t, f.relay(answering(outbox.Unavailable(errDown))))
			require.Equal(t, first, f.get(t, id).UnavailableSince, "counted from the first time")

			f.makeDue(t)
			drain(t, f.relay(answering(c.err)))
			m := f.get(t, id)
			require.Equal(t, c.status, m.Status, c.what)
			require.Equal(t, 1, m.Attempts, "the first that counts")
			require.Zero(t, m.UnavailableSince, c.what)
			f.exec(t, "UPDATE outbox_messages SET status = 'sent' WHERE status <> 'sent'")
		}
	})
}

func TestUnavailableForLongerThanMaxOutageParks(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		require.Equal(t, 24*time.Hour, outbox.MaxOutageOf(f.relay(answering(nil))), "by default")
		for _, c := range []struct {
			what      string
			max, down time.Duration
			parked    bool
		}{
			{"long enough", 300 * time.Millisecond, time.Hour, true},
			{"not yet", time.Hour, 59 * time.Minute, false},
		} {
			id := f.enqueue(t, plainTopic, []string{c.what})[0]
			drain(t, f.relay(answering(outbox.Unavailable(errDown))))
			require.Equal(t, 1, f.shift(t, "unavailable_since", -c.down, "unavailable_since IS NOT NULL"))
			f.makeDue(t)
			r := f.relay(answering(outbox.Unavailable(outbox.RetryAfter(100*time.Millisecond, errDown))))
			r.MaxOutage = c.max
			count := watched(r)
			stop := start(t, r)
			eventually(t, func() bool { return count("unavailable") >= 6 || f.get(t, id).Status == outbox.StatusFailed }, "%s: probes", c.what)
			require.NoError(t, stop())
			m := f.get(t, id)
			if c.parked {
				require.Equal(t, outbox.StatusFailed, m.Status, c.what)
				require.Greater(t, count("unavailable"), 1, "not by the first that it meets")
				require.Contains(t, m.LastError, "MaxOutage")
				require.Contains(t, m.LastError, errDown.Error())
				require.Zero(t, m.UnavailableSince)
				n, err := f.store.Retry(t.Context(), outbox.Filter{IDs: []outbox.ID{id}})
				require.NoError(t, err)
				require.Equal(t, 1, n)
				drain(t, f.relay(answering(outbox.Unavailable(errDown))))
				m = f.get(t, id)
			}
			require.Equal(t, outbox.StatusPending, m.Status, c.what)
			require.Zero(t, m.Attempts, c.what)
			f.exec(t, "DELETE FROM outbox_messages")
			f.mayVanish = true
		}
	})
}

// A message that blames its destination in vain for longer than MaxOutage is
// parked, too, though the topic is never paused for so long.
func TestUnavailableInVainForLongerThanMaxOutageParks(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			if d.Payload.ID == "bad" {
				return outbox.Unavailable(errDown)
			}
			return nil
		}))
		r.BaseBackoff = 100 * time.Millisecond
		bad := f.enqueue(t, plainTopic, []string{"bad"})[0]
		start(t, r)
		for n := 0; f.get(t, bad).Status != outbox.StatusFailed; n++ {
			require.Less(t, n, 100, "parked after a few tries")
			id := f.enqueue(t, plainTopic, []string{fmt.Sprint(n)})[0]
			eventually(t, func() bool { return f.get(t, id).Status == outbox.StatusSent }, "others get through")
			f.shift(t, "unavailable_since", -25*time.Hour, "status = 'pending' AND unavailable_since IS NOT NULL")
			f.makeDue(t)
			r.Wake()
		}
		require.Contains(t, f.get(t, bad).LastError, "MaxOutage")
	})
}

// Retry also clears it of what was given up while its destination was down.
func TestUnavailableIsForgottenByRetryOfADiscardedMessage(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		drain(t, f.relay(answering(outbox.Unavailable(errDown))))
		only := outbox.Filter{IDs: []outbox.ID{id}, Status: []outbox.Status{outbox.StatusPending}}
		_, err := f.store.Discard(t.Context(), only, "nobody waits for it")
		require.NoError(t, err)
		only.Status = []outbox.Status{outbox.StatusDiscarded}
		_, err = f.store.Retry(t.Context(), only)
		require.NoError(t, err)
		require.Zero(t, f.get(t, id).UnavailableSince)
	})
}

func TestUnavailableGivesWayToPermanentAndTakesRetryAfter(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		for i, err := range []error{
			outbox.Permanent(outbox.Unavailable(errDown)),
			outbox.Unavailable(outbox.Permanent(errDown)),
			errors.Join(outbox.Unavailable(errDown), outbox.Permanent(errDown)),
		} {
			id := f.enqueue(t, plainTopic, []string{fmt.Sprint(i)})[0]
			drain(t, f.relay(answering(err)))
			require.Equal(t, outbox.StatusFailed, f.get(t, id).Status, "error %d", i)
		}
		for i, err := range []error{
			outbox.Unavailable(outbox.RetryAfter(3*time.Hour, errDown)),
			outbox.RetryAfter(3*time.Hour, outbox.Unavailable(errDown)),
		} {
			id := f.enqueue(t, plainTopic, []string{fmt.Sprint(i)})[0]
			drain(t, f.relay(answering(err)))
			m := f.get(t, id)
			require.Zero(t, m.Attempts)
			require.Equal(t, 3*time.Hour, m.AvailableAt.Sub(m.UpdatedAt))
		}
	})
}

// A message whose lease had ended has shown that it kills nobody.
func TestUnavailableSuspectIsAnOrdinaryMessageAgain(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		f.abandon(t, 3, id)
		drain(t, f.relay(answering(outbox.Unavailable(errDown))))
		m := f.get(t, id)
		require.Equal(t, outbox.StatusPending, m.Status)
		require.Equal(t, 3, m.Attempts, "the attempt that killed its relay counts, this one does not")
		require.Empty(t, f.token(t, id))
	})
}

// An error of a handler that a shutdown has cut off says nothing about its
// destination.
func TestUnavailableInAShutdownIsARelease(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		due := f.get(t, id).AvailableAt
		begun := make(chan struct{}, 1)
		r := f.relay(handling(func(ctx context.Context, _ outbox.Delivery[order]) error {
			note(begun, struct{}{})
			<-ctx.Done()
			return outbox.Unavailable(ctx.Err())
		}))
		r.ShutdownTimeout = 5 * time.Second // also to record it
		stop := start(t, r)
		receive(t, begun, "a delivery")
		require.NoError(t, stop())
		m := f.get(t, id)
		require.Equal(t, outbox.StatusPending, m.Status)
		require.Zero(t, m.Attempts)
		require.Equal(t, due, m.AvailableAt)
		require.Zero(t, m.UnavailableSince)
	})
}

// A message that blames its destination in vain waits alone, longer each time.
func TestUnavailableWhileOthersGetThroughConcernsTheMessageAlone(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		var l logs
		bad := f.enqueue(t, plainTopic, []string{"bad"}, outbox.After(time.Hour))[0]
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			if d.Payload.ID == "bad" {
				return outbox.Unavailable(errDown)
			}
			return nil
		}))
		r.Logger, r.Interval = l.logger(), 10*time.Millisecond
		r.BaseBackoff = 10 * time.Minute
		start(t, r)
		through := func(what string) {
			id := f.enqueue(t, plainTopic, []string{what})[0]
			eventually(t, func() bool { return f.get(t, id).Status == outbox.StatusSent }, "%s is delivered", what)
		}
		again := func() outbox.Message {
			before := f.get(t, bad).UpdatedAt
			f.makeDue(t)
			r.Wake()
			eventually(t, func() bool {
				m := f.get(t, bad)
				return m.Status == outbox.StatusPending && m.LastError != "" && m.UpdatedAt.After(before)
			}, "the bad one is tried")
			return f.get(t, bad)
		}
		through("first")
		again()
		require.NotZero(t, l.count("its topic is paused"), "the first time it is believed")
		through("probe")
		eventually(t, func() bool { return l.count("only this message waits") == 1 }, "it is due again by itself")
		eventually(t, func() bool { return f.get(t, bad).Status == outbox.StatusPending }, "that is recorded")
		through("before")

		paused := l.count("its topic is paused") // once more if it was the probe
		for _, hours := range []time.Duration{0, 1, 3} {
			f.shift(t, "unavailable_since", -hours*time.Hour, "unavailable_since IS NOT NULL")
			m := again()
			total := m.ClaimedAt.Sub(m.UnavailableSince)
			want := min(max(total, r.BaseBackoff), 30*time.Minute) // MaxBackoff
			require.InDelta(t, want, m.AvailableAt.Sub(m.UpdatedAt), float64(want/10+time.Second), "after %v", total)
			require.Zero(t, m.Attempts)
			require.Equal(t, paused, l.count("its topic is paused"), "not again")
			through(fmt.Sprint("flows ", hours))
		}
		require.Equal(t, 4, l.count("only this message waits"))
	})
}

// Rows that another hand has written may have any topic.
func TestUnavailableOfATopicThatIsNoName(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, topics.New[order]("raw.topic", nil), []string{"a"})[0]
		r := &outbox.Relay{DB: f.db, Deliver: func(context.Context, outbox.Message) error { return outbox.Unavailable(errDown) }, Logger: f.relay(nil).Logger}
		if f.postgres { // SQLite's claim knows only names
			f.exec(t, "UPDATE outbox_messages SET topic = ? WHERE id = ?", "it's one? 100%", id)
		}
		drain(t, r)
		m := f.get(t, id)
		require.Equal(t, outbox.StatusPending, m.Status)
		require.Zero(t, m.Attempts)
		require.NotZero(t, m.UnavailableSince)
	})
}
