// Package outboxdirective reports annotations that have no effect.
package outboxdirective

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"

	"github.com/typedoutbox/typedoutbox/internal/directive"
	"github.com/typedoutbox/typedoutbox/internal/vet"
)

// Analyzer reports what outboxgen says of directives, and besides it allows of
// rules that do not exist, handlers that a Skip type keeps from being called, and
// Skip types that HandleOutbox does not see.
var Analyzer = &analysis.Analyzer{
	Name: "outboxdirective",
	Doc: `report //outbox: comments that have no effect

A directive that is misspelt, stands in the wrong place or asks for what cannot
be done is reported in the words of outboxgen. Where a space or a capital letter
is all that is wrong, there is a fix.

A type that embeds the Skip type of an event and has a handler for it is
reported, too: that handler is never called. So is a handler that is wrapped in
another and given to HandleOutbox, which does not see what it skips.`,
	Run: vet.Allowing(run),
}

func run(pass *analysis.Pass) error {
	fixes := lookalikes(pass)
	vet.Declared(pass, func(pos token.Pos, text string) {
		d := analysis.Diagnostic{Pos: pos, Message: text}
		if fix, ok := fixes[pos]; ok {
			d.SuggestedFixes = []analysis.SuggestedFix{fix}
		}
		pass.Report(d)
	}, func(token.Pos, string) {})
	checkRules(pass)
	checkSkipped(pass)
	checkHidden(pass)
	return nil
}

// lookalike is a directive but for spaces and capital letters.
var lookalike = regexp.MustCompile(`(?i)^///?[ \t]*outbox[ \t]*:[ \t]*(event|upcast|retired|package|allow)(?:[ \t]|$)`)

// lookalikes returns how to make directives of comments that resemble one, by
// the position of the comment.
func lookalikes(pass *analysis.Pass) map[token.Pos]analysis.SuggestedFix {
	fixes := map[token.Pos]analysis.SuggestedFix{}
	for _, f := range pass.Files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				m := lookalike.FindStringSubmatchIndex(c.Text)
				if _, ok := ast.ParseDirective(c.Slash, c.Text); m == nil || ok {
					continue
				}
				verb := "//outbox:" + strings.ToLower(c.Text[m[2]:m[3]])
				fixes[c.Slash] = analysis.SuggestedFix{
					Message:   "write " + verb,
					TextEdits: []analysis.TextEdit{{Pos: c.Slash, End: c.Slash + token.Pos(m[3]), NewText: []byte(verb)}},
				}
			}
		}
	}
	return fixes
}

// compatibility is how the rules of outboxgen are named.
var compatibility = regexp.MustCompile(`^J\d\d$`)

// checkRules reports an allow of a rule that does not exist.
func checkRules(pass *analysis.Pass) {
	for _, f := range pass.Files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				d, problems := directive.Parse(c)
				if d == nil || d.Allow == nil || len(problems) > 0 {
					continue
				}
				rule := d.Allow.Rule
				if slices.Contains(vet.Rules(), rule.Text) || compatibility.MatchString(rule.Text) {
					continue
				}
				remedy := "rules are J and two digits, as outboxgen prints them, and the names of analyzers"
				if near := directive.Nearest(strings.ToLower(rule.Text), vet.Rules()); near != "" {
					remedy = "did you mean " + near + "? " + remedy
				}
				pass.Reportf(rule.Pos, "there is no rule %s; %s", rule.Text, remedy)
			}
		}
	}
}
