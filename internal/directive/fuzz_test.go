package directive_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/directive"
	"github.com/typedoutbox/typedoutbox/topics"
)

// FuzzParse feeds arbitrary comments. Whatever they hold, positions lie within
// the comment, problems name a remedy, and a directive without a problem keeps
// the promises that the generator relies on.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"//outbox:event orders.created version=2 key=OrderID order=customer:CustomerID alias=order.created",
		"//outbox:event a reserved=a,b compat=both var=X", "//outbox:event a key=:A", "//outbox:event a key=s:t:A.B,C",
		"//outbox:upcast T from=1", "//outbox:retired a.b for good", "//outbox:package handlers=off", "//outbox:allow J06 reason",
		"//outbox:event \"a\" `key=A`", "//outbox:event \"a", "//outbox:", "// outbox:event x", "/*outbox:event x\n * outbox:upcast y\n*/",
		"//outbox:event a =", "//outbox:event a version=", "//outbox:event \"\"", "//outbox:event\u00a0a key=\u00c4", "//Outbox:Event a", "//outbox:event \xff",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !isComment(text) {
			return
		}
		d, problems := directive.Parse(&ast.Comment{Slash: slash, Text: text})
		within := func(pos token.Pos) {
			require.GreaterOrEqual(t, pos, slash)
			require.LessOrEqual(t, pos, slash+token.Pos(len(text)))
		}
		for _, p := range problems {
			within(p.Pos)
			require.Contains(t, p.Text, ";")
		}
		if d == nil {
			return
		}
		require.Equal(t, slash, d.Pos)
		if len(problems) == 0 {
			requireSound(t, d, within)
		}
	})
}

func isComment(text string) bool {
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", text+"\npackage x", parser.ParseComments)
	return err == nil && len(file.Comments) > 0 && len(file.Comments[0].List) == 1 && file.Comments[0].List[0].Text == text
}

func requireSound(t *testing.T, d *directive.Directive, within func(token.Pos)) {
	t.Helper()
	set := 0
	if e := d.Event; e != nil {
		set++
		requireSoundEvent(t, e, within)
	}
	if u := d.Upcast; u != nil {
		set++
		within(u.Type.Pos)
		require.True(t, token.IsIdentifier(u.Type.Text))
		require.Positive(t, u.From.N)
	}
	if r := d.Retired; r != nil {
		set++
		require.NoError(t, topics.CheckName(r.Name.Text))
		require.NotEmpty(t, r.Reason)
	}
	if p := d.Package; p != nil {
		set++
		require.Equal(t, "off", p.Handlers.Text)
	}
	if a := d.Allow; a != nil {
		set++
		require.NotEmpty(t, a.Rule.Text)
		require.NotEmpty(t, a.Reason)
	}
	require.Equal(t, 1, set)
}

func requireSoundEvent(t *testing.T, e *directive.Event, within func(token.Pos)) {
	t.Helper()
	require.NoError(t, topics.CheckName(e.Name.Text))
	require.NoError(t, topics.CheckName(e.Scope()))
	require.True(t, e.Version.N >= 1 && e.Version.N <= directive.MaxVersion)
	seen := map[string]bool{e.Name.Text: true}
	for _, alias := range e.Aliases {
		within(alias.Pos)
		require.NoError(t, topics.CheckName(alias.Text))
		require.False(t, seen[alias.Text])
		seen[alias.Text] = true
	}
	if e.Var.Text != "" {
		require.True(t, token.IsIdentifier(e.Var.Text))
	}
	for _, k := range []*directive.Key{e.Key, e.Order} {
		if k == nil {
			continue
		}
		require.NotEmpty(t, k.Fields)
		if k.Scope.Text != "" {
			require.NoError(t, topics.CheckName(k.Scope.Text))
		}
		for _, field := range k.Fields {
			within(field.Pos)
			for part := range strings.SplitSeq(field.Text, ".") {
				require.True(t, token.IsIdentifier(part) && token.IsExported(part))
			}
		}
	}
}
