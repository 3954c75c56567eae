package demo_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/examples/orders/internal/demo"
)

func TestResultOK(t *testing.T) {
	good := demo.Result{Placed: 200, RolledBack: 20, Committed: 180, Events: 180, Picked: 180, Duplicates: 31}
	require.True(t, good.OK())
	for name, spoil := range map[string]func(*demo.Result){
		"lost":           func(r *demo.Result) { r.Lost = 1 },
		"not picked":     func(r *demo.Result) { r.Picked-- },
		"phantom":        func(r *demo.Result) { r.Phantoms = 1 },
		"twice":          func(r *demo.Result) { r.Twice = 1 },
		"out of turn":    func(r *demo.Result) { r.OutOfTurn = 1 },
		"parked":         func(r *demo.Result) { r.Parked = 1 },
		"event too many": func(r *demo.Result) { r.Events++ },
		"answer missing": func(r *demo.Result) { r.RolledBack-- },
	} {
		t.Run(name, func(t *testing.T) {
			bad := good
			spoil(&bad)
			require.False(t, bad.OK())
		})
	}
}

func TestResultPrint(t *testing.T) {
	var out strings.Builder
	demo.Result{Committed: 180, Picked: 179, Lost: 1}.Print(&out)
	require.Regexp(t, `(?m)^  orders committed +180$`, out.String())
	require.Regexp(t, `(?m)^  distinct orders picked +179$`, out.String())
	require.Regexp(t, `(?m)^  lost +1  committed, never picked$`, out.String())
}
