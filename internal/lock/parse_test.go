package lock_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/lock"
)

// history is a file with everything in it, in the layout that is committed.
const history = `{
	"format": 1,
	"events": [
		{
			"topic": "orders.created",
			"type": "OrderCreated",
			"aliases": ["orders.new", "orders.placed"],
			"key": "orders#ID,Region",
			"order": "customers#CustomerID",
			"version": 2,
			"versions": [
				{
					"version": 1,
					"fields": [
						{"path": "", "kind": "object"},
						{"path": "id", "go": "ID", "kind": "int64", "quoted": true}
					]
				},
				{
					"version": 2,
					"reserved": ["note", "old"],
					"accepted": [
						{"rule": "J06", "path": "id", "reason": "no rows: \"<none>\", yet"}
					],
					"fields": [
						{"path": "", "kind": "object"},
						{"path": "\"a b\"", "go": "AB", "kind": "map int32", "null": true},
						{"path": "\"a b\"{}", "go": "AB{}", "kind": "array 2"},
						{"path": "\"a b\"{}[]", "go": "AB{}[]", "kind": "opaque example.com/money.Money", "pointer": true, "null": true},
						{"path": "next", "go": "Next", "kind": "object", "pointer": true, "omit": "omitempty", "same": "."},
						{"path": "status", "go": "Status", "kind": "string", "enum": ["New=new", "Paid=paid"]}
					]
				}
			]
		}
	],
	"retired": [
		{"topic": "orders.lost", "reason": "never sent"}
	]
}
`

func TestLayout(t *testing.T) {
	t.Parallel()
	f, err := lock.Parse([]byte(history))
	require.NoError(t, err)
	require.Equal(t, history, string(f.Format()))
	require.Equal(t, lock.Accepted{Rule: "J06", Path: "id", Reason: `no rows: "<none>", yet`}, f.Events[0].Versions[1].Accepted[0])
	again, err := lock.Parse(f.Format())
	require.NoError(t, err)
	require.Equal(t, f, again)

	crlf, err := lock.Parse([]byte(strings.ReplaceAll(history, "\n", "\r\n")))
	require.NoError(t, err)
	require.Equal(t, f, crlf, "as a checkout on Windows has it")

	require.Equal(t, "{\n\t\"format\": 1,\n\t\"events\": [],\n\t\"retired\": []\n}\n", string((&lock.File{}).Format()))
}

// TestSorted turns each list around, as a merge by hand may have it.
func TestSorted(t *testing.T) {
	t.Parallel()
	read := func(text string) *lock.File {
		f, err := lock.Parse([]byte(text))
		require.NoError(t, err)
		return f
	}
	f, other := read(history), read(strings.ReplaceAll(history, "orders.", "lines."))
	f.Events, f.Retired = append(f.Events, other.Events...), append(f.Retired, other.Retired...)
	f.Events[0].Versions[1].Accepted = append(f.Events[0].Versions[1].Accepted, lock.Accepted{"J04", "x", ""}, lock.Accepted{"J06", "a", ""})
	want := string(f.Format())
	require.Less(t, strings.Index(want, "lines.created"), strings.Index(want, "orders.created"))
	require.Less(t, strings.Index(want, "J04"), strings.LastIndex(want, "J06"))
	slices.Reverse(f.Events)
	slices.Reverse(f.Retired)
	for _, e := range f.Events {
		slices.Reverse(e.Aliases)
		slices.Reverse(e.Versions)
		for _, v := range e.Versions {
			slices.Reverse(v.Reserved)
			slices.Reverse(v.Accepted)
			slices.Reverse(v.Shape)
		}
	}
	require.Equal(t, want, string(f.Format()))
	back := read(want)
	require.Equal(t, f, back)
}

// TestDamaged breaks the file in the ways of editors and version control.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ old, new, want string }{
		"empty":             {history, "", "1:1: the file is empty; it is history"},
		"truncated":         {history, history[:700], "28:14: unexpected end of JSON input; it is history that cannot be generated again: restore it from version control"},
		"conflict":          {`			"version": 2,`, "<<<<<<< HEAD\n\t\t\t\"version\": 2,\n=======\n>>>>>>> other", "10:1: a merge conflict is not resolved; keep the lines of both sides, then run go generate"},
		"comma":             {`"object"},`, `"object"}`, "16:7: invalid character '{' after array element; it is history"},
		"after":             {"never sent\"}\n\t]\n}\n", "never sent\"}\n\t]\n}\n{}\n", "41:1: invalid character '{' after top-level value"},
		"list":              {history, "[]", "1:1: the file is no JSON object"},
		"no format":         {`"format": 1,`, ``, "1:1: the file has no format"},
		"newer":             {`"format": 1`, `"format": 2`, "2:2: format 2 was written by a newer outboxgen; update yours"},
		"unknown":           {`"retired"`, `"gone"`, `37:2: unknown field "gone"; if a newer outboxgen wrote it, update yours; else it is history`},
		"unknown in field":  {`"quoted": true`, `"odd": true`, `4:3: unknown field "odd"; if a newer`},
		"type":              {`"version": 2,` + "\n\t\t\t\"versions", `"version": "2",` + "\n\t\t\t\"versions", `10:17: a string is no "version"; it is history`},
		"events":            {`"events": [`, `"events": 1, "retired": [], "events": [`, "3:12: here should be a list"},
		"topic twice":       {`"orders.lost"`, `"orders.created"`, `38:3: topic "orders.created" is there twice; keep the one with more versions and fields, then run go generate`},
		"no topic":          {`"topic": "orders.created",`, ``, "4:3: there is no topic"},
		"version twice":     {`"version": 1,`, `"version": 2,`, `4:3: topic "orders.created": version 2 is there twice, or is none of 1 to 2`},
		"version gone":      {`"version": 2,`, `"version": 3,`, `4:3: topic "orders.created": its version 3 is missing`},
		"version above":     {`"version": 2,`, `"version": 1,`, `version 2 is there twice, or is none of 1 to 1`},
		"field twice":       {`{"path": "next"`, `{"path": "status", "kind": "bool"},` + "\n" + `{"path": "next"`, `4:3: topic "orders.created", version 2: field "status" is there twice`},
		"root gone":         {`{"path": "", "kind": "object"},` + "\n\t\t\t\t\t\t" + `{"path": "id"`, `{"path": "id"`, `version 1: the field "" of the whole payload is missing`},
		"parent gone":       {`{"path": "\"a b\"", "go": "AB", "kind": "map int32", "null": true},`, ``, `field "\"a b\"{}" is in nothing that could hold it`},
		"wrong parent":      {`"kind": "map int32"`, `"kind": "list"`, `field "\"a b\"{}" is in nothing that could hold it`},
		"path":              {`"path": "id"`, `"path": "id..x"`, `field "id..x" is in nothing that could hold it`},
		"kind":              {`"kind": "string"`, `"kind": "text"`, `field "status" is of kind "text", which there is not`},
		"array":             {`"kind": "array 2"`, `"kind": "array -2"`, `is of kind "array -2", which there is not`},
		"map":               {`"kind": "map int32"`, `"kind": "map int"`, `is of kind "map int", which there is not`},
		"same":              {`"same": "."`, `"same": "none"`, `field "next" is said to be the same as "none", which it cannot be`},
		"same as itself":    {`"same": "."`, `"same": "next"`, `field "next" is said to be the same as "next", which it cannot be`},
		"same of no struct": {`"kind": "string", "enum"`, `"kind": "string", "same": ".", "enum"`, `field "status" is said to be the same as ".", which it cannot be`},
		"omit":              {`"omit": "omitempty"`, `"omit": "never"`, `field "next" has the option "never", which there is not`},
		"constant":          {`"New=new"`, `"New"`, `field "status" has a constant without a value`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := strings.Replace(history, tt.old, tt.new, 1)
			require.NotEqual(t, history, text)
			_, err := lock.Parse([]byte(text))
			var parse *lock.ParseError
			require.ErrorAs(t, err, &parse)
			require.Contains(t, err.Error(), tt.want)
			require.Contains(t, parse.Text, "; ", "what is wrong; what to do")
		})
	}
}
