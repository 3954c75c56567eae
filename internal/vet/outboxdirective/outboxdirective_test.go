package outboxdirective_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/typedoutbox/typedoutbox/internal/vet/outboxdirective"
)

// testdata is common to the analyzers, since their cases import the same
// packages.
var testdata = filepath.Join(analysistest.TestData(), "../../testdata")

func Test(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, testdata, outboxdirective.Analyzer, "directive/place", "directive/rules", "directive/skipped", "directive/hidden")
}

func TestFix(t *testing.T) {
	t.Parallel()
	analysistest.RunWithSuggestedFixes(t, testdata, outboxdirective.Analyzer, "directive/fix")
}
