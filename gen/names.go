package gen

import (
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strconv"
)

const (
	topicsPath = "github.com/typedoutbox/typedoutbox/topics"
	infosFunc  = "OutboxTopics"
)

// checkNames reports generated identifiers that are taken.
func (u *unit) checkNames() {
	u.takeLoaded()
	ours := u.handlerNames()
	ours[infosFunc] = "a function"
	declared := map[string]*event{}
	for _, e := range u.events {
		pos, remedy := e.pos, "pick another with var=NAME"
		if e.Var.Text != "" {
			pos, remedy = e.Var.Pos, "pick another"
		}
		other, user := declared[e.ident], u.claimed(e.ident)
		switch {
		case e.typeName() == "_":
		case other != nil:
			u.report.addf(pos, "the generated variable %s is also that of %s (%s); %s", e.ident, other.typeName(), u.report.at(other.pos), remedy)
		case user.IsValid():
			u.report.addf(pos, "the generated variable %s is taken at %s; %s", e.ident, u.report.at(user), remedy)
			u.report.addf(user, "%s is the name of the topic of %s (%s); rename this, or pick another there with var=NAME",
				e.ident, e.typeName(), u.report.at(e.pos))
		case ours[e.ident] != "" || types.Universe.Lookup(e.ident) != nil:
			u.report.addf(pos, "%s has a meaning of its own in generated code; %s", e.ident, remedy)
		default:
			declared[e.ident] = e
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if pos := u.claimed(name); pos.IsValid() {
			remedy := "rename this one"
			if name != infosFunc {
				remedy += ", or write //outbox:package handlers=off"
			}
			u.report.addf(pos, "%s is the name of %s that outboxgen writes; %s", name, ours[name], remedy)
		}
	}
}

// takeLoaded adds the names of the files that were loaded.
func (u *unit) takeLoaded() {
	scope := u.pkg.Types.Scope()
	for _, name := range scope.Names() {
		u.taken[name] = scope.Lookup(name).Pos()
	}
	for _, f := range u.pkg.Syntax {
		for _, spec := range f.Imports {
			pkg := u.pkg.TypesInfo.PkgNameOf(spec)
			switch {
			case pkg == nil:
			case spec.Name != nil && spec.Name.Name == ".":
				for _, name := range pkg.Imported().Scope().Names() {
					u.imported[name] = spec.Pos()
				}
			default:
				u.imported[pkg.Name()] = spec.Pos()
			}
		}
	}
}

// claimed returns where a name is declared by the package or by an import of
// one of its files; it can be only one of the two.
func (u *unit) claimed(name string) token.Pos {
	if pos := u.taken[name]; pos.IsValid() {
		return pos
	}
	return u.imported[name]
}

// importName returns a free name for an import.
func (u *unit) importName(base string, used map[string]bool) string {
	for n := 1; ; n++ {
		name := base
		if n > 1 {
			name += strconv.Itoa(n)
		}
		if !u.taken[name].IsValid() && !used[name] {
			used[name] = true
			return name
		}
	}
}
