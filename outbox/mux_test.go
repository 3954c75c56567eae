package outbox_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// Mux, and relays with a raw Deliver.

func TestMuxDelivers(t *testing.T) {
	var mux outbox.Mux // the zero Mux is ready
	var got outbox.Delivery[order]
	outbox.Handle(&mux, aliasedTopic, func(_ context.Context, d outbox.Delivery[order]) error {
		got = d
		return errNotNow
	})
	m := outbox.Message{ID: outbox.ID{7}, Topic: "orders.renamed", Version: 1, Payload: []byte(`{"id":"a"}`), Headers: map[string]string{"h": "v"}}
	require.Equal(t, errNotNow, mux.Deliver(t.Context(), m), "the handler's own error")
	require.Equal(t, outbox.Delivery[order]{Payload: order{ID: "a"}, Message: m}, got)
	m.Topic = "orders.formerly"
	require.Equal(t, errNotNow, mux.Deliver(t.Context(), m))
	require.Equal(t, "orders.formerly", got.Message.Topic, "the name under which it is stored")
	m.Topic = "orders.other"
	err := mux.Deliver(t.Context(), m)
	require.ErrorIs(t, err, outbox.ErrNoHandler)
	require.ErrorContains(t, err, `"orders.other"`)

	got = outbox.Delivery[order]{}
	var decodeErr *topics.DecodeError
	for _, bad := range []outbox.Message{
		{Topic: "orders.renamed", Version: 1, Payload: []byte(`{`)},
		{Topic: "orders.renamed", Version: 2, Payload: []byte(`{}`)},
		{Topic: "orders.renamed", Version: 1, Payload: []byte(`{"id":1}`)},
	} {
		require.ErrorAs(t, mux.Deliver(t.Context(), bad), &decodeErr)
	}
	require.Zero(t, got, "what does not decode never reaches the handler")
}

var errNotNow = errors.New("not now")

func TestMiddlewareOfTheMux(t *testing.T) {
	var trail []string
	step := func(name string) func(outbox.DeliverFunc) outbox.DeliverFunc {
		return func(next outbox.DeliverFunc) outbox.DeliverFunc {
			return func(ctx context.Context, m outbox.Message) error {
				trail = append(trail, name+" in")
				err := next(ctx, m)
				trail = append(trail, name+" out")
				return err
			}
		}
	}
	mux := handling(func(context.Context, outbox.Delivery[order]) error {
		trail = append(trail, "handler")
		return nil
	})
	m := outbox.Message{Topic: plainTopic.Name(), Version: 1, Payload: []byte(`{}`)}
	require.NoError(t, mux.Deliver(t.Context(), m))
	mux.Use(step("a"), step("b"))
	mux.Use(step("c"))
	trail = nil
	require.NoError(t, mux.Deliver(t.Context(), m))
	require.Equal(t, []string{"a in", "b in", "c in", "handler", "c out", "b out", "a out"}, trail, "the first is the outermost")

	// It surrounds decoding and routing, and may answer itself.
	trail = nil
	require.Error(t, mux.Deliver(t.Context(), outbox.Message{Topic: "orders.other"}))
	require.Equal(t, []string{"a in", "b in", "c in", "c out", "b out", "a out"}, trail)
	mux.Use(func(outbox.DeliverFunc) outbox.DeliverFunc {
		return func(context.Context, outbox.Message) error { return errNotNow }
	})
	trail = nil
	require.Equal(t, errNotNow, mux.Deliver(t.Context(), m))
	require.NotContains(t, trail, "handler")
}

func TestMiddlewareSurroundsDeliveriesOfARelay(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, numbers(3))
		mux := handling(acknowledge)
		var seen atomic.Int64
		mux.Use(func(next outbox.DeliverFunc) outbox.DeliverFunc {
			return func(ctx context.Context, m outbox.Message) error {
				seen.Add(1)
				if string(m.Payload) == `{"id":"1"}` {
					return outbox.Permanent(errNotNow)
				}
				return next(ctx, m)
			}
		})
		require.Equal(t, 2, drain(t, f.relay(mux)))
		require.EqualValues(t, 3, seen.Load())
		require.Equal(t, 1, f.count(t, outbox.StatusFailed))
	})
}

func TestMuxListsItsTopics(t *testing.T) {
	mux := outbox.NewMux()
	require.Empty(t, mux.Topics())
	outbox.Handle(mux, plainTopic, acknowledge)
	outbox.Handle(mux, aliasedTopic, acknowledge)
	outbox.Handle(mux, foreignTopic, acknowledge)
	got := mux.Topics()
	require.Equal(t, []topics.Info{plainTopic.Info(), aliasedTopic.Info(), foreignTopic.Info()}, got, "in the order of registration")
	got[1].Aliases[0] = "changed"
	require.Equal(t, []string{"orders.formerly"}, mux.Topics()[1].Aliases, "a copy")
}

// panics returns what a function panics with, as text.
func panics(t *testing.T, fn func()) (text string) {
	t.Helper()
	defer func() {
		v := recover()
		require.NotNil(t, v, "it panics")
		if err, ok := v.(error); ok {
			text = err.Error()
			return
		}
		text = v.(string)
	}()
	fn()
	return ""
}

func TestHandlePanicsOnProgrammerErrors(t *testing.T) {
	var zero topics.Topic[order]
	takesAlias := topics.New("orders.other", &topics.Options[order]{Aliases: []string{"orders.created"}})
	isAlias := topics.New[order]("orders.formerly", nil)
	for _, c := range []struct {
		name   string
		handle func(mux *outbox.Mux)
		want   []string
	}{
		{"a nil mux", func(*outbox.Mux) { outbox.Handle(nil, plainTopic, acknowledge) }, []string{"nil"}},
		{"a nil handler", func(mux *outbox.Mux) { outbox.Handle[order](mux, foreignTopic, nil) }, []string{`"invoices.paid"`, "nil"}},
		{"the zero topic", func(mux *outbox.Mux) { outbox.Handle(mux, zero, acknowledge) }, []string{"topics.New"}},
		{"a timeout of centuries", func(mux *outbox.Mux) { outbox.Handle(mux, foreignTopic, acknowledge, outbox.Timeout(math.MaxInt64)) }, []string{"876000h0m0s at most"}},
		{"no timeout", func(mux *outbox.Mux) { outbox.Handle(mux, foreignTopic, acknowledge, outbox.Timeout(0)) }, []string{"Timeout(0s)"}},
		{"no attempts", func(mux *outbox.Mux) { outbox.Handle(mux, foreignTopic, acknowledge, outbox.MaxAttempts(0)) }, []string{"MaxAttempts(0)"}},
		{"too many attempts", func(mux *outbox.Mux) { outbox.Handle(mux, foreignTopic, acknowledge, outbox.MaxAttempts(1_000_001)) }, []string{"MaxAttempts(1000001)"}},
		{"a second handler", func(mux *outbox.Mux) { outbox.Handle(mux, plainTopic, acknowledge) }, []string{
			`"orders.created"`, plainTopic.Info().Source, "has a handler already", "mux_test.go:",
		}},
		{"an alias that has a handler", func(mux *outbox.Mux) { outbox.Handle(mux, takesAlias, acknowledge) }, []string{
			`"orders.created"`, plainTopic.Info().Source, takesAlias.Info().Source,
		}},
		{"a name that is an alias", func(mux *outbox.Mux) { outbox.Handle(mux, isAlias, acknowledge) }, []string{
			`"orders.formerly"`, aliasedTopic.Info().Source, isAlias.Info().Source,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mux := outbox.NewMux()
			outbox.Handle(mux, plainTopic, acknowledge)
			outbox.Handle(mux, aliasedTopic, acknowledge)
			text := panics(t, func() { c.handle(mux) })
			for _, want := range c.want {
				require.Contains(t, text, want)
			}
			require.Len(t, mux.Topics(), 2, "nothing is registered by halves")
		})
	}
}

func TestMuxIsSafeForConcurrentUse(t *testing.T) {
	mux := outbox.NewMux()
	var wait sync.WaitGroup
	for i := range 8 {
		topic := topics.New[order]("orders.n"+numbers(9)[i], nil)
		wait.Go(func() {
			outbox.Handle(mux, topic, acknowledge)
			mux.Use(func(next outbox.DeliverFunc) outbox.DeliverFunc { return next })
			_ = mux.Topics()
			_ = mux.Deliver(t.Context(), outbox.Message{Topic: topic.Name(), Version: 1, Payload: []byte(`{}`)})
		})
	}
	wait.Wait()
	require.Len(t, mux.Topics(), 8)
}

func TestRawDeliverReceivesEveryTopic(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, []string{"a"}, outbox.Key("k"), outbox.OrderKey("o"), outbox.Header("h", "v"))
		f.enqueue(t, foreignTopic, []string{"b"})
		f.enqueue(t, topics.New("orders.versioned", &topics.Options[order]{
			Version: 2, Upcast: map[int]topics.Upcaster{1: topics.Upcast(func(o order) (order, error) { return o, nil })},
		}), []string{"c"})
		f.fill(t, "zz", "pending", 1) // which nobody declares
		var mu sync.Mutex
		got := map[string]outbox.Message{}
		r := f.relay(nil)
		r.Deliver = func(_ context.Context, m outbox.Message) error {
			mu.Lock()
			defer mu.Unlock()
			got[m.Topic] = m
			return nil
		}
		require.Equal(t, 4, drain(t, r))
		m := got["orders.created"]
		require.Equal(t, ids[0], m.ID)
		require.Equal(t, "k", m.Key)
		require.Equal(t, "o", m.OrderKey)
		require.Equal(t, map[string]string{"h": "v"}, m.Headers)
		require.JSONEq(t, `{"id":"a"}`, string(m.Payload))
		require.Equal(t, outbox.StatusClaimed, m.Status)
		require.Equal(t, 1, m.Attempts)
		require.Equal(t, 2, got["orders.versioned"].Version)
	})
}

func TestRawDeliverWithAPrefixTakesItLiterally(t *testing.T) {
	names := []string{"orders", "orders.", "orders.a", "orders.z", "orders/a", "ordersxa", "Orders.a", "orders-a", "order"}
	for _, c := range []struct {
		prefix string
		want   []string
	}{
		{"orders.", []string{"orders.", "orders.a", "orders.z"}},
		{"orders", []string{"orders", "orders.", "orders.a", "orders.z", "orders/a", "ordersxa", "orders-a"}},
		{"orders.z", []string{"orders.z"}},
		{"Orders", []string{"Orders.a"}},
		{"orders_", nil},
		{"z", nil},
	} {
		t.Run(c.prefix, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				for _, name := range names {
					f.enqueue(t, topics.New[order](name, nil), []string{"a"})
				}
				var mu sync.Mutex
				var got []string
				r := f.relay(nil)
				r.TopicPrefix = c.prefix
				r.Deliver = func(_ context.Context, m outbox.Message) error {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, m.Topic)
					return nil
				}
				require.Equal(t, len(c.want), drain(t, r))
				require.ElementsMatch(t, c.want, got)
				unhandled, err := r.Unhandled(t.Context())
				require.NoError(t, err)
				var others []string
				for _, u := range unhandled {
					others = append(others, u.Topic)
				}
				require.ElementsMatch(t, slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(c.want, n) }), others)
			})
		})
	}
}

func TestTimeoutAndMaxAttemptsOfATopic(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, []string{"a"})
		others := f.enqueue(t, foreignTopic, []string{"b"})
		deadline := make(chan time.Duration, 1)
		mux := handling(func(ctx context.Context, _ outbox.Delivery[order]) error {
			at, _ := ctx.Deadline()
			deadline <- time.Until(at)
			return errNotNow
		}, outbox.Timeout(time.Hour), outbox.MaxAttempts(1))
		outbox.Handle(mux, foreignTopic, func(context.Context, outbox.Delivery[order]) error { return errNotNow })
		require.Zero(t, drain(t, f.relay(mux)))
		require.Greater(t, receive(t, deadline, "the delivery"), 30*time.Minute)
		require.Equal(t, outbox.StatusFailed, f.get(t, ids[0]).Status)
		require.Equal(t, outbox.StatusPending, f.get(t, others[0]).Status, "the relay's MaxAttempts hold for the rest")
	})
}

func TestSkippedTopicsAreNamedAtStartAndNotRequired(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		r := f.relay(handling(acknowledge))
		r.Mux.Require(plainTopic.Info(), foreignTopic.Info())
		_, err := r.Drain(t.Context())
		require.ErrorIs(t, err, outbox.ErrNoHandler)

		r.Mux.Skip(foreignTopic.Info(), plainTopic.Info()) // which has a handler all the same
		var l logs
		r.Logger = l.logger()
		stop := start(t, r)
		eventually(t, func() bool { return l.count("left to other programs") == 1 }, "it is named")
		require.NoError(t, stop())
		require.Equal(t, 1, l.count(`topics="`+foreignTopic.Name()+" ("+foreignTopic.Info().Source+`)"`), "with where it is declared, and no other")
		require.Len(t, r.Mux.Topics(), 1)
	})
}
