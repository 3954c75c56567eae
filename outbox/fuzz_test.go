package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// fuzzText is whether a text can be stored, in the words of the documentation.
func fuzzText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

func fuzzKey(s string) bool { return fuzzText(s) && len(s) <= outbox.MaxKeyBytes }

// fuzzHostile are seeds for every text.
func fuzzHostile() []string {
	return append([]string{"", "\x00", "a\x00b", "\xff", "a\xc3", "\xed\xa0\x80", strings.Repeat("k", 1024), strings.Repeat("ü", 513)}, hostileTexts...)
}

// Whatever is given as payload, key, order key and header is refused before any
// SQL, with the transaction still usable, or read back as it was, on every
// driver: from the table and by a claim.
func FuzzStored(f *testing.F) {
	// Several at once, since every seed runs in the ordinary suite.
	payloads, texts := hostilePayloads(), fuzzHostile()
	for i := 0; i+1 < len(payloads); i += 2 {
		text := func(n int) string { return texts[(5*i/2+n)%len(texts)] }
		f.Add([]byte(payloads[i]), payloads[i+1], text(0), text(1), text(2), text(3))
	}
	for i, bad := range []string{"\x00", "\xff", "a\xc3", strings.Repeat("ü", 513)} {
		f.Add([]byte(`1`), "", bad, "", "h", "")
		f.Add([]byte(`1`), "", "", bad, "h", "")
		f.Add([]byte(`1`), "", "", "", bad, "")
		f.Add([]byte(`1`), []string{"", bad}[i%2], "", "", "h", bad)
	}
	for _, payload := range []string{``, `{`, `"` + "\xff" + `"`, strings.Repeat("[", 9999) + strings.Repeat("]", 9999), ` [ 1 , "a" ] `, `"\x00"`, "\"\x00\"", "\ufeff1"} {
		f.Add([]byte(payload), "", strings.Repeat("k", 1024), "o", "h", "v")
	}
	databases := fuzzDatabases(f)
	f.Fuzz(func(t *testing.T, payload []byte, text, key, orderKey, header, value string) {
		for _, d := range databases {
			for _, v := range []any{raw{json.RawMessage(payload)}, order{ID: text, Note: string(payload)}} {
				c := fuzzStored{d, key, orderKey, header, value}
				switch v := v.(type) {
				case raw:
					fuzzStore(t, c, rawTopic, v)
				case order:
					fuzzStore(t, c, plainTopic, v)
				}
			}
		}
	})
}

type fuzzStored struct {
	fuzzDatabase
	key, orderKey, header, value string
}

func (c fuzzStored) valid() bool {
	return fuzzKey(c.key) && fuzzKey(c.orderKey) && c.header != "" && fuzzText(c.header) && fuzzText(c.value)
}

func fuzzStore[T any](t *testing.T, c fuzzStored, topic topics.Topic[T], v T) {
	t.Helper()
	c.empty(t)
	encoded, encodeErr := topic.Encode(v)
	opts := []outbox.EnqueueOption{outbox.OrderKey(c.orderKey), outbox.Header(c.header, c.value)}
	var receipt, repeat outbox.Receipt
	many := []outbox.Receipt{}
	err := c.db.RunInTx(context.Background(), nil, func(ctx context.Context, tx bun.Tx) error {
		err := outbox.Enqueue(ctx, tx, topic, v, append([]outbox.EnqueueOption{outbox.Key(c.key), outbox.Into(&receipt)}, opts...)...)
		require.Equal(t, encodeErr == nil && c.valid(), err == nil, "%s: key %q, order key %q, header %q: %q, payload %v: %v",
			c.name, c.key, c.orderKey, c.header, c.value, encodeErr, err)
		if err != nil {
			var encode *topics.EncodeError
			require.True(t, errors.Is(err, outbox.ErrInvalidKey) || errors.As(err, &encode), "%s: %v", c.name, err)
			_, err = tx.ExecContext(ctx, "SELECT 1")
			require.NoError(t, err, "%s: the transaction is usable", c.name)
			return nil
		}
		require.NoError(t, outbox.Enqueue(ctx, tx, topic, v, outbox.Key(c.key), outbox.Into(&repeat)))
		many, err = outbox.EnqueueAll(ctx, tx, topic, []T{v}, opts...)
		return err
	})
	require.NoError(t, err, "%s: the transaction commits", c.name)
	if encodeErr != nil || !c.valid() {
		return
	}
	require.Equal(t, c.key != "", repeat.Duplicate, "%s: a repeat of key %q", c.name, c.key)

	check := func(how string, id outbox.ID, m outbox.Message, key string) {
		require.Equal(t, id, m.ID)
		require.Equal(t, topic.Name(), m.Topic)
		require.Equal(t, key, m.Key, "%s, %s", c.name, how)
		require.Equal(t, c.orderKey, m.OrderKey, "%s, %s", c.name, how)
		require.Equal(t, map[string]string{c.header: c.value}, m.Headers, "%s, %s", c.name, how)
		require.Equal(t, string(encoded), string(m.Payload), "%s, %s", c.name, how)
	}
	for _, stored := range []struct {
		id  outbox.ID
		key string
	}{{receipt.ID, c.key}, {many[0].ID, ""}} {
		m, err := c.store.Get(context.Background(), stored.id)
		require.NoError(t, err, c.name)
		check("read", stored.id, m, stored.key)
	}
	list, err := c.store.List(context.Background(), outbox.Filter{OrderKey: c.orderKey, Topic: topic.Name(), IDs: []outbox.ID{receipt.ID}})
	require.NoError(t, err, c.name)
	require.Len(t, list, 1, "%s: order key %q", c.name, c.orderKey)
	flights, err := c.statements.Claim(context.Background(), 1, false, nil, [3]outbox.ID{modelToken(), modelToken(), modelToken()})
	require.NoError(t, err, c.name)
	require.Len(t, flights, 1, c.name)
	check("claimed", receipt.ID, flights[0].Message(), c.key)
	_, err = topic.Decode(topic.Version(), flights[0].Message().Payload)
	require.NoError(t, err, c.name)
}

// A reason is text of others, and recording must never fail because of it. What
// can be stored is stored as it is.
func FuzzReason(f *testing.F) {
	for _, reason := range fuzzHostile() {
		f.Add(reason)
	}
	for _, reason := range []string{strings.Repeat("x", 8192), strings.Repeat("x", 8193), strings.Repeat("x", 8191) + "ü", strings.Repeat("\xff", 9000), strings.Repeat("\x00", 9000), strings.Repeat("🜁", 3000)} {
		f.Add(reason)
	}
	databases := fuzzDatabases(f)
	f.Fuzz(func(t *testing.T, reason string) {
		for _, d := range databases {
			d.empty(t)
			require.NoError(t, d.db.RunInTx(context.Background(), nil, func(ctx context.Context, tx bun.Tx) error {
				_, err := outbox.EnqueueAll(ctx, tx, plainTopic, []order{{}, {}})
				return err
			}))
			flights, err := d.statements.Claim(context.Background(), 2, false, nil, [3]outbox.ID{modelToken(), modelToken(), modelToken()})
			require.NoError(t, err, d.name)
			require.Len(t, flights, 2, d.name)
			again, lost, err := d.statements.Record(context.Background(), []outbox.Outcome{flights[0].Parked(reason), flights[1].Retried(0, reason)})
			require.NoError(t, err, d.name)
			require.Empty(t, again, d.name)
			require.Empty(t, lost, d.name)
			for _, flight := range flights {
				m, err := d.store.Get(context.Background(), flight.ID)
				require.NoError(t, err, d.name)
				requireReason(t, d.name, reason, m.LastError)
			}
			if strings.TrimSpace(reason) == "" {
				continue
			}
			_, err = d.store.Discard(context.Background(), outbox.Filter{All: true, Status: []outbox.Status{outbox.StatusFailed, outbox.StatusPending}}, reason)
			require.NoError(t, err, d.name)
			m, err := d.store.Get(context.Background(), flights[0].ID)
			require.NoError(t, err, d.name)
			requireReason(t, d.name, reason, m.LastError)
		}
	})
}

func requireReason(t *testing.T, driver, reason, stored string) {
	t.Helper()
	require.True(t, fuzzText(stored), "%s: %q", driver, stored)
	require.LessOrEqual(t, len(stored), 8<<10, driver)
	if fuzzText(reason) {
		require.True(t, strings.HasPrefix(reason, stored), "%s: %q became %q", driver, reason, stored)
		require.GreaterOrEqual(t, len(stored), min(len(reason), 8<<10-utf8.UTFMax+1), "%s: cut too short", driver)
	}
}

// Filters compare literally: they are refused before any SQL, or choose what the
// functions of package strings would.
func FuzzFilter(f *testing.F) {
	for i, text := range fuzzHostile() {
		f.Add([]string{"", "x", text}[i%3]+text, text, i%3, 1+len(text))
	}
	f.Add("boom", "o_", 1, 3)
	f.Add("Boom", "boom", 0, 1)
	f.Add("100%", "ord", 3, 4)
	databases := fuzzDatabases(f)
	for _, d := range databases {
		require.NoError(f, d.db.RunInTx(context.Background(), nil, func(ctx context.Context, tx bun.Tx) error {
			for _, topic := range []topics.Topic[order]{topics.New[order]("o_x", nil), topics.New[order]("oxx", nil), topics.New[order]("O_X", nil)} {
				for i, text := range hostileTexts {
					if i%4 > 0 {
						continue
					}
					if err := outbox.Enqueue(ctx, tx, topic, order{}, outbox.OrderKey(text)); err != nil {
						return err
					}
				}
			}
			_, err := tx.ExecContext(ctx, "UPDATE outbox_messages SET last_error = order_key")
			return err
		}))
	}
	f.Fuzz(func(t *testing.T, text, prefix string, from, to int) {
		from = min(max(from, 0), len(text))
		part := text[from:min(max(to, from), len(text))]
		for _, d := range databases {
			all := fuzzWithRow(t, d, text)
			for _, filter := range []outbox.Filter{{ErrorContains: part}, {ErrorContains: prefix}, {OrderKey: part}, {OrderKey: text}, {TopicPrefix: prefix}, {Topic: prefix}} {
				filter.Limit = 10_000
				valid := fuzzText(filter.ErrorContains) && fuzzText(filter.OrderKey) && fuzzText(filter.TopicPrefix) && fuzzText(filter.Topic)
				got, err := d.store.List(context.Background(), filter)
				require.Equal(t, valid, err == nil, "%s: %+v: %v", d.name, filter, err)
				if err != nil {
					require.ErrorIs(t, err, outbox.ErrInvalidKey)
					_, err := d.store.Retry(context.Background(), filter)
					require.ErrorIs(t, err, outbox.ErrInvalidKey)
					continue
				}
				want := 0
				for _, m := range all {
					if strings.Contains(m.LastError, filter.ErrorContains) && strings.HasPrefix(m.Topic, filter.TopicPrefix) &&
						(filter.OrderKey == "" || m.OrderKey == filter.OrderKey) && (filter.Topic == "" || m.Topic == filter.Topic) {
						want++
					}
				}
				require.Len(t, got, want, "%s: %+v", d.name, filter)
				for _, m := range got {
					require.Contains(t, m.LastError, filter.ErrorContains)
				}
			}
		}
	})
}

// fuzzWithRow returns all rows, one of which has the text as its order key and
// its error if that can be.
func fuzzWithRow(t *testing.T, d fuzzDatabase, text string) []outbox.Message {
	t.Helper()
	ctx := context.Background()
	_, err := d.db.ExecContext(ctx, "DELETE FROM outbox_messages WHERE topic = ?", plainTopic.Name())
	require.NoError(t, err)
	if fuzzKey(text) {
		require.NoError(t, d.db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			if err := outbox.Enqueue(ctx, tx, plainTopic, order{}, outbox.OrderKey(text)); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE outbox_messages SET last_error = order_key WHERE topic = ?", plainTopic.Name())
			return err
		}))
	}
	all, err := d.store.List(ctx, outbox.Filter{Limit: 10_000})
	require.NoError(t, err)
	return all
}
