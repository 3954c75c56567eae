// Outboxgen turns annotated structs into typed topics for a transactional
// outbox.
//
// Usage:
//
//	outboxgen [-diff] [-schema dir] [-tags list] [-v] [packages]
//
// Given this file,
//
//	package orders
//
//	//go:generate go tool outboxgen
//
//	// OrderCreated is placed when a customer has paid.
//	//
//	//outbox:event orders.created key=OrderID
//	type OrderCreated struct {
//		OrderID string `json:"order_id"`
//		Total   int64  `json:"total"`
//	}
//
// it writes the file outbox_gen.go into the same package, with
//
//	var OrderCreatedTopic = topics.New("orders.created", &topics.Options[OrderCreated]{
//		Key: func(e OrderCreated) string { return topics.JoinKey("orders.created", e.OrderID) },
//	})
//
// a function OutboxTopics that lists the topics of the package, an interface
// OutboxHandler with a method for each event, and a guard that does not compile
// when the struct is edited and outboxgen is not run. Beside it goes the file
// outbox.lock.json, which records what payloads look like. Commit both. Install
// outboxgen for a module with
//
//	go get -tool github.com/typedoutbox/typedoutbox/cmd/outboxgen
//
// # Flags
//
// Packages are named as for go list; without any, outboxgen works on the one
// in the current directory. Without a flag it is silent when it succeeds.
//
//	-diff        print what would change as a unified diff and write nothing
//	-schema dir  write schemas of all events into the directory; see below
//	-tags list   load the packages with these build tags, separated by commas
//	-v           list the files, what becomes of each, and notes on payloads, on
//	             standard error
//
// The exit code is 0 for success, 1 if there is a problem or, with -diff, a
// difference, and 2 for a wrong command line. Problems of all packages are
// printed together, sorted, one a line, as
//
//	path:line:col: what is wrong; what to do
//
// and if there is one, no file is written. In CI, run
//
//	go tool outboxgen -diff ./...
//
// once at the root: it fails if generated code or a lock is stale, and it alone
// sees two packages that claim the same topic name.
//
// # Events
//
// An event is a struct type at package level with the comment
//
//	//outbox:event NAME [version=N] [key=[SCOPE:]FIELDS] [order=[SCOPE:]FIELDS]
//		[alias=NAMES] [reserved=KEYS] [compat=both|backward] [var=IDENTIFIER]
//
// on one line of its doc comment; in a group of types, on the type within the
// parentheses. There is no space in //outbox:event nor around "=", and lists
// are separated by commas. A comment that merely resembles a directive, or
// that stands where it has no effect, is an error.
//
// NAME is the name under which rows are stored: 1 to 200 bytes of a-z A-Z 0-9 .
// _ - : and /. Two events must not share a name.
//
// version= is the version of the payload's schema, 1 if left out. Raise it when
// stored payloads no longer decode as they should, and write an upcast.
//
// key= derives the idempotency key from fields of the payload, order= the key
// whose rows are delivered in order. A field is exported, and may be a path such
// as Customer.ID. It is a string, an integer, which is written in decimal, or a
// comparable type whose String method has a value receiver. A field that may be
// nil, a float and a time.Time are refused. If all fields are zero, there is no
// key. SCOPE is put in front of the fields and separates keys of different
// meaning. It defaults to the first name that the topic had, so that an event
// keeps its keys when it is renamed. Two events with order=order:OrderID are
// delivered in one sequence for each order.
//
// alias= lists former names, the latest first. Rows stored under them still
// arrive.
//
// reserved= lists the JSON keys of fields that were removed, so that nothing else
// takes their place: note, or lines[].note within a list. compat= says in which
// directions payloads must stay readable. Both are about the schema lock, below.
//
// var= names the generated variable. It is the type's name with Topic behind
// it if left out.
//
// The type must not be generic, an alias, or declared in a file that is left
// out of some builds, which includes tests. It may be unexported; the variable
// then is, too.
//
// # Payloads
//
// A payload is written and read by encoding/json, which keeps silent about much
// of what it loses. Whatever an event reaches that would not come back as it was
// is an error, at the field of the package that leads to it:
//
//   - what cannot be written: channels, functions, complex numbers, map keys that
//     are neither strings, integers nor text
//   - what is dropped: unexported fields, embedded fields whose keys collide or
//     are shadowed, pointer-receiver marshalers where Marshal has a value, which is
//     in a struct or a map and not behind a pointer or in a slice
//   - what is replaced: a struct beside the marshaler that it embeds, fields whose
//     keys differ only in case
//   - what cannot be read back: interfaces with methods, types with a marshaler and
//     no unmarshaler or the other way round, embedded pointers to unexported structs
//   - tags that do not do what they say: malformed ones, names that encoding/json
//     does not take, the option string where it has no effect, and every option
//     but omitempty, omitzero and string
//
// A type that both writes and reads itself is trusted with its content. An empty
// interface is allowed, and is read as what JSON has: numbers come back as
// float64. The tag json:"-" leaves a field out for good.
//
// What an upcast takes is held to the same rules, since an older version of the
// event wrote it.
//
// # Upcasts
//
// Stored rows outlive a deploy. An event at version N needs N-1 functions, each
// of which raises a payload by one version:
//
//	//outbox:event orders.created version=2
//	type OrderCreated struct {
//		OrderID string
//		Total   Money
//	}
//
//	type orderCreatedV1 struct {
//		OrderID string
//		Cents   int64
//	}
//
//	//outbox:upcast OrderCreated from=1
//	func orderCreatedFromV1(old orderCreatedV1) (OrderCreated, error) {
//		return OrderCreated{OrderID: old.OrderID, Total: Cents(old.Cents)}, nil
//	}
//
// Each function takes what the one before it returns, and the last returns the
// event.
//
// # Handlers
//
// OutboxHandler has one method for each exported event of the package:
//
//	type OutboxHandler interface {
//		HandleOrderCreated(context.Context, outbox.Delivery[OrderCreated]) error
//	}
//
//	func HandleOutbox(mux *outbox.Mux, h OutboxHandler, opts ...outbox.HandleOption)
//
// HandleOutbox registers h for all of them. Whoever calls it promises every event:
// a new one breaks the build until it is handled, or until it is skipped where
// everybody can see it, by embedding a type that comes with each event:
//
//	orders.HandleOutbox(mux, struct {
//		*Warehouse
//		orders.SkipOrderCancelled
//	}{Warehouse: w})
//
// A relay that starts names in its log what is skipped. HandleOutbox cannot see
// what a handler skips that is wrapped in another, one that embeds
// orders.OutboxHandler: skip in what HandleOutbox is given, or leave the tracing
// of handlers to Mux.Use. A message that reaches a skipped handler all the same
// spends no attempt, and its error says so.
//
// To register by hand, call outbox.Handle for each topic and
// mux.Require(orders.OutboxTopics()...), which keeps the relay from starting while
// a topic has no handler.
//
// The interface makes the package import outbox, and with it bun. A package whose
// events are shared with programs that need neither says so, on a line of its own:
//
//	//outbox:package handlers=off
//
// # The guard
//
// The generated file holds the fields and tags of each event, of what its upcasts
// take, and of the structs of the package that those reach. When one is edited, the package does not compile
// until outboxgen has run again:
//
//	cannot use OrderCreated{} (value of struct type OrderCreated) as
//	staleOrderCreated_runGoGenerate value in variable declaration
//
// An alias is recorded as what it stands for. A struct that cannot be written down
// in the package, with a function or a type of somebody's internal package in it,
// has no guard.
//
// # The schema lock
//
// Rows outlive the code that wrote them, and while a new version of a program is
// rolled out, old relays read what new code writes. So outbox.lock.json holds, for
// every event and each of its versions, the JSON that payloads are made of.
// outboxgen compares the code with it. What all rows and programs survive is
// recorded, and shows in the diff of the lock. What they do not is an error, which
// says what would happen to rows, and the ways out:
//
//	orders.go:12:2: J06 field "note" renamed to "remark": stored rows would decode
//	as "" without an error; keep json:"note", or set version=2 and write
//	//outbox:upcast OrderCreated from=1, or //outbox:allow J06 REASON
//
// Both directions count: new code reads old rows, old code reads new rows. With
// compat=backward the second does not: a number may grow, and a field whose key is
// reserved may go. It is for events whose old and new relays never run at a time.
//
// A higher version= leaves what the lock has of the others as it is. The type that
// an upcast takes must go on reading all that rows of its version hold.
//
//	//outbox:allow RULE REASON
//
// on a field, in its doc comment or behind it, lets changes through that the rule
// refuses, in that field and in what is reached through it; in the doc comment of
// a type, in all that the type declares. The lock records each change with the
// reason, and then the comment may stay or go. It does not let the next change
// through, which needs a reason of its own. One that never let anything through is
// an error. J02 and J08 have no exceptions.
//
// The lock also keeps the names and keys of topics:
//
//	J50  a topic is renamed without alias=, or given to another type
//	J52  key= is changed, so that what was enqueued once is enqueued again
//	J53  order= is changed, so that new rows overtake stored ones
//	J54  an alias is dropped
//	J55  an event is removed, or moved to a package whose lock does not know it
//	J56  version= is lowered
//	J57  the name of a retired topic is used again
//	J58  an upcast does not take all that rows of its version hold
//
// An event is removed, or an alias dropped, once no rows are left under its name.
// A comment on a line of its own says so,
//
//	//outbox:retired NAME REASON
//
// and the lock keeps the name for ever, also when the comment is gone. To move an
// event to another package, move its entry from the one lock to the other.
//
// The lock is history, and cannot be generated again. A package without one
// begins with what its code says. Of two branches that meet in it, keep what both
// have added, and run outboxgen. One that is damaged is an error.
//
// # Published schemas
//
// With -schema, outboxgen writes for consumers in other languages, from the lock,
//
//	orders.created.v1.schema.json   a JSON Schema (2020-12) for each version of each topic
//	asyncapi.json                   one AsyncAPI 3.0 document that refers to them
//
// in whose names "~s" stands for a "/" of the topic and "~c" for a ":". The
// directory holds what one run saw, so name all packages in it, in CI with -diff:
//
//	go tool outboxgen -schema schemas ./...
//
// A schema holds for every stored row of its version, so that a key which a
// change has added is not required. What only compat=backward or //outbox:allow
// let through is described as it is written now. Constants of a type are named in
// the description and do not limit the value. Schemas of topics and versions that
// are no more are deleted; files that outboxgen did not write are not touched.
//
// # The generated file
//
// The state of outbox_gen.go does not matter: it may be missing, stale, empty or
// full of conflict markers, and the package need not compile without it. The
// same source gives the same bytes on every system. The file is replaced only if
// its content changes, and deleted when the last event goes, provided that its
// first line says that outboxgen wrote it. Under go generate, which stops when a
// file has gone that it was about to open, one without declarations takes its
// place; keep that, or delete it. A file of that name that outboxgen did not write
// is never touched.
//
// The lock is written first. If outboxgen is stopped between the two, the lock
// knows of more than any program that can be built, and the next run catches up.
package main

import (
	"os"

	"github.com/typedoutbox/typedoutbox/gen"
)

func main() { os.Exit(gen.Main(os.Args[1:], os.Stdout, os.Stderr)) }
