package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Guarantee 8: parked, not deleted.

// ownWrap wraps an error in a type of its own.
type ownWrap struct{ err error }

func (w ownWrap) Error() string { return "own: " + w.err.Error() }
func (w ownWrap) Unwrap() error { return w.err }

// ownJoin wraps several.
type ownJoin []error

func (j ownJoin) Error() string   { return "several" }
func (j ownJoin) Unwrap() []error { return j }

// wrappings are the ways in which a marked error may reach the relay.
var wrappings = []struct {
	what string
	wrap func(error) error
}{
	{"bare", func(err error) error { return err }},
	{"%w", func(err error) error { return fmt.Errorf("outer: %w", err) }},
	{"%w twice", func(err error) error { return fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", err)) }},
	{"two %w", func(err error) error { return fmt.Errorf("%w and %w", errors.New("other"), err) }},
	{"errors.Join", func(err error) error { return errors.Join(errors.New("other"), err) }},
	{"a custom Unwrap", func(err error) error { return ownWrap{err} }},
	{"a custom Unwrap of several", func(err error) error { return ownJoin{errors.New("other"), ownWrap{err}} }},
}

// F23: a wrapped "discard" is retried for ever.
func TestWrappedPermanentIsParkedAtOnce(t *testing.T) {
	require.NoError(t, outbox.Permanent(nil))
	onEvery(t, func(t *testing.T, f *fixture) {
		cause := errors.New("the receiver is gone")
		for _, w := range wrappings {
			err := w.wrap(outbox.Permanent(cause))
			require.ErrorIs(t, err, cause)
			ids := f.enqueue(t, plainTopic, []string{w.what}, outbox.Header("h", "v"))
			stored := f.get(t, ids[0]).Payload
			require.Zero(t, drain(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return err }))))
			m := f.get(t, ids[0])
			require.Equal(t, outbox.StatusFailed, m.Status, w.what)
			require.Equal(t, 1, m.Attempts)
			require.Equal(t, err.Error(), m.LastError)
			require.Equal(t, string(stored), string(m.Payload))
			require.Equal(t, map[string]string{"h": "v"}, m.Headers)
			require.NotEmpty(t, m.ClaimedBy)
			require.False(t, m.ClaimedAt.IsZero())
		}
		calls := 0
		require.Zero(t, drain(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error { calls++; return nil }))))
		require.Zero(t, calls, "a parked row is not delivered")
	})
}

// F23, of RetryAfter.
func TestWrappedRetryAfterWaitsAsLongAsItSays(t *testing.T) {
	require.NoError(t, outbox.RetryAfter(time.Hour, nil))
	onEvery(t, func(t *testing.T, f *fixture) {
		cause := errors.New("busy")
		for _, w := range wrappings {
			err := w.wrap(outbox.RetryAfter(3*time.Hour, cause))
			require.ErrorIs(t, err, cause)
			ids := f.enqueue(t, plainTopic, []string{w.what})
			require.Zero(t, drain(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return err }))))
			m := f.get(t, ids[0])
			require.Equal(t, outbox.StatusPending, m.Status, w.what)
			require.Equal(t, 1, m.Attempts, "the attempt counts")
			require.Equal(t, 3*time.Hour, m.AvailableAt.Sub(m.UpdatedAt), w.what)
			require.Contains(t, m.LastError, strings.Split(err.Error(), "\n")[0])
		}
	})
}

func TestParkedPermanentBeatsRetryAfter(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		for i, err := range []error{
			outbox.Permanent(outbox.RetryAfter(time.Hour, errors.New("no"))),
			outbox.RetryAfter(time.Hour, outbox.Permanent(errors.New("no"))),
			errors.Join(outbox.RetryAfter(time.Hour, errors.New("no")), outbox.Permanent(errors.New("no"))),
		} {
			ids := f.enqueue(t, plainTopic, []string{"a"})
			drain(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return err })))
			require.Equal(t, outbox.StatusFailed, f.get(t, ids[0]).Status, "error %d", i)
		}
	})
}

func TestParkedAfterMaxAttempts(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		otherTopic := topics.New[order]("others", nil)
		for _, result := range []error{errors.New("no"), outbox.RetryAfter(time.Hour, errors.New("no"))} {
			own := f.enqueue(t, plainTopic, []string{"a"})[0]
			relays := f.enqueue(t, otherTopic, []string{"b"})[0]
			fail := func(context.Context, outbox.Delivery[order]) error { return result }
			mux := handling(fail, outbox.MaxAttempts(2))
			outbox.Handle(mux, otherTopic, fail)
			r := f.relay(mux)
			r.MaxAttempts, r.BaseBackoff = 3, time.Hour
			for n := 1; n <= 4; n++ {
				require.Zero(t, drain(t, r))
				for id, limit := range map[outbox.ID]int{own: 2, relays: 3} {
					m := f.get(t, id)
					require.Equal(t, min(n, limit), m.Attempts)
					require.Equal(t, n >= limit, m.Status == outbox.StatusFailed, "after attempt %d of %d: %s", n, limit, m.Status)
				}
				f.makeDue(t)
			}
		}
	})
}

func TestParkedAfterTwelveAttemptsByDefault(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return errors.New("no") }))
		r.BaseBackoff = time.Hour
		for n := 1; n <= 12; n++ {
			require.Equal(t, outbox.StatusPending, f.get(t, id).Status, "before attempt %d", n)
			f.makeDue(t)
			drain(t, r)
		}
		require.Equal(t, outbox.StatusFailed, f.get(t, id).Status)
		require.Equal(t, 12, f.get(t, id).Attempts)
	})
}

// Retry grants a fresh budget, as often as asked.
func TestParkedRetryGrantsAFreshBudget(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"a"}, outbox.Key("k"))[0]
		var calls atomic.Int64
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
			return fmt.Errorf("no %d", calls.Add(1))
		}))
		r.MaxAttempts, r.BaseBackoff = 2, time.Hour
		for round := 1; round <= 4; round++ {
			for n := 1; n <= 2; n++ {
				require.Equal(t, outbox.StatusPending, f.get(t, id).Status)
				drain(t, r)
				require.Equal(t, n, f.get(t, id).Attempts)
				f.makeDue(t)
			}
			m := f.get(t, id)
			require.Equal(t, outbox.StatusFailed, m.Status)
			require.Equal(t, fmt.Sprint("no ", 2*round), m.LastError)

			n, err := f.store.Retry(t.Context(), outbox.Filter{IDs: []outbox.ID{id}})
			require.NoError(t, err)
			require.Equal(t, 1, n)
			again := f.get(t, id)
			require.Equal(t, outbox.StatusPending, again.Status)
			require.Zero(t, again.Attempts)
			require.Equal(t, again.UpdatedAt, again.AvailableAt, "due now")
			require.Equal(t, m.LastError, again.LastError, "the evidence stays")
			require.Equal(t, m.Payload, again.Payload)
			require.Equal(t, "k", again.Key)
			n, err = f.store.Retry(t.Context(), outbox.Filter{IDs: []outbox.ID{id}})
			require.NoError(t, err)
			require.Zero(t, n, "a pending one is not retried")
		}
		require.EqualValues(t, 8, calls.Load())
	})
}

func TestParkedDiscardKeepsTheRowWithItsReason(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		pending := f.enqueue(t, plainTopic, []string{"pending"}, outbox.After(time.Hour))[0]
		failed := f.enqueue(t, plainTopic, []string{"failed"})[0]
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return outbox.Permanent(errors.New("no")) }))
		drain(t, r)

		ids := []outbox.ID{pending, failed}
		for _, reason := range []string{"", "  \n\t"} {
			n, err := f.store.Discard(t.Context(), outbox.Filter{IDs: ids}, reason)
			require.ErrorContains(t, err, "needs a reason")
			require.Zero(t, n)
		}
		n, err := f.store.Discard(t.Context(), outbox.Filter{IDs: ids}, "obsolete\x00\xff")
		require.NoError(t, err)
		require.Equal(t, 1, n, "by default failed ones only")
		m := f.get(t, failed)
		require.Equal(t, outbox.StatusDiscarded, m.Status)
		require.Equal(t, "obsolete��", m.LastError)
		require.Equal(t, 1, m.Attempts)
		require.JSONEq(t, `{"id":"failed"}`, string(m.Payload))
		require.Equal(t, outbox.StatusPending, f.get(t, pending).Status)

		n, err = f.store.Discard(t.Context(), outbox.Filter{IDs: ids, Status: []outbox.Status{outbox.StatusPending}}, "too late")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, "too late", f.get(t, pending).LastError)
		f.makeDue(t)
		require.Zero(t, drain(t, r))
		require.Equal(t, 2, f.count(t, outbox.StatusDiscarded))

		n, err = f.store.Retry(t.Context(), outbox.Filter{IDs: ids, Status: []outbox.Status{outbox.StatusDiscarded}})
		require.NoError(t, err)
		require.Equal(t, 2, n, "what was discarded comes back when asked for")
		require.Equal(t, 2, drain(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))))
	})
}

// F24: the oldest dead letters vanish. Only what is done is ever swept, whatever
// the age.
func TestSweepLetsNoDeadLetterVanish(t *testing.T) {
	onEveryClock(t, func(t *testing.T, f *fixture) {
		f.mayVanish, f.mayStayClaimed = true, true
		for _, status := range []outbox.Status{
			outbox.StatusPending, outbox.StatusClaimed, outbox.StatusFailed, outbox.StatusSent, outbox.StatusDiscarded,
		} {
			for _, id := range f.enqueue(t, plainTopic, numbers(3)) {
				token := "NULL"
				if status == outbox.StatusClaimed {
					token = "'" + id.String() + "'"
				}
				f.exec(t, fmt.Sprintf("UPDATE outbox_messages SET status = '%s', claim_token = %s WHERE id = '%s'", status, token, id))
			}
		}
		for _, age := range []time.Duration{0, -1, -time.Hour} {
			n, err := f.store.Sweep(t.Context(), age)
			require.ErrorContains(t, err, "positive age")
			require.Zero(t, n)
		}
		n, err := f.store.Sweep(t.Context(), time.Hour)
		require.NoError(t, err)
		require.Zero(t, n, "nothing is that old")
		require.Equal(t, 15, f.rows(t))

		f.shift(t, "updated_at", -90*time.Minute, "true")
		n, err = f.store.Sweep(t.Context(), 2*time.Hour)
		require.NoError(t, err)
		require.Zero(t, n)
		n, err = f.store.Sweep(t.Context(), time.Hour)
		require.NoError(t, err)
		require.Equal(t, 6, n)
		for _, status := range []outbox.Status{outbox.StatusPending, outbox.StatusClaimed, outbox.StatusFailed} {
			require.Equal(t, 3, f.count(t, status), status)
		}
		n, err = f.store.Sweep(t.Context(), time.Nanosecond)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, 9, f.rows(t))
	})
}

// F44: last_error is valid UTF-8, free of NUL and at most 8 KiB.
func TestParkedReasonsAreCleaned(t *testing.T) {
	const limit = 8 << 10
	reasons := []struct{ reason, want string }{
		{"plain", "plain"},
		{"a\x00b", "a�b"},
		{"a\xffb", "a�b"},
		{"\x00\xff\x00", "���"},
		{strings.Repeat("x", limit), strings.Repeat("x", limit)},
		{strings.Repeat("x", limit+1), strings.Repeat("x", limit)},
		{strings.Repeat("\xff", limit), "�"},
		{strings.Repeat("\x00", limit), strings.Repeat("�", limit/3)},
	}
	for _, r := range []rune{'ü', '€', '🜁'} {
		n := utf8.RuneLen(r)
		for cut := range n { // the limit falls behind cut bytes of a rune
			pad := strings.Repeat("x", (limit-cut)%n)
			whole := strings.Repeat(string(r), (limit-len(pad))/n)
			reasons = append(reasons, struct{ reason, want string }{pad + whole + string(r) + string(r), pad + whole})
		}
	}
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(len(reasons)))
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			var i int
			_, err := fmt.Sscan(d.Payload.ID, &i)
			require.NoError(t, err)
			return errors.New(reasons[i].reason)
		}))
		r.MaxAttempts = 1
		drain(t, r)
		for i, id := range ids {
			m := f.get(t, id)
			require.Equal(t, outbox.StatusFailed, m.Status, "reason %d", i)
			require.True(t, m.LastError == reasons[i].want, "reason %d of %d bytes ends in %q", i, len(m.LastError), m.LastError[max(0, len(m.LastError)-12):])
		}
	})
}
