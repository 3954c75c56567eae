package lock_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/lock"
)

// maker turns bytes into declarations of types: each byte is a choice, and
// without bytes all is as simple as can be.
type maker struct{ choices []byte }

func (m *maker) choose(n int) int {
	if len(m.choices) == 0 {
		return 0
	}
	c := m.choices[0]
	m.choices = m.choices[1:]
	return int(c) % n
}

const helpers = `package p

import (
	"encoding/json"
	"time"
)

type Code int

const (
	One Code = 1
	two Code = 2
)

type Word string

const Hello Word = "hello"

type Text struct{ a int }

func (Text) MarshalText() ([]byte, error)  { return nil, nil }
func (*Text) UnmarshalText(_ []byte) error { return nil }

type Own struct{ a int }

func (*Own) MarshalJSON() ([]byte, error)  { return nil, nil }
func (*Own) UnmarshalJSON(_ []byte) error { return nil }

type Box[T any] struct{ V T }
type Chain[T any] struct {
	V    T
	Next *Chain[T]
}
type Grow[T any] struct{ Next *Grow[[]T] }
type Wide[T any] []Wide[map[string]T]
type Alias = Box[int]
type Deep []Deep
type Ring map[string]Ring
type Loop *Loop

var _ json.Number
var _ time.Time
`

// source declares T0 to T3, which may hold each other.
func (m *maker) source() string {
	var b strings.Builder
	b.WriteString(helpers)
	for i := range 4 {
		fmt.Fprintf(&b, "\ntype T%d struct {\n", i)
		for j := range m.choose(6) {
			name := fmt.Sprintf("F%d ", j)
			tags := []string{"", "", `json:"k"`, `json:"K"`, `json:"a b"`, `json:",omitempty"`, `json:",string"`, `json:"-"`, `json:"x,omitzero"`, `json:"é"`, `json:",odd"`}
			tag := tags[m.choose(len(tags))]
			typ := m.typ(3)
			if m.choose(5) == 4 {
				name, typ = "", []string{"T0", "T1", "*T2", "T3", "Box[int]", "time.Time", "*Text"}[m.choose(7)]
			}
			fmt.Fprintf(&b, "\t%s%s `%s`\n", name, typ, tag)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func (m *maker) typ(depth int) string {
	plain := []string{
		"int", "string", "bool", "int8", "uint32", "float32", "float64", "[]byte", "any", "time.Time", "time.Duration", "json.Number", "json.RawMessage",
		"Code", "Word", "Text", "*Text", "Own", "*Own", "Alias", "Deep", "Ring", "Loop", "Grow[int]", "Wide[int]", "T0", "*T0", "T1", "*T1", "[]T2", "map[string]T3", "T2",
		"chan int", "func()", "error", "complex64", "[4]byte", "Missing", "struct{}",
	}
	n := m.choose(len(plain) + 8)
	if n < len(plain) || depth == 0 {
		return plain[n%len(plain)]
	}
	in := m.typ(depth - 1)
	return fmt.Sprintf([]string{"*%s", "[]%s", "[2]%s", "map[string]%s", "map[Code]%s", "map[Text]%s", "Chain[%s]", "struct{ A, B %s }"}[n-len(plain)], in)
}

// check is load for what need not compile.
func check(t *testing.T, source string) *types.Package {
	t.Helper()
	loading.Lock()
	defer loading.Unlock()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", source, parser.SkipObjectResolution)
	require.NoError(t, err, source)
	conf := types.Config{Importer: standard, Error: func(error) {}}
	pkg, _ := conf.Check("example.com/p", fset, []*ast.File{file}, nil)
	return pkg
}

func shapesOf(t *testing.T, choices []byte) []lock.Shape {
	t.Helper()
	m := maker{choices}
	pkg := check(t, m.source())
	var out []lock.Shape
	for i := range 4 {
		out = append(out, lock.ShapeOf(pkg, pkg.Scope().Lookup(fmt.Sprintf("T%d", i)).Type()))
	}
	return out
}

// stored is a shape without the positions, which a file does not have.
func stored(s lock.Shape) lock.Shape {
	s = slices.Clone(s)
	for i := range s {
		s[i].Pos = token.NoPos
	}
	return s
}

func seeds() [][]byte {
	var out [][]byte
	for i := range 16 {
		seed := make([]byte, 60)
		for j := range seed {
			seed[j] = byte((i + 1) * (j + 3) * 7919 >> 3)
		}
		out = append(out, seed)
	}
	return append(out, nil)
}

// Whatever the types, their shape is one, is the same each time, and can be
// stored.
func FuzzShape(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		shapes, again := shapesOf(t, choices), shapesOf(t, choices)
		for i, shape := range shapes {
			require.Equal(t, stored(again[i]), stored(shape))
			require.Less(t, len(shape), 5000)
			file := &lock.File{Events: []lock.Event{{Topic: "a", Version: 1, Versions: []lock.Version{{N: 1, Shape: shape}}}}}
			text := file.Format()
			back, err := lock.Parse(text)
			require.NoError(t, err, string(text))
			require.Equal(t, stored(shape), back.Events[0].Versions[0].Shape)
		}
	})
}

// Whatever two types are, what differs from one to the other is what differs
// the other way, and there is a verdict for it.
func FuzzDiff(f *testing.F) {
	all := seeds()
	for i := range all {
		f.Add(all[i], all[(i+1)%len(all)])
		changed := slices.Clone(all[i])
		for j := 5; j < len(changed); j += 9 {
			changed[j]++
		}
		f.Add(all[i], changed)
	}
	f.Fuzz(func(t *testing.T, old, new []byte) {
		olds, news := shapesOf(t, old), shapesOf(t, new)
		for i := range olds {
			a, b := olds[i], news[i]
			require.Empty(t, lock.Diff(a, a))
			there, back := lock.Diff(a, b), lock.Diff(b, a)
			require.ElementsMatch(t, places(there, false), places(back, true))
			for _, d := range append(there, back...) {
				judged(t, d)
			}
			merged := lock.Merge(a, b)
			require.Empty(t, lock.Diff(merged, b))
			require.Equal(t, merged, lock.Merge(a, merged))
			require.Equal(t, merged, lock.Merge(merged, b))
		}
	})
}

// places are where differences are, those of the reverse turned around.
func places(list []lock.Difference, reverse bool) []string {
	var out []string
	for _, d := range list {
		o, n := "", ""
		if d.Old != nil && d.Change != lock.Folded {
			o = d.Old.Path + " " + string(d.Old.Kind)
		}
		if d.New != nil {
			n = d.New.Path + " " + string(d.New.Kind)
		}
		if reverse {
			o, n = n, o
		}
		path := d.Path
		if d.Change == lock.Renamed {
			path = "" // the new one
		}
		out = append(out, fmt.Sprintf("%s: %s -> %s", path, o, n))
	}
	return out
}

func judged(t *testing.T, d lock.Difference) {
	t.Helper()
	for _, reserved := range [][]string{nil, {d.Path}, {"k", "F0"}} {
		v := lock.Judge(d, reserved)
		require.Regexp(t, `^J\d\d$`, v.Rule)
		require.NotContains(t, v.Text+v.Keep, "%!")
		require.Contains(t, v.Text, ": ")
		require.Equal(t, v.Refused(false), v.Keep != "")
		require.False(t, v.Refused(true) && !v.Refused(false))
		require.NotEmpty(t, v.Backward)
		require.NotEmpty(t, v.Forward)
	}
}

// Whatever a file holds, it is refused with a place and a way out, or means
// the same once it is written again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(history))
	f.Add([]byte(strings.ReplaceAll(history, "\n", "")))
	for _, cut := range []int{10, 100, 400, 900} {
		f.Add([]byte(history[:cut]))
	}
	for _, text := range []string{``, `{}`, `[]`, `{"format":1}`, `{"format":1,"events":null}`, `{"format":1,"events":[null]}`, `{"format":1,"events":[{"versions":[{"fields":[null]}]}]}`, "\ufeff{}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := lock.Parse(data)
		if err != nil {
			var parse *lock.ParseError
			require.ErrorAs(t, err, &parse)
			require.Positive(t, parse.Line)
			require.Positive(t, parse.Column)
			require.Contains(t, parse.Text, "; ")
			return
		}
		text := file.Format()
		again, err := lock.Parse(text)
		require.NoError(t, err, string(text))
		require.Equal(t, file, again)
		require.Equal(t, string(text), string(again.Format()))
		for _, e := range file.Events {
			for _, v := range e.Versions {
				for _, d := range append(lock.Diff(v.Shape, e.Versions[0].Shape), lock.Diff(e.Versions[0].Shape, v.Shape)...) {
					judged(t, d)
				}
			}
		}
	})
}
