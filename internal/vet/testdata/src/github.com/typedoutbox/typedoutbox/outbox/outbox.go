// Package outbox stands in for the real one.
package outbox

import (
	"context"
	"errors"

	"github.com/typedoutbox/typedoutbox/topics"
	"github.com/uptrace/bun"
)

var ErrNoHandler = errors.New("no handler")

type EnqueueOption func()

func Enqueue[T any](ctx context.Context, tx bun.Tx, topic topics.Topic[T], v T, opts ...EnqueueOption) error {
	return nil
}

func EnqueueAll[T any](ctx context.Context, tx bun.Tx, topic topics.Topic[T], vs []T, opts ...EnqueueOption) ([]string, error) {
	return nil, nil
}

type Message struct{}

type Delivery[T any] struct{ Payload T }

type DeliverFunc func(ctx context.Context, m Message) error

type Mux struct{}

func NewMux() *Mux { return nil }

func (m *Mux) Require(infos ...topics.Info) {}
func (m *Mux) Skip(infos ...topics.Info)    {}

type HandleOption func()

func Handle[T any](mux *Mux, topic topics.Topic[T], h func(context.Context, Delivery[T]) error, opts ...HandleOption) {
}

type Relay struct {
	DB          *bun.DB
	Mux         *Mux
	Deliver     DeliverFunc
	TopicPrefix string
}

func (r *Relay) Start(ctx context.Context) error        { return nil }
func (r *Relay) Drain(ctx context.Context) (int, error) { return 0, nil }
