// Package relay starts one, without a handler.
package relay

import (
	"context"

	"github.com/typedoutbox/typedoutbox/outbox"
)

func Run(ctx context.Context, mux *outbox.Mux) error { return (&outbox.Relay{Mux: mux}).Start(ctx) }
