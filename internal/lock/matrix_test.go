package lock_test

import (
	"fmt"
	"testing"

	"github.com/typedoutbox/typedoutbox/internal/lock"
)

// kinds are types of a field F, each tried against each.
var kinds = []string{
	"bool", "string", "int", "int8", "int32", "uint8", "uint32", "uint64", "float32", "float64", "json.Number",
	"[]byte", "json.RawMessage", "any", "time.Time", "time.Duration", "netip.Addr", "*big.Int",
	"[]int32", "[]string", "[]uint8Alias", "[2]int32", "[3]int32", "[3]byte", "[][]string",
	"map[string]int32", "map[int32]int32", "map[uint8]string", "map[netip.Addr]string", "map[string]any",
	"struct{ A int32; B string }", "[]struct{ A int32 }", "struct{ C []int }",
	"struct{ A *int32 }", "map[string]*int32", "struct{ A struct{ B int32 } }", "map[string]struct{ B int32 }", "map[string]struct{ B string }",
	"*int32", "*string", "*[]int32", "*struct{ A int32; B string }", "*any", "**int32",
	"int `json:\",string\"`", "string `json:\",string\"`", "bool `json:\",string\"`", "*float64 `json:\",string\"`",
	"int32 `json:\",omitempty\"`", "*int32 `json:\",omitempty\"`", "[]int32 `json:\",omitzero\"`", "string `json:\",omitempty\"`",
}

// TestMatrix tries each kind of value against each other: what Judge says must
// be what happens, with values at the limits among them.
func TestMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program")
	}
	t.Parallel()
	source := "package kinds\n\nimport (\n\t\"encoding/json\"\n\t\"math/big\"\n\t\"net/netip\"\n\t\"time\"\n)\n\ntype uint8Alias = uint8\n\nvar _ json.Number\nvar _ big.Int\nvar _ netip.Addr\nvar _ time.Time\n"
	for i, kind := range kinds {
		source += fmt.Sprintf("\ntype K%d struct {\n\tF %s\n}\n", i, kind)
	}
	pkg := load(t, source)
	p := program{files: map[string]string{"kinds/kinds.go": source}, uses: []string{`"roundtrip/kinds"`}}
	var shapes []lock.Shape
	for i := range kinds {
		shapes = append(shapes, lock.ShapeOf(pkg, pkg.Scope().Lookup(fmt.Sprintf("K%d", i)).Type()))
		for j := range i + 1 {
			p.pair(fmt.Sprintf("%d %d", j, i), "kinds", fmt.Sprintf("K%d", j), "kinds", fmt.Sprintf("K%d", i))
		}
	}
	for mode := range modes {
		t.Run("mode="+mode, func(t *testing.T) {
			t.Parallel()
			results := p.run(t, mode)
			for i := range kinds {
				for j := range i + 1 {
					name := fmt.Sprintf("%d %d", j, i)
					trial{
						name: kinds[j] + " to " + kinds[i], results: results[name],
						old: shapes[j], new: shapes[i], diff: lock.Diff(shapes[j], shapes[i]),
					}.check(t)
				}
			}
		})
	}
}
