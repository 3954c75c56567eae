package payload_test

import (
	"encoding/json"
	"fmt"
	"go/token"
	"go/types"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/typedoutbox/typedoutbox/internal/payload"
)

// shape is a struct type, for reflect and for go/types.
type shape struct {
	real reflect.Type
	view *types.Struct
}

var from = types.NewPackage("example.com/shapes", "shapes")

// drawShapes builds structs of a few fields each, whose names and keys collide
// often, and each of which may embed earlier ones. The last embeds the most.
func drawShapes(t *rapid.T) shape {
	var shapes []shape
	count := rapid.IntRange(1, 7).Draw(t, "shapes")
	pos := token.Pos(1)
	for n := range count {
		var real []reflect.StructField
		var vars []*types.Var
		var tags []string
		names := slices.Clone([]string{"A", "B", "C", "D"})
		for range rapid.IntRange(1, 4).Draw(t, "fields") {
			pick := rapid.IntRange(0, len(names)-1).Draw(t, "name")
			name := names[pick]
			names = slices.Delete(names, pick, pick+1)
			tag := rapid.SampledFrom([]string{"", "", "", `json:"A"`, `json:"B"`, `json:"C,omitempty"`, `json:"a"`}).Draw(t, "tag")
			field := reflect.StructField{Name: name, Type: reflect.TypeFor[int](), Tag: reflect.StructTag(tag)}
			var view types.Type = types.Typ[types.Int]
			if n > 0 && rapid.Bool().Draw(t, "embeds") {
				inner := shapes[rapid.IntRange(0, n-1).Draw(t, "inner")]
				field.Type, view, field.Anonymous = inner.real, inner.view, true
				if rapid.IntRange(0, 3).Draw(t, "pointer") == 0 {
					field.Type, view = reflect.PointerTo(field.Type), types.NewPointer(view)
				}
			}
			real = append(real, field)
			vars = append(vars, types.NewField(pos, from, name, view, field.Anonymous))
			tags = append(tags, tag)
			pos++
		}
		shapes = append(shapes, shape{reflect.StructOf(real), types.NewStruct(vars, tags)})
	}
	return shapes[len(shapes)-1]
}

// fill gives every number a value of its own.
func fill(v reflect.Value, next *int64) {
	switch v.Kind() {
	case reflect.Int:
		*next++
		v.SetInt(*next)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), next)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), next)
		}
	}
}

// TestDominantFields holds the rules of embedding against those of
// encoding/json: a number is lost if and only if a problem is found.
func TestDominantFields(t *testing.T) {
	t.Parallel()
	var good, bad int
	rapid.Check(t, func(t *rapid.T) {
		s := drawShapes(t)
		v := reflect.New(s.real)
		var next int64
		fill(v.Elem(), &next)
		text, err := json.Marshal(v.Interface())
		require.NoError(t, err)
		back := reflect.New(s.real)
		require.NoError(t, json.Unmarshal(text, back.Interface()))
		var found []string
		for _, p := range payload.Check(from, s.view) {
			if !strings.Contains(p.Text, "only in case") {
				found = append(found, fmt.Sprintf("%d %s: %s", p.Pos, p.Path, p.Text))
			}
		}
		kept := next
		var keys map[string]any
		require.NoError(t, json.Unmarshal(text, &keys))
		if same := reflect.DeepEqual(v.Elem().Interface(), back.Elem().Interface()); same {
			require.Empty(t, found, "%s\n%s", s.real, text)
			good++
		} else {
			require.NotEmpty(t, found, "%s\n%s", s.real, text)
			require.Less(t, len(keys), int(kept))
			bad++
		}
	})
	require.NotZero(t, good)
	require.NotZero(t, bad)
}
