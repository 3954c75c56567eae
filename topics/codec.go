package topics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrPayloadTooLarge is matched by the error of Encode when the payload is
// larger than Options.MaxBytes.
var ErrPayloadTooLarge = errors.New("payload is too large")

var errZeroTopic = errors.New("the zero Topic is invalid; make it with topics.New")

// EncodeError is the error of [Topic.Encode]: the payload cannot be stored.
type EncodeError struct {
	Topic string // "" for the zero Topic
	Err   error
}

func (e *EncodeError) Error() string {
	return fmt.Sprintf("topic %q: encode payload: %v", e.Topic, e.Err)
}

// Unwrap returns the cause.
func (e *EncodeError) Unwrap() error { return e.Err }

// DecodeError is the error of [Topic.Decode]: a stored payload does not become
// a T.
type DecodeError struct {
	Topic   string // "" for the zero Topic
	Version int    // the version under which the payload is stored
	Err     error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("topic %q: decode payload of version %d: %v", e.Topic, e.Version, e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// Encode returns v as JSON, in the way of encoding/json. It returns an
// *EncodeError if v cannot be marshalled, if the result would hold invalid
// UTF-8 or replace it, or if the result is larger than Options.MaxBytes, which
// matches [ErrPayloadTooLarge].
func (t Topic[T]) Encode(v T) (json.RawMessage, error) {
	if t.def == nil {
		return nil, &EncodeError{Err: errZeroTopic}
	}
	payload, err := json.Marshal(v)
	if err == nil {
		err = t.def.checkPayload(v, payload)
	}
	if err != nil {
		return nil, &EncodeError{Topic: t.def.name, Err: err}
	}
	return payload, nil
}

// replacement is what encoding/json writes for a byte that is not UTF-8; a
// genuine U+FFFD is written as its three bytes.
var replacement = []byte(`\ufffd`)

func (d *definition[T]) checkPayload(v T, payload json.RawMessage) error {
	if len(payload) > d.opts.MaxBytes {
		return fmt.Errorf("%w: %d bytes, the limit is %d; store the data elsewhere and send a reference, or raise MaxBytes",
			ErrPayloadTooLarge, len(payload), d.opts.MaxBytes)
	}
	if !utf8.Valid(payload) {
		return errors.New("it holds invalid UTF-8; clean the strings, or send bytes as []byte")
	}
	if bytes.Contains(payload, replacement) {
		if path, bad := findInvalidUTF8(v); bad {
			return fmt.Errorf("invalid UTF-8 at %s would be replaced; clean the string, or send bytes as []byte", path)
		}
	}
	return nil
}

// Decode returns the T of a payload that was stored under version. A payload
// of an older version passes through the upcasters in turn. It returns a
// *DecodeError if the payload is damaged, if the version is newer than the
// topic's or if an upcaster is missing or fails.
func (t Topic[T]) Decode(version int, payload json.RawMessage) (T, error) {
	var v T
	if t.def == nil {
		return v, &DecodeError{Version: version, Err: errZeroTopic}
	}
	current, err := t.def.upcast(version, payload)
	if err == nil {
		err = json.Unmarshal(current, &v)
	}
	if err != nil {
		var zero T
		return zero, &DecodeError{Topic: t.def.name, Version: version, Err: err}
	}
	return v, nil
}

func (d *definition[T]) upcast(version int, payload json.RawMessage) (json.RawMessage, error) {
	switch {
	case version < 1:
		return nil, fmt.Errorf("versions start at 1")
	case version > d.opts.Version:
		return nil, fmt.Errorf("this build knows versions up to %d; deploy the newer one", d.opts.Version)
	}
	for n := version; n < d.opts.Version; n++ {
		up := d.opts.Upcast[n]
		if up == nil {
			return nil, fmt.Errorf("no upcaster from version %d to %d; register one for %s", n, n+1, d.typ)
		}
		next, err := up(payload)
		if err != nil {
			return nil, fmt.Errorf("upcast from version %d to %d: %w", n, n+1, err)
		}
		payload = next
	}
	return payload, nil
}
