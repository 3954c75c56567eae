// Package pgcluster gives tests and benchmarks a Postgres server, and databases
// of their own on it.
//
// [Shared] is the server of one run of go test: the one that OUTBOX_TEST_DSN
// names, or a throwaway cluster that all test binaries of the run share.
// [Start] starts a private one, which [Cluster.Crash] and [Cluster.Restart] end and
// start at will. [Cluster.Create] clones a database from a migrated template.
//
// # Life of a throwaway cluster
//
// Test binaries are separate processes; any of them may start first, end last
// or be killed. So none of them owns the server: a shell (supervise.sh) does,
// as its parent process. It holds the read end of a named pipe, and every
// process that uses the server holds the write end. The kernel closes those
// ends however a process dies, and the shell reads the end of the pipe: then it
// waits three seconds for another package of the same run, not at all once the
// run has ended, stops the server and removes its directory.
//
// A process finds the server of its run through a file that is named after its
// parent process, go test, and holds a lock on that file while it starts one.
// Should the shell itself be killed, the next run removes its directory, on
// which a Postgres server ends by itself within a minute.
//
// The server listens on 127.0.0.1, behind a random password, and runs as an
// unprivileged user when the tests run as root. It does not flush to disk, and
// lives in memory where Linux has room for it and TMPDIR does not say otherwise.
//
// The package does not import outbox, so that internal tests of that package
// can use it.
package pgcluster
