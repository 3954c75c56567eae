package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// F25: cleanup locks the table. A producer is no slower for it, since it waits
// for no lock of a sweeper: it goes on while two of them are in the middle of
// their batches and cannot end.
func TestProducersDoNotWaitForSweepers(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		f.mayVanish = true
		const old = 3000 // two batches and more
		f.fill(t, plainTopic.Name(), "sent", old, "key", "'old ' || i")
		f.age(t, "true", month)
		f.exec(t, `CREATE FUNCTION dally() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_advisory_xact_lock_shared(25); RETURN OLD; END $$`)
		f.exec(t, "CREATE TRIGGER dally BEFORE DELETE ON outbox_messages FOR EACH ROW EXECUTE FUNCTION dally()")
		release := f.lock(t, "SELECT pg_advisory_xact_lock(25)")
		sweepers := f.on(t)
		swept := make(chan int, 2)
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				n, err := sweepers.store.Sweep(t.Context(), time.Hour)
				swept <- n
				errs <- err
			}()
		}
		eventually(t, func() bool {
			return f.queryInt(t, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 25 AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == 2
		}, "both sweepers are in the middle of a batch")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for i := range 50 {
			require.NoError(t, f.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				if err := outbox.Enqueue(ctx, tx, plainTopic, order{}, outbox.Key(fmt.Sprint("new ", i))); err != nil {
					return err
				}
				_, err := outbox.EnqueueAll(ctx, tx, plainTopic, []order{{}, {}})
				return err
			}), "producer %d", i)
		}
		require.Equal(t, 150, drain(t, f.relay(handling(acknowledge))), "nor does a relay")
		require.Empty(t, errs, "the sweepers have not ended meanwhile")
		release()
		n := receive(t, swept, "a sweeper") + receive(t, swept, "the other")
		require.NoError(t, errors.Join(<-errs, <-errs))
		require.Equal(t, old, n)
	})
}

// F29: SQLITE_BUSY in spite of busy_timeout.
func TestWritersAndRelaysOfOneSQLiteFileAreNeverBusy(t *testing.T) {
	onSQLite(t, func(t *testing.T, f *fixture) {
		const writers, each = 8, 12
		f.business(t)
		log := &logs{}
		var stops []func() error
		for range 2 {
			r := f.on(t).relay(handling(acknowledge))
			r.Logger, r.Batch = log.logger(), 20
			stops = append(stops, start(t, r))
		}
		var group sync.WaitGroup
		errs := make(chan error, writers*each)
		for w := range writers {
			own := f.on(t)
			group.Go(func() {
				for i := range each {
					errs <- own.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
						var n int // reads before it writes
						if err := tx.NewRaw("SELECT count(*) FROM business").Scan(ctx, &n); err != nil {
							return err
						}
						return errors.Join(act(ctx, tx, fmt.Sprint(w, " ", i)), outbox.Enqueue(ctx, tx, plainTopic, order{}))
					})
				}
			})
		}
		group.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		f.committed += writers * each
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == writers*each }, "all are sent")
		for _, stop := range stops {
			require.NoError(t, stop())
		}
		require.Len(t, f.acts(t), writers*each)
		require.Zero(t, f.queryInt(t, "SELECT sum(attempts) - count(*) FROM outbox_messages"))
		require.Zero(t, log.count(outageLine))
		require.Zero(t, log.count("locked"))
	})
}
