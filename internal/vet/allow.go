package vet

import (
	"go/ast"
	"go/token"

	"golang.org/x/tools/go/analysis"

	"github.com/typedoutbox/typedoutbox/internal/directive"
)

// allow is a comment that keeps one analyzer silent on some lines of a file.
type allow struct {
	pos         token.Pos
	file        string
	first, last int
	used        bool
}

// Allowing makes an analyzer's Run of run. Whatever run reports on the line of
// an //outbox:allow that names the analyzer, within the same comment, or on the
// line below it is left out; a directive that leaves nothing out is reported.
//
// An allow without a reason, or of a rule that does not exist, is no directive
// at all; outboxdirective says so.
func Allowing(run func(*analysis.Pass) error) func(*analysis.Pass) (any, error) {
	return func(pass *analysis.Pass) (any, error) {
		allows := findAllows(pass)
		if len(allows) == 0 {
			return nil, run(pass)
		}
		filtered := *pass
		filtered.Report = func(d analysis.Diagnostic) {
			if !allowed(allows, pass.Fset.Position(d.Pos)) {
				pass.Report(d)
			}
		}
		if err := run(&filtered); err != nil {
			return nil, err
		}
		for _, a := range allows {
			if !a.used {
				pass.Reportf(a.pos, "//outbox:allow %s allows nothing here; move it to the line above the report, or remove it", pass.Analyzer.Name)
			}
		}
		return nil, nil
	}
}

func findAllows(pass *analysis.Pass) []*allow {
	var found []*allow
	for _, f := range pass.Files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				if _, ok := ast.ParseDirective(c.Slash, c.Text); !ok {
					continue
				}
				d, problems := directive.Parse(c)
				if d == nil || len(problems) > 0 || d.Allow == nil || d.Allow.Rule.Text != pass.Analyzer.Name {
					continue
				}
				at := pass.Fset.Position(c.Slash)
				found = append(found, &allow{pos: c.Slash, file: at.Filename, first: at.Line, last: pass.Fset.Position(group.End()).Line + 1})
			}
		}
	}
	return found
}

func allowed(allows []*allow, at token.Position) (yes bool) {
	for _, a := range allows {
		if a.file == at.Filename && a.first <= at.Line && at.Line <= a.last {
			a.used, yes = true, true
		}
	}
	return yes
}
