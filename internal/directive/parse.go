package directive

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"

	"github.com/typedoutbox/typedoutbox/topics"
)

// MaxVersion is the highest version of an event. A version counts breaking
// changes, so a higher one is a slip of the keyboard.
const MaxVersion = 9999

// parser collects the problems of one directive.
type parser struct {
	text     string
	slash    token.Pos
	verb     string
	problems []Problem
}

func (p *parser) addf(pos token.Pos, format string, args ...any) {
	p.problems = append(p.problems, Problem{Pos: pos, Text: fmt.Sprintf(format, args...)})
}

// words splits the arguments, and moves the position of a quoted one behind
// its quote.
func (p *parser) words(d ast.Directive) []Word {
	args, err := d.ParseArgs()
	if err != nil {
		p.addf(d.ArgsPos, "%v; close the quote, or leave it out", err)
		return nil
	}
	words := make([]Word, 0, len(args))
	for _, a := range args {
		if q := p.text[a.Pos-p.slash]; q == '"' || q == '`' {
			a.Pos++
		}
		words = append(words, Word{Text: a.Arg, Pos: a.Pos})
	}
	return words
}

// positional takes the leading word that is not a setting; an empty one, in
// quotes, is as good as none.
func (p *parser) positional(words []Word, what, example string) (Word, []Word) {
	var first Word
	rest := words
	if len(words) > 0 && !strings.Contains(words[0].Text, "=") {
		first, rest = words[0], words[1:]
	}
	if first.Text == "" {
		p.addf(p.slash, "//outbox:%s has no %s; write //outbox:%s %s", p.verb, what, p.verb, example)
	}
	return first, rest
}

// settings reads the words of the form key=value.
func (p *parser) settings(words []Word, allowed ...string) map[string]Word {
	found := map[string]Word{}
	for _, w := range words {
		key, value, ok := strings.Cut(w.Text, "=")
		_, repeated := found[key]
		switch {
		case !ok || key == "":
			p.addf(w.Pos, "unexpected %q; what follows is written key=value, without spaces, and the keys are %s", w.Text, list(allowed, "and"))
		case !slices.Contains(allowed, key):
			p.addf(w.Pos, "unknown key %q; %s", key, choose(key, allowed))
		case repeated:
			p.addf(w.Pos, "%s= is given twice; keep one", key)
		case value == "":
			p.addf(w.Pos, "%s= has no value; give it one, or leave it out", key)
		default:
			found[key] = Word{Text: value, Pos: w.Pos + token.Pos(len(key)+1)}
		}
	}
	return found
}

// items splits a list at its commas.
func (p *parser) items(key string, value Word) []Word {
	var items []Word
	pos := value.Pos
	for text := range strings.SplitSeq(value.Text, ",") {
		item := Word{Text: text, Pos: pos}
		pos += token.Pos(len(text) + 1)
		switch {
		case text == "":
			p.addf(item.Pos, "%s= has an empty item; separate items by one comma, without spaces", key)
		case slices.ContainsFunc(items, func(w Word) bool { return w.Text == text }):
			p.addf(item.Pos, "%s= names %q twice; keep one", key, text)
		default:
			items = append(items, item)
		}
	}
	return items
}

// number reads a decimal from 1 to limit, in its one spelling.
func (p *parser) number(key string, value Word, limit int) Number {
	n, err := strconv.Atoi(value.Text)
	if err != nil || n < 1 || n > limit || strconv.Itoa(n) != value.Text {
		p.addf(value.Pos, "%s=%s is not a number from 1 to %d; write it in plain digits", key, value.Text, limit)
		return Number{N: 1, Pos: value.Pos}
	}
	return Number{N: n, Pos: value.Pos}
}

func (p *parser) topicName(w Word) {
	if err := topics.CheckName(w.Text); err != nil {
		p.addf(w.Pos, "%v", err)
	}
}

// oneOf checks a value that has a fixed set of choices.
func (p *parser) oneOf(key string, value Word, allowed ...string) Word {
	if value.Text != "" && !slices.Contains(allowed, value.Text) {
		p.addf(value.Pos, "%s=%s is unknown; %s", key, value.Text, choose(value.Text, allowed))
	}
	return value
}
