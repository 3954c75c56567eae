package directive

import (
	"go/ast"
	"go/token"
	"strings"
	"unicode"

	"github.com/typedoutbox/typedoutbox/topics"
)

func (p *parser) event(d ast.Directive) *Event {
	e := &Event{Version: Number{N: 1, Pos: d.Slash}}
	words := p.words(d)
	if len(p.problems) > 0 {
		return e
	}
	e.Name, words = p.positional(words, "topic name", "orders.created, for example")
	if e.Name.Text != "" {
		p.topicName(e.Name)
	}
	set := p.settings(words, "version", "key", "order", "alias", "reserved", "compat", "var")
	if v, ok := set["version"]; ok {
		e.Version = p.number("version", v, MaxVersion)
	}
	e.Key = p.key("key", set)
	e.Order = p.key("order", set)
	if v, ok := set["alias"]; ok {
		e.Aliases = p.items("alias", v)
	}
	for _, alias := range e.Aliases {
		p.topicName(alias)
		if alias.Text == e.Name.Text {
			p.addf(alias.Pos, "alias %q is the topic's own name; remove it", alias.Text)
		}
	}
	if v, ok := set["reserved"]; ok {
		e.Reserved = p.items("reserved", v)
	}
	e.Compat = p.oneOf("compat", set["compat"], "both", "backward")
	e.Var = set["var"]
	if e.Var.Text != "" && (!token.IsIdentifier(e.Var.Text) || e.Var.Text == "_") {
		p.addf(e.Var.Pos, "var=%s is not a Go identifier; use letters and digits, a letter first", e.Var.Text)
	}
	return e
}

// key reads [SCOPE:]F{,F}. Scopes may hold a ":", fields may not.
func (p *parser) key(name string, set map[string]Word) *Key {
	value, ok := set[name]
	if !ok {
		return nil
	}
	k := &Key{}
	if i := strings.LastIndexByte(value.Text, ':'); i >= 0 {
		k.Scope = Word{Text: value.Text[:i], Pos: value.Pos}
		value = Word{Text: value.Text[i+1:], Pos: value.Pos + token.Pos(i+1)}
		if k.Scope.Text == "" {
			p.addf(k.Scope.Pos, "%s= has an empty scope; name one before the colon, or leave out the colon", name)
		} else {
			p.scope(name, k.Scope)
		}
	}
	k.Fields = p.items(name, value)
	for _, f := range k.Fields {
		p.fieldPath(name, f)
	}
	return k
}

func (p *parser) scope(key string, w Word) {
	if err := topics.CheckName(w.Text); err != nil {
		p.addf(w.Pos, "%s= has the scope %q, which is not spelled like a topic name; use only a-z A-Z 0-9 . _ - : /, at most %d bytes",
			key, w.Text, topics.MaxNameBytes)
	}
}

func (p *parser) fieldPath(key string, path Word) {
	if scope, field, ok := strings.Cut(path.Text, "#"); ok && topics.CheckName(scope) == nil && field != "" { // as rows and the lock have it
		p.addf(path.Pos, "%s= names %q, which is no path of fields; write %s:%s if %s is the scope", key, path.Text, scope, field, scope)
		return
	}
	for part := range strings.SplitSeq(path.Text, ".") {
		if !token.IsIdentifier(part) {
			p.addf(path.Pos, "%s= names %q, which is no path of fields; write Field or Field.Field", key, path.Text)
			return
		}
	}
}

func (p *parser) upcast(d ast.Directive) *Upcast {
	u := &Upcast{From: Number{N: 1, Pos: d.Slash}}
	words := p.words(d)
	if len(p.problems) > 0 {
		return u
	}
	u.Type, words = p.positional(words, "event type", "OrderCreated from=1, for example")
	if u.Type.Text != "" && !token.IsIdentifier(u.Type.Text) {
		p.addf(u.Type.Pos, "%q is not the name of a type of this package; name the event's type as it is declared", u.Type.Text)
	}
	set := p.settings(words, "from")
	if v, ok := set["from"]; ok {
		u.From = p.number("from", v, MaxVersion-1)
	} else if len(p.problems) == 0 {
		p.addf(p.slash, "//outbox:upcast has no from=; write //outbox:upcast %s from=N, N being the version that the function reads", u.Type.Text)
	}
	return u
}

func (p *parser) pkg(d ast.Directive) *Package {
	words := p.words(d)
	if len(p.problems) == 0 && len(words) == 0 {
		p.addf(p.slash, "//outbox:package says nothing; write //outbox:package handlers=off, or remove it")
	}
	set := p.settings(words, "handlers")
	return &Package{Handlers: p.oneOf("handlers", set["handlers"], "off")}
}

func (p *parser) retired(d ast.Directive) *Retired {
	name, reason := firstWord(d)
	if name.Text == "" || reason == "" {
		p.addf(p.slash, "//outbox:retired needs the topic's name and a reason; write //outbox:retired NAME REASON")
	}
	p.reason(reason)
	if name.Text != "" {
		p.topicName(name)
	}
	return &Retired{Name: name, Reason: reason}
}

func (p *parser) allow(d ast.Directive) *Allow {
	rule, reason := firstWord(d)
	switch {
	case rule.Text == "" || reason == "":
		p.addf(p.slash, "//outbox:allow needs a rule and a reason; write //outbox:allow RULE REASON")
	case !isRule(rule.Text):
		p.addf(rule.Pos, "%q is not a rule; rules are letters and digits, a letter first, as in J06 or outboxtx", rule.Text)
	}
	p.reason(reason)
	return &Allow{Rule: rule, Reason: reason}
}

// reason checks that a reason is not what messages write in the place of one.
func (p *parser) reason(text string) {
	const placeholder = "REASON"
	if first, _, _ := strings.Cut(text, " "); strings.Trim(first, ".,:;") == placeholder {
		p.addf(p.slash+token.Pos(strings.LastIndex(p.text, text)), "%s is no reason; write the reason in its place", placeholder)
	}
}

// firstWord splits free text, whose quotes mean nothing, behind its first word.
func firstWord(d ast.Directive) (Word, string) {
	first, rest := d.Args, ""
	if i := strings.IndexFunc(d.Args, unicode.IsSpace); i >= 0 {
		first, rest = d.Args[:i], strings.TrimSpace(d.Args[i:])
	}
	return Word{Text: first, Pos: d.ArgsPos}, rest
}

func isRule(s string) bool {
	for i := range len(s) {
		c := s[i] | 0x20
		letter := 'a' <= c && c <= 'z'
		if !letter && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return s != ""
}
