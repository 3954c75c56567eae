package topics

import (
	"fmt"
	"strings"
)

// MaxNameBytes is the length of the longest topic name, in bytes.
const MaxNameBytes = 200

// CheckName reports what is wrong with name as a topic name: it must be 1 to
// [MaxNameBytes] bytes of a-z A-Z 0-9 . _ - : and /.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("topic name is empty; use 1 to %d bytes of a-z A-Z 0-9 . _ - : /", MaxNameBytes)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("topic name %q... is %d bytes long; use at most %d", name[:32], len(name), MaxNameBytes)
	}
	for i := range len(name) {
		if !nameByte(name[i]) {
			return fmt.Errorf("topic name %q has %q at byte %d; use only a-z A-Z 0-9 . _ - : /", name, name[i:i+1], i)
		}
	}
	return nil
}

func nameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		c == '.' || c == '_' || c == '-' || c == ':' || c == '/'
}

var keyEscaper = strings.NewReplacer(`\`, `\\`, `,`, `\,`)

// JoinKey joins the parts of a derived key behind a scope, so that equal parts
// of different scopes do not meet: JoinKey("orders.created", "7", "a") is
// "orders.created#7,a". A "," or "\" within a part is escaped with "\"; "#" is
// outside the alphabet of topic names. If all parts are empty, or there are
// none, the result is "", which means no key: an empty id must not become a
// key that every event shares.
func JoinKey(scope string, parts ...string) string {
	empty := true
	for _, p := range parts {
		empty = empty && p == ""
	}
	if empty {
		return ""
	}
	var b strings.Builder
	b.WriteString(scope)
	sep := byte('#')
	for _, p := range parts {
		b.WriteByte(sep)
		_, _ = keyEscaper.WriteString(&b, p)
		sep = ','
	}
	return b.String()
}
