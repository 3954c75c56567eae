package outbox

import (
	"fmt"
	"slices"
	"strings"
)

// takeSet says which rows a relay takes: listed topics up to a version, or
// every topic that starts with a prefix.
type takeSet struct {
	listed      []takenTopic
	prefix      string   // where nothing is listed; of the alphabet of topic names
	except      []string // where nothing is listed: topics to leave out
	maxAttempts int      // where nothing is listed
}

type takenTopic struct {
	name        string // of the allowed alphabet, hence safe to quote
	version     int    // the newest that the handler's Topic knows
	maxAttempts int
}

func newTakeSet(mux *Mux, prefix string, maxAttempts int) takeSet {
	t := takeSet{prefix: prefix, maxAttempts: maxAttempts}
	if mux == nil {
		return t
	}
	mux.mu.RLock()
	defer mux.mu.RUnlock()
	for _, r := range mux.order {
		for _, name := range r.names() {
			topic := takenTopic{name: name, version: r.info.Version, maxAttempts: maxAttempts}
			if r.maxAttempts > 0 {
				topic.maxAttempts = r.maxAttempts
			}
			t.listed = append(t.listed, topic)
		}
	}
	return t
}

// without is t less the topics that are left out, and whether anything is left.
// Where nothing is listed they are named.
func (t takeSet) without(out func(topic string) bool, names []string) (takeSet, bool) {
	if len(t.listed) == 0 {
		t.except = names
		return t, true
	}
	t.listed = slices.DeleteFunc(slices.Clone(t.listed), func(l takenTopic) bool { return out(l.name) })
	return t, len(t.listed) > 0
}

// only is the part of t that is chosen. Where nothing is listed it is named.
func (t takeSet) only(chosen func(topic string) bool, name string) takeSet {
	if len(t.listed) == 0 {
		t.listed = []takenTopic{{name: name, version: anyVersion, maxAttempts: t.maxAttempts}}
		return t
	}
	t.listed = slices.DeleteFunc(slices.Clone(t.listed), func(l takenTopic) bool { return !chosen(l.name) })
	return t
}

// String names the topics for a log line.
func (t takeSet) String() string {
	if len(t.listed) == 0 {
		return t.prefix + "*"
	}
	names := make([]string, len(t.listed))
	for i, l := range t.listed {
		names[i] = l.name
	}
	return strings.Join(names, " ")
}

// attemptsOf returns the attempts after which a row of topic is parked.
func (t takeSet) attemptsOf(topic string) int {
	for _, l := range t.listed {
		if l.name == topic {
			return l.maxAttempts
		}
	}
	return t.maxAttempts
}

// withPrefix is a condition on a topic column. It is a range in byte order,
// which an index serves and in which no character is special.
func withPrefix(column, prefix string) string {
	if prefix == "" {
		return "true"
	}
	last := len(prefix) - 1
	return fmt.Sprintf("(%s >= %s AND %s < %s)", column, quote(prefix), column, quote(prefix[:last]+string(rune(prefix[last]+1))))
}

// quote returns s as a SQL literal. It is made of the alphabet of topic names,
// or stands in a statement without arguments: a "?" would ask for one.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// values is the listed topics as rows (topic, version, max_attempts).
func (t takeSet) values() string {
	var b strings.Builder
	for i, l := range t.listed {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "('%s', %d, %d)", l.name, l.version, l.maxAttempts)
	}
	return b.String()
}

// taken is a common table expression "take" of the topics to look at, with
// their newest version and their attempts. Where nothing is listed it hops from
// one topic with pending rows to the next, one index probe each.
func (t takeSet) taken() string {
	if len(t.listed) > 0 {
		return "take (topic, version, max_attempts) AS (VALUES " + t.values() + ")"
	}
	within := withPrefix("topic", t.prefix)
	return fmt.Sprintf(`hop (topic) AS (
	SELECT min(topic) FROM outbox_messages WHERE status = 'pending' AND %s
	UNION ALL
	SELECT (SELECT min(m.topic) FROM outbox_messages AS m WHERE m.status = 'pending' AND m.topic > hop.topic AND %s)
	FROM hop WHERE hop.topic IS NOT NULL
), take (topic, version, max_attempts) AS (SELECT topic, %d, %d FROM hop WHERE topic IS NOT NULL AND %s)`,
		within, withPrefix("m.topic", t.prefix), anyVersion, t.maxAttempts, t.notExcepted("topic"))
}

// notExcepted is a condition on a topic column. It stands where few topics pass,
// not where an index would walk through all rows of the excepted ones.
func (t takeSet) notExcepted(column string) string {
	if len(t.except) == 0 {
		return "true"
	}
	return column + " NOT IN ('" + strings.Join(t.except, "', '") + "')"
}

// anyVersion is above every version that a column can hold.
const anyVersion = 1<<31 - 1

// takes is a condition on the row m, for statements that look at few rows.
func (t takeSet) takes() string {
	if len(t.listed) == 0 {
		return withPrefix("m.topic", t.prefix) + " AND " + t.notExcepted("m.topic")
	}
	return "EXISTS (SELECT 1 FROM (VALUES " + t.values() + ") AS k WHERE k.column1 = m.topic AND m.version <= k.column2)"
}

// exhausted is whether the row m has no attempt left.
func (t takeSet) exhausted() string {
	if len(t.listed) == 0 {
		return fmt.Sprintf("m.attempts >= %d", t.maxAttempts)
	}
	return "m.attempts >= (SELECT k.column3 FROM (VALUES " + t.values() + ") AS k WHERE k.column1 = m.topic)"
}

// inTurn is a condition on the row m: no row of its ordering key, in whatever
// topic, is before it and neither sent nor discarded.
const inTurn = `(m.order_key IS NULL OR NOT EXISTS (
		SELECT 1 FROM outbox_messages AS e
		WHERE e.order_key = m.order_key AND e.status IN ('pending', 'claimed', 'failed')
			AND (e.created_at, e.id) < (m.created_at, m.id)))`
