package topics_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/topics"
)

// badText is text that marshals itself into invalid UTF-8.
type badText struct{}

func (badText) MarshalText() ([]byte, error) { return []byte("a\xff"), nil }

// ownJSON marshals itself.
type ownJSON struct{ text string }

func (o ownJSON) MarshalJSON() ([]byte, error) { return []byte(o.text), nil }

type embedded struct{ Inner string }

type everything struct {
	embedded
	Text    string
	Pointer *string
	Any     any
	List    []string
	Array   [1]string
	Map     map[string]string
	Keys    map[badKey]int
	Own     *ownJSON
	Marshal any
	Raw     json.RawMessage
	Skipped string `json:"-"`
	private string
}

type badKey string

func TestEncodeRefusesInvalidUTF8(t *testing.T) {
	const bad = "a\xffb"
	pointed := bad
	topic := topics.New[everything]("a", nil)
	for _, tt := range []struct {
		what string
		v    everything
		path string // of the string that would be replaced
	}{
		{"a field", everything{Text: bad}, "payload.Text"},
		{"a promoted field", everything{embedded: embedded{Inner: bad}}, "payload.embedded.Inner"},
		{"behind a pointer", everything{Pointer: &pointed}, "payload.Pointer"},
		{"in an interface", everything{Any: bad}, "payload.Any"},
		{"deep in an interface", everything{Any: map[string]any{"x": []any{1, bad}}}, "payload.Any[x][1]"},
		{"in a slice", everything{List: []string{"", bad}}, "payload.List[1]"},
		{"in an array", everything{Array: [1]string{bad}}, "payload.Array[0]"},
		{"a map's value", everything{Map: map[string]string{"k": bad}}, "payload.Map[k]"},
		{"a map's key", everything{Map: map[string]string{bad: ""}}, "payload.Map[key]"},
		{"a map's key of a named type", everything{Keys: map[badKey]int{bad: 1}}, "payload.Keys[key]"},
		{"text that marshals itself", everything{Marshal: badText{}}, "payload.Marshal"},
		{"JSON that marshals itself", everything{Own: &ownJSON{text: `"` + bad + `"`}}, ""},
		{"a RawMessage", everything{Raw: json.RawMessage(`"` + bad + `"`)}, ""},
		{"beside a genuine U+FFFD", everything{List: []string{"�", bad}}, "payload.List[1]"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			_, err := topic.Encode(tt.v)
			var encode *topics.EncodeError
			require.ErrorAs(t, err, &encode)
			require.Equal(t, "a", encode.Topic)
			require.ErrorContains(t, err, "invalid UTF-8")
			if tt.path != "" {
				require.ErrorContains(t, err, "at "+tt.path+" ")
			}
		})
	}
}

func TestEncodeAcceptsWhatIsValid(t *testing.T) {
	topic := topics.New[everything]("a", nil)
	for _, tt := range []struct {
		what string
		v    everything
	}{
		{"a genuine U+FFFD", everything{Text: "�"}},
		{"an escape of U+FFFD", everything{Raw: json.RawMessage(`"\ufffd"`)}},
		{"the text of that escape", everything{Text: `\ufffd`}},
		{"invalid bytes in what JSON leaves out", everything{Skipped: "\xff", private: "\xff", Raw: json.RawMessage(`"\ufffd"`)}},
		{"NUL", everything{Text: "\x00"}},
	} {
		t.Run(tt.what, func(t *testing.T) {
			got, err := topic.Encode(tt.v)
			require.NoError(t, err)
			want, err := json.Marshal(tt.v)
			require.NoError(t, err)
			require.Equal(t, string(want), string(got), "as encoding/json")
		})
	}
}

func TestEncodeRefusesWhatCannotBeMarshalled(t *testing.T) {
	for _, v := range []any{math.NaN(), make(chan int), json.RawMessage(`{`), func() {}} {
		_, err := topics.New[struct{ V any }]("a", nil).Encode(struct{ V any }{v})
		var encode *topics.EncodeError
		require.ErrorAs(t, err, &encode, "%T", v)
		require.NotErrorIs(t, err, topics.ErrPayloadTooLarge)
	}
}

func TestEncodeRefusesMoreThanMaxBytes(t *testing.T) {
	for _, tt := range []struct {
		maxBytes, limit int
	}{{0, 1 << 20}, {10, 10}, {3 << 20, 3 << 20}} {
		topic := topics.New("a", &topics.Options[string]{MaxBytes: tt.maxBytes})
		fits := strings.Repeat("x", tt.limit-len(`""`))
		payload, err := topic.Encode(fits)
		require.NoError(t, err)
		require.Len(t, payload, tt.limit)

		_, err = topic.Encode(fits + "x")
		require.ErrorIs(t, err, topics.ErrPayloadTooLarge)
		var encode *topics.EncodeError
		require.ErrorAs(t, err, &encode)
	}
}

func TestDecodeReturnsWhatWasEncoded(t *testing.T) {
	topic := topics.New[event]("a", nil)
	want := event{ID: "\x00'\"\\\u2028�", Note: "ü"}
	payload, err := topic.Encode(want)
	require.NoError(t, err)
	got, err := topic.Decode(1, payload)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestDecodeErrors(t *testing.T) {
	broken := errors.New("broken")
	topic := topics.New("a", &topics.Options[event]{Version: 5, Upcast: map[int]topics.Upcaster{
		1: func(json.RawMessage) (json.RawMessage, error) { return nil, broken },
		// 2 is missing
		3: func(json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`{"id":`), nil },
		4: topics.Upcast(func(n int) (event, error) { return event{}, broken }),
	}})
	for _, tt := range []struct {
		what    string
		version int
		payload string
		want    string
		cause   error
	}{
		{"damaged", 5, `{"id":`, "unexpected end of JSON input", nil},
		{"empty", 5, ``, "unexpected end of JSON input", nil},
		{"trailing text", 5, `{} {}`, "invalid character", nil},
		{"of another shape", 5, `{"id":1}`, "cannot unmarshal number", nil},
		{"a newer version", 6, `{}`, "this build knows versions up to 5", nil},
		{"version zero", 0, `{}`, "versions start at 1", nil},
		{"a negative version", -1, `{}`, "versions start at 1", nil},
		{"an upcaster that fails", 1, `{}`, "upcast from version 1 to 2: broken", broken},
		{"a missing upcaster", 2, `{}`, "no upcaster from version 2 to 3; register one for topics_test.event", nil},
		{"an upcaster that damages", 3, `{}`, "upcast from version 4 to 5: unexpected end of JSON input", nil},
		{"an upcaster of another shape", 4, `"x"`, "cannot unmarshal string", nil},
		{"a function of an upcaster that fails", 4, `1`, "upcast from version 4 to 5: broken", broken},
	} {
		t.Run(tt.what, func(t *testing.T) {
			v, err := topic.Decode(tt.version, json.RawMessage(tt.payload))
			var decode *topics.DecodeError
			require.ErrorAs(t, err, &decode)
			require.Equal(t, "a", decode.Topic)
			require.Equal(t, tt.version, decode.Version)
			require.ErrorContains(t, err, tt.want)
			if tt.cause != nil {
				require.ErrorIs(t, err, tt.cause)
			}
			require.Zero(t, v, "no half of a payload comes back")
		})
	}
}

func TestDecodeReturnsNoHalfOfAPayload(t *testing.T) {
	v, err := topics.New[event]("a", nil).Decode(1, json.RawMessage(`{"id":"x","note":1}`))
	require.Error(t, err)
	require.Zero(t, v)
}

func TestDecodeUpcastsInTurn(t *testing.T) {
	step := func(suffix string) topics.Upcaster {
		return topics.Upcast(func(e event) (event, error) {
			e.Note += suffix
			return e, nil
		})
	}
	topic := topics.New("a", &topics.Options[event]{Version: 4, Upcast: map[int]topics.Upcaster{
		1: step("1"), 2: step("2"), 3: step("3"),
	}})
	for version, want := range map[int]string{1: "123", 2: "23", 3: "3", 4: ""} {
		v, err := topic.Decode(version, json.RawMessage(`{"id":"x"}`))
		require.NoError(t, err)
		require.Equal(t, event{ID: "x", Note: want}, v, "from version %d", version)
	}
}
