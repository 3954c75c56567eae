package suite_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/vet"
	"github.com/typedoutbox/typedoutbox/internal/vet/suite"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	var names []string
	for _, a := range slices.Concat(suite.Default(), suite.OptIn()) {
		names = append(names, a.Name)
	}
	require.Equal(t, vet.Rules(), names, "an allow may name each of them")
	for _, a := range suite.Default() {
		require.Empty(t, a.FactTypes, "%s makes every run load dependencies from source", a.Name)
	}
	for _, a := range suite.OptIn() {
		require.Contains(t, a.Doc, "(opt-in)\n", a.Name)
	}
}
