package testutil_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
)

func TestAdvance(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"}, outbox.After(time.Hour))
		relay := handling(db, succeed)
		before := testutil.RequireEnqueued(t, db, created).Message
		testutil.Advance(t, db, 59*time.Minute)
		require.Empty(t, testutil.Drain(t, relay))
		testutil.Advance(t, db, time.Minute)
		after := testutil.RequireEnqueued(t, db, created).Message
		require.Equal(t, time.Hour, before.CreatedAt.Sub(after.CreatedAt))
		require.Equal(t, time.Hour, before.UpdatedAt.Sub(after.UpdatedAt))
		require.Equal(t, time.Hour, before.AvailableAt.Sub(after.AvailableAt))
		testutil.Drain(t, relay).RequireSent(t, 1)

		before = testutil.RequireEnqueued(t, db, created).Message
		testutil.Advance(t, db, 8*24*time.Hour)
		after = testutil.RequireEnqueued(t, db, created).Message
		require.Equal(t, 8*24*time.Hour, before.SentAt.Sub(after.SentAt))
		require.Equal(t, 8*24*time.Hour, before.ClaimedAt.Sub(after.ClaimedAt))
		swept, err := outbox.Store{DB: db}.Sweep(t.Context(), 7*24*time.Hour)
		require.NoError(t, err)
		require.Equal(t, 1, swept)
	})
}

func TestAdvanceAnOutage(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		relay := handling(db, func(context.Context, outbox.Delivery[orderCreated]) error {
			return outbox.Unavailable(errors.New("connection refused"))
		})
		o := testutil.Drain(t, relay)
		require.Len(t, o.Of(testutil.Retried), 1, o)
		require.Zero(t, o[0].Message.Attempts)
		testutil.Advance(t, db, 25*time.Hour)
		m := testutil.RequireEnqueued(t, db, created).Message
		require.Equal(t, 25*time.Hour, o[0].Message.UnavailableSince.Sub(m.UnavailableSince))
	})
}

func TestLoseLeases(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		var causes []error
		relay := handling(db, func(ctx context.Context, _ outbox.Delivery[orderCreated]) error {
			if len(causes) == 0 {
				testutil.LoseLeases(t, db)
				<-ctx.Done()
			}
			causes = append(causes, context.Cause(ctx))
			return nil // which is not recorded
		})
		relay.ClaimTimeout = 400 * time.Millisecond
		o := testutil.Drain(t, relay)
		require.Equal(t, "  waiting orders.created {\"order_id\":\"1\",\"cents\":0} after attempt 1: ", o.String())
		require.Equal(t, "another relay", o[0].Message.ClaimedBy)

		testutil.Advance(t, db, time.Minute)
		testutil.Drain(t, relay).RequireSent(t, 1)
		require.Len(t, causes, 2)
		require.ErrorIs(t, causes[0], outbox.ErrLeaseLost)
		require.NoError(t, causes[1])
	})
}

func TestLoseOutcomes(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		var ids []outbox.ID
		relay := handling(db, func(_ context.Context, d outbox.Delivery[orderCreated]) error {
			ids = append(ids, d.Message.ID)
			return nil
		})
		relay.Concurrency = 1
		commit(t, db, created, orderCreated{OrderID: "1"})
		commit(t, db, created, orderCreated{OrderID: "2"}, outbox.OrderKey("1"))
		testutil.Drain(t, relay).RequireSent(t, 2)
		testutil.LoseOutcomes(t, db)
		m := testutil.RequireEnqueued(t, db, created, order("1")).Message
		require.Equal(t, outbox.StatusClaimed, m.Status)
		require.Zero(t, m.SentAt)
		again := testutil.Drain(t, relay)
		again.RequireSent(t, 2)
		require.Equal(t, 2, again[0].Message.Attempts)
		require.Equal(t, append(ids[:2:2], ids[:2]...), ids, "twice, in their order")
	})
}

func TestRefuseOutcomes(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1"})
		mend := testutil.RefuseOutcomes(t, db)
		calls := make(chan outbox.ID, 2)
		relay := handling(db, func(_ context.Context, d outbox.Delivery[orderCreated]) error {
			calls <- d.Message.ID
			return nil
		})
		ctx, stop := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() { stopped <- relay.Start(ctx) }()
		defer func() { stop(); require.NoError(t, <-stopped) }()
		<-calls
		testutil.WaitFor(t, db, created, outbox.StatusClaimed)
		mend()
		testutil.WaitFor(t, db, created, outbox.StatusSent)
		require.Empty(t, calls)
	})
}

func TestRequireIdempotent(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		commit(t, db, created, orderCreated{OrderID: "1", Cents: 5})
		commit(t, db, created, orderCreated{OrderID: "2", Cents: 6})
		commit(t, db, created, orderCreated{OrderID: "parked"})
		seen, revenue, calls := map[outbox.ID]bool{}, 0, 0
		relay := handling(db, func(ctx context.Context, d outbox.Delivery[orderCreated]) error {
			calls++
			if !seen[d.Message.ID] {
				seen[d.Message.ID] = true
				revenue += d.Payload.Cents
			}
			return answer(ctx, d)
		})
		relay.Concurrency = 1
		o := testutil.RequireIdempotent(t, relay, func() any { return revenue })
		require.Len(t, o.Of(testutil.Sent), 2)
		require.Len(t, o.Of(testutil.Parked), 1)
		require.Equal(t, 11, revenue)
		require.Equal(t, 5, calls)
	})
}

// What the relay does not take, or another has sent, is none of its business, and
// one more delivery than MaxAttempts allows is none of a handler's.
func TestRequireIdempotentLeavesOthersAlone(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		elsewhere := handling(db, succeed)
		elsewhere.Mux = outbox.NewMux()
		outbox.Handle(elsewhere.Mux, refunded, func(context.Context, outbox.Delivery[orderPaid]) error { return nil })
		commit(t, db, refunded, orderPaid{OrderID: "0"})
		testutil.Drain(t, elsewhere).RequireSent(t, 1)
		commit(t, db, paid, orderPaid{OrderID: "1"})
		commit(t, db, created, orderCreated{OrderID: "1"})

		calls, done := 0, map[string]bool{}
		relay := handling(db, succeed)
		relay.Mux = outbox.NewMux()
		outbox.Handle(relay.Mux, created, func(_ context.Context, d outbox.Delivery[orderCreated]) error {
			calls++
			done[d.Payload.OrderID] = true
			return nil
		}, outbox.MaxAttempts(1))
		all := testutil.RequireIdempotent(t, relay, func() any { return len(done) })
		require.Len(t, all.Of(testutil.Sent), 1, all)
		require.Equal(t, 2, calls)
		require.Equal(t, outbox.StatusSent, testutil.RequireEnqueued(t, db, refunded).Message.Status)
	})
}
