package outbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/typedoutbox/typedoutbox/topics"
)

// DeliverFunc delivers one message: nil means delivered, an error means that it
// is tried again later; see [Permanent] and [RetryAfter]. A relay calls it from
// several goroutines at once. ctx ends at the relay's DeliverTimeout, when the
// lease is lost ([ErrLeaseLost]) and when a shutdown has waited long enough.
type DeliverFunc func(ctx context.Context, m Message) error

// Mux routes messages to the handlers of their topics. The zero Mux is ready.
// It is safe for concurrent use; register everything before the relay starts,
// which takes the topics that have a handler by then. A Mux must not be copied.
type Mux struct {
	mu         sync.RWMutex
	routes     map[string]*route // by name and by alias
	order      []*route          // in the order of registration
	middleware []func(DeliverFunc) DeliverFunc
	chain      DeliverFunc // the middleware around route; nil when it must be made anew
	required   []topics.Info
	skipped    []topics.Info
}

// route is one registered handler.
type route struct {
	info        topics.Info
	source      string // file:line of the call to Handle
	deliver     DeliverFunc
	timeout     time.Duration // 0: the relay's
	maxAttempts int           // 0: the relay's
}

func (r *route) names() []string { return append([]string{r.info.Name}, r.info.Aliases...) }

// NewMux returns an empty Mux.
func NewMux() *Mux { return &Mux{} }

// HandleOption changes how the messages of one topic are delivered.
type HandleOption func(*route) error

// Timeout sets the deadline of one delivery of this topic. It must be positive.
// Default Relay.DeliverTimeout.
func Timeout(d time.Duration) HandleOption {
	return func(r *route) error {
		if d <= 0 || d > maxDuration {
			return fmt.Errorf("Timeout(%v): use a positive duration, of %v at most", d, maxDuration)
		}
		r.timeout = d
		return nil
	}
}

// MaxAttempts sets after how many attempts a message of this topic is parked.
// It must be positive. Default Relay.MaxAttempts.
func MaxAttempts(n int) HandleOption {
	return func(r *route) error {
		if n < 1 || n > maxMaxAttempts {
			return fmt.Errorf("MaxAttempts(%d): use 1 to %d", n, maxMaxAttempts)
		}
		r.maxAttempts = n
		return nil
	}
}

// Handle registers h for the messages of topic, those stored under one of its
// aliases included. A payload that does not decode fails its attempt with a
// *topics.DecodeError and never reaches h. h is called from several goroutines
// at once and may be called more than once for one message: at-least-once.
//
// Handle panics on programmer error: a nil mux or handler, the zero Topic, an
// absurd option, or a topic or alias that has a handler already, in which case
// the panic names where both topics are declared and both handlers registered.
func Handle[T any](mux *Mux, topic topics.Topic[T], h func(context.Context, Delivery[T]) error, opts ...HandleOption) {
	r := &route{info: topic.Info(), source: "unknown"}
	for depth := 1; depth < 3; depth++ {
		_, file, line, ok := runtime.Caller(depth)
		if !ok {
			break
		}
		r.source = file + ":" + strconv.Itoa(line)
		if filepath.Base(file) != "outbox_gen.go" {
			break // else HandleOutbox was called from there
		}
	}
	if h != nil {
		r.deliver = func(ctx context.Context, m Message) error {
			payload, err := topic.Decode(m.Version, m.Payload)
			if err != nil {
				return err
			}
			return h(ctx, Delivery[T]{Payload: payload, Message: m})
		}
	}
	if err := mux.register(r, opts); err != nil {
		panic(fmt.Sprintf("outbox: Handle at %s: %v", r.source, err))
	}
}

func (m *Mux) register(r *route, opts []HandleOption) error {
	switch {
	case m == nil:
		return errors.New("the Mux is nil; make it with NewMux")
	case r.info.Name == "":
		return errors.New("the topic is the zero Topic; make it with topics.New")
	case r.deliver == nil:
		return fmt.Errorf("topic %q: the handler is nil", r.info.Name)
	}
	for _, opt := range opts {
		if err := opt(r); err != nil {
			return fmt.Errorf("topic %q: %w", r.info.Name, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range r.names() {
		if other := m.routes[name]; other != nil {
			return fmt.Errorf("topic %q (declared at %s) has a handler already: topic %q (declared at %s), handled at %s; remove one",
				name, r.info.Source, other.info.Name, other.info.Source, other.source)
		}
	}
	if m.routes == nil {
		m.routes = map[string]*route{}
	}
	for _, name := range r.names() {
		m.routes[name] = r
	}
	m.order = append(m.order, r)
	return nil
}

// Use adds middleware around every delivery, decoding included. The first is
// the outermost. Call it before the relay starts.
func (m *Mux) Use(mw ...func(DeliverFunc) DeliverFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.middleware = append(m.middleware, mw...)
	m.chain = nil
}

// Require says that each of these topics must have a handler: Relay.Start and
// Relay.Drain refuse, with an error that matches [ErrNoHandler], while one has
// none. Pass what the generated OutboxTopics returns.
func (m *Mux) Require(infos ...topics.Info) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.required = append(m.required, infos...)
}

// Skip says that these topics are left to other programs: Require does not
// refuse over them, and Relay.Start names those that have no handler in its log,
// with where they are declared. The generated HandleOutbox calls it for what a
// handler skips.
func (m *Mux) Skip(infos ...topics.Info) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.skipped = append(m.skipped, infos...)
}

// left returns the topics that are skipped and have no handler, and where each
// is declared.
func (m *Mux) left() []string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var out []string
	for _, info := range m.skipped {
		if m.routes[info.Name] == nil {
			out = append(out, info.Name+" ("+info.Source+")")
		}
	}
	return out
}

func (m *Mux) skips(name string) bool {
	return slices.ContainsFunc(m.skipped, func(info topics.Info) bool { return info.Name == name })
}

// Topics returns the topics that have a handler, in the order of registration.
func (m *Mux) Topics() []topics.Info {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make([]topics.Info, len(m.order))
	for i, r := range m.order {
		out[i] = r.info
		out[i].Aliases = slices.Clone(r.info.Aliases)
	}
	return out
}

// Deliver passes msg through the middleware to the handler of its topic and
// returns the handler's error. It returns an error that matches [ErrNoHandler]
// if there is none.
func (m *Mux) Deliver(ctx context.Context, msg Message) error {
	return m.deliverer()(ctx, msg)
}

// deliverer returns the middleware around the routing.
func (m *Mux) deliverer() DeliverFunc {
	m.mu.RLock()
	chain := m.chain
	m.mu.RUnlock()
	if chain != nil {
		return chain
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.chain == nil {
		m.chain = m.dispatch
		for _, mw := range slices.Backward(m.middleware) {
			m.chain = mw(m.chain)
		}
	}
	return m.chain
}

func (m *Mux) dispatch(ctx context.Context, msg Message) error {
	r := m.route(msg.Topic)
	if r == nil {
		return fmt.Errorf("%w %q; register one with Handle", ErrNoHandler, msg.Topic)
	}
	return r.deliver(ctx, msg)
}

func (m *Mux) route(name string) *route {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.routes[name]
}

// check lists what keeps a relay with this Mux and prefix from starting.
func (m *Mux) check(prefix string) []error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var errs []error
	if len(m.order) == 0 {
		errs = append(errs, errors.New("the Mux has no handler; register one with Handle"))
	}
	for _, r := range m.order {
		for _, name := range r.names() {
			if len(name) < len(prefix) || name[:len(prefix)] != prefix {
				errs = append(errs, fmt.Errorf("topic %q, handled at %s, is outside TopicPrefix %q and would never be delivered; change the prefix or give the topic a relay of its own",
					name, r.source, prefix))
			}
		}
	}
	for _, info := range m.required {
		if m.routes[info.Name] == nil && !m.skips(info.Name) {
			errs = append(errs, fmt.Errorf("%w %q, declared at %s and required; register one with Handle", ErrNoHandler, info.Name, info.Source))
		}
	}
	return errs
}
