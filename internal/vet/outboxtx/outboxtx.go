// Package outboxtx reports statements that miss the transaction that they were
// meant for.
package outboxtx

import (
	"golang.org/x/tools/go/analysis"

	"github.com/typedoutbox/typedoutbox/internal/vet"
)

// Analyzer reports, in a function that is given a bun.Tx, the use of a database
// from outside of it and Enqueue in another transaction; and anywhere Enqueue
// after Commit or Rollback.
var Analyzer = &analysis.Analyzer{
	Name: "outboxtx",
	Doc: `report statements that miss the transaction that they are in

In the function that RunInTx calls, a query on the outer *bun.DB is not part of
the transaction: it stays when the transaction rolls back, and it can wait for
ever for the connection or the lock that the transaction holds. Nor is an Enqueue
in an outer bun.Tx, or one after Commit or Rollback.`,
	Run: vet.Allowing(run),
}

func run(pass *analysis.Pass) error {
	if !vet.Imports(pass.Pkg, vet.Outbox) {
		return nil
	}
	for _, t := range vet.Transactions(pass) {
		checkOuter(pass, t)
	}
	checkEnded(pass)
	return nil
}
