package outbox_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// What another hand has written wrongly must not stop the others.
func TestOddRowOfAnotherHandStopsNobodyElse(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		odd := map[string]string{ // column: value
			"available_at": "'2026-01-02 03:04:05'", "created_at": "'2026-01-02 03:04:05'", "claimed_at": "'yesterday'", "id": "'not an id'",
		}
		unreadable := 1
		if f.postgres {
			odd = map[string]string{"available_at": "'-infinity'", "created_at": "'-infinity'", "claimed_at": "'infinity'", "headers": "'[7]'"}
			unreadable = 0
		}
		for column, value := range odd {
			id := f.enqueue(t, plainTopic, []string{column})[0]
			f.exec(t, fmt.Sprintf("UPDATE outbox_messages SET %s = %s WHERE id = ?", column, value), id)
		}
		good := f.enqueue(t, plainTopic, numbers(5))
		var l logs
		r := f.relay(handling(acknowledge))
		r.Logger = l.logger()
		require.Equal(t, len(odd)+len(good)-unreadable, drain(t, r))
		require.Equal(t, unreadable, l.count("cannot be read"))
		for _, id := range good {
			require.Equal(t, outbox.StatusSent, f.get(t, id).Status)
		}
		_, err := f.store.Stats(t.Context())
		require.NoError(t, err)
		f.exec(t, "DELETE FROM outbox_messages WHERE status = 'claimed'")
		f.mayVanish = true
	})
}
