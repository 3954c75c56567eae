package directive_test

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/typedoutbox/typedoutbox/internal/directive"
)

const slash = token.Pos(100)

func parse(text string) (*directive.Directive, []directive.Problem) {
	return directive.Parse(&ast.Comment{Slash: slash, Text: text})
}

// word is the first place of part in text, as Parse should report it.
func word(text, part string) directive.Word {
	return directive.Word{Text: part, Pos: slash + token.Pos(strings.Index(text, part))}
}

func TestParseEvent(t *testing.T) {
	t.Parallel()
	const text = "//outbox:event orders.created version=12 key=ID,Customer.Name order=a:b:Kind " +
		"alias=old.two,old.one reserved=note,memo compat=backward var=Created"
	d, problems := parse(text)
	require.Empty(t, problems)
	require.Equal(t, &directive.Directive{Verb: directive.VerbEvent, Pos: slash, Event: &directive.Event{
		Name:     word(text, "orders.created"),
		Version:  directive.Number{N: 12, Pos: word(text, "12").Pos},
		Key:      &directive.Key{Fields: []directive.Word{word(text, "ID"), word(text, "Customer.Name")}},
		Order:    &directive.Key{Scope: word(text, "a:b"), Fields: []directive.Word{word(text, "Kind")}},
		Aliases:  []directive.Word{word(text, "old.two"), word(text, "old.one")},
		Reserved: []directive.Word{word(text, "note"), word(text, "memo")},
		Compat:   word(text, "backward"),
		Var:      word(text, "Created"),
	}}, d)
	require.Equal(t, "old.one", d.Event.Scope())
}

func TestParseDefaults(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"//outbox:event a.b", "//outbox:event \t a.b  ", `//outbox:event "a.b"`} {
		d, problems := parse(text)
		require.Empty(t, problems, text)
		require.Equal(t, &directive.Event{Name: word(text, "a.b"), Version: directive.Number{N: 1, Pos: slash}}, d.Event, text)
		require.Equal(t, "a.b", d.Event.Scope(), text)
	}
}

func TestParseOthers(t *testing.T) {
	t.Parallel()
	const (
		upcast  = "//outbox:upcast Made from=3"
		retired = `//outbox:retired a.gone nobody's "reading  it`
		allow   = "//outbox:allow J06 never written"
		pkg     = "//outbox:package handlers=off"
	)
	for _, tt := range []struct {
		text string
		want directive.Directive
	}{
		{upcast, directive.Directive{Verb: directive.VerbUpcast, Upcast: &directive.Upcast{
			Type: word(upcast, "Made"), From: directive.Number{N: 3, Pos: word(upcast, "3").Pos},
		}}},
		{retired, directive.Directive{Verb: directive.VerbRetired, Retired: &directive.Retired{
			Name: word(retired, "a.gone"), Reason: `nobody's "reading  it`,
		}}},
		{allow, directive.Directive{Verb: directive.VerbAllow, Allow: &directive.Allow{
			Rule: word(allow, "J06"), Reason: "never written",
		}}},
		{pkg, directive.Directive{Verb: directive.VerbPackage, Package: &directive.Package{Handlers: word(pkg, "off")}}},
	} {
		d, problems := parse(tt.text)
		require.Empty(t, problems, tt.text)
		tt.want.Pos = slash
		require.Equal(t, &tt.want, d, tt.text)
	}
}

// TestParseProblems covers what is said and where; the cases of package gen
// show the whole list.
func TestParseProblems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{ // ^ marks the position
		{"^//outbox:event", "//outbox:event has no topic name; write //outbox:event orders.created, for example"},
		{`^//outbox:event ""`, "//outbox:event has no topic name; write //outbox:event orders.created, for example"},
		{"//outbox:event a.b ^verzion=2", `unknown key "verzion"; did you mean version? allowed are ` +
			"version, key, order, alias, reserved, compat and var"},
		{"//outbox:event a.b ^ver=2", `unknown key "ver"; did you mean version? allowed are ` +
			"version, key, order, alias, reserved, compat and var"},
		{"//outbox:allow J06 ^REASON", "REASON is no reason; write the reason in its place"},
		{"//outbox:allow outboxtx ^REASON.", "REASON is no reason; write the reason in its place"},
		{"//outbox:retired a.b ^REASON", "REASON is no reason; write the reason in its place"},
		{"^//outbox-event a.b", `"//outbox-event a.b" is not a directive; write //outbox:event, or reword it if it is prose`},
		{"^//typedoutbox:event a.b", `"//typedoutbox:event a.b" is not a directive; write //outbox:event, or reword it if it is prose`},
		{"^//outboxgen:upcast", `"//outboxgen:upcast" is not a directive; write //outbox:upcast, or reword it if it is prose`},
		{"//outbox:event a.b alias=c,^,d", "alias= has an empty item; separate items by one comma, without spaces"},
		{"//outbox:event a.b version=^+2", "version=+2 is not a number from 1 to 9999; write it in plain digits"},
		{"//outbox:event a.b version=^99999999999999999999", "version=99999999999999999999 is not a number from 1 to 9999; write it in plain digits"},
		{"//outbox:event a.b key=^a.b#X,Y", `key= names "a.b#X", which is no path of fields; write a.b:X if a.b is the scope`},
		{"//outbox:event a.b order=^#X", `order= names "#X", which is no path of fields; write Field or Field.Field`},
		{"//outbox:event a.b key=s:^", "key= has an empty item; separate items by one comma, without spaces"},
		{"^//outbox:evnt a.b", "unknown directive //outbox:evnt; did you mean event? allowed are event, upcast, retired, package and allow"},
		{"//outbox:upcast X from=^0", "from=0 is not a number from 1 to 9998; write it in plain digits"},
		{"//outbox:package handlers=^on", "handlers=on is unknown; only off is allowed"},
		{"^// outbox:event a.b", `"// outbox:event a.b" is not a directive; write //outbox:event, or reword it if it is prose`},
		{"/*\n^outbox:event a.b\n*/", `"outbox:event a.b" is not a directive; write //outbox:event, or reword it if it is prose`},
	} {
		before, after, _ := strings.Cut(tt.text, "^")
		_, problems := parse(before + after)
		require.Equal(t, []directive.Problem{{Pos: slash + token.Pos(len(before)), Text: tt.want}}, problems, tt.text)
	}
}

func TestParseIgnores(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"//", "// ", "/**/", "//go:generate outboxgen", "// outbox: a table", "// see outbox:event", "//\t//outbox:event a.b",
		"// outbox:event, and others", "//inbox:event a.b", "// outbox:", "// outbox: events are rows", "//lint:ignore outbox",
		"/*\n//outbox:event a.b\n*/", "////outbox:event a.b", "//outbox", "// outbox",
		"// outbox-event, and others", "//outbox-events a.b", "//an outbox-event a.b",
	} {
		d, problems := parse(text)
		require.Nil(t, d, text)
		require.Empty(t, problems, text)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	candidates := []string{"version", "key", "order"}
	for word, want := range map[string]string{
		"version": "version", "verzion": "version", "vresion": "version", "keys": "key", "ke": "key", "odrer": "order",
		"": "", "k": "", "colour": "", "versionversion": "",
	} {
		require.Equal(t, want, directive.Nearest(word, candidates), word)
	}
}
