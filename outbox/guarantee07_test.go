package outbox_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 7: backoff.

const (
	leastBackoff = 100 * time.Millisecond
	century      = 100 * 365 * 24 * time.Hour // the longest cap that Start accepts
)

// requireBackoff checks one wait against the formula, computed here in floating
// point: min(base * 2^(n-1), limit) and 10 % either way, within its bounds.
func requireBackoff(t *testing.T, n int, base, limit time.Duration) {
	exact := math.Min(float64(base)*math.Pow(2, float64(n-1)), float64(limit))
	got := outbox.Backoff(n, base, limit)
	low := math.Max(exact*0.9, float64(leastBackoff)) * (1 - 1e-9)
	high := math.Max(exact*1.1, float64(leastBackoff)) * (1 + 1e-9)
	ok := got >= leastBackoff && got <= limit && float64(got)+1 >= low && float64(got)-1 <= high
	if !ok { // require is slow, and this runs often
		require.FailNow(t, "backoff out of bounds", "%v after attempt %d with base %v and cap %v; want %v to %v",
			got, n, base, limit, time.Duration(low), time.Duration(high))
	}
}

// F20: a float truncates to zero, and the retries are a hot loop.
func TestBackoffNeverTruncatesToAHotLoop(t *testing.T) {
	for _, limit := range []time.Duration{leastBackoff, time.Second, 30 * time.Minute, century} {
		for _, base := range []time.Duration{1, time.Microsecond, 99 * time.Millisecond, 5 * time.Second, limit} {
			for n := 1; n <= 10_000 && base <= limit; n++ {
				requireBackoff(t, n, base, limit)
			}
		}
	}
}

func TestBackoffOfAnySettingsStaysWithinItsBounds(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	// Evenly over the orders of magnitude, where the edges are.
	between := func(low, high time.Duration) time.Duration {
		d := math.Exp(math.Log(float64(low)) + random.Float64()*(math.Log(float64(high))-math.Log(float64(low))))
		return min(max(time.Duration(d), low), high)
	}
	for range 50_000 {
		limit := between(leastBackoff, century)
		requireBackoff(t, 1+random.IntN(10_000), between(1, limit), limit)
		requireBackoff(t, 1+random.IntN(70), between(1, limit), limit)
	}
}

func FuzzBackoff(f *testing.F) {
	f.Add(1, int64(1), int64(leastBackoff))
	f.Add(63, int64(1), int64(century))
	f.Add(10_000, int64(century), int64(century))
	f.Fuzz(func(t *testing.T, n int, base, limit int64) {
		if n < 1 || base < 1 || limit < int64(leastBackoff) || base > limit || limit > int64(century) {
			t.Skip()
		}
		requireBackoff(t, n, time.Duration(base), time.Duration(limit))
	})
}

// In expectation each wait is twice the one before: no two waits before the cap
// can be out of order, whatever the jitter.
func TestBackoffGrowsUntilTheCap(t *testing.T) {
	const base, limit = time.Second, time.Hour
	for range 1000 {
		last := time.Duration(0)
		for n := 1; base<<(n-1) <= limit; n++ {
			d := outbox.Backoff(n, base, limit)
			require.Greater(t, d, last, "attempt %d", n)
			last = d
		}
	}
}

func TestBackoffIsJittered(t *testing.T) {
	low, high := false, false
	for range 10_000 {
		d := outbox.Backoff(3, time.Second, time.Hour)
		low = low || d < 3700*time.Millisecond
		high = high || d > 4300*time.Millisecond
	}
	require.True(t, low, "none is far below")
	require.True(t, high, "none is far above")
}

// With the defaults the twelve attempts span 1 h 42 m 35 s of waiting, and the
// documentation says so.
func TestBackoffOfTheDefaultsSpansWhatTheDocumentationSays(t *testing.T) {
	const (
		attempts = 12
		base     = 5 * time.Second
		limit    = 30 * time.Minute
		runs     = 4000
	)
	exact, mean := time.Duration(0), time.Duration(0)
	for n := 1; n < attempts; n++ {
		exact += min(base<<(n-1), limit)
		for range runs {
			mean += outbox.Backoff(n, base, limit) / runs
		}
	}
	require.Equal(t, time.Hour+42*time.Minute+35*time.Second, exact)
	require.InEpsilon(t, float64(exact), float64(mean), 0.05, "jitter at the cap only shortens")

	text, err := os.ReadFile("relay.go")
	require.NoError(t, err)
	doc := strings.Join(strings.Fields(strings.ReplaceAll(string(text), "//", "")), " ")
	require.Contains(t, doc, "Default 12, which with the default backoff spans 1 h 42 m 35 s of waiting.")
	require.Contains(t, doc, "Default 5s. BaseBackoff time.Duration")
	require.Contains(t, doc, "Default 30m, or BaseBackoff if that is longer. MaxBackoff time.Duration")
}

// wait is how long after its failure was recorded a row is due, on the
// database's clock.
func wait(m outbox.Message) time.Duration { return m.AvailableAt.Sub(m.UpdatedAt) }

func TestBackoffIsStoredWhenTheAttemptFails(t *testing.T) {
	onEveryClock(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		failing := func() *outbox.Relay {
			r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return errors.New("not yet") }))
			r.BaseBackoff, r.MaxBackoff = 10*time.Minute, 30*time.Minute
			return r
		}
		for attempt, want := range []time.Duration{10 * time.Minute, 20 * time.Minute, 30 * time.Minute, 30 * time.Minute} {
			before := f.clock(t)
			require.Zero(t, drain(t, failing()), "a relay that has just started goes on where another left off")
			m := f.get(t, id)
			require.Equal(t, attempt+1, m.Attempts)
			require.GreaterOrEqual(t, wait(m), want*9/10)
			require.LessOrEqual(t, wait(m), min(want*11/10, 30*time.Minute))
			require.False(t, m.AvailableAt.Before(before.Add(want*9/10)), "from the time of the failure")

			require.Zero(t, drain(t, failing()))
			require.Equal(t, m, f.get(t, id), "a relay that starts while it waits leaves it alone")
			f.makeDue(t)
		}
	})
}

func TestBackoffOfTheDefaultsIsFiveSeconds(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		id := f.enqueue(t, plainTopic, []string{"a"})[0]
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return errors.New("not yet") }))
		require.Zero(t, drain(t, r))
		require.InDelta(t, 5*time.Second, wait(f.get(t, id)), float64(510*time.Millisecond))
		f.exec(t, "UPDATE outbox_messages SET attempts = 10")
		f.makeDue(t)
		require.Zero(t, drain(t, r))
		require.LessOrEqual(t, wait(f.get(t, id)), 30*time.Minute, "the eleventh attempt is at the cap")
		require.GreaterOrEqual(t, wait(f.get(t, id)), 27*time.Minute)
		f.makeDue(t)
		require.Zero(t, drain(t, r))
		require.Equal(t, outbox.StatusFailed, f.get(t, id).Status, "the twelfth is the last")
	})
}

func TestBackoffIsReplacedByRetryAfter(t *testing.T) {
	onEveryClock(t, func(t *testing.T, f *fixture) {
		for _, c := range []struct{ asked, want time.Duration }{
			{90 * time.Minute, 90 * time.Minute}, // above the cap
			{time.Minute + 1234567*time.Microsecond, time.Minute + 1234567*time.Microsecond},
			{time.Nanosecond, leastBackoff},
			{0, 2 * time.Minute}, // a header that is missing
			{-time.Hour, 2 * time.Minute},
			{math.MaxInt64, century},
		} {
			id := f.enqueue(t, plainTopic, []string{"a"})[0]
			r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error {
				return outbox.RetryAfter(c.asked, errors.New("not yet"))
			}))
			r.BaseBackoff, r.MaxAttempts = 2*time.Minute, 1000
			require.Zero(t, drain(t, r))
			m := f.get(t, id)
			require.Equal(t, outbox.StatusPending, m.Status)
			if c.want > leastBackoff { // else it may be due again within the drain
				require.Equal(t, 1, m.Attempts)
			}
			precise := float64(time.Microsecond)
			if !f.postgres {
				precise = float64(time.Millisecond)
			}
			if c.asked <= 0 { // the backoff, with its jitter
				precise = 0.1 * float64(c.want)
			}
			require.InDelta(t, float64(c.want), float64(wait(m)), precise, "RetryAfter(%v)", c.asked)
			f.exec(t, "DELETE FROM outbox_messages")
			f.committed = 0
		}
	})
}
