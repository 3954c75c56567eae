package main

import (
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/vet/suite"
)

// TestManual checks that the manual is about each analyzer, and says of which it
// must be asked for.
func TestManual(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "main.go", nil, parser.ParseComments)
	require.NoError(t, err)
	manual := file.Doc.Text()
	for _, a := range suite.Default() {
		require.Contains(t, manual, "\n# "+a.Name+"\n")
	}
	for _, a := range suite.OptIn() {
		require.Contains(t, manual, "\n# "+a.Name+" (opt-in)\n")
		require.Contains(t, manual, "\n\t-"+a.Name+" ")
	}
}
