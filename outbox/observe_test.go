package outbox_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Observe: what to alert on, as a meter collects it.

// gauges is a Meter that collects what its callback observes, by instrument and
// topic.
type gauges struct {
	noop.Meter
	callback metric.Callback
	refuse   bool
}

type floatGauge struct {
	noop.Float64ObservableGauge
	name string
}

type intGauge struct {
	noop.Int64ObservableGauge
	name string
}

func (g *gauges) Float64ObservableGauge(name string, _ ...metric.Float64ObservableGaugeOption) (metric.Float64ObservableGauge, error) {
	if g.refuse {
		return nil, errors.New("refused")
	}
	return floatGauge{name: name}, nil
}

func (g *gauges) Int64ObservableGauge(name string, _ ...metric.Int64ObservableGaugeOption) (metric.Int64ObservableGauge, error) {
	return intGauge{name: name}, nil
}

func (g *gauges) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	g.callback = f
	return noop.Registration{}, nil
}

// collection is an Observer.
type collection struct {
	noop.Observer
	values map[string]float64
}

func (c collection) observe(name string, v float64, opts []metric.ObserveOption) {
	set := metric.NewObserveConfig(opts).Attributes()
	topic, _ := set.Value(attribute.Key("outbox.topic"))
	c.values[name+" "+topic.AsString()] = v
}

func (c collection) ObserveFloat64(g metric.Float64Observable, v float64, opts ...metric.ObserveOption) {
	c.observe(g.(floatGauge).name, v, opts)
}

func (c collection) ObserveInt64(g metric.Int64Observable, v int64, opts ...metric.ObserveOption) {
	c.observe(g.(intGauge).name, float64(v), opts)
}

func (g *gauges) collect(t *testing.T) map[string]float64 {
	t.Helper()
	c := collection{values: map[string]float64{}}
	require.NoError(t, g.callback(t.Context(), c))
	return c.values
}

// F34: nine days of backlog, and all gauges at zero.
func TestBacklogShowsInTheGaugesWhileNoRelayRuns(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayStayClaimed = true
		var g gauges
		_, err := f.store.Observe(&g)
		require.NoError(t, err)
		require.Empty(t, g.collect(t))

		f.fill(t, "a.sent", "sent", 2)
		f.enqueue(t, plainTopic, []string{"later"}, outbox.After(time.Hour))
		f.fill(t, "b.parked", "failed", 3)
		f.fill(t, "c.claimed", "claimed", 1)
		f.shift(t, "available_at", time.Hour, "status = 'claimed'")
		require.Equal(t, map[string]float64{"outbox.oldest_due orders.created": 0, "outbox.parked b.parked": 3}, g.collect(t))

		f.enqueue(t, plainTopic, []string{"due"})
		f.shift(t, "available_at", -9*24*time.Hour, "available_at <= "+f.now()+" AND status = 'pending'")
		f.shift(t, "available_at", -2*time.Hour, "status = 'claimed'")
		first := g.collect(t)
		require.InDelta(t, 9*24*3600, first["outbox.oldest_due orders.created"], 60)
		require.InDelta(t, 3600, first["outbox.oldest_due c.claimed"], 60)
		require.Len(t, first, 3)
		eventually(t, func() bool {
			return g.collect(t)["outbox.oldest_due orders.created"] > first["outbox.oldest_due orders.created"]
		}, "it grows")
	})
}

func TestGaugesReturnWhatIsWrong(t *testing.T) {
	_, err := outbox.Store{}.Observe(&gauges{})
	require.ErrorContains(t, err, "DB is nil")
	onEvery(t, func(t *testing.T, f *fixture) {
		_, err := f.store.Observe(&gauges{refuse: true})
		require.ErrorContains(t, err, "refused")
		var g gauges
		_, err = f.store.Observe(&g)
		require.NoError(t, err)
		f.exec(t, "ALTER TABLE outbox_messages RENAME TO elsewhere")
		require.ErrorIs(t, g.callback(context.Background(), collection{values: map[string]float64{}}), outbox.ErrNotMigrated)
		f.exec(t, "ALTER TABLE elsewhere RENAME TO outbox_messages")
	})
}

func TestAgeOfADueRowWithoutABeginning(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, []string{"a"})
		f.exec(t, "UPDATE outbox_messages SET available_at = '-infinity'")
		stats, err := f.store.Stats(t.Context())
		require.NoError(t, err)
		require.Greater(t, stats.OldestDue(), 50*365*24*time.Hour)
		var g gauges
		_, err = f.store.Observe(&g)
		require.NoError(t, err)
		require.Greater(t, g.collect(t)["outbox.oldest_due orders.created"], float64(50*365*24*3600))
	})
}
