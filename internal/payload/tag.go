package payload

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// tag is what encoding/json makes of a field's tag.
type tag struct {
	name    string // empty if it gives none
	skip    bool   // json:"-"
	quoted  bool   // the option string
	omit    string // the options omitempty and omitzero that it has, comma between
	mistake string // what is wrong with it; what to do
}

func parseTag(text string) tag {
	value, ok := reflect.StructTag(text).Lookup("json")
	if !ok {
		if strings.Contains(text, "json") && !wellFormed(text) {
			return tag{mistake: fmt.Sprintf("the tag %q is malformed and has no effect; write json:\"name\", without spaces", text)}
		}
		return tag{}
	}
	if value == "-" {
		return tag{skip: true}
	}
	var t tag
	name, options, _ := strings.Cut(value, ",")
	t.name = name
	if name != "" && !usable(name) {
		t.name = ""
		t.mistake = fmt.Sprintf("the name %q in the tag holds characters that encoding/json does not take, so it is ignored; use letters, digits and _", name)
	}
	var omit []string
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "":
		case "omitempty", "omitzero":
			omit = append(omit, option)
		case "string":
			t.quoted = true
		default:
			t.mistake = fmt.Sprintf("the tag option %q is none of omitempty, omitzero and string: it has no effect, and another Go release may refuse it; remove it", option)
		}
	}
	slices.Sort(omit)
	t.omit = strings.Join(slices.Compact(omit), ",")
	return t
}

// usable is the rule of encoding/json for names in tags.
func usable(name string) bool {
	for _, c := range name {
		if !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			return false
		}
	}
	return true
}

// wellFormed reports whether a tag is key:"value" pairs with spaces between.
// reflect stops where it is not, and takes ,json for a key.
func wellFormed(text string) bool {
	for text = strings.TrimLeft(text, " "); text != ""; text = strings.TrimLeft(text, " ") {
		key, rest, ok := strings.Cut(text, ":")
		if !ok || key == "" || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c == '"' || c == 0x7f }) {
			return false
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil || quoted[0] != '"' {
			return false
		}
		if _, err := strconv.Unquote(quoted); err != nil {
			return false
		}
		text = rest[len(quoted):]
		if text != "" && text[0] != ' ' {
			return false
		}
	}
	return true
}
