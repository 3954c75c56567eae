package lock_test

import (
	"flag"
	"fmt"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/typedoutbox/typedoutbox/internal/lock"
	"github.com/typedoutbox/typedoutbox/internal/payload"
)

var update = flag.Bool("update", false, "rewrite what the cases in testdata want")

// row is a row of the table of rules: a txtar file whose name begins with the
// rule. It holds old.go and new.go, two states of a package of which each type
// whose name begins with Event is compared; older.go, if rows are of a state
// before old.go; and what is wanted of each type:
//
//	NAME
//	RULE CHANGE PATH: BACKWARD, FORWARD (note or always)
//		TEXT
//		KEEP
//	check PATH: TEXT       what package payload has against it, new.go
//	json: EFFECTS, EFFECTS what encoding/json did, from old to new and back;
//	                       with jsonv2: where GOEXPERIMENT=jsonv2 differs
//
// Its comment says what it is about, followed by settings, one a line:
//
//	reserved: PATH   a reserved path
//	fields           values are compared by the names of fields, not by keys
//	neutral          nothing differs
type row struct {
	name     string
	archive  *txtar.Archive
	reserved []string
	fields   bool
	neutral  bool
	source   map[string]string // by name of the file, without .go
	types    map[string]*types.Package
}

func rows(t *testing.T) []*row {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var list []*row
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		r := &row{
			name: strings.TrimSuffix(filepath.Base(file), ".txtar"), archive: archive,
			source: map[string]string{}, types: map[string]*types.Package{},
		}
		for line := range strings.Lines(string(archive.Comment)) {
			line = strings.TrimSpace(line)
			if path, ok := strings.CutPrefix(line, "reserved: "); ok {
				r.reserved = append(r.reserved, path)
			}
			r.fields = r.fields || line == "fields"
			r.neutral = r.neutral || line == "neutral"
		}
		for _, f := range archive.Files {
			if name, ok := strings.CutSuffix(f.Name, ".go"); ok {
				r.source[name] = string(f.Data)
				r.types[name] = load(t, string(f.Data))
			}
		}
		list = append(list, r)
	}
	return list
}

// events are the types that are compared.
func (r *row) events() []string {
	return slices.DeleteFunc(r.types["old"].Scope().Names(), func(name string) bool { return !strings.HasPrefix(name, "Event") })
}

func (r *row) typeOf(state, name string) types.Type {
	return r.types[state].Scope().Lookup(name).Type()
}

func (r *row) shape(state, name string) lock.Shape {
	return lock.ShapeOf(r.types[state], r.typeOf(state, name))
}

// writes is the state whose rows the new one reads.
func (r *row) writes() string {
	if r.source["older"] != "" {
		return "older"
	}
	return "old"
}

// TestTable holds what Judge says of each row against what is wanted, and
// against what encoding/json does with values of the two types.
func TestTable(t *testing.T) {
	t.Parallel()
	list := rows(t)
	results := map[string]map[string][]written{}
	if !testing.Short() {
		p := program{files: map[string]string{}}
		for i, r := range list {
			for state, source := range r.source {
				p.files[fmt.Sprintf("c%d/%s/p.go", i, state)] = source
			}
			from, to := fmt.Sprintf("c%d%s", i, r.writes()), fmt.Sprintf("c%dnew", i)
			p.uses = append(p.uses, fmt.Sprintf("%s \"roundtrip/c%d/%s\"", from, i, r.writes()), fmt.Sprintf("%s \"roundtrip/c%d/new\"", to, i))
			for _, name := range r.events() {
				p.pair(r.name+" "+name, from, name, to, name)
			}
		}
		for mode := range modes {
			results[mode] = p.run(t, mode)
		}
	}
	for _, r := range list {
		t.Run(r.name, func(t *testing.T) {
			got := ""
			for _, name := range r.events() {
				got += name + "\n" + r.verdicts(t, name) + r.checks(name) + r.reality(t, name, results)
			}
			r.compare(t, got)
		})
	}
	for n := 1; n <= 44; n++ {
		rule := fmt.Sprintf("J%02d", n)
		if n == 22 { // was never a rule
			continue
		}
		named := slices.ContainsFunc(list, func(r *row) bool { return strings.HasPrefix(r.name, rule+"-") })
		require.True(t, named, "no case for %s", rule)
	}
}

func (r *row) verdicts(t *testing.T, name string) string {
	text := ""
	for _, d := range lock.Diff(r.shape("old", name), r.shape("new", name)) {
		v := lock.Judge(d, r.reserved)
		flag := ""
		if v.Note {
			flag = " (note)"
		} else if v.Always {
			flag = " (always)"
		}
		require.Equal(t, v.Refused(false), v.Keep != "", "a way out where there is one to find")
		text += fmt.Sprintf("%s %s %q: %s, %s%s\n\t%s\n", v.Rule, d.Change, d.Path, v.Backward, v.Forward, flag, v.Text)
		if v.Keep != "" {
			text += "\t" + v.Keep + "\n"
		}
	}
	return text
}

func (r *row) checks(name string) string {
	text := ""
	for _, p := range payload.Check(r.types["new"], r.typeOf("new", name)) {
		text += fmt.Sprintf("check %q: %s\n", p.Path, p.Text)
	}
	return text
}

// reality says what was seen, and fails if it is not what Judge says. What
// package payload refuses need not come back from its own type, either.
func (r *row) reality(t *testing.T, name string, results map[string]map[string][]written) string {
	text := ""
	for _, mode := range slices.Sorted(maps.Keys(results)) {
		tr := trial{
			name: name, results: results[mode][r.name+" "+name], old: r.shape(r.writes(), name), new: r.shape("new", name),
			diff: lock.Diff(r.shape("old", name), r.shape("new", name)), reserved: r.reserved, byField: r.fields,
		}
		line := fmt.Sprintf(": %s; %s\n", tr.observe(t, false).effects(), tr.observe(t, true).effects())
		if mode == "" {
			text = "json" + line
			if r.checks(name) == "" {
				tr.check(t)
			}
		} else if "json"+line != text {
			text += mode + line
		}
	}
	return text
}

func (s seen) effects() string {
	if len(s) == 0 {
		return "ok"
	}
	var out []string
	for effect := range s {
		out = append(out, string(effect))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// compare holds what came out against the last file of the case.
func (r *row) compare(t *testing.T, got string) {
	t.Helper()
	files := slices.DeleteFunc(slices.Clone(r.archive.Files), func(f txtar.File) bool { return strings.HasSuffix(f.Name, ".go") })
	want := ""
	for _, f := range files {
		want += string(f.Data)
	}
	if testing.Short() {
		want = withoutReality(want)
	} else if *update {
		r.archive.Files = append(slices.DeleteFunc(r.archive.Files, func(f txtar.File) bool { return f.Name == "want" }), txtar.File{Name: "want", Data: []byte(got)})
		require.NoError(t, os.WriteFile(filepath.Join("testdata", r.name+".txtar"), txtar.Format(r.archive), 0o644))
		return
	}
	require.Equal(t, want, got)
	switch rule := r.name[:3] + " "; {
	case r.neutral:
		require.NotContains(t, got, "\nJ")
	case !strings.Contains(got, "\ncheck "): // by package payload, which has no rules
		require.Contains(t, got, rule)
	}
}

func withoutReality(want string) string {
	var out strings.Builder
	for line := range strings.Lines(want) {
		if !strings.HasPrefix(line, "json") {
			out.WriteString(line)
		}
	}
	return out.String()
}
