package outbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

// What is stored is what was given, byte for byte.

// raw stays as it was decoded.
type raw struct{ json.RawMessage }

var rawTopic = topics.New("raw", &topics.Options[raw]{MaxBytes: 2 << 20})

// hostileTexts are valid UTF-8 without NUL.
var hostileTexts = []string{
	`'`, `''`, `"`, `\`, `\\`, `\'`, `\\'`, `E'\''`, `?`, `?0`, `?1`, `??`, `\?`, `'?'`, `$1`, `$$`, `$tag$ x $tag$`, `:a`, `@a`, `%s`, `%`, `_`,
	`'; DROP TABLE outbox_messages; --`, `'); DELETE FROM outbox_messages; --`, `"; DROP TABLE outbox_messages; --`, `*/ x /*`, `--`,
	`{"a":1}`, `[1]`, `null`, `true`, `1`, `1e400`, `0x10`, ` padded `, "tab\tnewline\nreturn\r\n", "\x01\x1f\x7f", "\u0085\u00a0",
	"\u2028\u2029", "<script>&amp;</script>", "�", "\ufeff", "ü", "\u00e9", "e\u0301", "日本語", "🜁", "\U0010ffff", `\u0000`, `\x00`, `\ud800`,
}

// hostilePayloads are JSON texts. Each is a payload as it is.
func hostilePayloads() []string {
	out := []string{
		`"\u0000"`, `"a\u0000b\u0000"`, `{"\u0000":"\u0000"}`, `"\ud800"`, `"\udc00 alone"`, `"\ud83d\ude00"`, `"\u2028"`, `"\ufffd"`, `"\/"`,
		`9007199254740993`, `-9007199254740993`, `123456789012345678901234567890`, `1.10`, `1E+2`, `-0`, `0.1e-400`,
		`{"b":1,"a":2,"b":3}`, `{"":""}`, `[]`, `{}`, `null`, `true`, `"` + strings.Repeat("x", 1<<20) + `"`,
		strings.Repeat("[", 500) + strings.Repeat("]", 500), `"` + strings.Repeat(`\\\"'?`, 1000) + `"`,
	}
	for _, text := range hostileTexts {
		b, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			panic(err)
		}
		out = append(out, string(b))
	}
	return out
}

// F30: NUL in a string aborts the business write or is silently changed.
func TestHostilePayloadsAreStoredUnchanged(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		var vs []raw
		want := map[outbox.ID]string{}
		receipts := map[outbox.ID]bool{}
		f.tx(t, func(ctx context.Context, tx bun.Tx) error {
			for _, p := range hostilePayloads() {
				v := raw{json.RawMessage(p)}
				vs = append(vs, v)
				encoded, err := rawTopic.Encode(v)
				require.NoError(t, err)
				var r outbox.Receipt
				require.NoError(t, outbox.Enqueue(ctx, tx, rawTopic, v, outbox.Into(&r)), "payload %.100s", p)
				want[r.ID] = string(encoded)
			}
			all, err := outbox.EnqueueAll(ctx, tx, rawTopic, vs)
			for i, r := range all {
				encoded, err := rawTopic.Encode(vs[i])
				require.NoError(t, err)
				want[r.ID] = string(encoded)
				receipts[r.ID] = true
			}
			return err
		})
		require.Len(t, want, 2*len(vs))
		check := func(how string, m outbox.Message) {
			if string(m.Payload) != want[m.ID] { // the diff of a MiB takes long
				t.Errorf("%s, EnqueueAll %v: stored %.200q, want %.200q", how, receipts[m.ID], m.Payload, want[m.ID])
			}
		}
		for _, m := range f.stored(t) {
			check("listed", m)
		}
		var mu sync.Mutex
		delivered := map[outbox.ID]bool{}
		mux := outbox.NewMux()
		outbox.Handle(mux, rawTopic, func(_ context.Context, d outbox.Delivery[raw]) error {
			mu.Lock()
			defer mu.Unlock()
			check("delivered", d.Message)
			delivered[d.Message.ID] = true
			if again, err := rawTopic.Encode(d.Payload); err != nil || string(again) != want[d.Message.ID] {
				t.Errorf("decoded %.200q, want %.200q", again, want[d.Message.ID])
			}
			return nil
		})
		require.Equal(t, len(want), drain(t, f.relay(mux)))
		require.Len(t, delivered, len(want))
		for id := range want {
			check("read back", f.get(t, id))
		}
	})
}

// F31: SQL is injected through arguments that are inlined.
func TestHostileKeysAndHeadersAreStoredLiterally(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		type stored struct {
			key, orderKey string
			headers       map[string]string
		}
		want := map[outbox.ID]stored{}
		f.tx(t, func(ctx context.Context, tx bun.Tx) error {
			for i, text := range hostileTexts {
				var r outbox.Receipt
				headers := map[string]string{text: text, "n": fmt.Sprint(i)}
				require.NoError(t, outbox.Enqueue(ctx, tx, plainTopic, order{ID: text}, outbox.Key(text), outbox.OrderKey(text),
					outbox.Header(text, text), outbox.Header("n", "overwritten"), outbox.Header("n", fmt.Sprint(i)), outbox.Into(&r)))
				require.False(t, r.Duplicate, "key %q is like another", text)
				want[r.ID] = stored{text, text, headers}
			}
			vs := make([]order, len(hostileTexts))
			for i, text := range hostileTexts {
				vs[i].ID = text + " of many"
			}
			text := strings.Join(hostileTexts, "")
			all, err := outbox.EnqueueAll(ctx, tx, ownKeyTopic, vs, outbox.OrderKey(text), outbox.Header(text, text))
			for i, r := range all {
				require.False(t, r.Duplicate)
				want[r.ID] = stored{vs[i].ID, text, map[string]string{text: text}}
			}
			return err
		})
		for _, m := range f.stored(t) {
			require.Equal(t, want[m.ID], stored{m.Key, m.OrderKey, m.Headers})
		}
		var mu sync.Mutex
		var wrong []string
		mux := handling(func(_ context.Context, d outbox.Delivery[order]) error {
			mu.Lock()
			defer mu.Unlock()
			if w := want[d.Message.ID]; d.Payload.ID != w.key || d.Message.Key != w.key || d.Message.OrderKey != w.orderKey {
				wrong = append(wrong, fmt.Sprintf("%+v", d))
			}
			return nil
		})
		outbox.Handle(mux, ownKeyTopic, func(context.Context, outbox.Delivery[order]) error { return nil })
		require.Equal(t, len(want), drain(t, f.relay(mux)))
		require.Empty(t, wrong)
		require.Equal(t, len(want), f.rows(t))

		for _, text := range hostileTexts {
			list, err := f.store.List(t.Context(), outbox.Filter{OrderKey: text})
			require.NoError(t, err)
			require.Len(t, list, 1, "order key %q", text)
			f.tx(t, func(ctx context.Context, tx bun.Tx) error {
				var r outbox.Receipt
				err := outbox.Enqueue(ctx, tx, plainTopic, order{}, outbox.Key(text), outbox.Into(&r))
				require.True(t, r.Duplicate, "key %q", text)
				return err
			})
		}
	})
}

// Reasons of failures are the text of others.
func TestHostileReasonsAreStoredLiterally(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		f.enqueue(t, plainTopic, hostileTexts)
		r := f.relay(handling(func(_ context.Context, d outbox.Delivery[order]) error {
			return outbox.Permanent(fmt.Errorf("%s", d.Payload.ID))
		}))
		require.Zero(t, drain(t, r))
		list := f.stored(t)
		require.Len(t, list, len(hostileTexts))
		for i, m := range list {
			require.Equal(t, outbox.StatusFailed, m.Status)
			require.Equal(t, hostileTexts[i], m.LastError)
			found, err := f.store.List(t.Context(), outbox.Filter{ErrorContains: m.LastError, IDs: []outbox.ID{m.ID}})
			require.NoError(t, err)
			require.Len(t, found, 1, "reason %q", m.LastError)
			n, err := f.store.Discard(t.Context(), outbox.Filter{IDs: []outbox.ID{m.ID}}, m.LastError+"!")
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.Equal(t, m.LastError+"!", f.get(t, m.ID).LastError)
		}
	})
}
