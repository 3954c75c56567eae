package outbox_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/testutil"
	"github.com/typedoutbox/typedoutbox/topics"
)

// benchOrder has a payload of about 200 bytes.
type benchOrder struct {
	ID   string `json:"id"`
	Note string `json:"note"`
}

var benchTopic = topics.New[benchOrder]("bench.orders", nil)

var benchPayload = benchOrder{ID: "order-0000001", Note: fmt.Sprintf("%0160d", 7)}

// handRow is the row of an outbox as one would write it by hand with bun.
type handRow struct {
	bun.BaseModel `bun:"table:outbox_messages"`

	ID      string `bun:"id,pk"`
	Topic   string `bun:"topic"`
	Version int    `bun:"version"`
	Payload string `bun:"payload"`
}

func benchEvery(b *testing.B, bench func(b *testing.B, db *bun.DB)) {
	b.Helper()
	for _, kind := range []struct {
		name string
		open func(testing.TB) *bun.DB
	}{{"sqlite", testutil.SQLite}, {"postgres", testutil.Postgres}} {
		b.Run(kind.name, func(b *testing.B) { bench(b, kind.open(b)) })
	}
}

// BenchmarkEnqueue compares a transaction that enqueues with one that inserts
// the same row by hand, in turns, so that both meet the same noise. The metric
// is the ratio of their median times: 1.00 is as fast as by hand.
func BenchmarkEnqueue(b *testing.B) {
	benchEvery(b, func(b *testing.B, db *bun.DB) {
		ctx := b.Context()
		var ours, hands []time.Duration
		b.ReportAllocs()
		for n := range b.N {
			begun := time.Now()
			require.NoError(b, db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, benchTopic, benchPayload)
			}))
			ours = append(ours, time.Since(begun))
			b.StopTimer()
			payload, err := benchTopic.Encode(benchPayload)
			require.NoError(b, err)
			begun = time.Now()
			require.NoError(b, db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				row := handRow{ID: fmt.Sprintf("00000000-0000-7000-8000-%012d", n), Topic: "bench.hand", Version: 1, Payload: string(payload)}
				_, err := tx.NewInsert().Model(&row).Exec(ctx)
				return err
			}))
			hands = append(hands, time.Since(begun))
			b.StartTimer()
		}
		_, err := db.NewRaw("DELETE FROM outbox_messages").Exec(ctx)
		require.NoError(b, err)
		b.ReportMetric(float64(percentile(ours, 50))/float64(percentile(hands, 50)), "x-by-hand")
		b.ReportMetric(float64(percentile(ours, 50).Microseconds()), "µs-p50")
	})
}

// BenchmarkEnqueueAll writes 1,000 messages a transaction.
func BenchmarkEnqueueAll(b *testing.B) {
	benchEvery(b, func(b *testing.B, db *bun.DB) {
		payloads := slices.Repeat([]benchOrder{benchPayload}, 1000)
		for b.Loop() {
			enqueueMany(b, db, payloads)
		}
		b.ReportMetric(float64(b.N*1000)/b.Elapsed().Seconds(), "rows/s")
	})
}

func enqueueMany(b *testing.B, db *bun.DB, payloads []benchOrder) {
	require.NoError(b, db.RunInTx(b.Context(), nil, func(ctx context.Context, tx bun.Tx) error {
		_, err := outbox.EnqueueAll(ctx, tx, benchTopic, payloads)
		return err
	}))
}

// BenchmarkDrain delivers 100,000 rows to a handler that does nothing, with the
// default settings and with a batch of 500.
func BenchmarkDrain(b *testing.B) {
	const rows = 100_000
	benchEvery(b, func(b *testing.B, db *bun.DB) {
		for _, batch := range []int{100, 500} {
			b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
				mux := outbox.NewMux()
				outbox.Handle(mux, benchTopic, func(context.Context, outbox.Delivery[benchOrder]) error { return nil })
				payloads := slices.Repeat([]benchOrder{benchPayload}, rows)
				for b.Loop() {
					b.StopTimer()
					_, err := db.NewRaw("DELETE FROM outbox_messages").Exec(b.Context())
					require.NoError(b, err)
					enqueueMany(b, db, payloads)
					b.StartTimer()
					n, err := (&outbox.Relay{DB: db, Mux: mux, Batch: batch}).Drain(b.Context())
					require.NoError(b, err)
					require.Equal(b, rows, n)
				}
				b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	})
}

// BenchmarkLatency is the time from commit to handler on an idle relay that is
// woken by a CommitHook.
func BenchmarkLatency(b *testing.B) {
	benchEvery(b, func(b *testing.B, db *bun.DB) {
		db = db.WithQueryHook(&outbox.CommitHook{})
		delivered := make(chan time.Time, 1)
		mux := outbox.NewMux()
		outbox.Handle(mux, benchTopic, func(context.Context, outbox.Delivery[benchOrder]) error {
			delivered <- time.Now()
			return nil
		})
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { done <- (&outbox.Relay{DB: db, Mux: mux}).Start(ctx) }()
		var waits []time.Duration
		for b.Loop() {
			require.NoError(b, db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				return outbox.Enqueue(ctx, tx, benchTopic, benchPayload)
			}))
			committed := time.Now()
			waits = append(waits, (<-delivered).Sub(committed))
		}
		cancel()
		require.NoError(b, <-done)
		b.ReportMetric(float64(percentile(waits, 50).Microseconds())/1000, "ms-p50")
		b.ReportMetric(float64(percentile(waits, 99).Microseconds())/1000, "ms-p99")
	})
}

func percentile(d []time.Duration, p int) time.Duration {
	slices.Sort(d)
	return d[min(len(d)*p/100, len(d)-1)]
}
