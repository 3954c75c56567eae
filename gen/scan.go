package gen

import (
	"bytes"
	"go/ast"
	"go/token"
	"slices"

	"github.com/typedoutbox/typedoutbox/internal/directive"
)

// mentionsDirective is a cheap test that passes over no directive; what merely
// resembles one is looked for where files are parsed anyway.
func mentionsDirective(src []byte) bool {
	return bytes.Contains(bytes.ToLower(src), []byte("//outbox:"))
}

// scan reads the directives of a file, reports each one that stands where it
// has no effect, and hands the others to the unit.
func (u *unit) scan(f *ast.File) {
	ps := findPlaces(u.report.fset, f)
	for _, group := range f.Comments {
		for _, c := range group.List {
			d, bad := directive.Parse(c)
			u.report.add(bad)
			if d == nil && len(bad) == 0 {
				continue
			}
			at := ps.of(c)
			switch {
			case d == nil && at.loc == onFunc:
				u.strays = append(u.strays, "")
			case d != nil && d.Upcast != nil && at.loc != onFunc:
				u.strays = append(u.strays, d.Upcast.Type.Text)
			}
			if d == nil || d.Event != nil && at.loc != onType {
				u.doubt(f, c, at)
			}
			if d != nil {
				u.take(d, at, len(bad) > 0)
			}
		}
	}
}

// doubt notes that a comment may have been meant to make an event of its type, or
// of the type that is declared below it.
func (u *unit) doubt(f *ast.File, c *ast.Comment, at place) {
	if at.spec != nil {
		u.doubted[at.spec.Name.Name] = true
		return
	}
	i := slices.IndexFunc(f.Decls, func(decl ast.Decl) bool { return decl.End() > c.Pos() })
	if i < 0 {
		return
	}
	if decl, ok := f.Decls[i].(*ast.GenDecl); ok {
		for _, spec := range decl.Specs {
			if spec, ok := spec.(*ast.TypeSpec); ok {
				u.doubted[spec.Name.Name] = true
			}
		}
	}
}

func (u *unit) take(d *directive.Directive, at place, broken bool) {
	switch {
	case d.Event != nil && at.loc == onType:
		u.addEvent(d, at.spec, broken)
	case d.Event != nil:
		u.misplaced(d, at, "the doc comment of the event's struct type")
	case d.Upcast != nil && at.loc == onFunc:
		u.addUpcast(d, at.fn, broken)
	case d.Upcast != nil:
		u.misplaced(d, at, "the doc comment of the function")
	case d.Package != nil || d.Retired != nil:
		switch {
		case at.loc != detached && at.loc != onPackage:
			u.misplaced(d, at, "a line of its own between declarations, or above the package clause")
		case broken:
		case d.Retired != nil:
			u.addRetired(d)
		default:
			u.onePackage(d.Pos)
			u.handlersOff = u.handlersOff || d.Package.Handlers.Text == "off"
		}
	case d.Allow != nil && ofLock(d.Allow.Rule.Text) && !broken:
		u.addAllow(d, at)
	}
}

// onePackage reports a second //outbox:package.
func (u *unit) onePackage(pos token.Pos) {
	if !u.settings.IsValid() {
		u.settings = pos
		return
	}
	u.report.addf(pos, "//outbox:package is given twice, also at %s; keep one", u.report.at(u.settings))
}

// misplaced reports a directive that would have no effect.
func (u *unit) misplaced(d *directive.Directive, at place, home string) {
	var where string
	switch at.loc {
	case detached:
		where = "stands alone"
		home += ", with no blank line between"
	case trailing:
		where = "trails " + at.what
	case onGroup:
		where = "stands on a group of types"
		home = "the doc comment of a type within the parentheses"
	case inFunc, inSource:
		where = "stands within " + at.what
		if d.Event != nil {
			home += ", at package level"
		}
	default:
		where = "stands on " + at.what
	}
	u.report.addf(d.Pos, "//outbox:%s %s, where it has no effect; move it to %s", d.Verb, where, home)
}
