package topics_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/topics"
)

func TestCheckNameAcceptsItsAlphabet(t *testing.T) {
	for _, name := range []string{
		"a", "orders.created", "event:user.created", "Orders_v2/eu-west", "0", ".", "_", "-", ":", "/",
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/",
		strings.Repeat("n", topics.MaxNameBytes),
	} {
		require.NoError(t, topics.CheckName(name), "name %q", name)
		require.Equal(t, name, topics.New[event](name, nil).Name())
	}
}

func TestCheckNameRefusesEveryOtherByte(t *testing.T) {
	const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:/"
	for b := range 256 {
		name := "a" + string([]byte{byte(b)}) + "z"
		err := topics.CheckName(name)
		if strings.IndexByte(alphabet, byte(b)) >= 0 {
			require.NoError(t, err, "byte %#x", b)
			continue
		}
		require.ErrorContains(t, err, "at byte 1", "byte %#x", b)
	}
}

func TestCheckNameRefusesLengths(t *testing.T) {
	require.ErrorContains(t, topics.CheckName(""), "empty")
	long := strings.Repeat("n", topics.MaxNameBytes+1)
	require.ErrorContains(t, topics.CheckName(long), "201 bytes long; use at most 200")
}

func TestJoinKey(t *testing.T) {
	for _, tt := range []struct {
		scope string
		parts []string
		want  string
	}{
		{"s", nil, ""},
		{"s", []string{""}, ""},
		{"s", []string{"", "", ""}, ""},
		{"s", []string{"a"}, "s#a"},
		{"s", []string{"a", "b"}, "s#a,b"},
		{"s", []string{"a", ""}, "s#a,"},
		{"s", []string{"", "a"}, "s#,a"},
		{"s", []string{"a,b"}, `s#a\,b`},
		{"s", []string{`a\`, "b"}, `s#a\\,b`},
		{"s", []string{`a\,b`}, `s#a\\\,b`},
		{"s", []string{"a#b"}, "s#a#b"},
		{"", []string{"a"}, "#a"},
		{"s", []string{"\x00", "ü"}, "s#\x00,ü"},
	} {
		require.Equal(t, tt.want, topics.JoinKey(tt.scope, tt.parts...), "scope %q parts %q", tt.scope, tt.parts)
	}
}

// Different parts, and equal parts of different scopes, never meet.
func TestJoinKeyIsInjective(t *testing.T) {
	alphabet := []string{"", "a", ",", `\`, "#", `\,`, `a\`, ",a", "a,"}
	seen := map[string]string{}
	add := func(scope string, parts ...string) {
		key := topics.JoinKey(scope, parts...)
		what := fmt.Sprintf("%q %q", scope, parts)
		if strings.Join(parts, "") == "" {
			require.Empty(t, key, what)
			return
		}
		require.NotContains(t, seen, key, "%s and %s share a key", what, seen[key])
		seen[key] = what
	}
	for _, scope := range []string{"s", "s.a"} {
		for _, a := range alphabet {
			add(scope, a)
			for _, b := range alphabet {
				add(scope, a, b)
				for _, c := range alphabet {
					add(scope, a, b, c)
				}
			}
		}
	}
}
