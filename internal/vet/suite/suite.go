// Package suite lists the analyzers of outboxvet.
package suite

import (
	"golang.org/x/tools/go/analysis"

	"github.com/typedoutbox/typedoutbox/internal/vet/outboxdirective"
	"github.com/typedoutbox/typedoutbox/internal/vet/outboxeffect"
	"github.com/typedoutbox/typedoutbox/internal/vet/outboxescape"
	"github.com/typedoutbox/typedoutbox/internal/vet/outboxhandler"
	"github.com/typedoutbox/typedoutbox/internal/vet/outboxpayload"
	"github.com/typedoutbox/typedoutbox/internal/vet/outboxtx"
)

// Default returns the analyzers that always run. None of them has facts, so
// that a driver need not load dependencies from source.
func Default() []*analysis.Analyzer {
	return []*analysis.Analyzer{
		outboxdirective.Analyzer,
		outboxpayload.Analyzer,
		outboxtx.Analyzer,
		outboxescape.Analyzer,
	}
}

// OptIn returns the analyzers that run when they are asked for.
func OptIn() []*analysis.Analyzer {
	return []*analysis.Analyzer{
		outboxeffect.Analyzer,
		outboxhandler.Analyzer,
	}
}
