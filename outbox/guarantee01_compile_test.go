package outbox_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"
)

// Guarantee 1: a misuse does not compile.

const compilePrelude = `package misuse

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
	"github.com/typedoutbox/typedoutbox/topics"
)

type A struct{ ID string }
type B struct{ ID string }

func use(ctx context.Context, db *bun.DB, conn bun.Conn, idb bun.IDB, sqlTx *sql.Tx, sqlDB *sql.DB, tx bun.Tx,
	topicA topics.Topic[A], topicB topics.Topic[B], mux *outbox.Mux, a A, b B, as []A, bs []B) {
	handleA := func(context.Context, outbox.Delivery[A]) error { return nil }
	_ = handleA
`

// misuses are lines of which each must be an error of its own, with a part of
// the compiler's message.
var misuses = []struct{ line, message string }{
	{"_ = outbox.Enqueue(ctx, db, topicA, a)", "*bun.DB"},
	{"_ = outbox.Enqueue(ctx, conn, topicA, a)", "bun.Conn"},
	{"_ = outbox.Enqueue(ctx, idb, topicA, a)", "bun.IDB"},
	{"_ = outbox.Enqueue(ctx, sqlTx, topicA, a)", "*sql.Tx"},
	{"_ = outbox.Enqueue(ctx, sqlDB, topicA, a)", "*sql.DB"},
	{"_ = outbox.Enqueue(ctx, &tx, topicA, a)", "*bun.Tx"},
	{"_ = outbox.Enqueue(ctx, nil, topicA, a)", "nil"},
	{"_ = outbox.Enqueue(ctx, tx, topicA, &a)", "*A"},
	{"_ = outbox.Enqueue(ctx, tx, topicA, b)", "B"},
	{"_ = outbox.Enqueue(ctx, tx, topicA, as)", "[]A"},
	{`_ = outbox.Enqueue(ctx, tx, topicA, map[string]any{"ID": "1"})`, "map[string]any"},
	{`_ = outbox.Enqueue(ctx, tx, "orders.created", a)`, "string"},
	{"_, _ = outbox.EnqueueAll(ctx, db, topicA, as)", "*bun.DB"},
	{"_, _ = outbox.EnqueueAll(ctx, conn, topicA, as)", "bun.Conn"},
	{"_, _ = outbox.EnqueueAll(ctx, idb, topicA, as)", "bun.IDB"},
	{"_, _ = outbox.EnqueueAll(ctx, sqlTx, topicA, as)", "*sql.Tx"},
	{"_, _ = outbox.EnqueueAll(ctx, tx, topicA, bs)", "[]B"},
	{"_, _ = outbox.EnqueueAll(ctx, tx, topicA, a)", "A"},
	{"outbox.Handle(mux, topicB, handleA)", "Delivery[A]"},
	{"outbox.Handle(mux, topicA, func(context.Context, A) error { return nil })", "func(context.Context, A) error"},
	{"_ = topicA == topicA", "cannot be compared"},
	{"_ = topics.Topic[A](topicB)", "cannot convert"},
	{"topicA = topicB", "cannot use topicB"},
	{`_ = topics.Topic[A]("orders.created")`, "cannot convert"},
}

// uses are lines that must compile.
var uses = []string{
	"_ = outbox.Enqueue(ctx, tx, topicA, a)",
	`_ = outbox.Enqueue(ctx, tx, topicB, b, outbox.Key("k"), outbox.Into(&outbox.Receipt{}))`,
	"_, _ = outbox.EnqueueAll(ctx, tx, topicA, as)",
	"outbox.Handle(mux, topicA, handleA)",
	"_ = db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return outbox.Enqueue(ctx, tx, topicA, a) })",
	"_ = topicA.Name() == topicB.Name()",
	"_ = A(b) // the payloads convert, their topics do not",
}

// typeErrors compiles lines in a package that exists only in memory and returns
// the messages by line, from 0.
func typeErrors(t *testing.T, lines []string) map[int][]string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	file := filepath.Join(dir, "misuse", "misuse.go")
	source := compilePrelude + strings.Join(lines, "\n") + "\n}\n"
	loaded, err := packages.Load(&packages.Config{
		Context: t.Context(),
		Mode:    packages.LoadSyntax,
		Dir:     dir,
		Overlay: map[string][]byte{file: []byte(source)},
	}, "./misuse")
	require.NoError(t, err)
	require.Len(t, loaded, 1)
	first := strings.Count(compilePrelude, "\n") + 1
	out := map[int][]string{}
	for _, e := range loaded[0].TypeErrors {
		line := loaded[0].Fset.Position(e.Pos).Line - first
		out[line] = append(out[line], e.Msg)
	}
	require.NotEmpty(t, out)
	return out
}

func TestAtomicAMisuseDoesNotCompile(t *testing.T) {
	t.Parallel()
	lines := make([]string, len(misuses))
	for i, m := range misuses {
		lines[i] = m.line
	}
	found := typeErrors(t, append(lines, uses...))
	for i, m := range misuses {
		require.Contains(t, strings.Join(found[i], "\n"), m.message, "it compiles: %s", m.line)
		delete(found, i)
	}
	require.Empty(t, found, "correct lines do not compile")
}
