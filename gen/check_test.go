package gen_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"

	"github.com/typedoutbox/typedoutbox/gen"
)

var (
	// aboutSource are the cases whose problems can be told from the source of a
	// package.
	aboutSource = regexp.MustCompile(`^(directive|event|key|payload|upcast|topic-names|other-directives)`)

	// unseen are the problems among them that cannot.
	unseen = regexp.MustCompile(`generated variable|is a dependency|^b/.* is taken at a/|imports "C"`)

	directory = regexp.MustCompile(`\b[a-e]/([a-e]\.go:)`)
)

// TestCheck compares what Check says of each case with what the generator says.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tc := range cases(t) {
		if !aboutSource.MatchString(tc.name) {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := tempDir(t)
			writeTree(t, dir, tc.inputs())
			_, _, stderr := tc.outcome(tc.inputs())
			var want []string
			for line := range strings.Lines(stderr) {
				if line = strings.TrimSpace(line); !unseen.MatchString(line) {
					at, text, _ := strings.Cut(line, ": ")
					want = append(want, at+": "+directory.ReplaceAllString(text, "$1"))
				}
			}
			directives, payloads := check(t, dir)
			require.ElementsMatch(t, want, slices.Concat(directives, payloads))
			require.Equal(t, tc.name == "payload-refused", len(payloads) > 0)
		})
	}
}

// check returns what Check says of each package, in the form of the generator.
func check(t *testing.T, dir string) (directives, payloads []string) {
	t.Helper()
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: dir, Tests: true}, "./...")
	require.NoError(t, err)
	for _, pkg := range pkgs {
		add := func(to *[]string) func(token.Pos, string) {
			return func(pos token.Pos, text string) {
				p := pkg.Fset.Position(pos)
				path, err := filepath.Rel(dir, p.Filename)
				require.NoError(t, err)
				line := fmt.Sprintf("%s:%d:%d: %s", filepath.ToSlash(path), p.Line, p.Column, text)
				if !slices.Contains(*to, line) && !unseen.MatchString(line) { // a package and its tests overlap
					*to = append(*to, line)
				}
			}
		}
		for _, path := range pkg.IgnoredFiles {
			f, err := parser.ParseFile(pkg.Fset, path, nil, parser.ParseComments)
			require.NoError(t, err)
			pkg.Syntax = append(pkg.Syntax, f)
		}
		gen.Check(pkg, add(&directives), add(&payloads))
	}
	return directives, payloads
}
