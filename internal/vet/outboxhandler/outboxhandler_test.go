package outboxhandler_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/typedoutbox/typedoutbox/internal/vet/outboxhandler"
)

// testdata is common to the analyzers, since their cases import the same
// packages.
var testdata = filepath.Join(analysistest.TestData(), "../../testdata")

func Test(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, testdata, outboxhandler.Analyzer, "handler/worker", "handler/through", "handler/byhand", "handler/producer", "handler/raw", "handler/prefix", "handler/skips", "handler/wrapped")
}
