// Package outboxpayload reports what is lost of an event's payload.
package outboxpayload

import (
	"go/token"

	"golang.org/x/tools/go/analysis"

	"github.com/typedoutbox/typedoutbox/internal/vet"
)

// Analyzer reports whatever an event reaches that encoding/json cannot write,
// drops, replaces or cannot read back, in the words of outboxgen, and what an
// upcast drops of an old payload.
var Analyzer = &analysis.Analyzer{
	Name: "outboxpayload",
	Doc: `report fields of events that would not come back as they were

A payload is written and read by encoding/json, which cannot write a channel,
drops unexported fields without a word, and so on. The rules are those of
outboxgen.

An upcast that never reads a field of the old payload is reported, too: its
value in stored rows would be dropped.`,
	Run: vet.Allowing(run),
}

func run(pass *analysis.Pass) error {
	vet.Declared(pass, func(token.Pos, string) {}, func(pos token.Pos, text string) { pass.Reportf(pos, "%s", text) })
	checkUpcasts(pass)
	return nil
}
