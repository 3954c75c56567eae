package gen

import (
	"cmp"
	"go/token"
	"slices"

	"github.com/typedoutbox/typedoutbox/internal/directive"
)

// checkUnique reports topic names and aliases that two events of the load
// claim: a stored name must lead to one type.
func (r *report) checkUnique(units []*unit) {
	var all []directive.Word
	for _, u := range units {
		for _, e := range u.events {
			all = append(all, e.Name)
			for _, alias := range e.Aliases {
				if alias.Text != e.Name.Text { // or else it is reported
					all = append(all, alias)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b directive.Word) int {
		p, q := r.fset.Position(a.Pos), r.fset.Position(b.Pos)
		return cmp.Or(
			cmp.Compare(r.rel(p.Filename), r.rel(q.Filename)),
			cmp.Compare(p.Line, q.Line),
			cmp.Compare(p.Column, q.Column),
		)
	})
	first := map[string]token.Pos{}
	for _, w := range all {
		switch pos, ok := first[w.Text]; {
		case w.Text == "":
		case !ok:
			first[w.Text] = w.Pos
		default:
			r.addf(w.Pos, "topic name %q is taken at %s; rename one of the two topics, or remove the alias", w.Text, r.at(pos))
		}
	}
}
