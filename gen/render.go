package gen

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// render returns the content of the unit's output.
func (u *unit) render() []byte {
	slices.SortFunc(u.events, func(a, b *event) int { return strings.Compare(a.Name.Text, b.Name.Text) })
	w := newWriter()
	for _, e := range u.events {
		w.topic(e)
	}
	w.infos(u.events)
	w.handlers(u)
	w.guards(u.guards(w))
	imports, body := u.imports(w)
	formatted, err := format.Source(fmt.Appendf(nil, "%s\n\npackage %s\n\n%s%s", header, u.pkg.Name, imports, body))
	if err != nil {
		u.report.addf(u.events[0].pos, "the generated code does not parse (%v); report this as a bug of outboxgen", err)
		return nil
	}
	u.checkHidden(formatted)
	return formatted
}

// renderEmpty returns the output of a unit whose events are gone, as go generate
// leaves it.
func (u *unit) renderEmpty() []byte {
	return fmt.Appendf(nil, "%s\n\npackage %s\n\n// No events are left here, and this file may be deleted.\n", header, u.pkg.Name)
}

func importSpec(name, path string) string {
	if path == name || strings.HasSuffix(path, "/"+name) {
		return strconv.Quote(path)
	}
	return name + " " + strconv.Quote(path)
}

// predeclared are the names that generated code means as Go does. Those within
// the types of guards are the speller's.
var predeclared = []string{"error", "int", "int64", "nil", "string", "uint64"}

// checkHidden reports declarations of the package that hide a predeclared name
// which the generated code needs.
func (u *unit) checkHidden(src []byte) {
	if !slices.ContainsFunc(predeclared, func(name string) bool { return u.taken[name].IsValid() }) {
		return // as nearly always
	}
	f, err := parser.ParseFile(token.NewFileSet(), outputName, src, parser.SkipObjectResolution)
	if err != nil {
		return
	}
	reported := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if ok && u.taken[id.Name].IsValid() && slices.Contains(predeclared, id.Name) && !reported[id.Name] {
			reported[id.Name] = true
			u.report.addf(u.taken[id.Name], "%s hides the predeclared %s, which generated code needs; rename it", id.Name, id.Name)
		}
		return true
	})
}

// writer writes the declarations of one output.
type writer struct {
	body    bytes.Buffer
	topics  string            // how the import is written in body
	strconv string            // likewise
	bases   map[string]string // what packages call themselves, by path
}

// importMark surrounds, in body, the path of a package where its name is to
// stand: names are given when all imports are known.
const importMark = "\x00"

func marked(path string) string { return importMark + path + importMark }

func newWriter() *writer {
	return &writer{
		topics: marked(topicsPath), strconv: marked("strconv"),
		bases: map[string]string{topicsPath: "topics", "strconv": "strconv"},
	}
}

// knows notes what packages call themselves.
func (w *writer) knows(pkgs []*types.Package) {
	for _, pkg := range pkgs {
		w.bases[pkg.Path()] = pkg.Name()
	}
}

// imports names the packages that body uses and returns their declaration and
// body with the names.
func (u *unit) imports(w *writer) (decl, body string) {
	taken := map[string]bool{}
	for _, e := range u.events {
		taken[e.ident] = true
	}
	body = w.body.String()
	var std, others, names []string
	for _, path := range slices.Sorted(maps.Keys(w.bases)) {
		if !strings.Contains(body, marked(path)) {
			continue
		}
		name := u.importName(w.bases[path], taken)
		names = append(names, marked(path), name)
		if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") {
			others = append(others, importSpec(name, path))
		} else {
			std = append(std, importSpec(name, path))
		}
	}
	body = strings.NewReplacer(names...).Replace(body)
	switch specs := slices.Concat(std, others); {
	case len(specs) == 1:
		return "import " + specs[0] + "\n", body
	case len(std) > 0:
		return "import (\n" + strings.Join(std, "\n") + "\n\n" + strings.Join(others, "\n") + "\n)\n", body
	}
	return "import (\n" + strings.Join(others, "\n") + "\n)\n", body
}

func (w *writer) printf(format string, args ...any) { fmt.Fprintf(&w.body, format, args...) }

func (w *writer) topic(e *event) {
	w.printf("\n// %s is the topic %q, whose payload is %s.\n", e.ident, e.Name.Text, e.typeName())
	if e.Version.N == 1 && len(e.Aliases) == 0 && e.key == nil && e.order == nil {
		w.printf("var %s = %s.New[%s](%q, nil)\n", e.ident, w.topics, e.typeName(), e.Name.Text)
		return
	}
	w.printf("var %s = %s.New(%q, &%s.Options[%s]{\n", e.ident, w.topics, e.Name.Text, w.topics, e.typeName())
	if e.Version.N > 1 {
		w.printf("Version: %d,\n", e.Version.N)
	}
	if len(e.Aliases) > 0 {
		quoted := make([]string, len(e.Aliases))
		for i, alias := range e.Aliases {
			quoted[i] = strconv.Quote(alias.Text)
		}
		w.printf("Aliases: []string{%s},\n", strings.Join(quoted, ", "))
	}
	w.keyFunc(e, "Key", e.key)
	w.keyFunc(e, "Order", e.order)
	w.upcasts(e)
	w.printf("})\n")
}

func (w *writer) upcasts(e *event) {
	switch {
	case e.Version.N == 2:
		w.printf("Upcast: map[int]%s.Upcaster{1: %s.Upcast(%s)},\n", w.topics, w.topics, e.steps[1].name())
	case e.Version.N > 2:
		w.printf("Upcast: map[int]%s.Upcaster{\n", w.topics)
		for n := 1; n < e.Version.N; n++ {
			w.printf("%d: %s.Upcast(%s),\n", n, w.topics, e.steps[n].name())
		}
		w.printf("},\n")
	}
}

// keyFunc writes a derived key. JoinKey takes parts that are all empty for no
// key; where zero does not print as "", it is tested for.
func (w *writer) keyFunc(e *event, field string, k *keyFunc) {
	if k == nil {
		return
	}
	v := "e"
	if e.typeName() == v { // the parameter would hide the type
		v = "event"
	}
	parts := make([]string, len(k.parts))
	zeros := make([]string, len(k.parts))
	tested, compared := false, false
	for i, p := range k.parts {
		parts[i], zeros[i] = w.part(v, p)
		tested = tested || p.kind != partString
		compared = compared || p.kind == partStringer
	}
	join := fmt.Sprintf("return %s.JoinKey(%q, %s)", w.topics, k.scope, strings.Join(parts, ", "))
	if !tested {
		w.printf("%s: func(%s %s) string { %s },\n", field, v, e.typeName(), join)
		return
	}
	w.printf("%s: func(%s %s) string {\n", field, v, e.typeName())
	if compared {
		w.printf("var zero %s\n", e.typeName())
	}
	w.printf("if %s {\nreturn \"\"\n}\n%s\n},\n", strings.Join(zeros, " && "), join)
}

// part returns a field as a string, and the test whether it is zero.
func (w *writer) part(v string, p keyPart) (text, zero string) {
	v += "." + p.path
	convert := func(to string) string {
		if p.plain {
			return v
		}
		return to + "(" + v + ")"
	}
	switch p.kind {
	case partString:
		return convert("string"), v + ` == ""`
	case partInt:
		return w.strconv + ".FormatInt(" + convert("int64") + ", 10)", v + " == 0"
	case partUint:
		return w.strconv + ".FormatUint(" + convert("uint64") + ", 10)", v + " == 0"
	}
	return v + ".String()", v + " == zero." + p.path
}

// infos writes the function that lists the topics.
func (w *writer) infos(events []*event) {
	w.printf("\n// %s describes the topics of this package, sorted by name.\n", infosFunc)
	w.printf("func %s() []%s.Info {\nreturn []%s.Info{\n", infosFunc, w.topics, w.topics)
	for _, e := range events {
		w.printf("%s.Info(),\n", e.ident)
	}
	w.printf("}\n}\n")
}
