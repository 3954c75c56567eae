package outbox_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Rows become visible in the order of their commits, which is no order of
// theirs. No bound of a claim may lie between.

// F08: rows that are committed out of the order of their ids are skipped for
// ever.
func TestRowsCommittedOutOfIDOrderAreNotSkipped(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		const writers = 8
		each, rounds := 50, atScale(5, 25) // 10,000 rows; the first few are what shows the fault
		if !f.postgres {
			each, rounds = 10, 1 // one writer at a time: ids are committed in their order
		}
		deliveries := map[outbox.ID]int{}
		var mu sync.Mutex
		times := func(id outbox.ID) int {
			mu.Lock()
			defer mu.Unlock()
			return deliveries[id]
		}
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			mu.Lock()
			defer mu.Unlock()
			deliveries[d.Message.ID]++
			return nil
		}))
		r.DB, r.Batch, r.Concurrency = f.connect(t, nil), 1000, 20
		stop := start(t, r)

		if f.postgres { // for certain: the row of the last id is delivered before the one before it is committed
			txs, ids := make([]bun.Tx, writers), make([]outbox.Receipt, writers)
			for i := range txs {
				tx, err := f.db.BeginTx(t.Context(), nil)
				require.NoError(t, err)
				require.NoError(t, outbox.Enqueue(t.Context(), tx, plainTopic, order{}, outbox.Into(&ids[i])))
				txs[i] = tx
			}
			for i, tx := range slices.Backward(txs) {
				require.NoError(t, tx.Commit())
				eventually(t, func() bool { return times(ids[i].ID) == 1 }, "the delivery of row %d", i)
			}
			f.committed += writers
		}
		errs := make(chan error, writers)
		for w := range writers {
			go func() {
				for round := range rounds {
					err := f.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
						for half := range 2 { // whose ids lie around those of others
							if _, err := outbox.EnqueueAll(ctx, tx, plainTopic, make([]order, each/2)); err != nil {
								return fmt.Errorf("writer %d, round %d, half %d: %w", w, round, half, err)
							}
						}
						return nil
					})
					if err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range writers {
			require.NoError(t, receive(t, errs, "the end of a writer"))
		}
		f.committed += writers * rounds * each
		eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(deliveries) == f.committed
		}, "all are delivered")
		require.NoError(t, stop())
		require.Equal(t, f.committed, f.count(t, outbox.StatusSent))
		require.Len(t, deliveries, f.committed)
		for id, n := range deliveries {
			require.Equal(t, 1, n, "deliveries of %s", id)
		}
	})
}

// looksInOrder is a bun.QueryHook that numbers the looks of one relay from 1 and
// notes which of them drew a token.
type looksInOrder struct {
	mu    sync.Mutex
	looks int
	drawn map[string]int
}

var uuidText = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

func (l *looksInOrder) BeforeQuery(ctx context.Context, event *bun.QueryEvent) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isClaimLook(event.Query) {
		l.looks++
	}
	if isClaim(event.Query) {
		for _, token := range uuidText.FindAllString(event.Query, -1) {
			if l.drawn[token] == 0 { // else it is that of a row in flight
				l.drawn[token] = l.looks
			}
		}
	}
	return ctx
}

func (l *looksInOrder) AfterQuery(context.Context, *bun.QueryEvent) {}

// begun is how many looks have begun.
func (l *looksInOrder) begun() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.looks
}

// F50: a claim bound that starts behind the last row misses rows which commit
// late. The first look that begins after a commit takes what was committed, so
// nothing waits longer than the poll promises, whatever the speed of the
// machine.
func TestRowsCommittedLateWaitForNoSecondLook(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		const writers, each = 8, 25
		own := f.unhooked(t) // nobody is woken
		looks := &looksInOrder{drawn: map[string]int{}}
		type waited struct{ committed, taken int } // looks that had begun, and the look that took it
		seen := map[outbox.ID]*waited{}
		var mu sync.Mutex
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			token := f.token(t, d.Message.ID)
			looks.mu.Lock()
			taken := looks.drawn[token]
			looks.mu.Unlock()
			mu.Lock()
			defer mu.Unlock()
			if seen[d.Message.ID] == nil {
				seen[d.Message.ID] = &waited{committed: -1}
			}
			seen[d.Message.ID].taken = taken
			return nil
		}))
		r.DB, r.Interval = f.pool(t, "relay", nil).WithQueryHook(looks), time.Millisecond
		r.Batch, r.Concurrency = 1000, 20
		stop := start(t, r)
		errs := make(chan error, writers)
		for range writers {
			go func() {
				for range each {
					var receipt outbox.Receipt
					err := own.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
						if err := outbox.Enqueue(ctx, tx, plainTopic, order{}, outbox.Into(&receipt)); err != nil {
							return err
						}
						_, err := tx.ExecContext(ctx, "SELECT pg_sleep(0.003)")
						return err
					})
					begun := looks.begun()
					if err != nil {
						errs <- err
						return
					}
					mu.Lock()
					if seen[receipt.ID] == nil {
						seen[receipt.ID] = &waited{}
					}
					seen[receipt.ID].committed = begun
					mu.Unlock()
				}
				errs <- nil
			}()
		}
		for range writers {
			require.NoError(t, receive(t, errs, "the end of a writer"))
		}
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == writers*each }, "all are sent")
		require.NoError(t, stop())
		require.Len(t, seen, writers*each)
		late := 0
		for id, w := range seen {
			require.LessOrEqual(t, w.taken, w.committed+1, "%s, committed after look %d began, was taken by look %d", id, w.committed, w.taken)
			if w.taken == w.committed+1 {
				late++
			}
		}
		require.Positive(t, late, "commits and looks did not overlap")
	})
}
