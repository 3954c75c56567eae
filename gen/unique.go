package gen

import (
	"slices"

	"github.com/typedoutbox/typedoutbox/internal/directive"
	"github.com/typedoutbox/typedoutbox/internal/lock"
)

// claim is the use of a topic name by an event.
type claim struct {
	directive.Word
	alias bool
	known bool // the lock has it
}

// claims returns those of an event.
func (u *unit) claims(e *event) []claim {
	list := []claim{{Word: e.Name, known: u.knows(e, e.Name.Text)}}
	for _, alias := range e.Aliases {
		if alias.Text != e.Name.Text { // or else it is reported
			list = append(list, claim{Word: alias, alias: true, known: u.knows(e, alias.Text)})
		}
	}
	return list
}

// knows reports whether the lock, if it was read, has a topic name as that of an
// event.
func (u *unit) knows(e *event, name string) bool {
	return u.lock != nil && slices.ContainsFunc(u.lock.old.Events, func(past lock.Event) bool {
		return past.Type == e.typeName() && (past.Topic == name || slices.Contains(past.Aliases, name))
	})
}

// checkUnique reports topic names and aliases that two events of the load
// claim: a stored name must lead to one type. The first in the order of
// packages and files keeps it, and its position is noted.
func (r *report) checkUnique(units []*unit) {
	first := map[string]claim{}
	for _, u := range units {
		for _, e := range u.events {
			for _, c := range u.claims(e) {
				switch other, ok := first[c.Text]; {
				case c.Text == "":
				case !ok:
					first[c.Text], r.names[c.Text] = c, c.Pos
				default:
					r.addf(c.Pos, "topic name %q is taken at %s; %s", c.Text, r.at(other.Pos), tellApart(other, c))
				}
			}
		}
	}
}

// tellApart says how two claims can be told apart.
func tellApart(first, second claim) string {
	text := "rename one of the two topics"
	switch {
	case first.known && !second.known:
		text = "rename the topic here, which is the newer"
	case second.known && !first.known:
		text = "rename the topic there, which is the newer"
	}
	if first.alias || second.alias {
		text += ", or remove the alias"
	}
	return text
}
