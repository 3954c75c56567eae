// Package warehouse is the warehouse of the demonstration: an HTTP endpoint as
// bad as they come, but with a good memory.
package warehouse

import (
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/typedoutbox/typedoutbox/examples/orders/internal/picking"
)

// FailureRate is the part of all calls that fail. Half of those fail after the
// warehouse has picked, so that the relay calls again for something that is done.
const FailureRate = 0.3

const (
	pickTime     = 5 * time.Millisecond // what a call takes
	holdPatience = 10 * time.Second     // how long an answer is held back at most
)

// Warehouse picks once for each message id. Make it with [New]; it is safe for
// concurrent use.
type Warehouse struct {
	luck      func() float64 // from 0 to 1, less is worse
	holdAfter int
	held      chan string

	mu     sync.Mutex
	counts Counts
	picked map[string]bool // by message id
	orders map[string]int  // by order id: how often it was picked
	last   map[string]int  // by customer id: the number of the latest order
}

// Counts are what a warehouse has counted.
type Counts struct {
	Calls      int
	Failed     int
	Picked     int // distinct messages
	Duplicates int // calls for a message that had been picked before
	OutOfTurn  int // orders that came before an earlier one of their customer
}

// Options say how a warehouse behaves. The zero value is the default.
type Options struct {
	Luck      func() float64 // 0 to below 1; below FailureRate the call fails. Default rand.Float64
	HoldAfter int            // how many messages are picked before one answer is held back. Default 0, at once
}

// New returns a warehouse that has picked nothing.
func New(opts Options) *Warehouse {
	w := &Warehouse{
		luck: opts.Luck, holdAfter: opts.HoldAfter, held: make(chan string, 1),
		picked: map[string]bool{}, orders: map[string]int{}, last: map[string]int{},
	}
	if w.luck == nil {
		w.luck = rand.Float64
	}
	return w
}

// Held receives, once, the User-Agent of a caller whose order is picked and who
// does not hear of it: the answer waits for the caller's end.
func (w *Warehouse) Held() <-chan string { return w.held }

// ServeHTTP picks an order.
func (w *Warehouse) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var p picking.Pick
	messageID := r.Header.Get(picking.MessageIDHeader)
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil || messageID == "" {
		http.Error(rw, "send an order and the header "+picking.MessageIDHeader, http.StatusBadRequest)
		return
	}
	wait(r.Context(), pickTime)
	a := w.call(messageID, p)
	if a.hold {
		w.held <- r.UserAgent()
		wait(r.Context(), holdPatience)
	}
	if a.status != http.StatusOK {
		http.Error(rw, a.text, a.status)
	}
}

type answer struct {
	status int
	text   string
	hold   bool
}

func (w *Warehouse) call(messageID string, p picking.Pick) answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Calls++
	luck := w.luck()
	if luck < FailureRate {
		w.counts.Failed++
	}
	if luck < FailureRate/2 {
		return answer{status: http.StatusServiceUnavailable, text: "a forklift is on fire"}
	}
	if w.picked[messageID] {
		w.counts.Duplicates++
	} else {
		w.pick(messageID, p)
	}
	if luck < FailureRate {
		return answer{status: http.StatusInternalServerError, text: "picked, but the printer is out of paper"}
	}
	hold := w.holdAfter >= 0 && w.counts.Picked > w.holdAfter
	if hold {
		w.holdAfter = -1
	}
	return answer{status: http.StatusOK, hold: hold}
}

func (w *Warehouse) pick(messageID string, p picking.Pick) {
	w.picked[messageID] = true
	w.orders[p.OrderID]++
	w.counts.Picked++
	if p.Number != w.last[p.CustomerID]+1 {
		w.counts.OutOfTurn++
	}
	w.last[p.CustomerID] = p.Number
}

// Counts returns what the warehouse has counted so far.
func (w *Warehouse) Counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts
}

// Orders returns how often each order was picked, by its id.
func (w *Warehouse) Orders() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.orders)
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
