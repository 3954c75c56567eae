package gen

import (
	"github.com/typedoutbox/typedoutbox/internal/directive"
)

// checkUnique reports topic names and aliases that two events of the load
// claim: a stored name must lead to one type. The first in the order of
// packages and files keeps it, and its position is noted.
func (r *report) checkUnique(units []*unit) {
	claim := func(w directive.Word) {
		switch pos, ok := r.names[w.Text]; {
		case w.Text == "":
		case !ok:
			r.names[w.Text] = w.Pos
		default:
			r.addf(w.Pos, "topic name %q is taken at %s; rename one of the two topics, or remove the alias", w.Text, r.at(pos))
		}
	}
	for _, u := range units {
		for _, e := range u.events {
			claim(e.Name)
			for _, alias := range e.Aliases {
				if alias.Text != e.Name.Text { // or else it is reported
					claim(alias)
				}
			}
		}
	}
}
