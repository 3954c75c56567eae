package outbox_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Guarantee 8: a batch of outcomes that the database refuses is split until the
// guilty row is alone.

// refuse makes the database refuse rows for which a condition holds.
func (f *fixture) refuse(t *testing.T, condition string) {
	t.Helper()
	if f.postgres {
		f.exec(t, "ALTER TABLE outbox_messages ADD CONSTRAINT refusing CHECK (NOT ("+condition+")) NOT VALID")
		return
	}
	for _, column := range []string{"id = ", "last_error", "status", "attempts"} {
		condition = strings.ReplaceAll(condition, column, "NEW."+column)
	}
	f.exec(t, "CREATE TRIGGER refusing BEFORE UPDATE ON outbox_messages WHEN "+condition+
		" BEGIN SELECT RAISE(ABORT, 'refused'); END")
}

func (f *fixture) refuseNoMore(t *testing.T) {
	t.Helper()
	if f.postgres {
		f.exec(t, "ALTER TABLE outbox_messages DROP CONSTRAINT refusing")
	} else {
		f.exec(t, "DROP TRIGGER refusing")
	}
}

func TestParkedARefusedReasonDoesNotHoldUpItsBatch(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.refuse(t, "last_error LIKE '%guilty%'")
		const rows = 50
		ids := f.enqueue(t, plainTopic, numbers(rows))
		var calls atomic.Int64
		all := make(chan struct{})
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			if calls.Add(1) == rows {
				close(all)
			}
			<-all // so that outcomes come in batches
			switch d.Payload.ID {
			case "7":
				return outbox.Permanent(errors.New("guilty"))
			case "8":
				return errors.New("innocent")
			}
			return nil
		}))
		r.Concurrency, r.BaseBackoff = rows, time.Hour
		r.Name = "this relay"
		var l logs
		r.Logger = l.logger()
		require.Equal(t, rows-2, drain(t, r))
		require.EqualValues(t, rows, calls.Load(), "none is delivered again")
		for i, id := range ids {
			m := f.get(t, id)
			require.Equal(t, 1, m.Attempts)
			switch i {
			case 7:
				require.Equal(t, outbox.StatusFailed, m.Status)
				require.Equal(t, "the reason could not be stored; see the log of this relay", m.LastError)
			case 8:
				require.Equal(t, outbox.StatusPending, m.Status)
				require.Equal(t, "innocent", m.LastError)
			default:
				require.Equal(t, outbox.StatusSent, m.Status)
			}
		}
		require.Equal(t, 1, l.count("the database refuses to record an outcome"))
		require.NotZero(t, l.count("guilty"), "the log has the reason")
		require.Zero(t, l.count("lease lost"))
	})
}

// What is refused for good, the reason not being at fault, keeps its lease and
// is tried until it goes through, while the others are recorded at once.
func TestParkedARefusedRowWaitsAlone(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.refuse(t, "status = 'failed'")
		ids := f.enqueue(t, plainTopic, numbers(20))
		var calls atomic.Int64
		stop := start(t, f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			calls.Add(1)
			if d.Payload.ID == "7" {
				return outbox.Permanent(errors.New("no"))
			}
			return nil
		})))
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 19 }, "the others are recorded")
		require.Equal(t, outbox.StatusClaimed, f.get(t, ids[7]).Status)
		f.refuseNoMore(t)
		eventually(t, func() bool { return f.get(t, ids[7]).Status == outbox.StatusFailed }, "it goes through in the end")
		require.NoError(t, stop())
		require.EqualValues(t, 20, calls.Load())
		require.Equal(t, 1, f.get(t, ids[7]).Attempts)
	})
}
