package testutil

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// differences compares two JSON documents leaf by leaf: how many are equal, and
// a line for each that is not.
func differences(want, got json.RawMessage) (equal int, lines []string) {
	w, g := leaves(want), leaves(got)
	paths := maps.Clone(w)
	maps.Copy(paths, g)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		wanted, isWanted := w[path]
		found, isFound := g[path]
		switch {
		case !isFound:
			lines = append(lines, fmt.Sprintf("%s is absent, want %s", path, cut(wanted, maxFieldBytes)))
		case !isWanted:
			lines = append(lines, fmt.Sprintf("%s is %s, want none", path, cut(found, maxFieldBytes)))
		case found == wanted:
			equal++
		default:
			wanted, found = apart(wanted, found)
			lines = append(lines, fmt.Sprintf("%s is %s, want %s", path, found, wanted))
		}
	}
	return equal, lines
}

// leaves returns the numbers, strings, booleans, nulls and empty containers of a
// document, each as JSON, by where they are, such as lines[0].sku. A name that is
// not made of letters, digits, - and _ is quoted.
func leaves(doc json.RawMessage) map[string]string {
	found := map[string]string{}
	decoder := json.NewDecoder(bytes.NewReader(doc))
	decoder.UseNumber()
	var root any
	if err := decoder.Decode(&root); err != nil {
		found["payload"] = strconv.Quote(string(doc))
		return found
	}
	addLeaves(found, "", root)
	return found
}

func addLeaves(found map[string]string, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			addLeaves(found, memberPath(path, name), member)
		}
		if len(v) > 0 {
			return
		}
	case []any:
		for i, element := range v {
			addLeaves(found, fmt.Sprintf("%s[%d]", path, i), element)
		}
		if len(v) > 0 {
			return
		}
	}
	if path == "" {
		path = "payload"
	}
	text, err := json.Marshal(v)
	if err != nil {
		text = fmt.Append(nil, v)
	}
	found[path] = string(text)
}

func memberPath(path, name string) string {
	plain := func(r rune) bool { return r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		name = strconv.Quote(name)
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// apart shortens two long texts to where they differ.
func apart(a, b string) (string, string) {
	if len(a) <= maxFieldBytes && len(b) <= maxFieldBytes {
		return a, b
	}
	same := 0
	for same < min(len(a), len(b)) && a[same] == b[same] {
		same++
	}
	from := max(same-maxFieldBytes/4, 0)
	short := func(s string) string {
		if from == 0 {
			return cut(s, maxFieldBytes)
		}
		return fmt.Sprintf("(from byte %d) %s", from, cut(s[from:], maxFieldBytes))
	}
	return short(a), short(b)
}
