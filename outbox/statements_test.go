package outbox_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// statements notes what is sent to the driver, begin and commit included. Only
// NOTIFY, which a CommitHook sends beside, is left out.
type statements struct {
	mu   sync.Mutex
	sent []string
}

// watch notes from now on what passes through the fixture's faults.
func (f *fixture) watch() *statements {
	s := &statements{}
	f.faults.onBefore(func(query string) error {
		if !strings.HasPrefix(query, "NOTIFY") {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.sent = append(s.sent, query)
		}
		return nil
	})
	return s
}

// take returns what was sent since the last take.
func (s *statements) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.sent
	s.sent = nil
	return sent
}

// business makes a table for what the transactions are about.
func (f *fixture) business(t *testing.T) {
	t.Helper()
	f.exec(t, "CREATE TABLE business (id text PRIMARY KEY)")
}

// act is the business write of a transaction.
func act(ctx context.Context, tx bun.Tx, id string) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO business (id) VALUES (?)", id)
	return err
}

// acts returns the ids of the committed business writes, sorted.
func (f *fixture) acts(t *testing.T) []string {
	t.Helper()
	ids := []string{}
	require.NoError(t, f.db.NewRaw("SELECT id FROM business ORDER BY id").Scan(t.Context(), &ids))
	return ids
}

// rows counts the rows of the outbox.
func (f *fixture) rows(t *testing.T) int {
	t.Helper()
	var n int
	require.NoError(t, f.db.NewRaw("SELECT count(*) FROM outbox_messages").Scan(t.Context(), &n))
	return n
}

// stored returns all messages, oldest first.
func (f *fixture) stored(t *testing.T) []outbox.Message {
	t.Helper()
	list, err := f.store.List(t.Context(), outbox.Filter{Limit: 1_000_000})
	require.NoError(t, err)
	slices.Reverse(list)
	return list
}

// errRollback makes RunInTx roll back.
var errRollback = errors.New("roll back")

// rolledBack runs fn in a transaction that is rolled back.
func (f *fixture) rolledBack(t *testing.T, fn func(ctx context.Context, tx bun.Tx) error) {
	t.Helper()
	err := f.db.RunInTx(t.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return errRollback
	})
	require.ErrorIs(t, err, errRollback)
}
