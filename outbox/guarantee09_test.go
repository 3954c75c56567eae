package outbox_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Guarantee 9: a relay takes only what it can deliver.

// journal notes what is delivered.
type journal struct {
	mu   sync.Mutex
	list []string
}

func (j *journal) note(entry string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, entry)
}

// take returns the entries since the last take.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := j.list
	j.list = nil
	return list
}

// noting returns a handler that notes the ids of its orders.
func (j *journal) noting() func(context.Context, outbox.Delivery[order]) error {
	return func(_ context.Context, d outbox.Delivery[order]) error {
		j.note(d.Payload.ID)
		return nil
	}
}

// topicCount is a short form of outbox.TopicStats.
type topicCount struct {
	topic  string
	status outbox.Status
	count  int
}

func countsOf(list []outbox.TopicStats) []topicCount {
	out := []topicCount{}
	for _, s := range list {
		out = append(out, topicCount{s.Topic, s.Status, s.Count})
	}
	return out
}

// F02: what this relay has no handler for stays untouched, pending or with a
// lease that has expired.
func TestRelayTouchesNoRowOfAnotherService(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		foreign := topics.New[order]("orders.created.v2", nil) // starts like plainTopic
		var j journal
		f.enqueue(t, plainTopic, []string{"mine"})
		ids := f.enqueue(t, foreign, []string{"foreign", "suspect", "exhausted"})
		f.exec(t, "UPDATE outbox_messages SET status = 'claimed', claim_token = id, claimed_by = 'gone', attempts = 1 WHERE id = ?", ids[1].String())
		f.exec(t, "UPDATE outbox_messages SET status = 'claimed', claim_token = id, claimed_by = 'gone', attempts = 99 WHERE id = ?", ids[2].String())
		f.expireLeases(t)
		before := []outbox.Message{f.get(t, ids[0]), f.get(t, ids[1]), f.get(t, ids[2])}

		r := f.relay(handling(j.noting()))
		require.Equal(t, 1, drain(t, r))
		require.Equal(t, []string{"mine"}, j.take())
		for i, id := range ids {
			require.Equal(t, before[i], f.get(t, id), "not even its times change")
		}
		unhandled, err := r.Unhandled(t.Context())
		require.NoError(t, err)
		require.Equal(t, []topicCount{{"orders.created.v2", "claimed", 2}, {"orders.created.v2", "pending", 1}}, countsOf(unhandled))
		stats, err := f.store.Stats(t.Context())
		require.NoError(t, err)
		require.Contains(t, countsOf(stats.Topics), topicCount{"orders.created.v2", "claimed", 2}, "Stats shows them")

		mux := outbox.NewMux()
		outbox.Handle(mux, foreign, j.noting())
		require.Equal(t, 2, drain(t, f.relay(mux)))
		require.ElementsMatch(t, []string{"foreign", "suspect"}, j.take())
		require.Equal(t, outbox.StatusFailed, f.get(t, ids[2]).Status, "its relay parks it")
	})
}

// F43: what only a newer release knows is left alone, uncounted and reported.
func TestOldRelayLeavesRowsOfANewerVersionAlone(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		version := func(n int) topics.Topic[order] {
			return topics.New("orders.created", &topics.Options[order]{
				Version: n, Aliases: []string{"former"},
				Upcast: map[int]topics.Upcaster{
					1: topics.Upcast(func(o order) (order, error) { o.ID += " upcast"; return o, nil }),
				},
			})
		}
		newer := topics.New("orders.created", &topics.Options[order]{Version: 3})
		newerAlias := topics.New("former", &topics.Options[order]{Version: 3})
		f.enqueue(t, plainTopic, []string{"one"})
		f.enqueue(t, version(2), []string{"two"})
		ids := append(f.enqueue(t, newer, []string{"three"}), f.enqueue(t, newerAlias, []string{"former three"})...)
		suspect := f.enqueue(t, newer, []string{"suspect three"})[0]
		f.exec(t, "UPDATE outbox_messages SET status = 'claimed', claim_token = id, attempts = 1 WHERE id = ?", suspect.String())
		f.expireLeases(t)
		ids = append(ids, suspect)
		var before []outbox.Message
		for _, id := range ids {
			before = append(before, f.get(t, id))
		}

		var j journal
		mux := outbox.NewMux()
		outbox.Handle(mux, version(2), j.noting())
		old := f.relay(mux)
		require.Equal(t, 2, drain(t, old))
		require.ElementsMatch(t, []string{"one upcast", "two"}, j.take())
		for i, id := range ids {
			require.Equal(t, before[i], f.get(t, id))
		}
		unhandled, err := old.Unhandled(t.Context())
		require.NoError(t, err)
		require.Equal(t, []topicCount{{"former", "pending", 1}, {"orders.created", "claimed", 1}, {"orders.created", "pending", 1}}, countsOf(unhandled))

		mux = outbox.NewMux()
		outbox.Handle(mux, topics.New("orders.created", &topics.Options[order]{Version: 3, Aliases: []string{"former"}}), j.noting())
		newRelay := f.relay(mux)
		require.Equal(t, 3, drain(t, newRelay))
		require.ElementsMatch(t, []string{"three", "former three", "suspect three"}, j.take())
		for _, id := range ids[:2] {
			require.Equal(t, 1, f.get(t, id).Attempts)
		}
		unhandled, err = newRelay.Unhandled(t.Context())
		require.NoError(t, err)
		require.Empty(t, unhandled)
	})
}

// F38: a topic that is renamed orphans its rows. Those under a former name still
// reach T.
func TestRowsOfAFormerTopicNameAreDelivered(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, topics.New[order]("former", nil), []string{"a"})
		f.enqueue(t, topics.New[order]("first", nil), []string{"b"})
		f.enqueue(t, topics.New[order]("present", nil), []string{"c"})
		f.enqueue(t, topics.New[order]("other", nil), []string{"d"})
		var j journal
		mux := outbox.NewMux()
		outbox.Handle(mux, topics.New("present", &topics.Options[order]{Aliases: []string{"former", "first"}}), j.noting(), outbox.MaxAttempts(1))
		r := f.relay(mux)
		r.Concurrency = 1
		require.Equal(t, 3, drain(t, r))
		require.Equal(t, []string{"a", "b", "c"}, j.take())
		require.Equal(t, "former", f.get(t, ids[0]).Topic, "the stored name stays")

		ids = f.enqueue(t, topics.New[order]("former", nil), []string{"e"})
		mux.Use(func(outbox.DeliverFunc) outbox.DeliverFunc {
			return func(context.Context, outbox.Message) error { return errors.New("no") }
		})
		drain(t, r)
		require.Equal(t, outbox.StatusFailed, f.get(t, ids[0]).Status, "the options of the topic hold for its aliases")
	})
}

// F27: an underscore in a prefix matches everything. It is literal, its case
// included; a percent sign and a backslash are no part of a topic.
func TestUnderscoreInAPrefixMatchesOnlyItself(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		for _, name := range []string{"a_b.x", "a_b", "axb.x", "A_b.x", "a_", "a_c", "a"} {
			f.enqueue(t, topics.New[order](name, nil), []string{name})
		}
		var j journal
		r := &outbox.Relay{DB: f.db, TopicPrefix: "a_b", Logger: f.relay(nil).Logger, Deliver: func(_ context.Context, m outbox.Message) error {
			j.note(m.Topic)
			return nil
		}}
		unhandled, err := r.Unhandled(t.Context())
		require.NoError(t, err)
		require.Equal(t, []topicCount{
			{"A_b.x", "pending", 1},
			{"a", "pending", 1},
			{"a_", "pending", 1},
			{"a_c", "pending", 1},
			{"axb.x", "pending", 1},
		}, countsOf(unhandled))
		require.Equal(t, 2, drain(t, r))
		require.ElementsMatch(t, []string{"a_b.x", "a_b"}, j.take())
		r.TopicPrefix = ""
		require.Equal(t, 5, drain(t, r), "no prefix takes every topic")
	})
}

func TestTakesNothingWhenAHandlerIsOutsideItsPrefix(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		handle := func(context.Context, outbox.Delivery[order]) error { return nil }
		for _, tt := range []struct {
			what, prefix string
			topic        topics.Topic[order]
			want         string
		}{
			{"the name", "users.", plainTopic, `topic "orders.created"`},
			{"the case", "Orders.", plainTopic, `topic "orders.created"`},
			{"a shorter name", "orders.created.", plainTopic, `topic "orders.created"`},
			{"an alias", "orders.", topics.New("orders.created", &topics.Options[order]{Aliases: []string{"former"}}), `topic "former"`},
		} {
			mux := outbox.NewMux()
			outbox.Handle(mux, tt.topic, handle)
			r := f.relay(mux)
			r.TopicPrefix = tt.prefix
			for _, run := range []func(context.Context) error{
				r.Start,
				func(ctx context.Context) error { _, err := r.Drain(ctx); return err },
				func(ctx context.Context) error { _, err := r.Unhandled(ctx); return err },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				err := run(ctx)
				cancel()
				require.ErrorContains(t, err, "outside TopicPrefix", tt.what)
				require.ErrorContains(t, err, tt.want)
			}
		}
		r := f.relay(handling(handle))
		r.TopicPrefix = "orders."
		f.enqueue(t, plainTopic, []string{"a"})
		require.Equal(t, 1, drain(t, r))
	})
}

// A relay sweeps only topics it takes.
func TestTakesOnlyItsTopicsWhenItSweeps(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.mayVanish = true
		present := topics.New("a_b", &topics.Options[order]{Aliases: []string{"a_b.former"}})
		for _, name := range []string{"a_b", "a_b.former", "axb", "a_b.other", "A_b"} {
			f.enqueue(t, topics.New[order](name, nil), numbers(5))
		}
		f.exec(t, "UPDATE outbox_messages SET status = 'sent'")
		f.exec(t, "UPDATE outbox_messages SET status = 'discarded' WHERE CAST(payload AS text) LIKE '%\"1\"%'")
		f.exec(t, "UPDATE outbox_messages SET status = 'failed' WHERE CAST(payload AS text) LIKE '%\"2\"%'")
		f.shift(t, "updated_at", 2*time.Hour, "true") // none becomes old while the test runs
		f.shift(t, "updated_at", -4*time.Hour, "CAST(payload AS text) LIKE '%\"0\"%' OR CAST(payload AS text) LIKE '%\"1\"%' OR CAST(payload AS text) LIKE '%\"2\"%'")
		mux := outbox.NewMux()
		outbox.Handle(mux, present, func(context.Context, outbox.Delivery[order]) error { return nil })
		f.sweepOnce(t, f.relay(mux))
		counts := func() map[string]int {
			out := map[string]int{}
			for _, m := range f.stored(t) {
				out[m.Topic]++
			}
			return out
		}
		require.Equal(t, map[string]int{"a_b": 3, "a_b.former": 3, "axb": 5, "a_b.other": 5, "A_b": 5}, counts())

		r := &outbox.Relay{
			DB: f.db, TopicPrefix: "a_b", Logger: f.relay(nil).Logger,
			Deliver: func(context.Context, outbox.Message) error { return nil },
		}
		f.sweepOnce(t, r)
		require.Equal(t, map[string]int{"a_b": 3, "a_b.former": 3, "axb": 5, "a_b.other": 3, "A_b": 5}, counts())
		require.Equal(t, 5, f.count(t, outbox.StatusFailed))
	})
}

// sweepOnce runs a relay until it has swept with a short retention.
func (f *fixture) sweepOnce(t *testing.T, r *outbox.Relay) {
	t.Helper()
	swept := make(chan struct{}, 10)
	f.faults.onAfter(func(query string) error {
		if strings.Contains(query, "DELETE FROM outbox_messages") {
			swept <- struct{}{}
		}
		return nil
	})
	r.Retention = 10 * time.Second // the first sweep is a second after the start
	stop := start(t, r)
	receive(t, swept, "a sweep")
	require.NoError(t, stop())
	f.faults.clear()
}
