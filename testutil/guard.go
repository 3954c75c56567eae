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
				"close rows and bun.Conns, wait for relays that Start has started, "+
				"and end what was begun on the sql.DB within, where no line is known", db.Stats().InUse)
			return
		}
	}
}

// watch is a bun.QueryHook that knows which transactions are open, and which of
// them have enqueued.
type watch struct {
	mu   sync.Mutex
	open []*transaction
	gone []scope // rolled back after they had enqueued
}

// transaction is one that the code under test has begun, and the savepoints that
// it has set and not ended, the innermost last.
type transaction struct{ scopes []scope }

// scope is a transaction without its savepoints, or a savepoint.
type scope struct {
	what      string   // "the transaction begun at ", and where in the source, as package/file:line
	savepoint string   // its name, or ""
	enqueued  []string // arguments of what it has inserted, topics among them
}

// on reports whether one of these topics has been enqueued on.
func (s scope) on(topics []string) bool {
	return slices.ContainsFunc(s.enqueued, func(arg string) bool { return slices.Contains(topics, arg) })
}

// enqueued reports whether the transaction has enqueued anything, and has not
// undone that.
func (tx *transaction) enqueued() bool {
	return slices.ContainsFunc(tx.scopes, func(s scope) bool { return len(s.enqueued) > 0 })
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
		var tx *transaction
		if begun := caller(); begun != "" { // else the library's own
			tx = &transaction{scopes: []scope{{what: "the transaction begun at " + begun}}}
			w.open = append(w.open, tx)
		}
		return context.WithValue(ctx, transactionKey{}, tx)
	case strings.HasPrefix(event.QueryTemplate, "INSERT INTO outbox_messages "):
		if tx := w.transaction(ctx); tx != nil {
			innermost := &tx.scopes[len(tx.scopes)-1]
			for _, arg := range event.QueryArgs {
				if text, ok := arg.(string); ok {
					innermost.enqueued = append(innermost.enqueued, text)
				}
			}
		}
	case strings.HasPrefix(event.Query, setSavepoint):
		if tx := w.transaction(ctx); tx != nil {
			tx.scopes = append(tx.scopes, scope{
				what: "the savepoint set at " + caller(), savepoint: strings.TrimPrefix(event.Query, setSavepoint),
			})
		}
	}
	return ctx
}

// How bun sets and ends a savepoint, but for its name, which is unique.
const (
	setSavepoint      = "SAVEPOINT "
	releaseSavepoint  = "RELEASE SAVEPOINT "
	rollbackSavepoint = "ROLLBACK TO SAVEPOINT "
)

// transaction returns the one that a statement is in, nil if that cannot be known:
// a context from elsewhere tells only while a single transaction is open.
func (w *watch) transaction(ctx context.Context) *transaction {
	tx, _ := ctx.Value(transactionKey{}).(*transaction)
	if tx == nil && len(w.open) == 1 {
		tx = w.open[0]
	}
	return tx
}

// endSavepoint ends a savepoint and those within it. What they have enqueued is
// gone, or belongs to what they were set in.
func (w *watch) endSavepoint(name string, rolledBack bool) {
	for _, tx := range w.open {
		i := slices.IndexFunc(tx.scopes, func(s scope) bool { return s.savepoint == name })
		if i < 1 {
			continue
		}
		outer := &tx.scopes[i-1]
		for _, s := range tx.scopes[i:] {
			switch {
			case !rolledBack:
				outer.enqueued = append(outer.enqueued, s.enqueued...)
			case len(s.enqueued) > 0:
				w.gone = append(w.gone, s)
			}
		}
		tx.scopes = tx.scopes[:i]
	}
}

// AfterQuery implements bun.QueryHook.
func (w *watch) AfterQuery(ctx context.Context, event *bun.QueryEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if name, ok := strings.CutPrefix(event.Query, rollbackSavepoint); ok {
		w.endSavepoint(name, true)
		return
	}
	if name, ok := strings.CutPrefix(event.Query, releaseSavepoint); ok {
		w.endSavepoint(name, event.Err != nil)
		return
	}
	if event.Query != "COMMIT" && event.Query != "ROLLBACK" && (event.Query != "BEGIN" || event.Err == nil) {
		return
	}
	tx, _ := ctx.Value(transactionKey{}).(*transaction)
	i := slices.Index(w.open, tx)
	if i < 0 {
		return // it had ended already
	}
	w.open = slices.Delete(w.open, i, i+1)
	if event.Query == "ROLLBACK" || event.Err != nil {
		w.gone = append(w.gone, slices.DeleteFunc(tx.scopes, func(s scope) bool { return len(s.enqueued) == 0 })...)
	}
}

// requireEnded fails t if a transaction is open.
func (w *watch) requireEnded(t testing.TB) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, tx := range w.open {
		lost := ""
		if tx.enqueued() {
			lost = "; what it has enqueued is lost"
		}
		t.Errorf("%s was neither committed nor rolled back by the end of the test%s; "+
			"use RunInTx, or defer its Rollback", tx.scopes[0].what, lost)
	}
}

// watchOn returns the watch on the database of q, nil if it is not one of ours.
func watchOn(t testing.TB, q bun.IDB) (w *watch) {
	ctx, cancel := statementContext(t)
	defer cancel()
	if rows, err := q.QueryContext(context.WithValue(ctx, watchKey{}, &w), "SELECT 1"); err == nil {
		_ = rows.Close()
	}
	return w
}

// explainLocked says who holds an SQLite database, if err is that somebody does.
func explainLocked(t testing.TB, q bun.IDB, err error) error {
	if err == nil || !isSQLite(q) || !strings.Contains(err.Error(), "database is locked") {
		return err
	}
	if w := watchOn(t, q); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.open) > 0 {
			return fmt.Errorf("%w; %s is open and holds it, commit it or roll it back first", err, w.open[0].scopes[0].what)
		}
	}
	return fmt.Errorf("%w; an open transaction holds it, commit it or roll it back first", err)
}

// unseen says which transactions hold messages of topics that q does not see, as
// far as that can be known.
func unseen(t testing.TB, q bun.IDB, topics []string) string {
	w := watchOn(t, q)
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
			if slices.ContainsFunc(tx.scopes, func(s scope) bool { return s.on(topics) }) && !isTx {
				say(tx.scopes[0].what + " has enqueued on this topic and is not committed; only its own bun.Tx sees that")
			}
		}
		for _, s := range w.gone {
			if s.on(topics) {
				say(s.what + " had enqueued on this topic and was rolled back")
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
