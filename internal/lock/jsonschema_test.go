package lock_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/lock"
)

// A published schema is held against payloads in internal/schematest. Here is
// what comes of changes.

func shapeOf(t *testing.T, fields string) lock.Shape {
	t.Helper()
	pkg := load(t, "package p\ntype E struct {"+fields+"}")
	return lock.ShapeOf(pkg, pkg.Scope().Lookup("E").Type())
}

func TestSchemaTakesRowsFromBeforeAChange(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ old, new, want string }{
		"added": {
			"A string", "A, B string",
			`{"type": "object", "properties": {"A": {"type": "string"}, "B": {"type": "string"}}, "required": ["A"]}`,
		},
		"added within": {
			"L []struct{A bool}", "L []struct{A, B bool}",
			`{"type": "object", "required": ["L"], "properties": {"L": {"type": ["array", "null"], "items":
				{"type": "object", "properties": {"A": {"type": "boolean"}, "B": {"type": "boolean"}}, "required": ["A"]}}}}`,
		},
		"omitempty removed": {
			"A string `json:\",omitempty\"`", "A string",
			`{"type": "object", "properties": {"A": {"type": "string"}}}`,
		},
		"pointer removed": {
			"A *string", "A string",
			`{"type": "object", "properties": {"A": {"type": ["string", "null"]}}, "required": ["A"]}`,
		},
		"removed": {"A, B string", "A string", `{"type": "object", "properties": {"A": {"type": "string"}}, "required": ["A"]}`},
		"the payload within itself": {
			"Next *E", "Next *E",
			`{"type": "object", "required": ["Next"], "properties": {"Next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			merged := lock.Merge(shapeOf(t, tc.old), shapeOf(t, tc.new))
			got, err := json.Marshal(merged.JSONSchema())
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(got))
			require.Equal(t, merged, lock.Merge(merged, merged), "recorded once more")
		})
	}
}
