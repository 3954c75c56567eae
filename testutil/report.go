package testutil

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// A report shows at most this much, so that a test of a large payload or of
// many messages can still be read.
const (
	maxRows         = 10
	maxLines        = 8 // of one message
	maxPayloadBytes = 500
	maxFieldBytes   = 120
	maxAligned      = 1000 // of a sequence, from where it parts from the other
	maxBefore       = 3    // lines that are shown before that
)

// report is the text of a failure: the headline, and what is enqueued instead.
func (l *listing[T]) report(t testing.TB, headline string, args ...any) string {
	var b strings.Builder
	fmt.Fprintf(&b, headline, args...)
	if len(l.rows) > 0 {
		nearest := slices.Clone(l.rows)
		slices.SortStableFunc(nearest, func(a, b row[T]) int {
			if right := cmp.Compare(min(len(a.wrong), 1), min(len(b.wrong), 1)); right != 0 {
				return right
			}
			return cmp.Compare(b.equal, a.equal)
		})
		b.WriteString("\nenqueued on this topic, nearest first:")
		for i, r := range nearest {
			if i == maxRows {
				fmt.Fprintf(&b, "\n  and %d more", len(nearest)-maxRows)
				break
			}
			b.WriteString("\n  " + describe(r.message))
			writeLines(&b, "\n    ", r.wrong)
		}
	}
	if len(l.matching()) == 0 {
		b.WriteString(l.elsewhere(t))
	}
	return b.String()
}

func writeLines(b *strings.Builder, indent string, lines []string) {
	for i, line := range lines {
		if i == maxLines {
			fmt.Fprintf(b, "%sand %d more", indent, len(lines)-maxLines)
			return
		}
		b.WriteString(indent + cut(line, maxPayloadBytes))
	}
}

// reportSequence is the text of a failure about all messages of the topic.
func (l *listing[T]) reportSequence(t testing.TB, want []wanted[T], same func(i, j int) bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "want exactly these %d of %s, found %d", len(want), l.title, len(l.rows))
	if missing, extra := unmatched(len(want), len(l.rows), same); len(missing) == 0 && len(extra) == 0 {
		b.WriteString("; the same, but in another order")
	} else if len(missing) == 0 {
		fmt.Fprintf(&b, "; none is missing, %d too many", len(extra))
	} else if len(extra) == 0 {
		fmt.Fprintf(&b, "; %d missing", len(missing))
	}
	if len(want)+len(l.rows) > 0 {
		b.WriteString("\n(- is wanted, + is enqueued instead)")
	}
	l.writeSteps(&b, want, same)
	if len(l.rows) < len(want) {
		b.WriteString(l.elsewhere(t))
	}
	return b.String()
}

// writeSteps shows the difference of two sequences: all of it, or some lines from
// shortly before where they part.
func (l *listing[T]) writeSteps(b *strings.Builder, want []wanted[T], same func(i, j int) bool) {
	alike := 0 // at the beginning
	for alike < min(len(want), len(l.rows)) && same(alike, alike) {
		alike++
	}
	steps := alternate(align(min(len(want)-alike, maxAligned), min(len(l.rows)-alike, maxAligned),
		func(i, j int) bool { return same(alike+i, alike+j) }))
	first := 0
	if alike+len(steps) > 2*maxRows {
		first = max(alike-maxBefore, 0)
	}
	if first > 0 {
		fmt.Fprintf(b, "\n    %d that are as wanted", first)
	}
	for i := first; i < alike; i++ {
		fmt.Fprintf(b, "\n    %s", describe(l.rows[i].message))
	}
	replaced := -1 // the wanted one of the line before
	for i, step := range steps {
		if alike-first+i >= 2*maxRows {
			b.WriteString("\n  and more")
			break
		}
		switch {
		case step.found < 0:
			fmt.Fprintf(b, "\n  - %s", show(want[alike+step.want].payload))
			replaced = alike + step.want
			continue
		case step.want < 0:
			m := l.rows[alike+step.found].message
			fmt.Fprintf(b, "\n  + %s", describe(m))
			if replaced >= 0 {
				_, lines := differences(want[replaced].payload, m.Payload)
				writeLines(b, "\n      ", lines)
			}
		default:
			fmt.Fprintf(b, "\n    %s", describe(l.rows[alike+step.found].message))
		}
		replaced = -1
	}
}

// elsewhere says where messages might be that a test does not find: on another
// topic, or in a transaction that q does not see into.
func (l *listing[T]) elsewhere(t testing.TB) string {
	var b strings.Builder
	others, err := readMessages(t, l.q, "topic NOT IN (?)", bun.List(l.names()))
	if err != nil {
		return "\n" + fmt.Sprintf(readFailure, err)
	}
	if len(others) == 0 && len(l.rows) == 0 {
		b.WriteString("\nthe table is empty")
	}
	count, alike := map[string]int{}, map[string]int{}
	for _, m := range others {
		count[m.Topic]++
		if l.alike != nil && l.alike(m) {
			alike[m.Topic]++
		}
	}
	for i, topic := range slices.Sorted(maps.Keys(count)) {
		switch {
		case i == 0:
			b.WriteString("\nmessages of other topics: ")
		case i == maxRows:
			fmt.Fprintf(&b, " and of %d more", len(count)-i)
		default:
			b.WriteString(", ")
		}
		if i == maxRows {
			break
		}
		fmt.Fprintf(&b, "%q (%d)", topic, count[topic])
	}
	for _, topic := range slices.Sorted(maps.Keys(alike)) {
		fmt.Fprintf(&b, "\none that matches is there, but on topic %q", topic)
	}
	if len(l.rows) == 0 {
		b.WriteString(unseen(t, l.q, l.names()))
	}
	return b.String()
}

// condition says what match functions add to "a message of a topic".
func condition[T any](match []func(T) bool) string {
	switch len(match) {
	case 0:
		return ""
	case 1:
		return " for which the match function holds"
	}
	return fmt.Sprintf(" for which all %d match functions hold", len(match))
}

// describe shows a message on one line.
func describe(m outbox.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", m.Status, m.Topic, show(m.Payload))
	if m.Key != "" {
		fmt.Fprintf(&b, " key=%q", m.Key)
	}
	if m.OrderKey != "" {
		fmt.Fprintf(&b, " order_key=%q", m.OrderKey)
	}
	if m.Version > 1 {
		fmt.Fprintf(&b, " version=%d", m.Version)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		fmt.Fprintf(&b, " %s=%q", name, cut(m.Headers[name], maxFieldBytes))
	}
	if delay := m.AvailableAt.Sub(m.CreatedAt).Round(time.Millisecond); m.Attempts == 0 && m.Status == outbox.StatusPending && delay > 0 {
		fmt.Fprintf(&b, " delay=%v", delay)
	}
	if m.Attempts > 0 && m.Status != outbox.StatusSent {
		fmt.Fprintf(&b, " attempts=%d", m.Attempts)
	}
	if m.LastError != "" && m.Status != outbox.StatusSent {
		fmt.Fprintf(&b, " last_error=%q", cut(m.LastError, maxPayloadBytes))
	}
	return b.String()
}

// show returns a payload for people: cut if it is long, quoted if it is no JSON.
func show(payload json.RawMessage) string {
	text := string(payload)
	if !json.Valid(payload) {
		text = strconv.Quote(text)
	}
	return cut(text, maxPayloadBytes)
}

// cut returns text, or its first bytes and how many there are.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(text[:limit], ""), len(text))
}
