package outbox_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// modelLease and the intervals below are long, so that what the model does not
// move in time stays where it is.
const (
	modelLease   = 3 * time.Hour
	modelBackoff = 2 * time.Hour
	modelMaxWait = 8 * time.Hour
)

// modelEvent is the payload of the model's messages.
type modelEvent struct {
	N     int    `json:"n"`
	Key   string `json:"key"`
	Order string `json:"order"`
}

func modelTopic(name string, version int, aliases ...string) topics.Topic[modelEvent] {
	opts := &topics.Options[modelEvent]{
		Version: version, Aliases: aliases, Upcast: map[int]topics.Upcaster{},
		Key:   func(e modelEvent) string { return e.Key },
		Order: func(e modelEvent) string { return e.Order },
	}
	for from := 1; from < version; from++ {
		opts.Upcast[from] = func(p json.RawMessage) (json.RawMessage, error) { return p, nil }
	}
	return topics.New(name, opts)
}

// What producers enqueue: two releases of one topic, a former name of it, another
// topic, and names that differ from the first where a careless comparison would
// not.
var modelTopics = []topics.Topic[modelEvent]{
	modelTopic("ord_new", 1), modelTopic("ord_new", 2), modelTopic("ord_old", 1), modelTopic("bill", 1),
	modelTopic("ordxnew", 1), modelTopic("ORD_NEW", 1),
}

// modelRelay is a relay with what it must take, in words of its own.
type modelRelay struct {
	relay      *outbox.Relay
	statements outbox.RelayStatements
	held       map[outbox.ID]*modelFlight // what it believes to hold
	modelTake
}

// modelTake is what a relay takes.
type modelTake struct {
	name    string
	takes   func(topic string, version int) bool
	sweeps  func(topic string) bool
	most    func(topic string) int // attempts
	handles []topics.Topic[modelEvent]
	prefix  string
	maximum int
}

var modelTakes = []modelTake{
	{
		name: "the new release", maximum: 3, handles: []topics.Topic[modelEvent]{modelTopic("ord_new", 2, "ord_old"), modelTopic("bill", 1)},
		takes: func(topic string, version int) bool {
			return (topic == "ord_new" || topic == "ord_old") && version <= 2 || topic == "bill" && version <= 1
		},
		sweeps: func(topic string) bool { return topic == "ord_new" || topic == "ord_old" || topic == "bill" },
		most: func(topic string) int {
			if topic == "bill" {
				return 2
			}
			return 3
		},
	},
	{
		name: "the old release", maximum: 2, handles: []topics.Topic[modelEvent]{modelTopic("ord_new", 1), modelTopic("ordxnew", 1)},
		takes: func(topic string, version int) bool {
			return (topic == "ord_new" || topic == "ordxnew") && version <= 1
		},
		sweeps: func(topic string) bool { return topic == "ord_new" || topic == "ordxnew" },
		most:   func(string) int { return 2 },
	},
	{
		name: "the raw one", maximum: 4, prefix: "ord_",
		takes:  func(topic string, _ int) bool { return strings.HasPrefix(topic, "ord_") },
		sweeps: func(topic string) bool { return strings.HasPrefix(topic, "ord_") },
		most:   func(string) int { return 4 },
	},
}

// modelMostAttempts is above which no row of a topic ever gets.
func modelMostAttempts(topic string) int {
	most := 0
	for _, take := range modelTakes {
		if take.takes(topic, 1) {
			most = max(most, take.most(topic))
		}
	}
	return most
}

// newRelay returns a relay that delivers to the machine's script.
func (m *modelMachine) newRelay(t *testing.T, take modelTake) *modelRelay {
	t.Helper()
	r := &outbox.Relay{
		DB: m.db, Name: take.name, MaxAttempts: take.maximum, ClaimTimeout: modelLease,
		BaseBackoff: modelBackoff, MaxBackoff: modelMaxWait, Logger: slog.New(slog.DiscardHandler),
	}
	if take.prefix != "" {
		r.TopicPrefix, r.Deliver = take.prefix, m.deliver
	} else {
		r.Mux = outbox.NewMux()
		for _, topic := range take.handles {
			var opts []outbox.HandleOption
			if most := take.most(topic.Name()); most != take.maximum {
				opts = append(opts, outbox.MaxAttempts(most))
			}
			outbox.Handle(r.Mux, topic, func(ctx context.Context, d outbox.Delivery[modelEvent]) error {
				return m.deliver(ctx, d.Message)
			}, opts...)
		}
	}
	statements, err := outbox.StatementsOf(r)
	require.NoError(t, err)
	return &modelRelay{relay: r, statements: statements, modelTake: take}
}
