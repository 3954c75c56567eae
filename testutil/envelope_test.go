package testutil_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/internal/faketb"
	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
	"github.com/typedoutbox/typedoutbox/topics"
)

func TestRequireEnqueuedAs(t *testing.T) {
	at := time.Date(2031, 4, 5, 6, 7, 8, 123456789, time.UTC)
	type options = []outbox.EnqueueOption
	tests := []struct {
		name           string
		enqueued, want options
		says           string // "" for a success
	}{
		{name: "nothing said", want: nil},
		{name: "derived order key", want: options{outbox.OrderKey("1")}},
		{name: "dropped order key", enqueued: options{outbox.OrderKey("")}, says: `order_key is none, want "1"`},
		{name: "key", enqueued: options{outbox.Key("a")}, want: options{outbox.Key("a")}},
		{name: "wrong key", enqueued: options{outbox.Key("a")}, want: options{outbox.Key("b")}, says: `key is "a", want "b"`},
		{name: "no key", want: options{outbox.Key("b")}, says: `key is none, want "b"`},
		{name: "delay", enqueued: options{outbox.After(1500 * time.Millisecond)}, want: options{outbox.After(1500 * time.Millisecond)}},
		{name: "wrong delay", enqueued: options{outbox.After(time.Second)}, want: options{outbox.After(time.Minute)}, says: `delay is 1s, want 1m0s`},
		{name: "no delay", want: options{outbox.After(time.Minute)}, says: `delay is 0s, want 1m0s`},
		{name: "time", enqueued: options{outbox.At(at)}, want: options{outbox.At(at)}},
		{name: "earlier", enqueued: options{outbox.At(at)}, want: options{outbox.At(at.Add(time.Second))}, says: `s later; if that is how far the test has advanced, assert before Advance`},
		{name: "later", enqueued: options{outbox.At(at)}, want: options{outbox.At(at.Add(-time.Second))}, says: `s earlier`},
		{name: "not at a time", want: options{outbox.At(at)}, says: `due is `},
		{name: "no time", enqueued: options{outbox.At(time.Time{})}, want: options{outbox.At(time.Time{})}},
		{name: "receipt", want: options{outbox.Into(&outbox.Receipt{})}},
		{name: "header among others", enqueued: options{outbox.Header("a", "1"), outbox.Header("b", "2")}, want: options{outbox.Header("a", "1")}},
		{name: "wrong header", enqueued: options{outbox.Header("a", "1")}, want: options{outbox.Header("a", "2")}, says: `header a is "1", want "2"`},
		{name: "no header", want: options{outbox.Header("a", "")}, says: `header a is absent, want ""`},
	}
	onEach(t, func(t *testing.T, db *bun.DB) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				_, err := db.ExecContext(t.Context(), "DELETE FROM outbox_messages")
				require.NoError(t, err)
				commit(t, db, created, orderCreated{OrderID: "1"}, tt.enqueued...)
				res := faketb.Run(t, func(t testing.TB) {
					d := testutil.RequireEnqueuedAs(t, db, created, orderCreated{OrderID: "1"}, tt.want...)
					require.Equal(t, "1", d.Payload.OrderID)
				})
				require.Equal(t, tt.says != "", res.Failed, res.Text)
				require.Contains(t, res.Text, tt.says)
			})
		}
	})
}

func TestRequireEnqueuedAsLooksAtPayloadAndVersion(t *testing.T) {
	db := testutil.SQLite(t)
	commit(t, db, created, orderCreated{OrderID: "1"})
	says := func(topic topics.Topic[orderCreated], want orderCreated) string {
		return faketb.Run(t, func(t testing.TB) { testutil.RequireEnqueuedAs(t, db, topic, want) }).Text
	}
	require.Contains(t, says(created, orderCreated{OrderID: "1", Cents: 1}), "cents is 0, want 1")
	newer := topics.New("orders.created", &topics.Options[orderCreated]{
		Version: 2,
		Order:   created.Order,
		Upcast:  map[int]topics.Upcaster{1: topics.Upcast(func(e orderCreated) (orderCreated, error) { return e, nil })},
	})
	require.Contains(t, says(newer, orderCreated{OrderID: "1"}), "version is 1, want 2")

	testutil.Drain(t, handling(db, func(context.Context, outbox.Delivery[orderCreated]) error { return errors.New("no") }))
	require.Contains(t, says(created, orderCreated{OrderID: "1"}), "want 0s; a delivery changes that, assert before")
}

// A time is one, however long ago the message was enqueued.
func TestRequireEnqueuedAsComparesTimes(t *testing.T) {
	db := testutil.SQLite(t)
	for _, at := range []time.Time{time.Date(2101, 4, 5, 6, 7, 8, 0, time.UTC), time.Date(2001, 4, 5, 6, 7, 8, 0, time.UTC)} {
		commit(t, db, paid, orderPaid{OrderID: at.String()}, outbox.At(at))
		_, err := db.ExecContext(t.Context(), "UPDATE outbox_messages SET created_at = '2020-01-01 00:00:00.000'")
		require.NoError(t, err)
		testutil.RequireEnqueuedAs(t, db, paid, orderPaid{OrderID: at.String()}, outbox.At(at))
	}
}

// A test passes the options that it has enqueued with, receipt included.
func TestRequireEnqueuedAsLeavesReceipts(t *testing.T) {
	db := testutil.SQLite(t)
	var receipt outbox.Receipt
	opts := []outbox.EnqueueOption{outbox.Into(&receipt), outbox.Header("a", "1")}
	commit(t, db, created, orderCreated{OrderID: "1"}, opts...)
	d := testutil.RequireEnqueuedAs(t, db, created, orderCreated{OrderID: "1"}, opts...)
	require.Equal(t, d.Message.ID, receipt.ID)
}

func TestRequireAllEnqueued(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		require.Empty(t, testutil.RequireAllEnqueued(t, db, created))
		for _, id := range []string{"b", "a", "b"} {
			commit(t, db, created, orderCreated{OrderID: id})
		}
		commit(t, db, paid, orderPaid{OrderID: "c"})
		all := testutil.RequireAllEnqueued(t, db, created, orderCreated{OrderID: "b"}, orderCreated{OrderID: "a"}, orderCreated{OrderID: "b"})
		require.Len(t, all, 3)
		require.Equal(t, "a", all[1].Payload.OrderID)
		for name, want := range map[string][]orderCreated{
			"none":    {},
			"fewer":   {{OrderID: "b"}, {OrderID: "a"}},
			"more":    {{OrderID: "b"}, {OrderID: "a"}, {OrderID: "b"}, {OrderID: "c"}},
			"order":   {{OrderID: "a"}, {OrderID: "b"}, {OrderID: "b"}},
			"another": {{OrderID: "b"}, {OrderID: "a"}, {OrderID: "b", Cents: 1}},
		} {
			res := faketb.Run(t, func(t testing.TB) { testutil.RequireAllEnqueued(t, db, created, want...) })
			require.True(t, res.Failed, name)
		}
	})
}
