package outbox_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// Section 5 of the contract: commits wake relays, and nothing is paid for it
// within the producer's transaction.

// sleeper is a relay that looks in an hour unless it is woken.
type sleeper struct {
	relay     *outbox.Relay
	seen      *queryLog
	delivered <-chan string
	stop      func() error
}

// sleep starts a relay on a pool and waits until it has no reason to look.
func (f *fixture) sleep(t *testing.T, db *bun.DB, listens bool) *sleeper {
	t.Helper()
	var calls atomic.Int64
	handler, delivered := counted(&calls)
	s := &sleeper{relay: f.relay(handling(handler)), seen: &queryLog{}, delivered: delivered}
	s.relay.DB, s.relay.Interval = db.WithQueryHook(s.seen), time.Hour
	s.stop = start(t, s.relay)
	want := 1
	if listens {
		want = 2 // again once it listens
	}
	eventually(t, func() bool { return s.seen.looks() >= want }, "the first looks")
	return s
}

// listens tells whether a relay on f.db can listen: not on SQLite, nor through
// the faults on pgx, which hide what it is.
func (f *fixture) listens() bool { return f.driver == "pgdriver" }

func TestCommitWakesARelay(t *testing.T) {
	enqueue := func(ctx context.Context, tx bun.Tx, id string) error {
		return outbox.Enqueue(ctx, tx, plainTopic, order{ID: id})
	}
	for _, c := range []struct {
		name    string
		produce func(ctx context.Context, f *fixture) error
	}{
		{"of RunInTx", func(ctx context.Context, f *fixture) error {
			return f.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return enqueue(ctx, tx, "a") })
		}},
		{"of RunInTx whose context is not used", func(ctx context.Context, f *fixture) error {
			return f.db.RunInTx(ctx, nil, func(_ context.Context, tx bun.Tx) error { return enqueue(ctx, tx, "a") })
		}},
		{"with a savepoint", func(ctx context.Context, f *fixture) error {
			return f.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				return tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
					return tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return enqueue(ctx, tx, "a") })
				})
			})
		}},
		{"with a savepoint that is rolled back", func(ctx context.Context, f *fixture) error {
			return f.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				if err := enqueue(ctx, tx, "a"); err != nil {
					return err
				}
				failed := errors.New("the inner one")
				err := tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
					return errors.Join(enqueue(ctx, tx, "b"), failed)
				})
				if errors.Is(err, failed) {
					return nil
				}
				return err
			})
		}},
		{"of BeginTx, with an unrelated context", func(ctx context.Context, f *fixture) error {
			tx, err := f.db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			return errors.Join(enqueue(ctx, tx, "a"), tx.Commit())
		}},
		{"of Begin", func(ctx context.Context, f *fixture) error {
			tx, err := f.db.Begin()
			if err != nil {
				return err
			}
			return errors.Join(enqueue(ctx, tx, "a"), tx.Commit())
		}},
		{"of Conn.BeginTx", func(ctx context.Context, f *fixture) error {
			conn, err := f.db.Conn(ctx)
			if err != nil {
				return err
			}
			tx, err := conn.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			return errors.Join(enqueue(ctx, tx, "a"), tx.Commit(), conn.Close())
		}},
		{"of Conn.RunInTx", func(ctx context.Context, f *fixture) error {
			conn, err := f.db.Conn(ctx)
			if err != nil {
				return err
			}
			return errors.Join(conn.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return enqueue(ctx, tx, "a") }), conn.Close())
		}},
		{"of EnqueueAll", func(ctx context.Context, f *fixture) error {
			return f.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				_, err := outbox.EnqueueAll(ctx, tx, plainTopic, []order{{ID: "a"}})
				return err
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				s := f.sleep(t, f.db, f.listens())
				require.NoError(t, c.produce(t.Context(), f))
				require.Equal(t, "a", receive(t, s.delivered, "the delivery"))
				eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "it is recorded")
				require.NoError(t, s.stop())
			})
		})
	}
}

func TestCommitOfOneOfTwoOpenTransactionsWakesARelay(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		s := f.sleep(t, f.db, f.listens())
		first, err := f.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		second, err := f.db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, outbox.Enqueue(t.Context(), first, plainTopic, order{ID: "1"}))
		require.NoError(t, outbox.Enqueue(t.Context(), second, plainTopic, order{ID: "2"}))
		require.NoError(t, second.Commit())
		require.Equal(t, "2", receive(t, s.delivered, "that of the second"))
		require.NoError(t, first.Commit())
		require.Equal(t, "1", receive(t, s.delivered, "that of the first"))
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 2 }, "both are recorded")
		require.NoError(t, s.stop())
	})
}

func TestNothingElseWakesARelay(t *testing.T) {
	// Each is done so often that its wakes could not all fall into one look.
	const often = 50
	for _, c := range []struct {
		name string
		do   func(t *testing.T, f *fixture)
	}{
		{"a rollback", func(t *testing.T, f *fixture) {
			err := f.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				return errors.Join(outbox.Enqueue(ctx, tx, plainTopic, order{}), io.EOF)
			})
			require.ErrorIs(t, err, io.EOF)
		}},
		{"a rollback after an unrelated context", func(t *testing.T, f *fixture) {
			tx, err := f.db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, outbox.Enqueue(t.Context(), tx, plainTopic, order{}))
			require.NoError(t, tx.Rollback())
		}},
		{"a commit that fails", func(t *testing.T, f *fixture) {
			f.faults.onBefore(func(query string) error {
				if query == "COMMIT" {
					return io.ErrUnexpectedEOF
				}
				return nil
			})
			err := f.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, plainTopic, order{})
			})
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			f.faults.clear()
		}},
		{"a commit without a message", func(t *testing.T, f *fixture) {
			f.tx(t, func(ctx context.Context, tx bun.Tx) error {
				_, err := tx.ExecContext(ctx, "SELECT 1")
				return err
			})
		}},
		{"a commit of a refused message", func(t *testing.T, f *fixture) {
			f.tx(t, func(ctx context.Context, tx bun.Tx) error {
				require.Error(t, outbox.Enqueue(ctx, tx, plainTopic, order{}, outbox.Key("\x00")))
				return nil
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEvery(t, func(t *testing.T, f *fixture) {
				s := f.sleep(t, f.db, f.listens())
				before := s.seen.looks()
				for range often {
					c.do(t, f)
					for range 3 { // which takes as long as a look
						require.Zero(t, f.count(t, outbox.StatusPending))
					}
				}
				s.relay.Wake() // and what it leads to is one look
				eventually(t, func() bool { return s.seen.looks() > before }, "a look")
				f.enqueueAndWait(t, s)
				require.NoError(t, s.stop())
				// The commit and, with LISTEN, its NOTIFY have led to a look
				// each, and what was found to another.
				require.LessOrEqual(t, s.seen.looks(), before+1+4)
			})
		})
	}
}

// enqueueAndWait has a message delivered.
func (f *fixture) enqueueAndWait(t *testing.T, s *sleeper) {
	t.Helper()
	f.enqueue(t, plainTopic, []string{"last"})
	require.Equal(t, "last", receive(t, s.delivered, "the delivery"))
	eventually(t, func() bool { return f.count(t, outbox.StatusClaimed) == 0 }, "it is recorded")
}

func TestCommitWakesRelaysOfOtherProcesses(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		s := f.sleep(t, f.pool(t, "other", nil), true) // has no hook
		for _, id := range numbers(3) {
			f.enqueue(t, plainTopic, []string{id})
			require.Equal(t, id, receive(t, s.delivered, "the delivery"))
		}
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 3 }, "all are recorded")
		require.NoError(t, s.stop())
		eventually(t, func() bool { return f.listeners(t, "other") == 0 }, "nobody is left listening")
	})
}

func TestTwoRelaysOnOneHookAreBothWoken(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		a, b := f.sleep(t, f.db, f.listens()), f.sleep(t, f.db, f.listens())
		before := [2]int{a.seen.looks(), b.seen.looks()}
		f.enqueue(t, plainTopic, []string{"a"})
		eventually(t, func() bool { return a.seen.looks() > before[0] && b.seen.looks() > before[1] }, "a look of each")
		eventually(t, func() bool { return f.count(t, outbox.StatusSent) == 1 }, "it is recorded")
		require.NoError(t, errors.Join(a.stop(), b.stop()))
	})
}

// hookSize is the length of one of the hook's maps; there must be no activity.
func hookSize(hook *outbox.CommitHook, field string) int {
	return reflect.ValueOf(hook).Elem().FieldByName(field).Len()
}

func TestStoppedRelayIsDetachedFromItsHook(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		hook := &outbox.CommitHook{}
		db := f.connect(t, nil).WithQueryHook(hook)
		for range 3 {
			s := f.sleep(t, db, f.postgres)
			require.Equal(t, 1, hookSize(hook, "relays"))
			require.NoError(t, s.stop())
			require.Zero(t, hookSize(hook, "relays"))
		}
		r := f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))
		r.DB = db
		drain(t, r)
		require.Zero(t, hookSize(hook, "relays"))
		require.Zero(t, hookSize(hook, "open"))
	})
}

func TestHookForgetsTransactionsThatEndedBehindItsBack(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		hook := &outbox.CommitHook{}
		db := f.connect(t, nil).WithQueryHook(hook)
		for i := range 600 {
			ctx, cancel := context.WithCancel(t.Context())
			tx, err := db.BeginTx(ctx, nil)
			require.NoError(t, err)
			if i%2 == 0 {
				require.NoError(t, tx.Tx.Rollback()) // of database/sql, which bun does not see
			} else {
				require.NoError(t, tx.Tx.Commit())
			}
			cancel()
			if i%50 == 0 {
				runtime.GC()
			}
		}
		require.Less(t, hookSize(hook, "open"), 400)
		for range 10 {
			f.unhookedTx(t, db)
		}
		runtime.GC()
		require.Less(t, hookSize(hook, "open"), 400)
	})
}

// unhookedTx commits an empty transaction.
func (f *fixture) unhookedTx(t *testing.T, db *bun.DB) {
	t.Helper()
	require.NoError(t, db.RunInTx(t.Context(), nil, func(context.Context, bun.Tx) error { return nil }))
}

// sentences records what a pool sends, in its order, and when it was answered.
type sentences struct {
	mu   sync.Mutex
	list []string
}

func (s *sentences) record(f *faults) {
	f.onBefore(func(query string) error { return s.add("sent " + query) })
	f.onAfter(func(query string) error { return s.add("done " + query) })
}

func (s *sentences) add(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, what)
	return nil
}

// positions returns where something stands.
func (s *sentences) positions(prefix string) (at []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, what := range s.list {
		if strings.HasPrefix(what, prefix) {
			at = append(at, i)
		}
	}
	return at
}

// F14: NOTIFY serialises commits. See also TestNoProducerCommitsANotify.
func TestNotifyIsSentAfterTheCommitAndOutsideOfIt(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		var s sentences
		s.record(f.faults)
		f.enqueue(t, plainTopic, numbers(3))
		eventually(t, func() bool { return len(s.positions("done NOTIFY")) == 1 }, "a NOTIFY")
		require.Equal(t, []string{"sent NOTIFY outbox_messages"}, s.list[s.positions("sent NOTIFY")[0]:][:1], "without a payload")
		require.Greater(t, s.positions("sent NOTIFY")[0], s.positions("done COMMIT")[0])
		require.Len(t, s.positions("sent BEGIN"), 1, "no transaction of its own either")
		require.Equal(t, 3, drain(t, f.relay(handling(func(context.Context, outbox.Delivery[order]) error { return nil }))))
	})
}

func TestNotifiesOfABurstAreDebounced(t *testing.T) {
	onPostgres(t, func(t *testing.T, f *fixture) {
		var s sentences
		s.record(f.faults)
		begun := time.Now()
		var producers sync.WaitGroup
		for range 4 {
			producers.Go(func() {
				for range 250 {
					_ = f.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
						return outbox.Enqueue(ctx, tx, plainTopic, order{})
					})
				}
			})
		}
		producers.Wait()
		elapsed := time.Since(begun)
		last := func(prefix string) int {
			at := append([]int{-1}, s.positions(prefix)...)
			return at[len(at)-1]
		}
		lastCommit := last("done COMMIT")
		eventually(t, func() bool { return last("done NOTIFY") > lastCommit }, "the trailing NOTIFY")
		require.Equal(t, 1000, f.count(t, outbox.StatusPending))
		require.Less(t, s.positions("sent NOTIFY")[0], s.positions("done COMMIT")[900], "the leading NOTIFY")
		require.LessOrEqual(t, len(s.positions("sent NOTIFY")), int(elapsed/(10*time.Millisecond))+2, "in %v", elapsed)
		f.exec(t, "DELETE FROM outbox_messages")
		f.mayVanish = true
	})
}
