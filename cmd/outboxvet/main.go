// Outboxvet finds mistakes with a transactional outbox that compile.
//
// Usage:
//
//	outboxvet [flags] packages
//	go vet -vettool=$(go tool -n outboxvet) [flags] packages
//
// Install it for a module with
//
//	go get -tool github.com/typedoutbox/typedoutbox/cmd/outboxvet
//
// Then go tool outboxvet ./... checks the module, tests included. Under go vet
// the same is reported, and what was checked before comes from the build cache.
// For golangci-lint there is a plugin, in the module
// github.com/typedoutbox/typedoutbox/cmd/outboxvet/golangci.
//
// Each report is one line,
//
//	path:line:col: what is wrong; what to do
//
// and the exit code is 0 if there is none; if there is, it is 3, and 1 under go
// vet.
//
// # outboxdirective
//
// reports a directive that has no effect, in the words of outboxgen: one that is
// misspelt or stands in the wrong place, an event that is no struct, a key that
// may be nil, an upcast that is missing. With -fix, a comment that lacks nothing
// but the spelling becomes a directive:
//
//	// outbox:event orders.created   ->   //outbox:event orders.created
//
// It also reports a handler that is never called, since the type that has it
// embeds the Skip type of the same event:
//
//	type Warehouse struct{ orders.SkipOrderCancelled }
//
//	func (Warehouse) HandleOrderCancelled(...) error // never called
//
// Remove one of the two.
//
// And it reports a struct given to HandleOutbox that embeds the interface: what
// the handler within it skips is not seen, and its messages would come to this
// program and wait.
//
//	type traced struct{ orders.OutboxHandler }
//
//	orders.HandleOutbox(mux, traced{warehouse})                                        // what does it skip?
//	orders.HandleOutbox(mux, struct{ traced; orders.SkipOrderCancelled }{traced: ...}) // this
//
// Where nothing is skipped, say so with //outbox:allow outboxdirective REASON.
//
// # outboxpayload
//
// reports, at the field, what would not come back of a payload, in the words of
// outboxgen; see its manual for the list. Export the field, give it a tag or
// another type, or leave it out with json:"-".
//
// It also reports a field of an old payload that an upcast never reads:
//
//	//outbox:upcast OrderCreated from=1
//	func orderCreatedFromV1(old orderCreatedV1) (OrderCreated, error) {
//		return OrderCreated{OrderID: old.OrderID}, nil // and old.Note?
//	}
//
// Its value in stored rows would be dropped. Use it, or say that nobody needs it
// with _ = old.Note. A conversion, or a function that old is passed to, counts as
// reading all.
//
// # outboxtx
//
// looks into functions that are given a bun.Tx: literals, and functions of the
// package that are passed by their name, mostly to RunInTx. It reports a query on
// a database that was there before:
//
//	s.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
//		n, err := s.DB.NewSelect().Model(&o).Count(ctx) // not in tx
//
// What the query writes stays when tx rolls back, and on SQLite, or when the pool
// is used up, it waits for what tx holds. Use tx. It also reports an Enqueue in a
// transaction from outside of the function, and one that comes after Commit or
// Rollback of its transaction, whichever way the function took.
//
// It is silent where it cannot know: about a helper that is given both tx and the
// database, a query that is only part of another, a function that may run later,
// a variable that is set within, and a database that a function returns. In tests,
// which look from outside on purpose, it does not report queries.
//
// # outboxescape
//
// reports a bun.Tx that may be used after its end, or by two at once:
//
//	go s.audit(ctx, tx)
//	group.Go(func() error { return s.audit(ctx, tx) })
//	time.AfterFunc(time.Second, func() { s.audit(ctx, tx) })
//	s.tx = tx
//	txs <- tx
//
// A transaction is one connection, and ends when the function returns that it was
// given to. Do the work before, or begin a transaction in the goroutine. A
// function that ends its transaction itself is not looked at, and a field that is
// set back before the function returns is no report.
//
// # outboxeffect (opt-in)
//
// reports, in the functions that outboxtx looks into, requests of net/http and
// net/smtp, commands of os/exec and time.Sleep, also if a function of the same
// package makes them:
//
//	s.DB.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
//		_, err := http.Post(url, "application/json", body)
//
// A rollback does not take them back, and locks are held while they take their
// time. Enqueue an event, and do it in the handler. Not everybody wants to hear
// this of code that has worked for years, so it has to be asked for. Functions of
// other packages are not looked into: hardly a package never sleeps.
//
// # outboxhandler (opt-in)
//
// reports, at function main of a program that starts a relay, each topic in its
// packages that has no handler. Register one with outbox.Handle or HandleOutbox,
// or say with Mux.Skip that another program does. A topic that is passed to a
// function which outboxvet does not know counts as handled, and a relay that has a
// Deliver function or a TopicPrefix keeps it silent. It needs every dependency
// from source, which takes a few seconds, so it has to be asked for.
//
// # Flags
//
//	-outboxeffect     run this analyzer, too
//	-outboxhandler    run this analyzer, too
//	-outboxtx=false   leave this analyzer out, and so for the others
//	-outboxtx         of the first four run only this one, and so for the others
//	-fix              apply the fixes, or print them with -diff; not under go vet
//	-test=false       leave tests out; not under go vet
//	-json             print JSON
//
// Run outboxvet help for the rest.
//
// # Suppression
//
//	//outbox:allow ANALYZER REASON
//
// keeps one analyzer silent on its own line and on the line below. Several of them
// may stand in one comment, and then hold for the line below the comment. A
// directive without a reason, one that names no analyzer and no rule of outboxgen,
// and one that silences nothing are themselves reported. What outboxgen reports is
// still an error there: it reads none of this.
//
// # What it does not see
//
// Outboxvet reads no outbox.lock.json. Whether stored rows survive a change, the
// rules J01 to J58, whether generated code is up to date, and whether two packages
// claim one topic name, is for outboxgen alone to say: run go tool outboxgen -diff
// ./... beside it.
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
