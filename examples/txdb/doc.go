// Package txdb shows tests that share a Postgres database, each inside of one
// transaction that is rolled back, with github.com/DATA-DOG/go-txdb. It is a
// module of its own, so that nobody else downloads that. See docs/testing.md.
package txdb
