package lock_test

import (
	"fmt"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/lock"
)

// lines is a shape, a field a line.
func lines(s lock.Shape) string {
	var out strings.Builder
	for _, f := range s {
		fmt.Fprintf(&out, "%s: %s", f.Path, f.Kind)
		for word, is := range map[string]bool{" pointer": f.Pointer} {
			if is {
				out.WriteString(word)
			}
		}
		for _, word := range []string{f.Omit, strings.Join(f.Enum, ","), f.Same} {
			if word != "" {
				out.WriteString(" " + word)
			}
		}
		if f.Null {
			out.WriteString(" null")
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// TestShape takes the shape of a type E. What encoding/json writes of each kind
// is in TestMatrix.
func TestShape(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ source, want string }{
		"names count for nothing": {
			`type Name string; type Names = []Name; type Data []byte; type Stamp = time.Time
			type E struct { A Name; B Names; C Data; D Stamp; E map[Name]int8; F struct{ G bool } }`,
			`: object
			A: string
			B: list null
			B[]: string
			C: bytes null
			D: time
			E: map string null
			E{}: int8
			F: object
			F.G: bool`,
		},
		"keys": {
			"type E struct { A int `json:\"a b\"`; B int `json:\"x.y\"`; C int `json:\"-\"`; D int `json:\"-,\"`; É int; E1_2 int }",
			`: object
			"a b": int64
			"x.y": int64
			"É": int64
			-: int64
			E1_2: int64`,
		},
		"null": {
			"type E struct { A *int; B *int `json:\",omitempty\"`; C []int `json:\",omitzero\"`; D any; E **bool; F *[]int; G json.RawMessage }",
			`: object
			A: int64 pointer null
			B: int64 pointer omitempty
			C: list omitzero
			C[]: int64
			D: any null
			E: bool pointer null
			F: list pointer null
			F[]: int64
			G: raw null`,
		},
		"recursion": {
			`type E struct { Next *E; L []Node }; type Node struct { Up *E; Down []Node; M Tree; S S }; type Tree map[string]Tree; type S []S`,
			`: object
			L: list null
			L[]: object
			L[].Down: list null
			L[].Down[]: object L[]
			L[].M: map string null
			L[].M{}: map string L[].M null
			L[].S: list null
			L[].S[]: list L[].S null
			L[].Up: object pointer . null
			Next: object pointer . null`,
		},
		"the same twice": {
			`type E struct { A, B Money }; type Money struct { N int }`,
			`: object
			A: object
			A.N: int64
			B: object
			B.N: int64`,
		},
		"generic": {
			`type E struct { A Box[int]; B Box[Box[string]]; C Chain[bool] }
			type Box[T any] struct { V T }; type Chain[T any] struct { V T; Next *Chain[T] }`,
			`: object
			A: object
			A.V: int64
			B: object
			B.V: object
			B.V.V: string
			C: object
			C.Next: object pointer C null
			C.V: bool`,
		},
		"embedded": {
			"type E struct { Base; *Other; Tagged `json:\"t\"`; ID string }; type Base struct { ID int; A int }; type Other struct { A int; B *int }; type Tagged struct { C int }",
			`: object
			B: int64 pointer null
			ID: string
			t: object
			t.C: int64`,
		},
		"own methods": {
			`type E struct { V Value; P Pointer; Q *Pointer; L []Pointer; A netip.Addr; B *big.Int; K map[netip.Addr]int; I error }
			type Value int; func (Value) MarshalJSON() ([]byte, error) { return nil, nil }
			type Pointer int; func (*Pointer) MarshalText() ([]byte, error) { return nil, nil }`,
			`: object
			A: text net/netip.Addr
			B: opaque math/big.Int pointer null
			I: opaque error
			K: map text net/netip.Addr null
			K{}: int64
			L: list null
			L[]: text Pointer
			P: text *Pointer
			Q: text Pointer pointer null
			V: opaque Value`,
		},
		"constants": {
			`type E struct { S Status; P *Word; L []small; M map[Status]time.Month; D time.Duration; N none }
			type Status int; const ( New Status = iota + 1; Paid; count = iota; last Status = 9 )
			type Word string; const ( A Word = "a=b"; B Word = "b" )
			type small uint8; const x small = 7; const other = 8
			type none int`,
			`: object
			D: duration
			L: bytes null
			M: map int64 null
			M{}: int64
			N: int64
			P: string pointer A=a=b,B=b null
			S: int64 New=1,Paid=2`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			imports := ""
			for _, path := range []string{"encoding/json", "math/big", "net/netip", "time"} {
				if strings.Contains(tt.source, path[strings.Index(path, "/")+1:]+".") {
					imports += fmt.Sprintf("import %q\n", path)
				}
			}
			pkg := load(t, "package p\n"+imports+tt.source)
			want := strings.ReplaceAll(tt.want, "\t", "") + "\n"
			require.Equal(t, want, lines(lock.ShapeOf(pkg, pkg.Scope().Lookup("E").Type())))
		})
	}
}

// TestForeign takes the constants of another package of the module, which
// export data has only as far as they are exported, and spells its types in
// full.
func TestForeign(t *testing.T) {
	t.Parallel()
	pkg := load(t, "package p\ntype E struct { S Status; M Money }\ntype Status int; const ( New Status = 1; old Status = 2 )\ntype hidden int; const h hidden = 1\ntype H struct{ H hidden }\n"+
		"type Money struct{}; func (Money) MarshalJSON() ([]byte, error) { return nil, nil }")
	from := types.NewPackage("example.com/q", "q")
	require.Equal(t, ": object\nM: opaque example.com/p.Money\nS: int64 New=1\n", lines(lock.ShapeOf(from, pkg.Scope().Lookup("E").Type())))
	require.Equal(t, ": object\nH: int64\n", lines(lock.ShapeOf(from, pkg.Scope().Lookup("H").Type())))
	require.Equal(t, ": object\nH: int64 h=1\n", lines(lock.ShapeOf(pkg, pkg.Scope().Lookup("H").Type())))
	for _, f := range lock.ShapeOf(from, pkg.Scope().Lookup("E").Type()) {
		require.Equal(t, token.NoPos, f.Pos)
	}
}

func TestPos(t *testing.T) {
	t.Parallel()
	pkg := load(t, "package p\n\ntype E struct {\n\tA []struct {\n\t\tB int\n\t}\n\tBase\n\tM map[string]*Base\n}\n\ntype Base struct {\n\tC int\n}\n")
	var got []string
	for _, f := range lock.ShapeOf(pkg, pkg.Scope().Lookup("E").Type()) {
		got = append(got, fmt.Sprintf("%s %s %d", f.Path, f.Go, fset.Position(f.Pos).Line))
	}
	require.Equal(t, []string{"  3", "A A 4", "A[] A[] 4", "A[].B A[].B 5", "C Base.C 12", "M M 8", "M{} M{} 8", "M{}.C M{}.C 12"}, got)
}

// TestSize has types that, written out, would have no end of fields.
func TestSize(t *testing.T) {
	t.Parallel()
	clique, doubling := "package p\n", "package p\n"
	for i := range 12 {
		clique += fmt.Sprintf("type E%d struct {", i)
		for j := range 12 {
			clique += fmt.Sprintf("F%d *E%d;", j, j)
		}
		clique += "}\n"
	}
	for i := range 30 {
		doubling += fmt.Sprintf("type E%d struct { A, B *E%d }\n", i, i+1)
	}
	doubling += "type E30 struct { A int }\n"
	for _, source := range []string{clique, doubling} {
		pkg := load(t, source)
		shape := lock.ShapeOf(pkg, pkg.Scope().Lookup("E0").Type())
		require.Less(t, len(shape), 1500)
		require.Greater(t, len(shape), 1000)
		require.Empty(t, lock.Diff(shape, shape))
		file := &lock.File{Events: []lock.Event{{Topic: "a", Version: 1, Versions: []lock.Version{{N: 1, Shape: shape}}}}}
		_, err := lock.Parse(file.Format())
		require.NoError(t, err)
	}
}
