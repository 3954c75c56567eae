//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
)

// patience is how long the receiver waits for a caller to give up.
const patience = 8 * time.Second

// receiver records every delivery. It lives in the conductor and is never
// killed: what it has seen is what happened.
type receiver struct {
	clock  clock
	server *http.Server
	url    string

	mu       sync.Mutex
	requests []account.Request
	seen     map[string]int // requests by message
	inFlight map[string]int // by process
	hanging  map[string]int // likewise, those that wait for their caller to give up
}

func newReceiver(c clock) (*receiver, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{clock: c, url: "http://" + l.Addr().String() + "/", seen: map[string]int{}, inFlight: map[string]int{}, hanging: map[string]int{}}
	r.server = &http.Server{Handler: r}
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

func (r *receiver) close() { _ = r.server.Close() }

// ServeHTTP takes one delivery.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 1<<16))
	var d delivery
	if err == nil {
		err = json.Unmarshal(body, &d)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	first := r.seen[d.ID] == 0
	r.seen[d.ID]++
	r.mu.Unlock()
	defer r.count(r.inFlight, d.Process)()

	before, after := pauses(d)
	gone := req.Context().Done()
	switch {
	case d.Plan == planRefuse:
		r.record(d, false)
		http.Error(w, "never", http.StatusForbidden)
		return
	case d.Plan == planFlaky && first:
		r.record(d, false)
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	case d.Plan == planHang && first:
		r.record(d, true)
		defer r.count(r.hanging, d.Process)()
		wait(gone, patience)
		return
	case d.Plan == planLate && first:
		wait(gone, patience)
		r.record(d, true)
		return
	case d.Plan == planSlow:
		after += 400 * time.Millisecond
	}
	wait(nil, before)
	r.record(d, true)
	wait(nil, after)
	_, _ = fmt.Fprintln(w, "ok")
}

// count adds one for a process until the returned function is called.
func (r *receiver) count(n map[string]int, process string) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n[process]++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		n[process]--
	}
}

// pauses are before and after the effect of a delivery, up to 15 ms each.
func pauses(d delivery) (before, after time.Duration) {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, d.ID, d.Attempt)
	n := h.Sum32()
	return time.Duration(n%150) * 100 * time.Microsecond, time.Duration(n/150%150) * 100 * time.Microsecond
}

// wait waits for d, or until done.
func wait(done <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

func (r *receiver) record(d delivery, effect bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, account.Request{
		ID: d.ID, Process: d.Process, Claim: d.Claim, Attempt: d.Attempt, At: r.clock.now(), Effect: effect,
	})
}

// busy waits until a process has so many deliveries in flight, at most for d.
func (r *receiver) busy(ctx context.Context, process string, n int, d time.Duration) {
	r.await(ctx, r.inFlight, process, n, d)
}

// stuck waits until a process waits for an answer that does not come, at most for
// d.
func (r *receiver) stuck(ctx context.Context, process string, d time.Duration) {
	r.await(ctx, r.hanging, process, 1, d)
}

func (r *receiver) await(ctx context.Context, count map[string]int, process string, n int, d time.Duration) {
	for deadline := time.Now().Add(d); ctx.Err() == nil && time.Now().Before(deadline); wait(ctx.Done(), 2*time.Millisecond) {
		r.mu.Lock()
		found := count[process]
		r.mu.Unlock()
		if found >= n {
			return
		}
	}
}

func (r *receiver) all() []account.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]account.Request(nil), r.requests...)
}
