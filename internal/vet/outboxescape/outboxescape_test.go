package outboxescape_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/typedoutbox/typedoutbox/internal/vet/outboxescape"
)

// testdata is common to the analyzers, since their cases import the same
// packages.
var testdata = filepath.Join(analysistest.TestData(), "../../testdata")

func Test(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, testdata, outboxescape.Analyzer, "escape")
}
