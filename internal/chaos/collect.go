//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
)

// collect completes the run with what the tables hold.
func (c *conductor) collect(ctx context.Context) error {
	rows, err := c.rowsOf(ctx)
	if err != nil {
		return fmt.Errorf("read the messages: %w", err)
	}
	changes, err := c.changesOf(ctx)
	if err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	business, err := c.businessOf(ctx)
	if err != nil {
		return fmt.Errorf("read the business rows: %w", err)
	}
	c.nursery.mu.Lock()
	children := append([]*child(nil), c.nursery.children...)
	c.nursery.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run.Rows, c.run.Changes, c.run.Business, c.run.Requests = rows, changes, business, c.receiver.all()
	for _, child := range children {
		if child.slot != "" {
			c.run.Processes = append(c.run.Processes, child.process())
		}
	}
	return nil
}

func (c *conductor) rowsOf(ctx context.Context) (rows []account.Row, err error) {
	found, err := c.db.QueryContext(ctx, `SELECT id, coalesce(key, ''), coalesce(order_key, ''), payload::text, status, attempts,
		coalesce(last_error, ''), created_at FROM outbox_messages`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var r account.Row
		var payload string
		var created time.Time
		if err := found.Scan(&r.ID, &r.Key, &r.OrderKey, &payload, &r.Status, &r.Attempts, &r.LastError, &created); err != nil {
			return nil, err
		}
		var p parcel
		if err := json.Unmarshal([]byte(payload), &p); err != nil {
			return nil, err
		}
		r.Business, r.OrderSeq, r.Refused = p.Business, p.Seq, p.Plan == planRefuse
		r.Due = c.clock.at(created) + time.Duration(p.Delay)*time.Millisecond
		rows = append(rows, r)
	}
	return rows, found.Err()
}

func (c *conductor) changesOf(ctx context.Context) (changes []account.Change, err error) {
	found, err := c.db.QueryContext(ctx, `SELECT id, at, session, old_status, new_status, coalesce(old_by, ''), coalesce(new_by, ''),
		coalesce(extract(epoch FROM old_claim) * 1000000, 0)::bigint, coalesce(extract(epoch FROM new_claim) * 1000000, 0)::bigint,
		(extract(epoch FROM lease_end) * 1000000)::bigint, lease_end, attempts FROM chaos_history ORDER BY seq`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var ch account.Change
		var at, leaseEnd time.Time
		if err := found.Scan(&ch.ID, &at, &ch.Session, &ch.From, &ch.To, &ch.OldBy, &ch.NewBy, &ch.OldClaim, &ch.NewClaim,
			&ch.LeaseEnd, &leaseEnd, &ch.Attempts); err != nil {
			return nil, err
		}
		ch.At, ch.LeaseEndAt = c.clock.at(at), c.clock.at(leaseEnd)
		changes = append(changes, ch)
	}
	return changes, found.Err()
}

func (c *conductor) businessOf(ctx context.Context) (business []account.Business, err error) {
	found, err := c.db.QueryContext(ctx, "SELECT id, messages, keys FROM chaos_business")
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var b account.Business
		var keys string
		if err := found.Scan(&b.ID, &b.Messages, &keys); err != nil {
			return nil, err
		}
		b.Keys = strings.Fields(keys)
		business = append(business, b)
	}
	return business, found.Err()
}
