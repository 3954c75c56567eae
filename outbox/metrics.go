package outbox

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// relayMetrics are the counters of a relay, by topic, under the global
// MeterProvider of OpenTelemetry. The engine's mutex guards them.
type relayMetrics struct {
	relay   attribute.KeyValue
	counts  map[string]metric.Int64Counter
	options map[string]metric.MeasurementOption // by topic, made once
}

func newRelayMetrics(relay string) relayMetrics {
	meter := otel.GetMeterProvider().Meter("github.com/typedoutbox/typedoutbox/outbox")
	m := relayMetrics{relay: attribute.String("outbox.relay", relay), counts: map[string]metric.Int64Counter{}, options: map[string]metric.MeasurementOption{}}
	for name, description := range map[string]string{
		"outbox.relay.sent":        "Messages recorded as sent.",
		"outbox.relay.failed":      "Failed attempts that will be tried again.",
		"outbox.relay.parked":      "Messages parked as failed.",
		"outbox.relay.leases_lost": "Leases that another relay took over.",
		"outbox.relay.unavailable": "Deliveries whose destination was down.",
		"outbox.relay.stuck":       "Deliveries whose handler ignored the end of its context.",
	} {
		if counter, err := meter.Int64Counter(name, metric.WithDescription(description)); err == nil {
			m.counts[name] = counter
		}
	}
	return m
}

func (m relayMetrics) add(name, topic string) {
	counter := m.counts[name]
	if counter == nil {
		return
	}
	option := m.options[topic]
	if option == nil {
		option = metric.WithAttributeSet(attribute.NewSet(m.relay, attribute.String("outbox.topic", topic)))
		m.options[topic] = option
	}
	counter.Add(context.Background(), 1, option)
}

func (m relayMetrics) sent(topic string)        { m.add("outbox.relay.sent", topic) }
func (m relayMetrics) failed(topic string)      { m.add("outbox.relay.failed", topic) }
func (m relayMetrics) parked(topic string)      { m.add("outbox.relay.parked", topic) }
func (m relayMetrics) lost(topic string)        { m.add("outbox.relay.leases_lost", topic) }
func (m relayMetrics) unavailable(topic string) { m.add("outbox.relay.unavailable", topic) }
func (m relayMetrics) stuck(topic string)       { m.add("outbox.relay.stuck", topic) }
