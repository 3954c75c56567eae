package gen

import (
	"go/token"
	"slices"
	"strings"

	"github.com/typedoutbox/typedoutbox/internal/directive"
	"github.com/typedoutbox/typedoutbox/internal/lock"
)

// checkTopic compares what the directive of an event says with the lock, and
// returns what is let through.
func (h *history) checkTopic(e *event) (accepted []lock.Accepted) {
	past := e.past
	for _, alias := range past.Aliases {
		if !e.has(alias) && h.retiring(alias) == nil {
			h.report.addf(e.Name.Pos, "J54 alias %q of %q dropped: rows stored under it would find no handler; keep it in alias=, or //outbox:retired %s REASON once no rows are left",
				alias, e.Name.Text, alias)
		}
	}
	for _, other := range h.events {
		way := []token.Pos{e.spec.Name.Pos()}
		if other == e || past.Type == e.typeName() || past.Type != other.typeName() {
			continue
		}
		if a := h.allowing(e, "J50", way); a != nil { // the types have changed names
			accepted = append(accepted, lock.Accepted{Rule: "J50", Reason: a.Allow.Reason})
			continue
		}
		h.report.addf(e.Name.Pos, "J50 topic %q was that of %s, which is an event still: stored rows would be decoded as %s; choose another name for the new topic, "+
			"or, if the types have changed names, %s", past.Topic, past.Type, e.typeName(), h.writeAllow("J50", way))
	}
	if !e.has(past.Topic) { // which is reported, and changes the scope of the keys
		return nil
	}
	for _, k := range []struct {
		rule, name      string
		old, new        string
		directive       *directive.Key
		happens, unless string
	}{
		{
			"J52", "key", past.Key, e.key.String(), e.Key,
			"an event that was enqueued under its old key would be enqueued again", "if that does no harm",
		},
		{
			"J53", "order", past.Order, e.order.String(), e.Order,
			"new rows would not wait for stored ones of their sequence", "if no row is under way",
		},
	} {
		if k.old == "" || k.old == k.new || h.sameFields(e, k.old, k.new) {
			continue // there was no promise to break
		}
		way := []token.Pos{e.spec.Name.Pos()}
		if a := h.allowing(e, k.rule, way); a != nil {
			accepted = append(accepted, lock.Accepted{Rule: k.rule, Reason: a.Allow.Reason})
			continue
		}
		pos, verb := e.Name.Pos, "dropped"
		if k.directive != nil {
			pos, verb = k.directive.Fields[0].Pos, "changed to "+asWritten(k.new)
		}
		h.report.addf(pos, "%s %s %s of %q %s: %s; keep %s=%s, or, %s, %s",
			k.rule, k.name, asWritten(k.old), e.Name.Text, verb, k.happens, k.name, asWritten(k.old), k.unless, h.writeAllow(k.rule, way))
	}
	return accepted
}

// sameFields reports whether two keys take the same values of the JSON, so
// that only names in Go differ.
func (h *history) sameFields(e *event, old, new string) bool {
	was := versionOf(e.past, e.Version.N)
	if was == nil {
		return false
	}
	is := lock.ShapeOf(h.pkg.Types, e.obj.Type())
	oldScope, oldFields, _ := strings.Cut(old, "#")
	newScope, newFields, _ := strings.Cut(new, "#")
	return oldScope == newScope && slices.EqualFunc(strings.Split(oldFields, ","), strings.Split(newFields, ","), func(a, b string) bool {
		i := slices.IndexFunc(was.Shape, func(f lock.Field) bool { return f.Go == a })
		j := slices.IndexFunc(is, func(f lock.Field) bool { return f.Go == b })
		return i >= 0 && j >= 0 && was.Shape[i].Path == is[j].Path
	})
}

// asWritten is a key of the lock as a directive has it.
func asWritten(key string) string { return strings.Replace(key, "#", ":", 1) }

// String is how the lock has a key, "" if there is none.
func (k *keyFunc) String() string {
	if k == nil {
		return ""
	}
	fields := make([]string, len(k.parts))
	for i, p := range k.parts {
		fields[i] = p.path
	}
	return k.scope + "#" + strings.Join(fields, ",")
}
