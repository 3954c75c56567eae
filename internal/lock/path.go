package lock

import (
	"strconv"
	"strings"
)

// child is the path of a key of the object at path.
func child(path, key string) string {
	if strings.ContainsFunc(key, special) {
		key = strconv.Quote(key)
	}
	return join(path, key)
}

func special(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-')
}
