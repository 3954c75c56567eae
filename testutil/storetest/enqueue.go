package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

func testMigrate(t testing.TB, s *subject) {
	for range 2 {
		must(t, s.store.Migrate(s.ctx))
		must(t, s.store.Validate(s.ctx))
	}
}

func testAtomic(t testing.TB, s *subject) {
	write := func(undo error) error {
		return s.db.RunInTx(s.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO business VALUES (1)"); err != nil {
				return err
			}
			if err := outbox.Enqueue(ctx, tx, topic, event{}); err != nil {
				return err
			}
			// Another connection, while the transaction is open.
			equal(t, "the number of messages that others see before the commit", s.count(t, "outbox_messages"), 0)
			return undo
		})
	}
	if err := write(errUndo); !errors.Is(err, errUndo) {
		t.Fatal(err)
	}
	equal(t, "the number of messages after a rollback", s.count(t, "outbox_messages"), 0)
	equal(t, "the number of other rows after a rollback", s.count(t, "business"), 0)
	must(t, write(nil))
	equal(t, "the number of messages after a commit", s.count(t, "outbox_messages"), 1)
	equal(t, "the number of other rows after a commit", s.count(t, "business"), 1)

	err := s.db.RunInTx(s.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		_ = tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			must(t, outbox.Enqueue(ctx, tx, topic, event{}))
			return errUndo
		})
		return outbox.Enqueue(ctx, tx, topic, event{})
	})
	must(t, err)
	equal(t, "the number of messages after a savepoint was rolled back", s.count(t, "outbox_messages"), 2)
}

func testPayload(t testing.TB, s *subject) {
	for name, payload := range map[string]string{
		"spacing, order and repetition of keys": ` { "b" : 1 , "a":[ ], "b":2 } `,
		"escapes":                               `{"s":"\u0000\ud83d\ude00\/ é<>&?$1' \\ \\\\"}`,
		"numbers":                               `[9007199254740993,1.0,1e2,-0]`,
		"null":                                  `null`,
		"1 MiB":                                 `"` + strings.Repeat("x", 1<<20-2) + `"`,
	} {
		id := uuid.NewString()
		_, err := s.db.ExecContext(s.ctx, "INSERT INTO outbox_messages (id, topic, payload) VALUES (?, 'storetest', ?)", id, payload)
		must(t, err)
		parsed, err := outbox.ParseID(id)
		must(t, err)
		if got := string(s.get(t, parsed).Payload); got != payload {
			t.Fatalf("a payload (%s) of %d bytes comes back as %.80q, want %.80q", name, len(got), got, payload)
		}
	}
	raw := topics.New[json.RawMessage]("storetest.raw", nil)
	const doc = `{"n":9007199254740993,"s":"\u0000"}`
	var r outbox.Receipt
	must(t, s.db.RunInTx(s.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		return outbox.Enqueue(ctx, tx, raw, json.RawMessage(doc), outbox.Into(&r))
	}))
	equal(t, "a payload that was enqueued", string(s.get(t, r.ID).Payload), doc)
}

func testText(t testing.TB, s *subject) {
	for _, text := range []string{`a'b"c\d`, `?0 $1 %s`, " a ", "é\U0001f600", "line\nbreak\ttab", strings.Repeat("k", outbox.MaxKeyBytes)} {
		id := s.enqueue(t, 1, outbox.Key(text), outbox.OrderKey(text), outbox.Header("h", text), outbox.Header(text, "h"))[0]
		m := s.get(t, id)
		equal(t, "a key", m.Key, text)
		equal(t, "an order key", m.OrderKey, text)
		equal(t, "the value of a header", m.Headers["h"], text)
		equal(t, "a header by its name", m.Headers[text], "h")
	}
}

func testAbsent(t testing.TB, s *subject) {
	ids := s.enqueue(t, 2) // the second does not collide with the key of the first
	m := s.get(t, ids[1])
	equal(t, "what is absent", fmt.Sprint(m.Key, m.OrderKey, m.LastError, m.ClaimedBy, len(m.Headers),
		m.ClaimedAt.IsZero(), m.SentAt.IsZero(), m.UnavailableSince.IsZero()), "0 true true true")
	var nulls int
	must(t, s.db.NewSelect().Table("outbox_messages").ColumnExpr("count(*)").
		Where("key IS NULL AND order_key IS NULL AND headers IS NULL AND claim_token IS NULL").Scan(s.ctx, &nulls))
	equal(t, "the number of rows with NULL in what is absent", nulls, 2)
}

func testOnce(t testing.TB, s *subject) {
	enqueue := func(ctx context.Context, tx bun.Tx, key string) (r outbox.Receipt) {
		must(t, outbox.Enqueue(ctx, tx, topic, event{}, outbox.Key(key), outbox.Into(&r)))
		return r
	}
	must(t, s.db.RunInTx(s.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		equal(t, "Duplicate of the first", enqueue(ctx, tx, "a").Duplicate, false)
		equal(t, "Duplicate of the second, in the same transaction", enqueue(ctx, tx, "a"), outbox.Receipt{Duplicate: true})
		return nil
	}))
	must(t, s.db.RunInTx(s.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		equal(t, "Duplicate of a committed key", enqueue(ctx, tx, "a").Duplicate, true)
		equal(t, "Duplicate of another key, after that", enqueue(ctx, tx, "b").Duplicate, false)
		return nil
	}))
	equal(t, "the number of messages", s.count(t, "outbox_messages"), 2)

	// Two transactions race for a key: the loser waits, and commits all the same.
	first, err := s.db.BeginTx(s.ctx, nil)
	must(t, err)
	defer func() { _ = first.Rollback() }()
	enqueue(s.ctx, first, "c")
	lost := make(chan error, 1)
	var r outbox.Receipt
	go func() {
		lost <- s.db.RunInTx(s.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			if _, err := tx.ExecContext(ctx, "INSERT INTO business VALUES (2)"); err != nil {
				return err
			}
			return outbox.Enqueue(ctx, tx, topic, event{}, outbox.Key("c"), outbox.Into(&r))
		})
	}()
	must(t, first.Commit())
	must(t, <-lost)
	equal(t, "Duplicate of the one that lost the race", r.Duplicate, true)
	equal(t, "the number of messages", s.count(t, "outbox_messages"), 3)
	equal(t, "the number of other rows of the one that lost the race", s.count(t, "business"), 1)
}

func testMany(t testing.TB, s *subject) {
	keyed := topics.New("storetest", &topics.Options[event]{Key: func(e event) string { return fmt.Sprint(e.N % 3) }})
	var plain, once []outbox.Receipt
	must(t, s.db.RunInTx(s.ctx, nil, func(ctx context.Context, tx bun.Tx) (err error) {
		if plain, err = outbox.EnqueueAll(ctx, tx, topic, []event{{3}, {1}, {2}}); err != nil {
			return err
		}
		once, err = outbox.EnqueueAll(ctx, tx, keyed, []event{{2}, {1}, {5}})
		return err
	}))
	for i, want := range []string{`{"n":3}`, `{"n":1}`, `{"n":2}`} {
		equal(t, "the payload of a receipt", string(s.get(t, plain[i].ID).Payload), want)
	}
	equal(t, "Duplicate of the receipts", fmt.Sprint(once[0].Duplicate, once[1].Duplicate, once[2].Duplicate), "false false true")
	equal(t, "the key of a receipt", s.get(t, once[1].ID).Key, "1")
}

func testTime(t testing.TB, s *subject) {
	m := s.get(t, s.enqueue(t, 1, outbox.After(1500*time.Millisecond))[0])
	if off := m.AvailableAt.Sub(m.CreatedAt) - 1500*time.Millisecond; off.Abs() > time.Millisecond {
		t.Fatalf("a delay of 1.5s is off by %v", off)
	}
	if off := time.Since(m.CreatedAt); off.Abs() > 10*time.Minute {
		t.Fatalf("a message of now was created %v ago, so a time zone is lost, or the clocks of the machines differ", off)
	}
	at := time.Date(2031, 4, 5, 6, 7, 8, 123_456_000, time.FixedZone("", 5*3600+1800))
	precision := time.Millisecond
	if s.isPostgres() {
		precision = time.Microsecond
	}
	if off := s.get(t, s.enqueue(t, 1, outbox.At(at))[0]).AvailableAt.Sub(at); off < 0 || off >= precision {
		t.Fatalf("a message that is due at %v is due %v later", at, off)
	}
	// Time passes within a transaction.
	must(t, s.db.RunInTx(s.ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		for begun := time.Now(); time.Since(begun) < patience; {
			must(t, outbox.Enqueue(ctx, tx, topic, event{}, outbox.OrderKey("passing")))
			var times int
			must(t, tx.NewSelect().Table("outbox_messages").ColumnExpr("count(DISTINCT created_at)").
				Where("order_key = 'passing'").Scan(ctx, &times))
			if times > 1 {
				return nil
			}
		}
		t.Fatal("the clock stands still within a transaction")
		return nil
	}))
}
