package outboxpayload_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/typedoutbox/typedoutbox/internal/vet/outboxpayload"
)

// testdata is common to the analyzers, since their cases import the same
// packages.
var testdata = filepath.Join(analysistest.TestData(), "../../testdata")

func Test(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, testdata, outboxpayload.Analyzer, "payload")
}

// What docs/events.md shows of the analyzer is a case.
func TestGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../../docs/events.md")
	require.NoError(t, err)
	source, err := os.ReadFile(filepath.Join(testdata, "src/payload/payload.go"))
	require.NoError(t, err)
	shown := regexp.MustCompile(`(?m)^.* never reads .*; use it.*$`).FindAllString(string(guide), -1)
	require.NotEmpty(t, shown)
	for _, line := range shown {
		require.Contains(t, string(source), "// want `"+line+"`")
	}
}
