package testutil

import (
	"encoding/json"
	"fmt"
	"strings"
)

// text shows any value.
func text(v any) string {
	if doc, err := json.Marshal(v); err == nil && string(doc) != "{}" {
		return cut(string(doc), maxPayloadBytes)
	}
	return cut(fmt.Sprintf("%+v", v), maxPayloadBytes)
}

// change shows how two values differ that are not equal: by the leaves of their
// JSON, or in full where that is the same.
func change(before, after any) string {
	var b strings.Builder
	was, err := json.Marshal(before)
	is, err2 := json.Marshal(after)
	if err == nil && err2 == nil {
		_, lines := differences(was, is)
		for i, line := range lines {
			lines[i] = strings.Replace(line, ", want ", ", was ", 1)
		}
		writeLines(&b, "\n  ", lines)
	}
	if b.Len() == 0 {
		fmt.Fprintf(&b, "\n  once:  %s\n  twice: %s", cut(fmt.Sprintf("%+v", before), maxPayloadBytes), cut(fmt.Sprintf("%+v", after), maxPayloadBytes))
	}
	return b.String()
}
