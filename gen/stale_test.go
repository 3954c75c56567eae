package gen_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// build compiles a module and returns what the compiler says, "" if nothing.
func build(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command("go", "build", "./...")
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.Equal(t, err == nil, len(out) == 0, "%v %s", err, out)
	return string(out)
}

// An event that was edited and not generated again does not compile, and the
// message says what to do.
func TestStaleOutputDoesNotCompile(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles; run without -short")
	}
	const source = `package a

//outbox:package handlers=off

//outbox:event a.made
type Made struct {
	ID    ID      ` + "`json:\"id\"`" + `
	Lines []Line  ` + "`json:\"lines\"`" + `
	Money
}

type (
	ID   = string
	Line struct{ Count int }
	Money struct{ Cents int64 }
	grownV1 struct{ Old int }
)

//outbox:upcast Bumped from=1
func fromV1(grownV1) (b Bumped, err error) { return b, err }

//outbox:event a.bumped version=2
type Bumped struct{ New string }
`
	for _, c := range []struct{ what, old, new, guard string }{
		{"a field more", "Money\n}", "Money\n\tMore int\n}", "staleMade"},
		{"a field less", "\tMoney\n}", "}", "staleMade"},
		{"another name", "ID    ID", "Id    ID", "staleMade"},
		{"another tag", `json:"id"`, `json:"order_id"`, "staleMade"},
		{"an option more", `json:"id"`, `json:"id,omitempty"`, "staleMade"},
		{"another type", "[]Line ", "[2]Line", "staleMade"},
		{"another order", "\tID    ID      `json:\"id\"`\n\tLines []Line  `json:\"lines\"`", "\tLines []Line  `json:\"lines\"`\n\tID    ID      `json:\"id\"`", "staleMade"},
		{"no longer embedded", "\tMoney\n}", "\tMoney Money\n}", "staleMade"},
		{"an alias of something else", "ID   = string", "ID   = int", "staleMade"},
		{"a struct that it reaches", "Count int", "Count int64", "staleLine"},
		{"what an upcast takes", "Old int", "Older int", "stalegrownV1"},
		{"an embedded struct", "Cents int64", "Amount int64", "staleMoney"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			dir := tempDir(t)
			tree := appModule(t, "example.com/stale")
			tree["a/a.go"] = source
			writeTree(t, dir, tree)
			_, stderr, code := outboxgen(t, dir, "./...")
			require.Zero(t, code, stderr)
			require.Empty(t, build(t, dir), "fresh output compiles")

			require.Equal(t, 1, strings.Count(source, c.old))
			writeTree(t, dir, map[string]string{"a/a.go": strings.Replace(source, c.old, c.new, 1)})
			out := build(t, dir)
			require.Contains(t, out, c.guard+"_runGoGenerate", "the message leads to go generate")
			require.Contains(t, out, "a/outbox_gen.go:")

			for _, name := range []string{"outbox.lock.json", "outbox_gen.go"} { // the lock has its own opinion of some
				require.NoError(t, os.Remove(filepath.Join(dir, "a", name)))
			}
			_, stderr, code = outboxgen(t, dir, "./...")
			require.Zero(t, code, stderr)
			require.Empty(t, build(t, dir), "and generating mends it")
		})
	}
}

// Who promises every event does not compile until a new one is handled, or
// visibly skipped.
func TestMissingHandlerDoesNotCompile(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles; run without -short")
	}
	dir := tempDir(t)
	tree := appModule(t, "example.com/handlers")
	tree["a/a.go"] = "package a\n\n//outbox:event a.made\ntype Made struct{}\n"
	const user = `package main

import (
	"context"

	"example.com/handlers/a"
	"github.com/typedoutbox/typedoutbox/outbox"
)

type handler struct{}

func (handler) HandleMade(context.Context, outbox.Delivery[a.Made]) error { return nil }

func main() { a.HandleOutbox(outbox.NewMux(), handler{}) }
`
	tree["main.go"] = user
	writeTree(t, dir, tree)
	generate := func() {
		_, stderr, code := outboxgen(t, dir, "./...")
		require.Zero(t, code, stderr)
	}
	generate()
	require.Empty(t, build(t, dir))

	writeTree(t, dir, map[string]string{"a/a.go": tree["a/a.go"] + "\n//outbox:event a.gone\ntype Gone struct{}\n"})
	generate()
	require.Contains(t, build(t, dir), "handler does not implement a.OutboxHandler (missing method HandleGone)")

	skipping := strings.Replace(user, "handler{})", "struct {\n\thandler\n\ta.SkipGone\n}{})", 1)
	writeTree(t, dir, map[string]string{"main.go": skipping})
	require.Empty(t, build(t, dir), "skipped")

	writeTree(t, dir, map[string]string{"main.go": strings.Replace(skipping, "a.SkipGone", "a.SkipGone\n\ta.SkipMade", 1)})
	require.Contains(t, build(t, dir), "ambiguous selector", "handled and skipped at once")

	wrong := strings.Replace(skipping, "Delivery[a.Made]", "Delivery[a.Gone]", 1)
	writeTree(t, dir, map[string]string{"main.go": wrong})
	require.Contains(t, build(t, dir), "wrong type for method HandleMade")
}
