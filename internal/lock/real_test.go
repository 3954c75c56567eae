package lock_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/lock"
)

// modes are the two implementations of encoding/json that Go 1.26 has.
var modes = map[string]string{"": "GOEXPERIMENT=", "jsonv2": "GOEXPERIMENT=jsonv2"}

// written is what became of one value, by testdata/roundtrip.
type written struct {
	Case    string
	Forward bool
	Written json.RawMessage
	Error   string
	Read    json.RawMessage
}

// pairs of types for testdata/roundtrip: a name, and two types in Go with their
// packages in quotes.
type program struct {
	files map[string]string // by path in the module
	pairs []string          // lines of cases.go
	uses  []string          // its imports
}

func (p *program) pair(name, oldPkg, oldType, newPkg, newType string) {
	p.pairs = append(p.pairs, fmt.Sprintf("{%q, reflect.TypeFor[%s.%s](), reflect.TypeFor[%s.%s]()},",
		name, oldPkg, oldType, newPkg, newType))
}

// run builds the program and runs it under a mode. The results are by case.
func (p *program) run(t *testing.T, mode string) map[string][]written {
	t.Helper()
	dir := t.TempDir()
	main, err := os.ReadFile(filepath.Join("testdata", "roundtrip", "main.go"))
	require.NoError(t, err)
	imports := ""
	for _, pkg := range p.uses {
		imports += "\t" + pkg + "\n"
	}
	files := map[string]string{
		"go.mod":   "module roundtrip\n\ngo 1.26\n",
		"main.go":  string(main),
		"cases.go": fmt.Sprintf("package main\n\nimport (\n\t\"reflect\"\n%s)\n\nvar pairs = []pair{\n%s\n}\n", imports, strings.Join(p.pairs, "\n")),
	}
	for path, text := range p.files {
		files[path] = text
	}
	for path, text := range files {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	cmd := exec.Command("go", "run", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), modes[mode], "GOWORK=off", "GOFLAGS=-mod=mod")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	results := map[string][]written{}
	dec := json.NewDecoder(bytes.NewReader(out))
	for dec.More() {
		var w written
		require.NoError(t, dec.Decode(&w))
		results[w.Case] = append(results[w.Case], w)
	}
	return results
}

// seen is the effects that were seen, with an example of each.
type seen map[lock.Effect]string

func (s seen) String() string {
	var out []string
	for effect, example := range s {
		out = append(out, fmt.Sprintf("%s: %s", effect, example))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// trial is two types and what became of their values.
type trial struct {
	name     string
	results  []written
	old, new lock.Shape // of the types that wrote and read
	diff     []lock.Difference
	reserved []string
	byField  bool // values are compared by the name of their field
}

// observe says what happened to the values of one type that the other read.
func (tr trial) observe(t *testing.T, forward bool) seen {
	t.Helper()
	from, to := byPath(tr.old), byPath(tr.new)
	if forward {
		from, to = to, from
	}
	out := seen{}
	for _, r := range tr.results {
		if r.Forward != forward {
			continue
		}
		if r.Error != "" {
			out[lock.Fails] = fmt.Sprintf("%s: %s", r.Written, r.Error)
			continue
		}
		require.Empty(t, from.missing(parse(t, r.Written), ""), "%s: %s has keys that its shape has not", tr.name, r.Written)
		c := comparer{seen: out, example: fmt.Sprintf("%s becomes %s", r.Written, r.Read), from: from, to: to}
		before, after := from.fill(parse(t, r.Written), ""), to.fill(parse(t, r.Read), "")
		if tr.byField {
			before, after = from.named(before), to.named(after)
		}
		c.value(before, after, "")
	}
	return out
}

// check holds the verdicts against what was seen.
func (tr trial) check(t *testing.T) {
	t.Helper()
	require.NotEmpty(t, tr.results, tr.name)
	for _, forward := range []bool{false, true} {
		got := tr.observe(t, forward)
		claims, texts := map[lock.Effect]bool{}, []string{}
		for _, d := range tr.diff {
			v := lock.Judge(d, tr.reserved)
			effect := v.Backward
			if forward {
				effect = v.Forward
			}
			if effect != lock.OK {
				claims[effect] = true
			}
			texts = append(texts, fmt.Sprintf("%s %s %s", v.Rule, d.Path, effect))
		}
		good := claims[lock.Unknown] || len(claims) > 0 || len(got) == 0
		for claim := range claims {
			_, ok := got[claim]
			masked := claims[lock.Fails] && claim != lock.Fails // of a row that does not decode the rest is not seen
			good = good && (ok || masked || claim == lock.Unknown)
		}
		if !good {
			t.Errorf("%s, forward %t: claimed is %s, but\n%s", tr.name, forward, strings.Join(texts, ", "), got)
		}
	}
}

func parse(t *testing.T, text []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v))
	return v
}

type fields map[string]lock.Field

func byPath(s lock.Shape) fields {
	out := fields{}
	for _, f := range s {
		out[f.Path] = f
	}
	return out
}

func (s fields) contents(path string) string {
	switch same := s[path].Same; same {
	case "":
		return path
	case ".":
		return ""
	default:
		return same
	}
}

// keys are the values inside an object, by their key.
func (s fields) keys(path string) map[string]string {
	out := map[string]string{}
	for other := range s {
		if parent, name, ok := lock.Split(other); ok && parent == s.contents(path) && name != "[]" && name != "{}" {
			out[strings.Trim(name, `"`)] = other
		}
	}
	return out
}

// leftOut is in the place of a zero value that was left out: by omitempty,
// omitzero or an embedded pointer.
type leftOut struct{}

// missing are the keys of a value that its shape does not have, or the reverse.
func (s fields) missing(v any, path string) (out []string) {
	within := s.contents(path)
	switch v := v.(type) {
	case map[string]any:
		keys := s.keys(path)
		for key, in := range v {
			switch at, ok := keys[key]; {
			case s[path].Kind == "any" || s[path].Kind == "raw":
			case strings.HasPrefix(string(s[path].Kind), "map "):
				out = append(out, s.missing(in, within+"{}")...)
			case !ok:
				out = append(out, path+" "+key)
			default:
				out = append(out, s.missing(in, at)...)
			}
		}
		for key, at := range keys {
			name := strings.TrimPrefix(strings.TrimPrefix(s[at].Go, s[within].Go), ".")
			if _, ok := v[key]; !ok && s[at].Omit == "" && !strings.Contains(name, ".") { // or it is embedded, and the pointer nil
				out = append(out, at)
			}
		}
	case []any:
		for _, in := range v {
			if _, ok := s[within+"[]"]; ok {
				out = append(out, s.missing(in, within+"[]")...)
			}
		}
	}
	return out
}

// named gives values the names of their fields for keys.
func (s fields) named(v any) any {
	out := map[string]any{}
	for key, at := range s.keys("") {
		out[s[at].Go] = v.(map[string]any)[key]
	}
	return out
}

// fill puts in what was left out, so that only what a value is counts and not
// how it is written.
func (s fields) fill(v any, path string) any {
	switch v := v.(type) {
	case map[string]any:
		if s[path].Kind == "object" {
			for key, at := range s.keys(path) {
				if in, ok := v[key]; ok {
					v[key] = s.fill(in, at)
				} else {
					v[key] = s.zero(at)
				}
			}
		} else {
			for key := range v {
				v[key] = s.fill(v[key], s.contents(path)+"{}")
			}
		}
	case []any:
		for i := range v {
			v[i] = s.fill(v[i], s.contents(path)+"[]")
		}
	}
	return v
}

func (s fields) zero(path string) any {
	word, _, _ := strings.Cut(string(s[path].Kind), " ")
	if s[path].Pointer || slices.Contains([]string{"list", "map", "bytes", "any", "raw"}, word) {
		return nil
	}
	return leftOut{}
}

// comparer finds in what two JSON values differ, as a reader who knows only
// the second has it.
type comparer struct {
	seen
	example  string
	from, to fields
}

func (c comparer) differ(after any) {
	if isZero(after) {
		c.seen[lock.Zero] = c.example
	} else {
		c.seen[lock.Wrong] = c.example
	}
}

func (c comparer) value(before, after any, path string) {
	before, after = meant(before, c.from[path], c.to[path].Kind), meant(after, c.to[path], "")
	if isEmpty(before) && isEmpty(after) {
		return
	}
	if before == any(leftOut{}) || after == any(leftOut{}) {
		if before == nil || !isZero(before) || !isZero(after) {
			c.differ(after)
		}
		return
	}
	switch b := before.(type) {
	case map[string]any:
		a, ok := after.(map[string]any)
		if !ok {
			c.differ(after)
			return
		}
		inside := c.to.keys(path)
		for key, v := range a {
			at := inside[key]
			if c.to[path].Kind != "object" {
				at = c.to.contents(path) + "{}"
			}
			if was, ok := b[key]; ok {
				c.value(was, v, at)
			} else {
				c.differ(v)
			}
		}
		for key := range b {
			if _, ok := a[key]; !ok && (c.to[path].Kind != "object" || c.from[path].Kind != "object") {
				c.seen[lock.Zero] = c.example
			}
		}
	case []any:
		a, ok := after.([]any)
		if !ok || len(a) < len(b) {
			c.differ(after)
			return
		}
		for i := range a {
			if i < len(b) {
				c.value(b[i], a[i], c.to.contents(path)+"[]")
			} else {
				c.differ(a[i])
			}
		}
	case json.Number:
		a, ok := after.(json.Number)
		if !ok || !equal(a, b) {
			c.differ(after)
		}
		c.constant(string(b), path)
	default:
		if before != after {
			c.differ(after)
		}
		c.constant(fmt.Sprint(b), path)
	}
}

// constant looks whether a value that has a name has it for the reader.
func (c comparer) constant(value, path string) {
	was, is := enum(c.from[path]), enum(c.to[path])
	for name, v := range was {
		now, ok := is[name]
		if v == value && len(is) > 0 && (ok && now != v || !slices.Contains(slices.Collect(maps.Values(is)), v)) {
			c.seen[lock.Wrong] = c.example
		}
	}
}

func enum(f lock.Field) map[string]string {
	out := map[string]string{}
	for _, c := range f.Enum {
		name, value, _ := strings.Cut(c, "=")
		out[name] = value
	}
	return out
}

// meant is what a string stands for, to which it is not equal: bytes, or what
// the option string put in quotes. For who reads any JSON it is a string.
func meant(v any, f lock.Field, reader lock.Kind) any {
	text, ok := v.(string)
	if !ok || reader == "any" || reader == "raw" || f.Kind != "bytes" && !f.Quoted {
		return v
	}
	if f.Quoted {
		if reader == "string" && f.Kind != "string" {
			return v
		}
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			return text
		}
		return v
	}
	bytes, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return v
	}
	list := []any{}
	for _, b := range bytes {
		list = append(list, json.Number(strconv.Itoa(int(b))))
	}
	return list
}

func equal(a, b json.Number) bool {
	x, ok := new(big.Rat).SetString(string(a))
	y, ok2 := new(big.Rat).SetString(string(b))
	return ok && ok2 && x.Cmp(y) == 0
}

// isEmpty reports whether a value is nil in Go, or a container with nothing in
// it, which omitempty takes for the same.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

func isZero(v any) bool {
	switch v := v.(type) {
	case nil, leftOut:
	case bool:
		return !v
	case string:
		return v == "" || v == "0001-01-01T00:00:00Z"
	case json.Number:
		return equal(v, "0")
	case []any:
		return !slices.ContainsFunc(v, func(v any) bool { return !isZero(v) })
	case map[string]any:
		for _, v := range v {
			if !isZero(v) {
				return false
			}
		}
	}
	return true
}
