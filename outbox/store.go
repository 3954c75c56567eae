package outbox

import "github.com/uptrace/bun"

// Store holds the operations on the table of a database, for programs and for
// people; the relay is one of its users. It is a value and safe for concurrent
// use.
type Store struct {
	DB *bun.DB
}
