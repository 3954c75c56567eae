package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ParseError is what is wrong with a file, and what to do.
type ParseError struct {
	Line, Column int // from 1, the column in bytes
	Text         string
}

func (e *ParseError) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Text) }

const restore = "it is history that cannot be generated again: restore it from version control"

// Parse reads a file. The error is a [*ParseError].
func Parse(data []byte) (*File, error) {
	p := parser{data: data}
	f, err := p.file()
	if err != nil {
		return nil, err
	}
	f.sort()
	return f, nil
}

type parser struct {
	data []byte
}

func (p *parser) errorf(offset int64, format string, args ...any) *ParseError {
	before := p.data[:min(max(offset, 0), int64(len(p.data)))]
	return &ParseError{
		Line:   bytes.Count(before, []byte("\n")) + 1,
		Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Text:   fmt.Sprintf(format, args...),
	}
}

func (p *parser) file() (*File, error) {
	dec := json.NewDecoder(bytes.NewReader(p.data))
	dec.DisallowUnknownFields()
	var in fileJSON
	if err := dec.Decode(&in); err != nil {
		var syntax *json.SyntaxError
		var typ *json.UnmarshalTypeError
		switch {
		case errors.As(err, &syntax):
			return nil, p.errorf(syntax.Offset-1, "%v; %s", err, restore)
		case errors.As(err, &typ):
			return nil, p.errorf(typ.Offset-1, "%v; %s", err, restore)
		case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
			return nil, p.errorf(int64(len(p.data)), "the file ends too early; %s", restore)
		}
		return nil, p.errorf(0, "%v; %s", err, restore)
	}
	if in.Format != format {
		return nil, p.errorf(0, "format %d was written by a newer outboxgen; update it", in.Format)
	}
	f := &File{}
	for _, e := range in.Events {
		event := Event{Topic: e.Topic, Type: e.Type, Aliases: e.Aliases, Key: e.Key, Order: e.Order, Version: e.Version}
		for _, v := range e.Versions {
			version := Version{N: v.Version, Reserved: v.Reserved}
			for _, a := range v.Accepted {
				version.Accepted = append(version.Accepted, Accepted(a))
			}
			for _, f := range v.Fields {
				version.Shape = append(version.Shape, f.field())
			}
			event.Versions = append(event.Versions, version)
		}
		f.Events = append(f.Events, event)
	}
	for _, r := range in.Retired {
		f.Retired = append(f.Retired, Retired(r))
	}
	return f, nil
}
