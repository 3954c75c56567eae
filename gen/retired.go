package gen

import (
	"fmt"
	"maps"
	"slices"

	"github.com/typedoutbox/typedoutbox/internal/directive"
	"github.com/typedoutbox/typedoutbox/internal/lock"
)

// addRetired takes an //outbox:retired.
func (u *unit) addRetired(d *directive.Directive) {
	if first := u.retiring(d.Retired.Name.Text); first != nil {
		u.report.addf(d.Pos, "%s is retired twice, also at %s; keep one", d.Retired.Name.Text, u.report.at(first.Pos))
		return
	}
	u.retired = append(u.retired, d)
}

// retiring returns the directive that retires a topic name, or nil.
func (u *unit) retiring(name string) *directive.Directive {
	for _, d := range u.retired {
		if d.Retired.Name.Text == name {
			return d
		}
	}
	return nil
}

// checkRetired reports topic names and aliases of the load that are retired, in
// whichever package.
func (r *report) checkRetired(units []*unit) {
	where := map[string]string{}
	for _, u := range units {
		for _, retired := range u.lock.old.Retired {
			where[retired.Topic] = fmt.Sprintf("in %s (%s)", r.rel(u.lock.path), retired.Reason)
		}
		for _, d := range u.retired {
			where[d.Retired.Name.Text] = "at " + r.at(d.Pos)
		}
	}
	for _, u := range units {
		for _, e := range u.events {
			for _, w := range e.names() {
				if text := where[w.Text]; text != "" {
					r.addf(w.Pos, "J57 topic name %q is retired %s: what is left of its rows would be decoded as %s; choose another name",
						w.Text, text, e.typeName())
				}
			}
		}
	}
}

// retire lists the names that are not used again: those of the lock, and those
// that directives add.
func (h *history) retire() {
	reasons := map[string]string{}
	add := func(list []lock.Retired) {
		for _, r := range list {
			reasons[r.Topic] = r.Reason
		}
	}
	add(h.old.Retired)
	add(h.next.Retired)
	for _, d := range h.retired {
		reasons[d.Retired.Name.Text] = d.Retired.Reason
	}
	h.next.Retired = nil
	for _, topic := range slices.Sorted(maps.Keys(reasons)) {
		h.next.Retired = append(h.next.Retired, lock.Retired{Topic: topic, Reason: reasons[topic]})
	}
}
