package outbox_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

const someID = "0190a5b7-12cd-7abc-9def-0123456789ab"

func TestIDRoundTrips(t *testing.T) {
	id, err := outbox.ParseID(someID)
	require.NoError(t, err)
	require.Equal(t, someID, id.String())
	require.False(t, id.IsZero())
	require.Equal(t, someID, uuid.UUID(id).String(), "it converts to a UUID type")

	text, err := id.MarshalText()
	require.NoError(t, err)
	var fromText outbox.ID
	require.NoError(t, fromText.UnmarshalText(text))
	require.Equal(t, id, fromText)

	encoded, err := json.Marshal(map[outbox.ID]outbox.ID{id: id})
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("{%q:%q}", someID, someID), string(encoded))
	var decoded map[outbox.ID]outbox.ID
	require.NoError(t, json.Unmarshal(encoded, &decoded))
	require.Equal(t, map[outbox.ID]outbox.ID{id: id}, decoded)

	value, err := id.Value()
	require.NoError(t, err)
	require.Equal(t, someID, value)
	for _, src := range []any{someID, []byte(someID), id[:], value} {
		var scanned outbox.ID
		require.NoError(t, scanned.Scan(src))
		require.Equal(t, id, scanned, "%T", src)
	}
}

func TestZeroIDIsNull(t *testing.T) {
	var id outbox.ID
	require.True(t, id.IsZero())
	value, err := id.Value()
	require.NoError(t, err)
	require.Nil(t, value)
	id = outbox.ID{1}
	require.NoError(t, id.Scan(nil))
	require.True(t, id.IsZero())
}

func TestIDRefusesWhatIsNone(t *testing.T) {
	for _, text := range []string{"", "x", someID + "0", "0190a5b7-12cd-7abc-9def-0123456789ag"} {
		_, err := outbox.ParseID(text)
		require.ErrorContains(t, err, fmt.Sprintf("%q is no message id", text))
		id := outbox.ID{1}
		require.Error(t, id.UnmarshalText([]byte(text)))
		require.Equal(t, outbox.ID{1}, id, "it is left alone")
	}
	id := outbox.ID{1}
	for _, src := range []any{"x", []byte("x"), 7} {
		require.Error(t, id.Scan(src), "%T", src)
	}
	require.Equal(t, outbox.ID{1}, id)
}

func TestIDsAreInTheOrderOfTheCalls(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		ids := f.enqueue(t, plainTopic, numbers(50))
		for i := range ids[1:] {
			require.Less(t, ids[i].String(), ids[i+1].String())
			require.EqualValues(t, 7, uuid.UUID(ids[i]).Version())
		}
		require.Equal(t, 50, drain(t, f.relay(handling(acknowledge))))
	})
}
