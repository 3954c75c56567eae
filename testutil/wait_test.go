package testutil_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
	"github.com/typedoutbox/typedoutbox/topics"
)

func TestWaitFor(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		relay := handling(db, answer)
		relay.Interval = 10 * time.Millisecond
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- relay.Start(ctx) }()
		defer func() { stop(); require.NoError(t, <-stopped) }()

		commit(t, db, created, orderCreated{OrderID: "1"})
		commit(t, db, created, orderCreated{OrderID: "parked"})
		require.Equal(t, "1", testutil.WaitFor(t, db, created, outbox.StatusSent).Payload.OrderID)
		d := testutil.WaitFor(t, db, created, outbox.StatusFailed, order("parked"))
		require.Equal(t, "no such article", d.Message.LastError)

		// No time at all is enough for what is there already.
		testutil.WaitFor(hurried{t, 0}, db, created, outbox.StatusFailed)
	})
}

// What the handlers never see parks, too.
func TestWaitForWhatDoesNotDecode(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		commit(t, db, topics.New[string]("orders.created", nil), "x")
		relay := handling(db, succeed)
		relay.MaxAttempts = 1
		testutil.Drain(t, relay).Require(t, testutil.Parked)
		d := testutil.WaitFor(t, db, created, outbox.StatusFailed)
		require.Zero(t, d.Payload)
		require.Equal(t, `"x"`, string(d.Message.Payload))
	})
}
