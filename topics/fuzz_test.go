package topics_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/topics"
)

// fuzzed is a payload of every shape.
type fuzzed struct {
	Text   string          `json:"text"`
	Number int64           `json:"number"`
	Float  *float64        `json:"float,omitempty"`
	Bytes  []byte          `json:"bytes,omitempty"`
	List   []string        `json:"list,omitempty"`
	Map    map[string]any  `json:"map,omitempty"`
	Raw    json.RawMessage `json:"raw,omitempty"`
	Nested *fuzzed         `json:"nested,omitempty"`
}

// fuzzedTopic is at version 3. Nothing leads there from version 2.
var fuzzedTopic = topics.New("fuzzed", &topics.Options[fuzzed]{
	Version: 3, MaxBytes: 1 << 16,
	Upcast: map[int]topics.Upcaster{1: topics.Upcast(func(v fuzzed) (fuzzed, error) { return v, nil })},
})

// Whatever is stored, decoding is an error that names the row's version or a
// value. What was decoded can be encoded and comes back the same, or says why
// not.
func FuzzDecode(f *testing.F) {
	for _, payload := range []string{
		`{"text":"a","number":1}`, `{"text":"\u0000\ud800"}`, `{"raw":{"a": [1,2]}}`, `{"nested":{"nested":null}}`, `{"bytes":"AQI="}`, `{"bytes":"!"}`,
		`{"number":9223372036854775808}`, `{"float":1e400}`, `{"map":{"":{"":[]}}}`, `{"text":"` + "\xff" + `"}`, `{"raw":"` + "\xff" + `"}`,
		`{"TEXT":"a","text":"b"}`, `{`, ``, `null`, `[]`, `"`, `{"text":"a"} {}`, "\ufeff{}", strings.Repeat(`{"nested":`, 2000), strings.Repeat("[", 20000),
	} {
		for _, version := range []int{0, 1, 2, 3, 4} {
			f.Add(version, []byte(payload))
		}
	}
	f.Fuzz(func(t *testing.T, version int, payload []byte) {
		given := string(payload)
		v, err := fuzzedTopic.Decode(version, payload)
		require.Equal(t, given, string(payload), "the payload is not written to")
		if err != nil {
			var decode *topics.DecodeError
			require.ErrorAs(t, err, &decode)
			require.Equal(t, "fuzzed", decode.Topic)
			require.Equal(t, version, decode.Version)
			require.Zero(t, v)
			return
		}
		require.Contains(t, []int{1, 3}, version)
		require.True(t, json.Valid(payload))
		requireEncodable(t, v)
	})
}

// requireEncodable checks that v is refused, or is stored as what it is.
func requireEncodable(t *testing.T, v fuzzed) {
	t.Helper()
	once, err := fuzzedTopic.Encode(v)
	if err != nil {
		var encode *topics.EncodeError
		require.ErrorAs(t, err, &encode)
		// A value that was decoded is of valid text; but a RawMessage is kept as it
		// came.
		require.True(t, errors.Is(err, topics.ErrPayloadTooLarge) || strings.Contains(err.Error(), "invalid UTF-8"), "refused: %v", err)
		return
	}
	require.LessOrEqual(t, len(once), 1<<16)
	require.True(t, utf8.Valid(once))
	again, err := fuzzedTopic.Decode(3, once)
	require.NoError(t, err)
	twice, err := fuzzedTopic.Encode(again)
	require.NoError(t, err)
	require.Equal(t, string(once), string(twice))
}

// A text is refused, or it comes back as it was.
func FuzzEncode(f *testing.F) {
	for _, text := range []string{"", "a", "\x00", "\xff", "a\xc3", "\xed\xa0\x80", "\ufffd", `\ufffd`, "\ufffd\xff", "\u2028", "<&>", `\u0000`, "\U0010ffff", strings.Repeat("x", 1<<16)} {
		f.Add(text, text, []byte(text))
	}
	f.Fuzz(func(t *testing.T, text, key string, bytes []byte) {
		v := fuzzed{Text: text, List: []string{key}, Map: map[string]any{key: text}, Bytes: bytes}
		payload, err := fuzzedTopic.Encode(v)
		if !utf8.ValidString(text) || !utf8.ValidString(key) {
			require.Error(t, err)
			return
		}
		if err != nil {
			require.ErrorIs(t, err, topics.ErrPayloadTooLarge)
			return
		}
		require.LessOrEqual(t, len(payload), 1<<16)
		got, err := fuzzedTopic.Decode(3, payload)
		require.NoError(t, err)
		require.Equal(t, text, got.Text)
		require.Equal(t, v.List, got.List)
		require.Equal(t, v.Map, got.Map)
		require.Equal(t, string(bytes), string(got.Bytes))
	})
}

var validName = regexp.MustCompile(`\A[a-zA-Z0-9._:/-]{1,200}\z`)

// A name is accepted if it is of the alphabet, wherever it is given. What is
// wrong with another can be printed.
func FuzzName(f *testing.F) {
	for _, name := range []string{
		"", "a", "event:user.created", "orders/created-1_x", "a b", "a\n", "\na", "a\x00", "ä", "\xff", "a'b", "a%", "a\\", "a;", "a#b", "a,b",
		strings.Repeat("a", 200), strings.Repeat("a", 201), strings.Repeat("ä", 101), strings.Repeat("\xff", 300),
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := topics.CheckName(name)
		require.Equal(t, validName.MatchString(name), err == nil, "%v", err)
		asAlias := func() { topics.New("the.name", &topics.Options[int]{Aliases: []string{name}}) }
		if err != nil {
			require.True(t, utf8.ValidString(err.Error()))
			require.NotContains(t, err.Error(), "\n")
			require.Panics(t, func() { topics.New[int](name, nil) })
			require.Panics(t, asAlias)
			return
		}
		require.Equal(t, name, topics.New[int](name, nil).Name())
		if name != "the.name" {
			require.NotPanics(t, asAlias)
		}
	})
}

// From a key the scope and the parts can be told, so no two of them meet.
func FuzzJoinKey(f *testing.F) {
	for _, part := range []string{"", "a", ",", `\`, `\,`, `,\`, `\\`, "#", "a#b,c", "\x00", "\xff", "日本"} {
		f.Add("orders", part, "", "x")
		f.Add("orders", "", part, "")
		f.Add("a.b", part, part, part)
	}
	f.Fuzz(func(t *testing.T, scope, a, b, c string) {
		if topics.CheckName(scope) != nil {
			t.Skip("a scope is a topic's name")
		}
		for _, parts := range [][]string{{a}, {a, b}, {a, b, c}} {
			key := topics.JoinKey(scope, parts...)
			if strings.Join(parts, "") == "" {
				require.Empty(t, key)
				continue
			}
			gotScope, gotParts := splitKey(t, key)
			require.Equal(t, scope, gotScope)
			require.Equal(t, parts, gotParts)
		}
	})
}

// splitKey is the inverse of JoinKey.
func splitKey(t *testing.T, key string) (scope string, parts []string) {
	t.Helper()
	scope, rest, found := strings.Cut(key, "#")
	require.True(t, found)
	var part []byte
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; c {
		case '\\':
			i++
			require.Less(t, i, len(rest), "an escape at the end")
			part = append(part, rest[i])
		case ',':
			parts, part = append(parts, string(part)), nil
		default:
			part = append(part, c)
		}
	}
	return scope, append(parts, string(part))
}
