//go:build linux

package main

import (
	"go/parser"
	"go/token"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestShiftNow(t *testing.T) {
	t.Parallel()
	_, source, err := readNow(t.Context())
	require.NoError(t, err)
	changed, err := shiftNow(source)
	require.NoError(t, err)
	require.Contains(t, changed, "sec += chaosShift")
	_, err = parser.ParseFile(token.NewFileSet(), "time.go", changed, parser.SkipObjectResolution)
	require.NoError(t, err)

	_, err = shiftNow(changed)
	require.ErrorContains(t, err, "adapt clock.go")
}

func TestClock(t *testing.T) {
	t.Parallel()
	require.Zero(t, clockShift(), "this program has the clock of the machine")
	c := clock{realTime()}
	require.Equal(t, time.Second, c.at(c.start.Add(time.Second)))
	require.Equal(t, time.Second, c.at(c.start.Add(time.Second).In(time.FixedZone("x", 3600))))
	require.GreaterOrEqual(t, c.now(), time.Duration(0))
}
