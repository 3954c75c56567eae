package gen

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/typedoutbox/typedoutbox/internal/lock"
)

// recognize finds what the lock has of each event, under its name or else under
// a former one, and takes care of what is left.
func (h *history) recognize() {
	left := map[string]*lock.Event{}
	for i := range h.old.Events {
		left[h.old.Events[i].Topic] = &h.old.Events[i]
	}
	take := func(e *event, name string) {
		if past := left[name]; past != nil && e.past == nil {
			e.past = past
			delete(left, name)
		}
	}
	for _, e := range h.events {
		take(e, e.Name.Text)
	}
	for _, e := range h.events {
		for _, alias := range e.Aliases {
			take(e, alias.Text)
		}
	}
	if h.unclear { // a directive that was not understood may be what is missing
		return
	}
	for _, topic := range slices.Sorted(maps.Keys(left)) {
		h.leftOver(left[topic])
	}
}

// leftOver takes an event of the lock that none of the package's claims.
func (h *history) leftOver(past *lock.Event) {
	topic := past.Topic
	if d := h.retiring(topic); d != nil {
		for _, alias := range past.Aliases {
			h.next.Retired = append(h.next.Retired, lock.Retired{Topic: alias, Reason: d.Retired.Reason})
		}
		return
	}
	if pos, ok := h.report.names[topic]; ok && !h.declares(topic) {
		elsewhere := filepath.Join(filepath.Dir(h.report.fset.Position(pos).Filename), lock.Name)
		h.report.addAt(h.of(topic), "J55 event %q moved to %s without its history, so that stored rows would not be checked against it; move its entry to %s",
			topic, h.report.at(pos), h.report.rel(elsewhere))
		return
	}
	for _, e := range h.events {
		if e.past == nil && e.typeName() == past.Type {
			e.past = past
			h.report.addf(e.Name.Pos, "J50 topic %q renamed to %q: stored rows would find no handler; add alias=%s, or //outbox:retired %s REASON once no rows are left",
				topic, e.Name.Text, strings.Join(append([]string{topic}, e.former()...), ","), topic)
			return
		}
		if e.has(topic) {
			h.report.addf(e.Name.Pos, "J55 event %q removed and its name taken over by %q: its stored rows would be decoded as %s, which they are not; "+
				"keep the event, or remove the alias and write //outbox:retired %s REASON once no rows are left", topic, e.Name.Text, e.typeName(), topic)
			return
		}
	}
	h.report.addAt(h.of(topic), "J55 event %q removed: stored rows would find no handler; bring it back, or, once no rows are left, write //outbox:retired %s REASON, "+
		"or add alias=%s where it was renamed, or move this entry to the lock of the package that it moved to", topic, topic, topic)
}

// declares reports whether an event of the package claims a topic name.
func (h *history) declares(name string) bool {
	return slices.ContainsFunc(h.events, func(e *event) bool { return e.has(name) })
}
