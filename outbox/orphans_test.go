package outbox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// One goroutine works on claims of unknown outcome. When it has ended, the next
// such claim needs another.
func TestClaimsOfUnknownOutcomeAreGivenUpAgainAndAgain(t *testing.T) {
	onEvery(t, func(t *testing.T, f *fixture) {
		statements, err := outbox.StatementsOf(f.relay(handling(acknowledge)))
		require.NoError(t, err)
		release, wait := statements.Disown()
		for round := range 3 {
			ids := f.enqueue(t, plainTopic, numbers(2))
			var claims [2][3]outbox.ID
			for i := range claims {
				for kind := range claims[i] {
					claims[i][kind] = modelToken()
				}
				flights, err := statements.Claim(t.Context(), 1, false, nil, claims[i])
				require.NoError(t, err)
				require.Len(t, flights, 1)
			}
			for _, tokens := range claims {
				release(t.Context(), tokens)
			}
			wait()
			for _, id := range ids {
				m := f.get(t, id)
				require.Equal(t, outbox.StatusPending, m.Status, "round %d", round)
				require.Zero(t, m.Attempts)
			}
			require.Equal(t, len(ids), drain(t, f.relay(handling(acknowledge))))
		}
	})
}
