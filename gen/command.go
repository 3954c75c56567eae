package gen

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

const (
	exitOK    = 0
	exitError = 1 // a problem, or with -diff a difference
	exitUsage = 2
)

// Main is the command outboxgen: args are its arguments without the program's
// name, the result is its exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("outboxgen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: outboxgen [-diff] [-schema dir] [-tags list] [-v] [packages]")
		flags.PrintDefaults()
	}
	showDiff := flags.Bool("diff", false, "print what would change as a unified diff, write nothing, and exit with 1 if there is a change")
	schema := flags.String("schema", "", "write JSON Schemas and an AsyncAPI document of all packages into the directory `dir`")
	tags := flags.String("tags", "", "comma-separated `list` of build tags")
	verbose := flags.Bool("v", false, "list the files, and notes on payloads, on standard error")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	for _, pattern := range flags.Args() {
		if strings.HasSuffix(pattern, ".go") {
			fmt.Fprintf(stderr, "outboxgen: %s is a file; name packages, such as ./...\n", pattern)
			return exitUsage
		}
	}
	files, err := Generate(context.Background(), Config{Patterns: flags.Args(), Tags: *tags, Schema: *schema})
	if err != nil {
		fmt.Fprintln(stderr, strings.TrimSpace(err.Error()))
		return exitError
	}
	if os.Getenv("GOFILE") != "" { // as go generate sets it
		keepOpen(files)
	}
	if *verbose {
		list(stderr, files)
	}
	if *showDiff {
		return printDiff(stdout, stderr, files)
	}
	if err := Write(files); err != nil {
		fmt.Fprintln(stderr, err)
		return exitError
	}
	return exitOK
}

// keepOpen leaves code without declarations in the place of what would be
// deleted: go generate has listed the files of all packages before it runs the
// first command, and stops with an error when one of them has gone.
func keepOpen(files []File) {
	for i, f := range files {
		if f.New == nil && f.empty != nil {
			files[i].New = f.empty
		}
	}
}

// list prints what becomes of each file, and its notes.
func list(w io.Writer, files []File) {
	for _, f := range files {
		state := "unchanged"
		switch {
		case f.New == nil:
			state = "deleted"
		case f.Old == nil:
			state = "new"
		case f.Changed():
			state = "changed"
		}
		fmt.Fprintf(w, "%s %s\n", state, shown(f.Path))
		for _, note := range f.Notes {
			fmt.Fprintln(w, note)
		}
	}
}

// printDiff prints the changes in a form that patch and git apply take. Line
// ends do not count: a checkout may have turned them into CRLF.
func printDiff(stdout, stderr io.Writer, files []File) int {
	code := exitOK
	for _, f := range files {
		oldName, newName := "a/"+shown(f.Path), "b/"+shown(f.Path)
		if f.Old == nil {
			oldName = "/dev/null"
		}
		if f.New == nil {
			newName = "/dev/null"
		}
		out := diff.Diff(oldName, withLF(f.Old), newName, withLF(f.New))
		if len(out) == 0 && (f.Old == nil) == (f.New == nil) {
			continue
		}
		code = exitError
		if _, err := stdout.Write(out); err != nil {
			fmt.Fprintf(stderr, "outboxgen: print the diff: %v; redirect it elsewhere\n", err)
		}
	}
	if code != exitOK {
		fmt.Fprintln(stderr, "outboxgen: files are not up to date; run go generate, and commit them")
	}
	return code
}

func withLF(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }

// shown is a path as printed, relative to the current directory.
func shown(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	return relative(dir, path)
}
