package testutil

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/typedoutbox/typedoutbox/outbox"
)

// A report shows at most this much, so that a test of a large payload or of
// many messages can still be read.
const (
	maxRows         = 50
	maxPayloadBytes = 4 << 10
	maxDiffs        = 5
	maxDiffBytes    = 16 << 10
)

// report is the text of a failure: the headline, and what is enqueued instead.
func (l *listing[T]) report(headline string) string {
	var b strings.Builder
	b.WriteString(headline)
	if len(l.rows) == 0 {
		b.WriteString("\n" + l.rest)
		return b.String()
	}
	fmt.Fprintf(&b, "\nenqueued, oldest first:")
	diffs := 0
	for i, r := range l.rows {
		if i == maxRows {
			fmt.Fprintf(&b, "\n  and %d more", len(l.rows)-maxRows)
			break
		}
		b.WriteString("\n  " + describe(r.message))
		if r.mismatch != "" {
			b.WriteString("\n    " + r.mismatch)
		}
		if r.diff != "" {
			if diffs++; diffs <= maxDiffs {
				b.WriteString("\n    " + strings.ReplaceAll(cut(r.diff, maxDiffBytes), "\n", "\n    "))
			}
		}
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
	fmt.Fprintf(&b, "%s %s", m.ID, m.Topic)
	if m.Key != "" {
		fmt.Fprintf(&b, " key=%q", m.Key)
	}
	if m.OrderKey != "" {
		fmt.Fprintf(&b, " order_key=%q", m.OrderKey)
	}
	fmt.Fprintf(&b, " %s v%d %s", m.Status, m.Version, show(m.Payload))
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

// capture takes the failure message of an assertion instead of a test.
type capture struct{ text string }

// Errorf implements assert.TestingT.
func (c *capture) Errorf(format string, args ...any) { c.text = fmt.Sprintf(format, args...) }

// description is the captured message without the lines around it and without
// their indentation. Where testify cannot show the values, which have lines of
// more than 64 KiB, it is "".
func (c *capture) description() string {
	_, text, found := strings.Cut(c.text, "Not equal: ")
	if !found {
		return ""
	}
	// The values in full add nothing to a diff; numbers and booleans have none.
	if _, diff, found := strings.Cut(text, "Diff:\n"); found {
		text = diff
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		// The first tab is that of the report, the second ends the margin.
		if _, rest, ok := strings.Cut(strings.TrimPrefix(line, "\t"), "\t"); ok {
			line = rest
		}
		if strings.TrimSpace(line) != "" {
			b.WriteString(line)
		}
	}
	return strings.TrimSpace(b.String())
}
