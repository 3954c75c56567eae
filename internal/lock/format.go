package lock

import (
	"bytes"
	"encoding/json"
)

// format is the number of the layout below.
const format = 1

// The file in JSON.
type (
	eventJSON struct {
		Topic    string        `json:"topic"`
		Type     string        `json:"type"`
		Aliases  []string      `json:"aliases,omitempty"`
		Key      string        `json:"key,omitempty"`
		Order    string        `json:"order,omitempty"`
		Version  int           `json:"version"`
		Versions []versionJSON `json:"versions"`
	}
	versionJSON struct {
		Version  int            `json:"version"`
		Reserved []string       `json:"reserved,omitempty"`
		Accepted []acceptedJSON `json:"accepted,omitempty"`
		Fields   []fieldJSON    `json:"fields"`
	}
	acceptedJSON struct {
		Rule   string `json:"rule"`
		Path   string `json:"path"`
		Reason string `json:"reason"`
	}
	retiredJSON struct {
		Topic  string `json:"topic"`
		Reason string `json:"reason"`
	}
	fieldJSON struct {
		Path    string   `json:"path"`
		Go      string   `json:"go,omitempty"`
		Kind    Kind     `json:"kind"`
		Pointer bool     `json:"pointer,omitempty"`
		Null    bool     `json:"null,omitempty"`
		Absent  bool     `json:"absent,omitempty"`
		Omit    string   `json:"omit,omitempty"`
		Quoted  bool     `json:"quoted,omitempty"`
		Enum    []string `json:"enum,omitempty"`
		Same    string   `json:"same,omitempty"`
	}
)

// Format returns the text of the file: each field of a payload on a line of
// its own, so that a review shows what changed, and all in one order. It is
// the same for the same content, and [Parse] reads it back.
func (f *File) Format() []byte {
	f.sort()
	var w writer
	w.line(0, "{")
	w.line(1, `"format": `, format, ",")
	w.list(1, `"events": `, len(f.Events), ",", func(i int, end string) { w.event(f.Events[i], end) })
	w.list(1, `"retired": `, len(f.Retired), "", func(i int, end string) { w.line(2, retiredJSON(f.Retired[i]), end) })
	w.line(0, "}")
	return w.Bytes()
}

type writer struct{ bytes.Buffer }

// text is written as JSON has it, a string as it is.
type text string

// line writes a line of strings as they are, and of other values in JSON.
func (w *writer) line(depth int, parts ...any) {
	for range depth {
		w.WriteByte('\t')
	}
	for _, part := range parts {
		if s, ok := part.(string); ok {
			w.WriteString(s)
		} else {
			w.Write(spaced(part))
		}
	}
	w.WriteByte('\n')
}

func (w *writer) list(depth int, name string, n int, end string, item func(i int, end string)) {
	if n == 0 {
		w.line(depth, name, "[]", end)
		return
	}
	w.line(depth, name, "[")
	for i := range n {
		if i == n-1 {
			item(i, "")
		} else {
			item(i, ",")
		}
	}
	w.line(depth, "]", end)
}

func (w *writer) event(e Event, end string) {
	w.line(2, "{")
	w.line(3, `"topic": `, text(e.Topic), ",")
	w.line(3, `"type": `, text(e.Type), ",")
	if len(e.Aliases) > 0 {
		w.line(3, `"aliases": `, e.Aliases, ",")
	}
	if e.Key != "" {
		w.line(3, `"key": `, text(e.Key), ",")
	}
	if e.Order != "" {
		w.line(3, `"order": `, text(e.Order), ",")
	}
	w.line(3, `"version": `, e.Version, ",")
	w.list(3, `"versions": `, len(e.Versions), "", func(i int, end string) { w.version(e.Versions[i], end) })
	w.line(2, "}", end)
}

func (w *writer) version(v Version, end string) {
	w.line(4, "{")
	w.line(5, `"version": `, v.N, ",")
	if len(v.Reserved) > 0 {
		w.line(5, `"reserved": `, v.Reserved, ",")
	}
	if len(v.Accepted) > 0 {
		w.list(5, `"accepted": `, len(v.Accepted), ",", func(i int, end string) { w.line(6, acceptedJSON(v.Accepted[i]), end) })
	}
	w.list(5, `"fields": `, len(v.Shape), "", func(i int, end string) { w.line(6, v.Shape[i].stored(), end) })
	w.line(4, "}", end)
}

// spaced writes v on one line, with spaces as in the rest of the file.
func spaced(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // strings, numbers and lists of them
	}
	var out []byte
	inside, escaped := false, false
	for _, c := range bytes.TrimSpace(b.Bytes()) {
		out = append(out, c)
		switch {
		case inside:
			inside = escaped || c != '"'
			escaped = c == '\\' && !escaped
		case c == '"':
			inside = true
		case c == ',', c == ':':
			out = append(out, ' ')
		}
	}
	return out
}
