package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ParseError is what is wrong with a file, and what to do.
type ParseError struct {
	Line, Column int // from 1, the column in bytes
	Text         string
}

func (e *ParseError) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Text) }

const (
	restore = "it is history that cannot be generated again: restore it from version control"
	newer   = "if a newer outboxgen wrote it, update yours; else " + restore
)

// Parse reads a file, which [File.Format] wrote and version control may have
// merged. What says other than Format could have said is an error, always a
// [*ParseError].
func Parse(data []byte) (*File, error) {
	p := parser{data: data, topics: map[string]bool{}}
	p.markers()
	p.syntax()
	if p.err == nil {
		p.file()
	}
	if p.err != nil {
		return nil, p.err
	}
	p.out.sort()
	return &p.out, nil
}

type parser struct {
	data   []byte
	dec    *json.Decoder
	topics map[string]bool
	format int
	out    File
	err    *ParseError // the first
}

// errorf reports what is wrong at an offset.
func (p *parser) errorf(offset int64, format string, args ...any) {
	if p.err != nil {
		return
	}
	before := p.data[:min(max(offset, 0), int64(len(p.data)))]
	p.err = &ParseError{
		Line:   bytes.Count(before, []byte("\n")) + 1,
		Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Text:   fmt.Sprintf(format, args...),
	}
}

// markers looks for those of a merge that is not done.
func (p *parser) markers() {
	offset := 0
	for line := range bytes.Lines(p.data) {
		for _, marker := range []string{"<<<<<<<", "|||||||", "=======", ">>>>>>>"} {
			if bytes.HasPrefix(line, []byte(marker)) {
				p.errorf(int64(offset), "a merge conflict is not resolved; keep the lines of both sides, then run go generate")
			}
		}
		offset += len(line)
	}
}

func (p *parser) syntax() {
	var all json.RawMessage
	err := json.Unmarshal(p.data, &all)
	syntax := (*json.SyntaxError)(nil)
	switch {
	case len(bytes.TrimSpace(p.data)) == 0:
		p.errorf(0, "the file is empty; %s", restore)
	case errors.As(err, &syntax):
		p.errorf(syntax.Offset-1, "%v; %s", err, restore)
	case err != nil:
		p.errorf(0, "%v; %s", err, restore)
	}
}

// file reads one event after the other, to know where each begins.
func (p *parser) file() {
	p.dec = json.NewDecoder(bytes.NewReader(p.data))
	p.dec.DisallowUnknownFields()
	if t, _ := p.dec.Token(); t != json.Delim('{') {
		p.errorf(0, "the file is no JSON object; %s", restore)
		return
	}
	for p.dec.More() && p.err == nil {
		at := p.next()
		key, _ := p.dec.Token()
		switch key {
		case "format":
			if p.value(&p.format); p.format > format {
				p.errorf(at, "format %d was written by a newer outboxgen; update yours", p.format)
			}
		case "events":
			list(p, p.event)
		case "retired":
			list(p, p.retired)
		default:
			p.errorf(at, "unknown field %q; %s", key, newer)
		}
	}
	if p.format < 1 {
		p.errorf(0, "the file has no format; %s", restore)
	}
}

// next is where the next token begins.
func (p *parser) next() int64 {
	at := p.dec.InputOffset()
	rest := p.data[at:]
	return at + int64(len(rest)-len(bytes.TrimLeft(rest, " \t\r\n,:")))
}

// value reads into v.
func (p *parser) value(v any) {
	at := p.next()
	err := p.dec.Decode(v)
	typ := (*json.UnmarshalTypeError)(nil)
	switch {
	case errors.As(err, &typ):
		p.errorf(at+typ.Offset-1, "a %s is no %q; %s", typ.Value, typ.Field, restore)
	case err != nil:
		p.errorf(at, "%s; %s", strings.TrimPrefix(err.Error(), "json: "), newer)
	}
}

// list reads the objects of a list.
func list[T any](p *parser, add func(at int64, v T)) {
	at := p.next()
	if t, _ := p.dec.Token(); t != json.Delim('[') {
		p.errorf(at, "here should be a list; %s", restore)
		return
	}
	for p.dec.More() && p.err == nil {
		var v T
		at := p.next()
		if p.value(&v); p.err == nil {
			add(at, v)
		}
	}
	_, _ = p.dec.Token() // the end of the list, which is there
}

func (p *parser) topic(at int64, topic string) {
	switch {
	case topic == "":
		p.errorf(at, "there is no topic; %s", restore)
	case p.topics[topic]:
		p.errorf(at, "topic %q is there twice; keep the one with more versions and fields, then run go generate", topic)
	}
	p.topics[topic] = true
}

func (p *parser) retired(at int64, r retiredJSON) {
	p.topic(at, r.Topic)
	p.out.Retired = append(p.out.Retired, Retired(r))
}

func (p *parser) event(at int64, in eventJSON) {
	p.topic(at, in.Topic)
	e := Event{Topic: in.Topic, Type: in.Type, Aliases: none(in.Aliases), Key: in.Key, Order: in.Order, Version: in.Version}
	numbers := map[int]bool{}
	for _, v := range in.Versions {
		version := Version{N: v.Version, Reserved: none(v.Reserved)}
		for _, a := range v.Accepted {
			version.Accepted = append(version.Accepted, Accepted(a))
		}
		for _, f := range v.Fields {
			version.Shape = append(version.Shape, f.field())
		}
		if wrong := version.Shape.mistake(); wrong != "" {
			p.errorf(at, "topic %q, version %d: %s; %s", e.Topic, v.Version, wrong, restore)
		}
		if numbers[v.Version] || v.Version < 1 || v.Version > e.Version {
			p.errorf(at, "topic %q: version %d is there twice, or is none of 1 to %d; %s", e.Topic, v.Version, e.Version, restore)
		}
		numbers[v.Version] = true
		e.Versions = append(e.Versions, version)
	}
	if !numbers[e.Version] {
		p.errorf(at, "topic %q: its version %d is missing; %s", e.Topic, e.Version, restore)
	}
	p.out.Events = append(p.out.Events, e)
}

// none is nil for an empty list, which is not written.
func none(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}
