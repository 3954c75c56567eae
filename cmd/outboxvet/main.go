// Outboxvet finds mistakes with a transactional outbox that compile.
package main

import (
	"os"
	"slices"

	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/typedoutbox/typedoutbox/internal/vet/suite"
)

func main() {
	standard, optIn := suite.Default(), suite.OptIn()
	os.Args = append(os.Args[:1:1], choose(os.Args[1:], standard, optIn)...)
	multichecker.Main(slices.Concat(standard, optIn)...)
}
