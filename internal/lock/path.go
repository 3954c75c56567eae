package lock

import (
	"strconv"
	"strings"
)

// join is the path of name within path. Elements, [] and {}, need no dot.
func join(path, name string) string {
	if path == "" || name == elements || name == values {
		return path + name
	}
	return path + "." + name
}

const (
	elements = "[]" // of a list or an array
	values   = "{}" // of a map
)

// spellKey is how a key of an object is written in a path.
func spellKey(key string) string {
	if key == "" || strings.ContainsFunc(key, special) {
		return strconv.Quote(key)
	}
	return key
}

func special(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
}

// split cuts a path before its last name. It reports whether the path is one
// that this package writes.
func split(path string) (parent, name string, ok bool) {
	rest := path
	for {
		parent = path[:len(path)-len(rest)]
		switch {
		case strings.HasPrefix(rest, elements), strings.HasPrefix(rest, values):
			name = rest[:2]
		default:
			if parent != "" {
				if rest, ok = strings.CutPrefix(rest, "."); !ok {
					return "", "", false
				}
			}
			if name = firstKey(rest); name == "" {
				return "", "", false
			}
		}
		if rest = rest[len(name):]; rest == "" {
			return parent, name, true
		}
	}
}

// firstKey is the key that a path begins with, as it is written, or "".
func firstKey(path string) string {
	quoted, err := strconv.QuotedPrefix(path)
	if err != nil {
		if i := strings.IndexFunc(path, special); i >= 0 {
			return path[:i]
		}
		return path
	}
	key, err := strconv.Unquote(quoted)
	if err != nil || spellKey(key) != quoted {
		return ""
	}
	return quoted
}
