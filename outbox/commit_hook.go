package outbox

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"
)

const (
	// wakeChannel is the NOTIFY channel on which relays listen.
	wakeChannel = "outbox_messages"

	// notifyEvery is the shortest time between two NOTIFYs of one process.
	notifyEvery = 10 * time.Millisecond

	// notifyTimeout bounds one NOTIFY.
	notifyTimeout = 5 * time.Second
)

// CommitHook is a bun.QueryHook that wakes relays when a transaction with a
// message in it commits, instead of at their next look:
//
//	db = db.WithQueryHook(&outbox.CommitHook{})
//
// WithQueryHook returns a clone; give that one to the code that enqueues and to
// the relay, since transactions of the original never wake. Relays of this
// process are woken at once. On Postgres those of other processes are told by a
// NOTIFY without a payload, after the commit and outside of it, at most one in
// 10 ms: a NOTIFY within the producer's transaction would take an instance-wide
// lock at commit. On SQLite relays of other processes are not told. Rollbacks wake
// nobody. A wake that is lost costs latency only, since relays look every
// Interval all the same.
//
// The zero CommitHook is ready. It is safe for concurrent use, must not be
// copied, and keeps no goroutine while nothing is enqueued.
type CommitHook struct {
	mu     sync.Mutex
	relays map[*registration]struct{}

	// open are the transactions that have begun and not ended, for an Enqueue
	// whose context does not derive from its transaction's. Weakly held: one
	// that ends behind bun's back goes with its context.
	open      map[weak.Pointer[txMark]]struct{}
	sweepOpen int // size of open at which the dead are dropped

	pending map[*sql.DB]*notifier
}

// txMark is carried by the context of a transaction.
type txMark struct{ enqueued atomic.Bool }

type (
	txMarkKey       struct{}
	enqueueKey      struct{}
	registrationKey struct{}
	ownTxKey        struct{} // in a transaction of the library's own statements
)

// markEnqueue returns the context for a statement that enqueues. bun hands it
// to the hook, if the transaction's database has one.
func markEnqueue(ctx context.Context) context.Context {
	return context.WithValue(ctx, enqueueKey{}, true)
}

// registration asks every CommitHook that sees it to wake a relay. It travels
// in the context of a statement, so that hook and relay find each other through
// the database they share.
type registration struct {
	wake  func()
	mu    sync.Mutex
	hooks []*CommitHook
}

func (r *registration) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, registrationKey{}, r)
}

// end takes the relay back from the hooks.
func (r *registration) end() {
	r.mu.Lock()
	hooks := r.hooks
	r.hooks = nil
	r.mu.Unlock()
	for _, h := range hooks {
		h.mu.Lock()
		delete(h.relays, r)
		h.mu.Unlock()
	}
}

// wakeOthers wakes the other relays that have registered with the same hooks.
func (r *registration) wakeOthers() {
	r.mu.Lock()
	hooks := slices.Clone(r.hooks)
	r.mu.Unlock()
	for _, h := range hooks {
		h.mu.Lock()
		for other := range h.relays {
			if other != r {
				other.wake()
			}
		}
		h.mu.Unlock()
	}
}

// BeforeQuery implements bun.QueryHook.
func (h *CommitHook) BeforeQuery(ctx context.Context, event *bun.QueryEvent) context.Context {
	switch {
	case event.Query == "BEGIN" && ctx.Value(ownTxKey{}) != nil:
		// Nobody enqueues in it, nor is it the caller's, whose mark ctx may hold.
		return context.WithValue(ctx, txMarkKey{}, (*txMark)(nil))
	case event.Query == "BEGIN":
		return h.begin(ctx)
	case ctx.Value(enqueueKey{}) != nil:
		if mark, ok := ctx.Value(txMarkKey{}).(*txMark); ok && mark != nil {
			mark.enqueued.Store(true)
		} else {
			h.markAllOpen()
		}
	default:
		if r, ok := ctx.Value(registrationKey{}).(*registration); ok {
			h.register(r)
		}
	}
	return ctx
}

// AfterQuery implements bun.QueryHook.
func (h *CommitHook) AfterQuery(ctx context.Context, event *bun.QueryEvent) {
	switch event.Query {
	case "BEGIN":
		if event.Err == nil {
			return
		}
	case "COMMIT", "ROLLBACK":
	default:
		return
	}
	mark, ok := ctx.Value(txMarkKey{}).(*txMark)
	if !ok || mark == nil {
		return
	}
	h.mu.Lock()
	delete(h.open, weak.Make(mark))
	h.mu.Unlock()
	if event.Query == "COMMIT" && event.Err == nil && mark.enqueued.Load() {
		h.committed(event.DB)
	}
}

func (h *CommitHook) begin(ctx context.Context) context.Context {
	mark := &txMark{}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = map[weak.Pointer[txMark]]struct{}{}
	}
	if len(h.open) >= h.sweepOpen {
		for p := range h.open {
			if p.Value() == nil {
				delete(h.open, p)
			}
		}
		h.sweepOpen = 2*len(h.open) + 64
	}
	h.open[weak.Make(mark)] = struct{}{}
	return context.WithValue(ctx, txMarkKey{}, mark)
}

func (h *CommitHook) markAllOpen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range h.open {
		if mark := p.Value(); mark != nil {
			mark.enqueued.Store(true)
		}
	}
}

func (h *CommitHook) register(r *registration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.relays[r]; ok {
		return
	}
	if h.relays == nil {
		h.relays = map[*registration]struct{}{}
	}
	h.relays[r] = struct{}{}
	r.mu.Lock()
	r.hooks = append(r.hooks, h)
	r.mu.Unlock()
}

// committed wakes the relays of this process and sees to it that the others are
// told.
func (h *CommitHook) committed(db *bun.DB) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.relays {
		r.wake()
	}
	if db.Dialect().Name() != dialect.PG {
		return
	}
	if n := h.pending[db.DB]; n != nil {
		n.again = true
		return
	}
	if h.pending == nil {
		h.pending = map[*sql.DB]*notifier{}
	}
	n := &notifier{}
	h.pending[db.DB] = n
	go h.notify(db.DB, n)
}

// notifier is the state of the goroutine that notifies one database.
type notifier struct {
	again bool // something was committed since the last NOTIFY began
}

// notify sends a NOTIFY at once, and another one notifyEvery later if anything
// was committed meanwhile, until nothing was.
func (h *CommitHook) notify(db *sql.DB, n *notifier) {
	for {
		_ = notifyRelays(db)
		time.Sleep(notifyEvery)
		h.mu.Lock()
		if !n.again {
			delete(h.pending, db)
			h.mu.Unlock()
			return
		}
		n.again = false
		h.mu.Unlock()
	}
}

// notifyRelays wakes the relays that listen on a Postgres database.
func notifyRelays(db *sql.DB) error {
	ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
	defer cancel()
	_, err := db.ExecContext(ctx, "NOTIFY "+wakeChannel)
	return err
}
