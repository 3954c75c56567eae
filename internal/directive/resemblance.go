package directive

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// resemblance reports a comment that somebody may have meant as a directive,
// but that Go's syntax does not take for one: with a space, in capitals, with a
// slip of spelling, or between /* and */.
func resemblance(c *ast.Comment) []Problem {
	if !strings.HasPrefix(c.Text, "/*") {
		line := strings.TrimPrefix(c.Text[2:], "/") // three slashes are Rust's doc comments
		if fixed, ok := resemble(line); ok {
			return []Problem{notADirective(c.Slash, c.Text, fixed)}
		}
		return nil
	}
	var problems []Problem
	pos := c.Slash
	for raw := range strings.SplitAfterSeq(c.Text, "\n") {
		line := strings.TrimSuffix(strings.TrimSpace(raw), "*/")
		line = strings.TrimLeft(strings.TrimPrefix(line, "/*"), "* \t")
		if fixed, ok := resemble(line); ok {
			problems = append(problems, notADirective(pos, strings.TrimSpace(raw), fixed))
		}
		pos += token.Pos(len(raw))
	}
	return problems
}

func notADirective(pos token.Pos, text, fixed string) Problem {
	if len(text) > 60 {
		text = text[:60] + "..."
	}
	return Problem{Pos: pos, Text: fmt.Sprintf("%q is not a directive; write %s, or reword it if it is prose", text, fixed)}
}

// resemble reports whether a comment's line looks like TOOL:VERB, and how that
// would be written.
func resemble(line string) (fixed string, ok bool) {
	text := strings.TrimLeft(line, " \t")
	indented := len(text) < len(line)
	if verb := underOtherName(text); verb != "" && !indented {
		return "//outbox:" + verb, true
	}
	name, rest := letters(text)
	if distance(strings.ToLower(name), tool) > 2 {
		return "", false
	}
	rest = strings.TrimLeft(rest, " \t")
	if !strings.HasPrefix(rest, ":") {
		return "", false
	}
	rest = rest[1:]
	if strings.TrimSpace(rest) == "" {
		return "//outbox:VERB", !indented && name == tool
	}
	unspaced := strings.TrimLeft(rest, " \t")
	spaced := indented && len(unspaced) < len(rest) // much like prose
	verb, rest := letters(unspaced)
	if rest != "" && !strings.ContainsAny(rest[:1], " \t\r\n") {
		return "", false
	}
	verb = strings.ToLower(verb)
	near := Nearest(verb, verbs())
	if near == "" || spaced && near != verb {
		return "", false
	}
	return "//outbox:" + near, true
}

// otherName is a verb behind another name for the tool, or another sign than a
// colon: outbox-event, typedoutbox:event, outbox.event.
var otherName = regexp.MustCompile(`(?i)^(?:[a-z]+[-_]?)?outbox(?:gen|vet)?[-_.:/]+([a-z]+)(?:\s|$)`)

// underOtherName returns the verb, "" if there is none.
func underOtherName(text string) string {
	m := otherName.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	if verb := strings.ToLower(m[1]); slices.Contains(verbs(), verb) {
		return verb
	}
	return ""
}

// letters splits s behind its leading ASCII letters.
func letters(s string) (string, string) {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return s[:i], s[i:]
		}
	}
	return s, ""
}
