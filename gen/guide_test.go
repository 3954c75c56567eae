package gen_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
)

// guide returns the blocks of docs/events.md that are of a language.
func guide(t *testing.T, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/events.md")
	require.NoError(t, err)
	for _, match := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(match[1]))
	}
	require.NotEmpty(t, blocks)
	return blocks
}

var positioned = regexp.MustCompile(`^\S+(:\d+:\d+|outbox\.lock\.json): `)

// The messages of the guide are those of the cases, most of them of the cases
// guide-*, and all of those are in the guide.
func TestGuideShowsTheMessages(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	printed, shown := map[string]string{}, map[string]bool{} // by line, the case
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		for _, f := range archive.Files {
			if f.Name == wanted+"stderr" {
				for line := range strings.Lines(string(f.Data)) {
					printed[strings.TrimSpace(line)] = filepath.Base(file)
				}
			}
		}
	}
	for _, line := range strings.Split(strings.Join(guide(t, "text"), ""), "\n") {
		if positioned.MatchString(line) {
			require.NotEmpty(t, printed[line], "docs/events.md has a message that no case in testdata prints: %s", line)
			shown[line] = true
		}
	}
	for line, file := range printed {
		require.True(t, shown[line] || !strings.HasPrefix(file, "guide-"), "docs/events.md lacks a message of %s: %s", file, line)
	}
}

// What the guide declares is generated from and compiles, and what it says of
// the compiler is so.
func TestGuideCompiles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles; run without -short")
	}
	source, messages := guide(t, "go"), guide(t, "text")
	first, second := source[0], source[1]
	says := func(out, part string) {
		for _, block := range messages {
			if line := strings.TrimSpace(block); strings.Contains(line, part) {
				require.Contains(t, out, line)
				return
			}
		}
		require.Fail(t, "docs/events.md does not say "+part)
	}
	dir := tempDir(t)
	tree := appModule(t, "example.com/guide")
	tree["orders/orders.go"] = first
	const service = `package main

import (
	"context"

	"example.com/guide/orders"
	"github.com/typedoutbox/typedoutbox/outbox"
)

type service struct{}

func (service) HandleOrderCreated(context.Context, outbox.Delivery[orders.OrderCreated]) error { return nil }

func main() { orders.HandleOutbox(outbox.NewMux(), service{}) }
`
	tree["main.go"] = service
	writeTree(t, dir, tree)
	step := func(orders string) {
		writeTree(t, dir, map[string]string{"orders/orders.go": orders})
		_, stderr, code := outboxgen(t, dir, "./...")
		require.Zero(t, code, stderr)
	}
	step(first)
	require.Empty(t, build(t, dir))

	writeTree(t, dir, map[string]string{"orders/orders.go": strings.Replace(first, "Note ", "Remark ", 1)})
	says(build(t, dir), "_runGoGenerate")

	step(first + "\n//outbox:event orders.cancelled\ntype OrderCancelled struct{}\n")
	says(build(t, dir), "missing method")
	writeTree(t, dir, map[string]string{"main.go": strings.Replace(service, "service{})", "struct {\n\tservice\n\torders.SkipOrderCancelled\n}{})", 1)})
	require.Empty(t, build(t, dir))

	for _, name := range []string{"outbox.lock.json", "outbox_gen.go"} { // the lock knows the cancelled
		require.NoError(t, os.Remove(filepath.Join(dir, "orders", name)))
	}
	writeTree(t, dir, map[string]string{"main.go": service})
	step(first)
	step("package orders\n\ntype Money struct {\n\tCents int64\n\tCurrency string\n}\n\n" + second)
	require.Empty(t, build(t, dir))
}
