package outbox_test

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/uptrace/bun"
)

// queryLog is a bun.QueryHook that collects what a pool sends through bun.
type queryLog struct {
	mu      sync.Mutex
	queries []string
	changed []int64     // rows, by query; -1 where that is not known
	ended   []time.Time // when each was answered
}

func (s *queryLog) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context { return ctx }

func (s *queryLog) AfterQuery(_ context.Context, event *bun.QueryEvent) {
	changed := int64(-1)
	if event.Result != nil {
		if n, err := event.Result.RowsAffected(); err == nil {
			changed = n
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries, s.changed, s.ended = append(s.queries, event.Query), append(s.changed, changed), append(s.ended, time.Now())
}

// that returns the statements so far of which a condition holds, with the rows
// that each changed.
func (s *queryLog) that(condition func(query string) bool) (queries []string, changed []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, q := range s.queries {
		if condition(q) {
			queries, changed = append(queries, q), append(changed, s.changed[i])
		}
	}
	return queries, changed
}

// since returns how long after a time the n-th statement was answered of which
// a condition holds, from 0.
func (s *queryLog) since(begun time.Time, condition func(query string) bool, n int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, q := range s.queries {
		if !condition(q) {
			continue
		}
		if n--; n < 0 {
			return s.ended[i].Sub(begun)
		}
	}
	return 0
}

// looks counts the looks for due rows.
func (s *queryLog) looks() int {
	queries, _ := s.that(isClaimLook)
	return len(queries)
}

// isClaimLook tells the statement, the first one on SQLite, by which a relay with a
// Mux looks for due rows.
func isClaimLook(query string) bool {
	return strings.Contains(query, "SELECT c.id FROM take CROSS JOIN LATERAL") || strings.Contains(query, "0 AS kind FROM outbox_messages AS m")
}

// isSweep tells a statement that deletes what is past its retention.
func isSweep(query string) bool { return strings.Contains(query, "DELETE FROM outbox_messages") }

// containsTopic reports whether a look is for a topic.
func containsTopic(query, topic string) bool { return strings.Contains(query, "'"+topic+"'") }
