package testutil

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"
)

// guard closes db when t ends, and fails t if something is still open by then.
// It returns db with a watch on its transactions.
func guard(t testing.TB, db *bun.DB) *bun.DB {
	w := &watch{}
	t.Cleanup(func() {
		t.Helper()
		w.requireEnded(t)
		requireIdle(t, db)
		if err := db.Close(); err != nil {
			t.Errorf("close the test database: %v", err)
		}
	})
	return db.WithQueryHook(w)
}

// idleGrace is how long connections may take to come back to the pool: the
// transaction of a context that has ended is rolled back beside the test.
const idleGrace = 2 * time.Second

// requireIdle fails t if connections of db are in use.
func requireIdle(t testing.TB, db *bun.DB) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(idleGrace); db.Stats().InUse > 0; <-tick.C {
		if time.Now().After(deadline) {
			t.Errorf("connections of the test database still in use at the end of the test: %d; "+
				"close rows and bun.Conns, and wait for relays that Start has started", db.Stats().InUse)
			return
		}
	}
}

// watch is a bun.QueryHook that knows which transactions are open, and which of
// them have enqueued.
type watch struct {
	mu   sync.Mutex
	open []*transaction
	gone []*transaction // rolled back after they had enqueued
}

// transaction is one that the code under test has begun.
type transaction struct {
	begun    string   // where in the source, as package/file:line
	enqueued []string // arguments of what it has inserted, topics among them
}

// on reports whether the transaction has enqueued on one of these topics.
func (tx *transaction) on(topics []string) bool {
	return slices.ContainsFunc(tx.enqueued, func(arg string) bool { return slices.Contains(topics, arg) })
}

type (
	transactionKey struct{} // of the context of a *transaction, perhaps nil
	watchKey       struct{} // asks for the watch itself, with a **watch
)

// BeforeQuery implements bun.QueryHook.
func (w *watch) BeforeQuery(ctx context.Context, event *bun.QueryEvent) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ask, ok := ctx.Value(watchKey{}).(**watch); ok {
		*ask = w
	}
	switch {
	case event.Query == "BEGIN":
		tx := &transaction{begun: caller()}
		if tx.begun == "" { // the library's own
			tx = nil
		} else {
			w.open = append(w.open, tx)
		}
		return context.WithValue(ctx, transactionKey{}, tx)
	case strings.HasPrefix(event.QueryTemplate, "INSERT INTO outbox_messages "):
		tx, _ := ctx.Value(transactionKey{}).(*transaction)
		if tx == nil && len(w.open) == 1 { // a context from elsewhere
			tx = w.open[0]
		}
		for _, arg := range event.QueryArgs {
			if text, ok := arg.(string); ok && tx != nil {
				tx.enqueued = append(tx.enqueued, text)
			}
		}
	}
	return ctx
}

// AfterQuery implements bun.QueryHook.
func (w *watch) AfterQuery(ctx context.Context, event *bun.QueryEvent) {
	if event.Query != "COMMIT" && event.Query != "ROLLBACK" && (event.Query != "BEGIN" || event.Err == nil) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	tx, _ := ctx.Value(transactionKey{}).(*transaction)
	i := slices.Index(w.open, tx)
	if i < 0 {
		return // it had ended already
	}
	w.open = slices.Delete(w.open, i, i+1)
	if len(tx.enqueued) > 0 && (event.Query == "ROLLBACK" || event.Err != nil) {
		w.gone = append(w.gone, tx)
	}
}

// requireEnded fails t if a transaction is open.
func (w *watch) requireEnded(t testing.TB) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tx := range w.open {
		lost := ""
		if len(tx.enqueued) > 0 {
			lost = "; what it has enqueued is lost"
		}
		t.Errorf("the transaction begun at %s was neither committed nor rolled back by the end of the test%s; "+
			"use RunInTx, or defer its Rollback", tx.begun, lost)
	}
}

// unseen says which transactions hold messages of topics that q does not see, as
// far as that can be known.
func unseen(t testing.TB, q bun.IDB, topics []string) string {
	var w *watch
	ctx, cancel := statementContext(t)
	defer cancel()
	if rows, err := q.QueryContext(context.WithValue(ctx, watchKey{}, &w), "SELECT 1"); err == nil {
		_ = rows.Close()
	}
	_, isTx := q.(bun.Tx)
	var lines []string
	say := func(line string) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	switch {
	case w != nil:
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, tx := range w.open {
			if tx.on(topics) && !isTx {
				say("the transaction begun at " + tx.begun + " has enqueued on this topic and is not committed; only its own bun.Tx sees that")
			}
		}
		for _, tx := range w.gone {
			if tx.on(topics) {
				say("the transaction begun at " + tx.begun + " had enqueued on this topic and was rolled back")
			}
		}
	case !isTx:
		say("only committed messages are seen here; within a transaction, pass its bun.Tx")
	}
	var b strings.Builder
	writeLines(&b, "\n", lines)
	return b.String()
}

// caller returns where the code under test has called bun, as package/file:line,
// or "" if the outbox itself has.
func caller() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		frame, more := frames.Next()
		if !isInner(frame.Function) {
			if frame.Function == "" {
				return ""
			}
			return filepath.Base(filepath.Dir(frame.File)) + "/" + filepath.Base(frame.File) + fmt.Sprintf(":%d", frame.Line)
		}
		if !more {
			return ""
		}
	}
}

// isInner reports whether a function is bun's, of this library or of the runtime.
func isInner(function string) bool {
	for _, prefix := range []string{
		"github.com/uptrace/bun.", "github.com/uptrace/bun/",
		"github.com/typedoutbox/typedoutbox/outbox.", "github.com/typedoutbox/typedoutbox/testutil.",
		"database/sql.", "runtime.", "sync.",
	} {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}
