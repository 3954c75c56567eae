package storetest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
)

func testErrors(t testing.TB, s *subject) {
	enqueue := func(ctx context.Context, tx bun.Tx) error { return outbox.Enqueue(ctx, tx, topic, event{}) }
	tx, err := s.db.BeginTx(s.ctx, nil)
	must(t, err)
	must(t, tx.Rollback())
	if err := enqueue(s.ctx, tx); !errors.Is(err, outbox.ErrNoTransaction) {
		t.Fatalf("the error of a transaction that has ended is %v, want ErrNoTransaction", err)
	}
	if s.isPostgres() {
		s.requireSerialization(t)
	}
	_, err = s.db.ExecContext(s.ctx, "DROP TABLE outbox_messages")
	must(t, err)
	if err := s.db.RunInTx(s.ctx, nil, enqueue); !errors.Is(err, outbox.ErrNotMigrated) {
		t.Fatalf("the error of a missing table is %v, want ErrNotMigrated", err)
	}
	if err := s.store.Validate(s.ctx); !errors.Is(err, outbox.ErrNotMigrated) {
		t.Fatalf("Validate says of a missing table %v, want ErrNotMigrated", err)
	}
}

// requireSerialization enqueues a key that was committed after the snapshot.
func (s *subject) requireSerialization(t testing.TB) {
	t.Helper()
	tx, err := s.db.BeginTx(s.ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	must(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.NewSelect().Table("outbox_messages").Count(s.ctx) // takes the snapshot
	must(t, err)
	s.enqueue(t, 1, outbox.Key("k"))
	if err := outbox.Enqueue(s.ctx, tx, topic, event{}, outbox.Key("k")); !errors.Is(err, outbox.ErrSerialization) {
		t.Fatalf("the error of a key committed after the snapshot is %v, want ErrSerialization", err)
	}
}

func testDeadlines(t testing.TB, s *subject) {
	const deadline = 200 * time.Millisecond
	endless := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000000) SELECT max(i) FROM n"
	if s.isPostgres() {
		endless = "SELECT 1 FROM pg_sleep(20)"
	}
	ctx, cancel := context.WithTimeout(s.ctx, deadline)
	defer cancel()
	begun := time.Now()
	var n int
	err := s.db.NewRaw(endless).Scan(ctx, &n)
	if took := time.Since(begun); err == nil || took > 20*deadline {
		t.Fatalf("a statement with a deadline of %v took %v and returned %v", deadline, took.Round(time.Millisecond), err)
	}
	// The connection is not left in a state that the next one pays for.
	equal(t, "the number of messages", s.count(t, "outbox_messages"), 0)
}

func testWake(t testing.TB, s *subject) {
	s.db = s.db.WithQueryHook(&outbox.CommitHook{})
	relay := s.relay(func(context.Context, outbox.Delivery[event]) error { return nil })
	relay.DB, relay.Interval = s.db, time.Hour
	ctx, stop := context.WithCancel(s.ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- relay.Start(ctx) }()
	defer func() {
		stop()
		must(t, <-stopped)
	}()
	for range 2 { // the second wakes it from its sleep
		s.enqueue(t, 1)
		testutil.WaitFor(t, s.db, topic, outbox.StatusSent)
		_, err := s.db.ExecContext(s.ctx, "DELETE FROM outbox_messages")
		must(t, err)
	}
}
