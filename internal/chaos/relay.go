//go:build linux

package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
	"github.com/typedoutbox/typedoutbox/outbox"
)

// roleVar is the environment variable with the task of a child.
const roleVar = "CHAOS_TASK"

// task is what a child is to do.
type task struct {
	Name     string
	DSN      string // by way of a proxy
	Receiver string // URL
	Seed     uint64
	Rate     float64 // rows a second, of a producer
}

// loadTask returns the task of this process, which ends when its parent does: the
// parent holds the other end of its standard input.
func loadTask(ctx context.Context) (task, context.Context, error) {
	var t task
	if err := json.Unmarshal([]byte(os.Getenv(roleVar)), &t); err != nil {
		return t, ctx, fmt.Errorf("%s is not set by the conductor: %w", roleVar, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	return t, ctx, nil
}

// openDatabase connects by way of a proxy. The name of the task marks each of
// its sessions.
func openDatabase(t task, pool int) *bun.DB {
	db := sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(t.DSN), pgdriver.WithApplicationName(t.Name),
		pgdriver.WithTimeout(5*time.Second)))
	db.SetMaxOpenConns(pool)
	db.SetMaxIdleConns(pool)
	return bun.NewDB(db, pgdialect.New()).WithQueryHook(&outbox.CommitHook{})
}

// newLog writes one JSON line an event, with the time of the machine.
func newLog() *slog.Logger {
	return slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Int64("at", realTime().UnixNano())
		}
		return a
	}}))
}

// The events that children tell the conductor.
const (
	eventReady     = "chaos: ready"
	eventReturn    = "chaos: a handler returned"
	eventCommitted = "chaos: committed"
	eventWithdrawn = "chaos: withdrawn"
	eventUnknown   = "chaos: unknown" // whether it was committed
	eventLeaseLost = "outbox: lease lost; another relay may deliver this message too"
	eventStuck     = "outbox: a handler is stuck: it ignores its context and keeps its slot"
)

// line is what the conductor reads of a line that a child writes.
type line struct {
	At      int64
	Message string   `json:"msg"`
	ID      string   `json:"id"`
	IDs     []string `json:"ids"`
	Claim   int64    `json:"claim"`
	Error   string   `json:"failure"`
	Cause   account.Cause
	Shift   time.Duration
}

func runRelay(ctx context.Context) error {
	t, ctx, err := loadTask(ctx)
	if err != nil {
		return err
	}
	log := newLog()
	log.Info(eventReady, "shift", clockShift())
	db := openDatabase(t, 10)
	defer func() { _ = db.Close() }()
	courier := &courier{task: t, log: log, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * concurrency}}}
	mux := outbox.NewMux()
	outbox.Handle(mux, parcelTopic, courier.deliver)
	outbox.Handle(mux, letterTopic, courier.deliver)
	relay := &outbox.Relay{
		DB: db, Mux: mux, Name: t.Name, Logger: log,
		Interval: interval, Batch: claimBatch, Concurrency: concurrency, MaxAttempts: maxAttempts,
		BaseBackoff: baseBackoff, MaxBackoff: maxBackoff, ClaimTimeout: claimTimeout,
		DeliverTimeout: deliverTimeout, ShutdownTimeout: shutdownTimeout, Retention: -1,
	}
	return relay.Start(ctx)
}

// courier brings messages to the receiver.
type courier struct {
	task   task
	log    *slog.Logger
	client *http.Client
}

// delivery is what the receiver is told.
type delivery struct {
	ID      string `json:"id"`
	Process string `json:"process"`
	Claim   int64  `json:"claim"` // claimed_at in microseconds, which identifies the claim
	Attempt int    `json:"attempt"`
	Plan    plan   `json:"plan"`
}

func (c *courier) deliver(ctx context.Context, d outbox.Delivery[parcel]) error {
	m := d.Message
	err := c.post(ctx, delivery{m.ID.String(), c.task.Name, m.ClaimedAt.UnixMicro(), m.Attempts, d.Payload.Plan})
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	c.log.Info(eventReturn, "id", m.ID, "claim", m.ClaimedAt.UnixMicro(), "failure", failure, "cause", causeOf(ctx))
	return err
}

func (c *courier) post(ctx context.Context, d delivery) error {
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.task.Receiver, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusForbidden:
		return outbox.Permanent(errors.New("refused by the receiver"))
	}
	return fmt.Errorf("the receiver answered %s", resp.Status)
}

// causeOf is why the context of a delivery has ended, "" if it has not.
func causeOf(ctx context.Context) account.Cause {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return ""
	case errors.Is(cause, outbox.ErrLeaseLost):
		return account.CauseLeaseLost
	case errors.Is(cause, context.DeadlineExceeded):
		return account.CauseDeadline
	case strings.Contains(cause.Error(), "shutting down"):
		return account.CauseShutdown
	}
	return account.Cause(cause.Error())
}
