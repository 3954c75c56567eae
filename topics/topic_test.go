package topics_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/topics"
)

type event struct {
	ID   string `json:"id"`
	Note string `json:"note,omitempty"`
}

func identity(payload json.RawMessage) (json.RawMessage, error) { return payload, nil }

func TestNewPanicsOnProgrammerError(t *testing.T) {
	_, file, _, _ := runtime.Caller(0)
	for _, tt := range []struct {
		what string
		make func()
		want string
	}{
		{"an invalid name", func() { topics.New[event]("a b", nil) }, `topic name "a b" has " " at byte 1`},
		{"an empty name", func() { topics.New[event]("", nil) }, "topic name is empty"},
		{"an interface", func() { topics.New[fmt.Stringer]("a", nil) }, "payload type fmt.Stringer is an interface"},
		{"any", func() { topics.New[any]("a", nil) }, "is an interface"},
		{"an invalid alias", func() { topics.New("a", &topics.Options[event]{Aliases: []string{"b", "?"}}) }, `alias: topic name "?"`},
		{"its own name as alias", func() { topics.New("a", &topics.Options[event]{Aliases: []string{"a"}}) }, `alias "a" is given twice`},
		{"an alias twice", func() { topics.New("a", &topics.Options[event]{Aliases: []string{"b", "b"}}) }, `alias "b" is given twice`},
		{"a negative version", func() { topics.New("a", &topics.Options[event]{Version: -1}) }, "Version -1"},
		{"a negative size", func() { topics.New("a", &topics.Options[event]{MaxBytes: -1}) }, "MaxBytes -1"},
		{
			"an upcaster from 0",
			func() {
				topics.New("a", &topics.Options[event]{Version: 2, Upcast: map[int]topics.Upcaster{0: identity}})
			},
			"an upcaster starts at version 0, outside 1 to 1",
		},
		{
			"an upcaster from the present version",
			func() {
				topics.New("a", &topics.Options[event]{Version: 2, Upcast: map[int]topics.Upcaster{2: identity}})
			},
			"an upcaster starts at version 2, outside 1 to 1",
		},
		{
			"a nil upcaster",
			func() { topics.New("a", &topics.Options[event]{Version: 2, Upcast: map[int]topics.Upcaster{1: nil}}) },
			"the upcaster from version 1 is nil",
		},
	} {
		t.Run(tt.what, func(t *testing.T) {
			message := panicOf(tt.make)
			require.Contains(t, message, tt.want)
			require.Contains(t, message, "topics: New at "+file+":", "it names its caller")
		})
	}
}

func panicOf(f func()) (message string) {
	defer func() { message = fmt.Sprint(recover()) }()
	f()
	return ""
}

func TestTopicDefaults(t *testing.T) {
	for _, topic := range []topics.Topic[event]{
		topics.New[event]("a", nil),
		topics.New("a", &topics.Options[event]{}),
	} {
		require.Equal(t, "a", topic.Name())
		require.Equal(t, 1, topic.Version())
		require.Empty(t, topic.Key(event{ID: "1"}))
		require.Empty(t, topic.Order(event{ID: "1"}))
	}
}

func TestTopicDerivesKeyAndOrder(t *testing.T) {
	topic := topics.New("a", &topics.Options[event]{
		Key:   func(e event) string { return "key " + e.ID },
		Order: func(e event) string { return "order " + e.ID },
	})
	require.Equal(t, "key 7", topic.Key(event{ID: "7"}), "it is stored as it is")
	require.Equal(t, "order 7", topic.Order(event{ID: "7"}))
}

func TestTopicInfo(t *testing.T) {
	opts := &topics.Options[event]{Version: 3, Aliases: []string{"b", "c"}}
	_, file, line, _ := runtime.Caller(0)
	topic := topics.New("a", opts)
	want := topics.Info{
		Name: "a", Version: 3, Aliases: []string{"b", "c"}, Type: reflect.TypeFor[event](),
		Source: fmt.Sprintf("%s:%d", file, line+1),
	}
	require.Equal(t, want, topic.Info())

	opts.Aliases[0], opts.Version = "changed", 9
	topic.Info().Aliases[1] = "changed"
	require.Equal(t, want, topic.Info(), "neither the options nor an Info are a way into the topic")
}

func TestZeroTopicIsInvalid(t *testing.T) {
	var topic topics.Topic[event]
	require.Empty(t, topic.Name())
	require.Zero(t, topic.Version())
	require.Empty(t, topic.Key(event{ID: "1"}))
	require.Empty(t, topic.Order(event{ID: "1"}))
	require.Equal(t, topics.Info{Type: reflect.TypeFor[event]()}, topic.Info())

	_, err := topic.Encode(event{})
	var encode *topics.EncodeError
	require.ErrorAs(t, err, &encode)
	require.ErrorContains(t, err, "topics.New")
	_, err = topic.Decode(1, json.RawMessage(`{}`))
	var decode *topics.DecodeError
	require.ErrorAs(t, err, &decode)
	require.ErrorContains(t, err, "topics.New")
}
