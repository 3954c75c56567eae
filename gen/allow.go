package gen

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/typedoutbox/typedoutbox/internal/directive"
	"github.com/typedoutbox/typedoutbox/internal/lock"
)

// allow is an //outbox:allow of a rule of the lock. It covers what its field or
// type declares, and what is reached through that.
type allow struct {
	*directive.Directive
	node ast.Node // a field or a type
	used bool
}

// ofLock reports whether a rule is one of the lock, J and a number. The others
// are those of analyzers.
func ofLock(rule string) bool {
	return len(rule) > 1 && rule[0] == 'J' && strings.Trim(rule[1:], "0123456789") == ""
}

func (u *unit) addAllow(d *directive.Directive, at place) {
	a := &allow{Directive: d}
	switch at.loc {
	case onType:
		a.node = at.spec
	case onField:
		a.node = at.field
	default:
		u.misplaced(d, at, "the doc comment of the field, or of the event's type")
		return
	}
	u.allows = append(u.allows, a)
}

// neverAllowed reports whether a rule has no exceptions: those under which rows
// that hold one thing would be read as another for good.
func neverAllowed(rule string) bool { return rule == "J02" || rule == "J08" }

// allowing returns what lets a change through that breaks a rule, or nil. One
// reason is for one change: when the lock lists it, it does not hide the next.
func (h *history) allowing(e *event, rule string, way []token.Pos) *allow {
	for _, a := range h.allows {
		if a.Allow.Rule.Text == rule && !neverAllowed(rule) && a.covers(way) && !a.listed(e.past) {
			a.used = true
			return a
		}
	}
	return nil
}

// writeAllow says how to let a change through all the same.
func (h *history) writeAllow(rule string, way []token.Pos) string {
	text := "//outbox:allow " + rule + " REASON"
	for _, a := range h.allows {
		if a.Allow.Rule.Text == rule && !a.used && a.covers(way) {
			return text + " with another reason, as that at " + h.report.at(a.Pos) + " is for a change that the lock has already"
		}
	}
	return text
}

// covers reports whether one of the positions lies within what a stands on.
func (a *allow) covers(way []token.Pos) bool {
	return slices.ContainsFunc(way, func(pos token.Pos) bool { return a.node.Pos() <= pos && pos < a.node.End() })
}

// listed reports whether the lock has let a change through for this reason.
func (a *allow) listed(past *lock.Event) bool {
	if past == nil {
		return false
	}
	return slices.ContainsFunc(past.Versions, func(v lock.Version) bool {
		return slices.ContainsFunc(v.Accepted, func(done lock.Accepted) bool {
			return done.Rule == a.Allow.Rule.Text && done.Reason == a.Allow.Reason
		})
	})
}

// checkAllows reports what lets nothing through, and has not done so earlier.
func (h *history) checkAllows() {
	if h.partial || h.unclear { // it may be for what was not looked at
		return
	}
	for _, a := range h.allows {
		switch {
		case neverAllowed(a.Allow.Rule.Text):
			h.report.addf(a.Pos, "%s has no exceptions; remove the //outbox:allow", a.Allow.Rule.Text)
		case !a.used && !slices.ContainsFunc(h.next.Events, func(e lock.Event) bool { return a.listed(&e) }):
			h.report.addf(a.Pos, "//outbox:allow %s lets nothing through; remove it", a.Allow.Rule.Text)
		}
	}
}
