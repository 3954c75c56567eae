package gen

import (
	"cmp"
	"fmt"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/typedoutbox/typedoutbox/internal/directive"
)

// problem is one line of the report: what is wrong and what to do.
type problem struct {
	path      string // as printed
	line, col int    // 0 if there is none
	text      string
}

func (p problem) String() string {
	switch {
	case p.path == "":
		return p.text
	case p.line == 0:
		return p.path + ": " + p.text
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.path, p.line, p.col, p.text)
}

// problems is the error that holds every problem of a load, sorted.
type problems []problem

func (ps problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// report collects problems, and prints positions relative to a directory.
type report struct {
	dir   string
	fset  *token.FileSet
	sink  func(pos token.Pos, text string) // if not nil, takes what has a position
	found problems
	names map[string]token.Pos // topic names and aliases of the load
}

func newReport(dir string, fset *token.FileSet) *report {
	return &report{dir: dir, fset: fset, names: map[string]token.Pos{}}
}

// another is a report for a part of the work.
func (r *report) another() *report { return &report{dir: r.dir, fset: r.fset, names: r.names} }

func (r *report) addf(pos token.Pos, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if r.sink != nil {
		r.sink(pos, text)
		return
	}
	r.put(r.fset.Position(pos), text)
}

func (r *report) add(list []directive.Problem) {
	for _, p := range list {
		r.addf(p.Pos, "%s", p.Text)
	}
}

// addAt takes a position in the form of the go command, which is relative to
// the directory if it is not absolute, and may lack line and column.
func (r *report) addAt(pos, format string, args ...any) {
	r.put(parsePosition(pos), fmt.Sprintf(format, args...))
}

// oneLine joins the lines of what the go command, the parser or the type
// checker said.
var oneLine = strings.NewReplacer("\n\t", " ", "\n", " ")

func (r *report) put(p token.Position, text string) {
	r.found = append(r.found, problem{r.rel(p.Filename), p.Line, p.Column, oneLine.Replace(text)})
}

// at prints a position within the text of a problem.
func (r *report) at(pos token.Pos) string {
	p := r.fset.Position(pos)
	return fmt.Sprintf("%s:%d:%d", r.rel(p.Filename), p.Line, p.Column)
}

func (r *report) rel(path string) string { return relative(r.dir, path) }

// relative prints a path the same way on every system, relative if it lies
// within the directory.
func relative(dir, path string) string {
	if filepath.IsAbs(path) {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			path = rel
		}
	}
	return filepath.ToSlash(path)
}

// err returns the sorted problems, those of units among them, each once, or
// nil.
func (r *report) err(units []*unit) error {
	for _, u := range units {
		r.found = append(r.found, u.report.found...)
	}
	if len(r.found) == 0 {
		return nil
	}
	slices.SortFunc(r.found, func(a, b problem) int {
		return cmp.Or(
			cmp.Compare(a.path, b.path),
			cmp.Compare(a.line, b.line),
			cmp.Compare(a.col, b.col),
			cmp.Compare(a.text, b.text),
		)
	})
	return slices.Compact(r.found)
}

// parsePosition reads path:line:col, path:line or path.
func parsePosition(s string) token.Position {
	var numbers []int
	for len(numbers) < 2 {
		i := strings.LastIndexByte(s, ':')
		if i < 0 {
			break
		}
		n, err := strconv.Atoi(s[i+1:])
		if err != nil {
			break
		}
		s, numbers = s[:i], append(numbers, n)
	}
	p := token.Position{Filename: s}
	switch len(numbers) {
	case 1:
		p.Line, p.Column = numbers[0], 1
	case 2:
		p.Line, p.Column = numbers[1], numbers[0]
	}
	return p
}
