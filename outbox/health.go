package outbox

import (
	"log/slog"
	"sync"
	"time"
)

const maxOutageSilence = 5 * time.Minute

// health keeps account of what the database refuses to do, so that an outage is
// logged at once and then at doubling intervals, however many operations meet
// it. It is safe for concurrent use.
type health struct {
	log *slog.Logger

	mu      sync.Mutex
	failing map[string]int // operation: failures in a row
	outage  bool           // logged, and not over
	since   time.Time
	silence time.Duration
	nextLog time.Time
}

// fail notes that an operation failed and returns how long to wait before it is
// tried again.
func (h *health) fail(operation string, err error) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.failing == nil {
		h.failing = map[string]int{}
	}
	if !h.outage {
		h.outage, h.since, h.silence, h.nextLog = true, now, time.Second, now
	}
	h.failing[operation]++
	if !now.Before(h.nextLog) {
		h.log.Error("outbox: the database does not answer as it should; the relay goes on trying",
			"operation", operation, "error", err, "for", now.Sub(h.since).Round(time.Millisecond))
		h.nextLog = now.Add(h.silence)
		h.silence = min(2*h.silence, maxOutageSilence)
	}
	return pause(h.failing[operation])
}

// ok notes that an operation succeeded and reports whether it had failed the
// last time.
func (h *health) ok(operation string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, failed := h.failing[operation]
	delete(h.failing, operation)
	if h.outage && len(h.failing) == 0 {
		h.outage = false
		h.log.Info("outbox: the database answers again", "after", time.Since(h.since).Round(time.Millisecond))
	}
	return failed
}

// drop notes that there was no need to try an operation again. That says
// nothing of the database.
func (h *health) drop(operation string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.failing, operation)
}

// isFailing reports whether one of these operations failed the last time it was
// tried.
func (h *health) isFailing(operations ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, operation := range operations {
		if h.failing[operation] > 0 {
			return true
		}
	}
	return false
}
