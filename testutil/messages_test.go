package testutil_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"

	"github.com/typedoutbox/typedoutbox/internal/faketb"
	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
	"github.com/typedoutbox/typedoutbox/topics"
)

var raw = topics.New[json.RawMessage]("raw", nil)

// id returns the n-th of ids whose order is that of n.
func id(n int) string { return fmt.Sprintf("01900000-0000-7000-8000-%012d", n) }

// insert writes a row with SQL values for its columns.
func insert(t *testing.T, db bun.IDB, values map[string]any) {
	t.Helper()
	values["topic"] = raw.Name()
	if values["payload"] == nil {
		values["payload"] = "{}"
	}
	_, err := db.NewInsert().Model(&values).TableExpr("outbox_messages").Exec(t.Context())
	require.NoError(t, err)
}

func TestEveryColumn(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		// Postgres keeps microseconds, SQLite milliseconds.
		fraction := ".123"
		if db.Dialect().Name() == dialect.PG {
			fraction = ".123456"
		}
		at := func(second int) (stored string, want time.Time) {
			stored = fmt.Sprintf("2026-03-29 01:59:%02d%s", second, fraction)
			want, err := time.Parse(time.DateTime, stored)
			require.NoError(t, err)
			if db.Dialect().Name() == dialect.PG {
				stored += "+00"
			}
			return stored, want
		}
		availableAt, wantAvailable := at(1)
		claimedAt, wantClaimed := at(2)
		createdAt, wantCreated := at(3)
		updatedAt, wantUpdated := at(4)
		sentAt, wantSent := at(5)
		downSince, wantDown := at(6)
		insert(t, db, map[string]any{
			"id": id(1), "key": "k", "order_key": "o", "version": 1, "payload": "[1]", "headers": `{"trace":"é"}`,
			"status": "sent", "attempts": 3, "last_error": "refused", "available_at": availableAt,
			"claimed_at": claimedAt, "claimed_by": "relay-1", "created_at": createdAt, "updated_at": updatedAt, "sent_at": sentAt,
			"unavailable_since": downSince,
		})
		wantID, err := outbox.ParseID(id(1))
		require.NoError(t, err)
		want := outbox.Message{
			ID: wantID, Topic: "raw", Key: "k", OrderKey: "o", Version: 1, Payload: json.RawMessage("[1]"),
			Headers: map[string]string{"trace": "é"}, Status: outbox.StatusSent, Attempts: 3, LastError: "refused",
			AvailableAt: wantAvailable, ClaimedAt: wantClaimed, ClaimedBy: "relay-1",
			CreatedAt: wantCreated, UpdatedAt: wantUpdated, SentAt: wantSent, UnavailableSince: wantDown,
		}
		inTx(t, db, func(ctx context.Context, tx bun.Tx) {
			if db.Dialect().Name() == dialect.PG {
				_, err := tx.ExecContext(ctx, "SET LOCAL timezone = 'Asia/Kolkata'; SET LOCAL datestyle = 'SQL, DMY'")
				require.NoError(t, err)
			}
			require.Equal(t, want, testutil.RequireEnqueued(t, tx, raw).Message)
		})
	})
}

func TestAbsentColumns(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		before := time.Now().Add(-time.Minute)
		insert(t, db, map[string]any{"id": id(1)})
		m := testutil.RequireEnqueued(t, db, raw).Message
		for _, set := range []*time.Time{&m.AvailableAt, &m.CreatedAt, &m.UpdatedAt} {
			require.WithinRange(t, *set, before, before.Add(2*time.Minute))
			require.Equal(t, time.UTC, set.Location())
			*set = time.Time{}
		}
		require.Equal(t, outbox.Message{
			ID: m.ID, Topic: "raw", Version: 1, Payload: json.RawMessage("{}"), Status: outbox.StatusPending,
		}, m)
	})
}

func TestOrderOfAllEnqueued(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		for n, createdAt := range map[int]string{
			1: "2026-01-01 00:00:00.002", 2: "2026-01-01 00:00:00.001", 3: "2026-01-01 00:00:00.001", 4: "2025-12-31 23:59:59.999",
		} {
			insert(t, db, map[string]any{"id": id(n), "created_at": createdAt})
		}
		var got []string
		for _, d := range testutil.AllEnqueued(t, db, raw) {
			got = append(got, d.Message.ID.String())
		}
		require.Equal(t, []string{id(4), id(2), id(3), id(1)}, got)
	})
}

func TestPayloadByteForByte(t *testing.T) {
	tests := []struct{ name, payload string }{
		{"spacing and order of keys", ` { "b" : 1 , "a":[ ], "b":2 } `},
		{"escapes", `{"s":"\u0000\ud83d\ude00\/ é<>&?' \\"}`},
		{"numbers", `[9007199254740993,1.0,1e2,-0]`},
		{"null", `null`},
		{"1 MiB", `"` + strings.Repeat("x", 1<<20-2) + `"`},
	}
	onEach(t, func(t *testing.T, db *bun.DB) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				inTx(t, db, func(_ context.Context, tx bun.Tx) {
					insert(t, tx, map[string]any{"id": id(1), "payload": tt.payload})
					require.Equal(t, tt.payload, string(testutil.RequireEnqueued(t, tx, raw).Message.Payload))
				})
			})
		}
	})
}

func TestUndecodable(t *testing.T) {
	tests := []struct {
		name string
		row  map[string]any
		says string
	}{
		{"payload of another type", map[string]any{"payload": `{"cents":"many"}`}, "cannot unmarshal string into"},
		{"newer version", map[string]any{"version": 2}, "this build knows versions up to 1; deploy the newer one"},
	}
	typed := topics.New[orderCreated](raw.Name(), nil)
	onEach(t, func(t *testing.T, db *bun.DB) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				inTx(t, db, func(_ context.Context, tx bun.Tx) {
					enqueue(t, tx, typed, orderCreated{OrderID: "1"})
					testutil.RequireEnqueued(t, tx, typed, order("1"))
					tt.row["id"] = id(2)
					insert(t, tx, tt.row)
					for name, assertion := range map[string]func(testing.TB){
						"RequireEnqueued":      func(t testing.TB) { testutil.RequireEnqueued(t, tx, typed, order("1")) },
						"RequireEnqueuedEqual": func(t testing.TB) { testutil.RequireEnqueuedEqual(t, tx, typed, orderCreated{OrderID: "1"}) },
						"RequireNotEnqueued":   func(t testing.TB) { testutil.RequireNotEnqueued(t, tx, typed, order("2")) },
						"AllEnqueued":          func(t testing.TB) { testutil.AllEnqueued(t, tx, typed) },
					} {
						t.Run(name, func(t *testing.T) {
							res := faketb.Run(t, assertion)
							requireResult(t, res, []string{"1 of 2 messages of topic", "do not decode", `{"order_id":"1","cents":0}`, tt.says})
						})
					}
				})
			})
		}
	})
}

func TestReportsStayReadable(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		inTx(t, db, func(_ context.Context, tx bun.Tx) {
			big := strings.Repeat("x", 5<<10)
			enqueue(t, tx, created, orderCreated{Lines: []string{big}})
			res := faketb.Run(t, func(t testing.TB) { testutil.RequireNotEnqueued(t, tx, created) })
			requireResult(t, res, []string{`"lines":["xxx`, "... (5158 bytes)"})
			require.Less(t, len(res.Text), 1<<10)

			for n := range 60 {
				enqueue(t, tx, created, orderCreated{Cents: n + 1})
			}
			res = faketb.Run(t, func(t testing.TB) { testutil.RequireEnqueuedEqual(t, tx, created, orderCreated{OrderID: "1"}) })
			requireResult(t, res, []string{"found 0", `"cents":9`, "and 51 more"})
			require.NotContains(t, res.Text, `"cents":10`)
		})
	})
}

func TestDifferenceOfLargePayloads(t *testing.T) {
	onEach(t, func(t *testing.T, db *bun.DB) {
		inTx(t, db, func(_ context.Context, tx bun.Tx) {
			large := strings.Repeat("x", 100<<10)
			enqueue(t, tx, created, orderCreated{Lines: []string{large + "a"}})
			testutil.RequireEnqueuedEqual(t, tx, created, orderCreated{Lines: []string{large + "a"}})
			res := faketb.Run(t, func(t testing.TB) {
				testutil.RequireEnqueuedEqual(t, tx, created, orderCreated{Lines: []string{large + "b"}})
			})
			requireResult(t, res, []string{"found 0", "lines[0] is (from byte 102371) xxx", `xxa", want (from byte 102371) xxx`, `xxb"`})
			require.Less(t, len(res.Text), 2<<10)
		})
	})
}
