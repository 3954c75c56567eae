package payload_test

import (
	"encoding/json"
	"go/token"
	"go/types"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/payload"
)

// TestTags gives a field A of 0 each tag, and holds what encoding/json writes
// against what the tag seems to say. go vet refuses some of them, so they are
// given at run time.
func TestTags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ tag, json, problem string }{
		{``, `{"A":0}`, ""},
		{`json:""`, `{"A":0}`, ""},
		{`json:"a"`, `{"a":0}`, ""},
		{`json:"-"`, `{}`, ""},
		{`json:"-,"`, `{"-":0}`, ""},
		{`json:","`, `{"A":0}`, ""},
		{`json:",omitempty"`, `{}`, ""},
		{`json:",omitzero,string"`, `{}`, ""},
		{`json:"a b/$%-\u00e9"`, `{"a b/$%-é":0}`, ""},
		{`bun:"a,type:jsonb" json:"b"`, `{"b":0}`, ""},
		{`bun:"a,type:jsonb"`, `{"A":0}`, ""},
		{`no tag at all`, `{"A":0}`, ""},
		{`json:"a" rest`, `{"a":0}`, ""},

		{`json: "a"`, `{"A":0}`, "malformed"},
		{`json:a`, `{"A":0}`, "malformed"},
		{`json`, `{"A":0}`, "malformed"},
		{`json :"a"`, `{"A":0}`, "malformed"},
		{`json:'a'`, `{"A":0}`, "malformed"},
		{`json:"a`, `{"A":0}`, "malformed"},
		{`json:"\x"`, `{"A":0}`, "malformed"},
		{`bun:"a",json:"b"`, `{"A":0}`, "malformed"},
		{`bun:a json:"b"`, `{"A":0}`, "malformed"},
		{`json:"a\\b"`, `{"A":0}`, `the name "a\\b" in the tag`},
		{`json:"a'b"`, `{"A":0}`, `the name "a'b" in the tag`},
		{`json:"a, omitempty"`, `{"a":0}`, `the tag option " omitempty"`},
		{`json:"a,omitEmpty"`, `{"a":0}`, `the tag option "omitEmpty"`},
		{`json:"a,format:unix"`, `{"a":0}`, `the tag option "format:unix"`},
		{`json:"-,inline"`, `{"-":0}`, `the tag option "inline"`},
		{`json:"a,inline"`, `{"a":0}`, `the tag option "inline"`},
	} {
		t.Run(tt.tag, func(t *testing.T) {
			t.Parallel()
			st := reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeFor[int](), Tag: reflect.StructTag(tt.tag)}})
			text, err := json.Marshal(reflect.Zero(st).Interface())
			require.NoError(t, err)
			require.Equal(t, tt.json, string(text))

			field := types.NewField(token.Pos(1), from, "A", types.Typ[types.Int], false)
			problems := payload.Check(from, types.NewStruct([]*types.Var{field}, []string{tt.tag}))
			if tt.problem == "" {
				require.Empty(t, problems)
				return
			}
			require.Len(t, problems, 1)
			require.Equal(t, token.Pos(1), problems[0].Pos)
			require.Contains(t, problems[0].Text, tt.problem)
		})
	}
}

// TestOptionString gives fields of several types the option string, which has
// an effect on some.
func TestOptionString(t *testing.T) {
	t.Parallel()
	number := types.Typ[types.Int]
	for _, tt := range []struct {
		value any
		view  types.Type
		json  string // with the option
	}{
		{1, number, `"1"`},
		{true, types.Typ[types.Bool], `"true"`},
		{1.5, types.Typ[types.Float64], `"1.5"`},
		{"a", types.Typ[types.String], `"\"a\""`},
		{uintptr(1), types.Typ[types.Uintptr], `"1"`},
		{new(1), types.NewPointer(number), `"1"`},
		{new(new(1)), types.NewPointer(types.NewPointer(number)), `1`},
		{[]int{1}, types.NewSlice(number), `[1]`},
		{[1]int{1}, types.NewArray(number, 1), `[1]`},
		{map[string]int{"a": 1}, types.NewMap(types.Typ[types.String], number), `{"a":1}`},
		{struct{}{}, types.NewStruct(nil, nil), `{}`},
	} {
		const tag = `json:",string"`
		st := reflect.StructOf([]reflect.StructField{{Name: "A", Type: reflect.TypeOf(tt.value), Tag: tag}})
		v := reflect.New(st).Elem()
		v.Field(0).Set(reflect.ValueOf(tt.value))
		text, err := json.Marshal(v.Interface())
		require.NoError(t, err)
		require.Equal(t, `{"A":`+tt.json+`}`, string(text))

		field := types.NewField(token.Pos(1), from, "A", tt.view, false)
		problems := payload.Check(from, types.NewStruct([]*types.Var{field}, []string{tag}))
		if tt.json[0] == '"' {
			require.Empty(t, problems)
			continue
		}
		require.Len(t, problems, 1)
		require.Contains(t, problems[0].Text, "ignores the tag option string")
	}
}
