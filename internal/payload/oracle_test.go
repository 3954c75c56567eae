package payload_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"math/big"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/payload"
)

// outcome is what encoding/json does to a value.
type outcome string

const (
	fine     outcome = "comes back as it was"
	fails    outcome = "is not written"
	lost     outcome = "comes back as another value"
	unread   outcome = "is written and not read"
	panicked outcome = "panics"
)

// roundTrip writes and reads v, as topics do.
func roundTrip(v any) (text string, result outcome) {
	defer func() {
		if recover() != nil {
			result = panicked
		}
	}()
	written, err := json.Marshal(v)
	if err != nil {
		return "", fails
	}
	text = string(written)
	back := reflect.New(reflect.TypeOf(v))
	if err := json.Unmarshal(written, back.Interface()); err != nil {
		return text, unread
	}
	if !reflect.DeepEqual(back.Elem().Interface(), v) {
		return text, lost
	}
	return text, fine
}

// checked is shapes_test.go as go/types sees it.
var checked = sync.OnceValues(func() (*types.Package, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "shapes_test.go", nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	conf := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	return conf.Check("example.com/shapes", fset, []*ast.File{f}, nil)
})

// problemsOf returns the problems of a type of shapes_test.go, as PATH: TEXT
// up to its remedy.
func problemsOf(t *testing.T, name string) []string {
	t.Helper()
	pkg, err := checked()
	require.NoError(t, err)
	obj := pkg.Scope().Lookup(name)
	require.NotNil(t, obj, name)
	var out []string
	for _, p := range payload.Check(pkg, obj.Type()) {
		require.True(t, p.Pos.IsValid())
		what, remedy, ok := strings.Cut(p.Text, "; ")
		require.True(t, ok && remedy != "", p.Text)
		out = append(out, p.Path+": "+what)
	}
	return out
}

// TestOracle holds each claim of Check against what encoding/json does. A type
// without a problem comes back; one with a problem does not, unless its row
// says why it is a problem all the same.
func TestOracle(t *testing.T) {
	t.Parallel()
	n, ch := 7, make(chan int)
	pn := &n
	addr := netip.MustParseAddr("::1")
	for _, tt := range []struct {
		value  any
		json   string // where it tells
		want   outcome
		latent string // why a value that comes back is a problem
	}{
		{value: Plain{
			S: "s", P: pn, L: []Item{{1}}, M: map[int8]Item{1: {2}}, B: []byte{1}, N: "1", R: json.RawMessage(`{}`),
			T: time.Unix(1, 0).UTC(), D: 1, I: big.NewInt(1), IP: addr, X: "x", Q: pn, z: nil,
		}, want: fine},
		{value: Recursive{Next: &Recursive{}, All: map[string][]Recursive{"a": {{}}}}, want: fine},
		{value: Instances{P: Pair[int, Pair[string, []Item]]{1, Pair[string, []Item]{"a", []Item{{1}}}}, L: list{{1, 2}}}, want: fine},

		{value: Chan{ch}, want: fails},
		{value: Func{}, want: fails},
		{value: Complex{[]complex64{1}}, want: fails},
		{value: Pointer{unsafe.Pointer(pn)}, want: fails},
		{value: EmptyArray{}, json: `{"F":[]}`, want: fine},
		{value: Interface{errors.New("a")}, want: unread},
		{value: InterfaceDeep{map[string][]*fmt.Stringer{"a": {new(fmt.Stringer(addr))}}}, want: unread},
		{value: FuncElement{Pair[int, map[string]func()]{B: map[string]func(){"a": nil}}}, want: fails},

		{value: Unexported{1}, json: `{}`, want: lost},
		{value: EmbedNames{names{"a"}}, json: `{}`, want: lost},
		{value: EmbedSkip{names: nil}, json: `{}`, want: fine},
		{value: Foreign{url.URL{User: url.User("a")}}, want: lost},
		{value: ForeignFine{url.Values{"a": {"b"}}}, want: fine},
		{value: Buffer{*bytes.NewBufferString("a")}, json: `{"B":{}}`, want: lost},

		{value: Promoted{base{1}}, json: `{"ID":1}`, want: fine},
		{value: PromotedPtr{&Base{1}}, json: `{"ID":1}`, want: fine},
		{value: NamedEmbed{base{1}, 2}, json: `{"base":{"ID":1},"ID":2}`, want: fine},
		{value: PtrUnexported{&base{1}}, json: `{"ID":1}`, want: unread},
		{value: PtrUnexportedTag{&base{1}}, json: `{"base":{"ID":1}}`, want: panicked},
		{value: Annihilated{Base{1}, Other{2}}, json: `{}`, want: lost},
		{value: Shadowed{Base{1}, 2}, json: `{"ID":2}`, want: lost},
		{value: TagWins{Base{1}, TaggedID{2}}, json: `{"ID":2}`, want: lost},
		{value: Saved{Base{1}, Other{2}, 0}, json: `{}`, want: lost},
		{value: Twice{Level1a{Base{1}}, Level1b{Base{2}}}, json: `{}`, want: lost},
		{value: TwiceDeep{Wraps1{Wrap{Level1a{Base{1}}}}, Wraps2{Wrap{Level1a{Base{2}}}}}, json: `{"ID":1}`, want: lost},
		{value: Again{1, &Again{N: 2}}, json: `{"N":1}`, want: lost},
		{value: Folds{1, 2}, json: `{"id":1,"ID":2}`, want: fine, latent: "who knows one key reads the other"},
		{value: Kelvin{1, 2}, want: fine, latent: "who knows one key reads the other"},
		{value: LongS{1, 2}, want: fine, latent: "who knows one key reads the other"},

		{value: Option{time.Unix(1, 0).UTC()}, json: `{"a":"1970-01-01T00:00:01Z"}`, want: fine, latent: "not what the tag says"},
		{value: Quoted{pn, 1.5, "c"}, json: `{"A":"7","b":"1.5","C":"\"c\""}`, want: fine},
		{value: QuotedSelf{1}, json: `{"A":"#1"}`, want: unread},

		{value: BoolKey{map[bool]int{true: 1}}, want: fails},
		{value: ArrayKey{map[[2]int]int{{}: 1}}, want: fails},
		{value: AnyKey{map[any]int{"a": 1}}, want: fails},
		{value: TextKey{map[netip.Addr]int{addr: 1}}, want: fine},
		{value: BigKey{map[*big.Int]int{big.NewInt(1): 1}}, want: unread},
		{value: NameKey{map[Name]int{"abc": 1}}, json: `{"M":{"abc":1}}`, want: lost},
		{value: LevelKey{map[Level]int{1: 1}}, json: `{"M":{"#1":1}}`, want: fine},
		{value: WriteKey{map[WriteInt]int{1: 1}}, json: `{"M":{"#1":1}}`, want: unread},
		{value: PtrWriteKey{map[PtrInt]int{1: 1}}, json: `{"M":{"1":1}}`, want: unread},

		{value: BigValue{*big.NewInt(1)}, json: `{"I":{}}`, want: unread},
		{value: BigSlice{[]big.Int{*big.NewInt(1)}}, json: `{"I":[1]}`, want: fine},
		{value: BigMap{map[string]big.Int{"a": *big.NewInt(1)}}, json: `{"I":{"a":{}}}`, want: unread},
		{value: BigArray{[1]big.Int{*big.NewInt(1)}}, json: `{"I":[{}]}`, want: unread},
		{value: BigArrayIn{&[1]big.Int{*big.NewInt(1)}}, json: `{"I":[1]}`, want: fine},
		{value: PtrWhole{Opaque{1}}, json: `{}`, want: unread},
		{value: WithRawRoot{Opaque{1}}, json: `{"Opaque":{}}`, want: unread},
		{value: WriteOnly{1}, json: `{"W":"#1"}`, want: unread},
		{value: ReadOnly{1}, json: `{"R":1}`, want: unread},
		{value: Replaced{time.Unix(1, 0).UTC(), "a"}, json: `"1970-01-01T00:00:01Z"`, want: lost},
		{value: ReplacedSkip{Time: time.Unix(1, 0).UTC()}, json: `"1970-01-01T00:00:01Z"`, want: fine},
		{value: NilEmbed{new(time.Unix(1, 0).UTC())}, json: `"1970-01-01T00:00:01Z"`, want: panicked},
		{value: IfaceEmbed{json.RawMessage(`1`)}, json: `1`, want: unread},
		{value: HalfOwn{1, "a"}, json: `"a"`, want: unread},
		{value: HalfAlone{1}, json: `"alone"`, want: unread},
		{value: PtrEmbedBig{&HoldsBig{*big.NewInt(1)}}, json: `{"I":1}`, want: fine},
		{value: ReadBytes{[]ReadOctet{1}}, json: `{"B":"AQ=="}`, want: fine},
		{value: OtherText{time.Unix(1, 0).UTC(), 1}, want: lost},
		{value: Cancel{Opaque{1}, json.RawMessage(`1`)}, json: `{"RawMessage":1}`, want: lost},
		{value: HiddenPanics{hidden{1}, 1}, want: panicked},
		{value: Bytes{[]Octet{1}}, json: `{"B":"AQ=="}`, want: fine},
		{value: TextBytes{[]TextOctet{1}}, json: `{"B":["#1"]}`, want: fine},
	} {
		name := reflect.TypeOf(tt.value).Name()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, got := roundTrip(tt.value)
			require.Equal(t, tt.want, got, text)
			if tt.json != "" {
				require.Equal(t, tt.json, text)
			}
			problems := problemsOf(t, name)
			t.Log(strings.Join(problems, "\n"))
			if tt.want == fine && tt.latent == "" {
				require.Empty(t, problems)
			} else {
				require.NotEmpty(t, problems)
			}
		})
	}
}

// TestFolded shows what keys that differ only in case do to a program that
// knows one of the two fields.
func TestFolded(t *testing.T) {
	t.Parallel()
	for _, v := range []any{Folds{1, 2}, Kelvin{1, 2}, LongS{1, 2}} {
		text, err := json.Marshal(v)
		require.NoError(t, err)
		wrong := 0
		for i := range 2 {
			field := reflect.TypeOf(v).Field(i)
			one := reflect.New(reflect.StructOf([]reflect.StructField{field}))
			require.NoError(t, json.Unmarshal(text, one.Interface()))
			if one.Elem().Field(0).Int() != reflect.ValueOf(v).Field(i).Int() {
				wrong++
			}
		}
		require.NotZero(t, wrong, "%T", v)
		problems := problemsOf(t, reflect.TypeOf(v).Name())
		require.Len(t, problems, 2)
		require.NotEqual(t, problems[0][:2], problems[1][:2], "one at each field")
	}
}

// TestSurvivor says which field takes the key, or that none does; TestOracle
// has what is written.
func TestSurvivor(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Shadowed":    `Base.ID: the key "ID" is taken by ID,`,
		"TagWins":     `Base.ID: the key "ID" is taken by TaggedID.Key,`,
		"Annihilated": `Base.ID: the key "ID" is also that of Other.ID,`,
	} {
		require.Contains(t, problemsOf(t, name)[0], want)
	}
	require.Contains(t, problemsOf(t, "HalfAlone")[0], "but not its counterpart")
}
