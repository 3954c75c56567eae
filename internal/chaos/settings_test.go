//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/chaos/account"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	long, err := parseSettings(nil)
	require.NoError(t, err)
	require.NotZero(t, long.seed)
	require.GreaterOrEqual(t, long.rows, 200_000)
	require.GreaterOrEqual(t, long.counts[account.Kill], 500)
	require.GreaterOrEqual(t, long.counts[account.Crash], 20)
	require.GreaterOrEqual(t, long.counts[account.Cut], 100)
	require.LessOrEqual(t, long.deadline, 25*time.Minute)
	for _, kind := range account.Kinds {
		require.Positive(t, long.counts[kind], kind)
	}

	short, err := parseSettings([]string{"-duration", "90s", "-seed", "7", "-locks", "4", "-cuts", "0", "-deadline", "2m"})
	require.NoError(t, err)
	require.EqualValues(t, 7, short.seed)
	require.Equal(t, 2*time.Minute, short.deadline)
	require.Equal(t, long.counts[account.Kill]/10, short.counts[account.Kill], "a tenth of the time")
	require.Equal(t, 4, short.counts[account.Lock])
	require.Zero(t, short.counts[account.Cut])

	for _, args := range [][]string{{"-rows", "0"}, {"-duration", "0s"}, {"conduct"}} {
		_, err := parseSettings(args)
		require.Error(t, err, args)
	}
}
