package topics

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strconv"
)

// DefaultMaxBytes is the largest encoded payload of a topic whose
// Options.MaxBytes is zero: 1 MiB.
const DefaultMaxBytes = 1 << 20

// Topic is the typed name of one kind of event. It is a value, safe for
// concurrent use, made by [New]. Compare topics by Name; == does not compile.
//
// The zero Topic is invalid: its Name is "", Encode and Decode return an
// error, outbox.Enqueue returns an error and outbox.Handle panics.
type Topic[T any] struct {
	_   [0]func(T) // makes == fail to compile
	def *definition[T]
}

// Options says more about a topic than its name. The zero value and nil are
// the defaults.
type Options[T any] struct {
	// Version is the version of the payload's schema, from 1. Default 1.
	Version int

	// Key derives the idempotency key of a payload, stored as it is; the key
	// is unique in the table. "" means no key. Default none.
	Key func(T) string

	// Order derives the ordering key of a payload. "" means no order.
	// Default none.
	Order func(T) string

	// Aliases are former names of the topic; rows stored under them still
	// reach T. Default none.
	Aliases []string

	// Upcast holds, at n, the step from version n to n+1. Default none.
	Upcast map[int]Upcaster

	// MaxBytes is the size of the largest encoded payload, in bytes.
	// Default DefaultMaxBytes, 1 MiB.
	MaxBytes int
}

// definition is what the copies of one topic share. It is never written
// after New.
type definition[T any] struct {
	name   string
	opts   Options[T]
	typ    reflect.Type
	source string
}

// Info describes a topic without its type parameter.
type Info struct {
	Name    string       // the stored name
	Version int          // the newest version of the payload that T knows
	Aliases []string     // former names
	Type    reflect.Type // T
	Source  string       // file:line of the call to New
}

// New returns the topic called name whose payloads are of type T. A nil opts
// stands for the defaults. Topics are declared once, in package variables: New
// panics on programmer error, which is an invalid name or alias (see
// [CheckName]), an interface type T, a negative Version or MaxBytes, or an
// upcaster that starts outside 1 to Version-1.
func New[T any](name string, opts *Options[T]) Topic[T] {
	def := &definition[T]{name: name, typ: reflect.TypeFor[T](), source: "unknown"}
	if _, file, line, ok := runtime.Caller(1); ok {
		def.source = file + ":" + strconv.Itoa(line)
	}
	if opts != nil {
		def.opts = *opts
		def.opts.Aliases = slices.Clone(opts.Aliases)
	}
	if err := def.prepare(); err != nil {
		panic(fmt.Sprintf("topics: New at %s: %v", def.source, err))
	}
	return Topic[T]{def: def}
}

// prepare checks the definition and fills in the defaults.
func (d *definition[T]) prepare() error {
	if err := CheckName(d.name); err != nil {
		return err
	}
	for i, alias := range d.opts.Aliases {
		if err := CheckName(alias); err != nil {
			return fmt.Errorf("topic %q: alias: %w", d.name, err)
		}
		if alias == d.name || slices.Contains(d.opts.Aliases[:i], alias) {
			return fmt.Errorf("topic %q: alias %q is given twice; remove one", d.name, alias)
		}
	}
	if d.typ.Kind() == reflect.Interface {
		return fmt.Errorf("topic %q: payload type %s is an interface, which cannot be decoded; use a struct", d.name, d.typ)
	}
	if d.opts.Version < 0 || d.opts.MaxBytes < 0 {
		return fmt.Errorf("topic %q: Version %d and MaxBytes %d must not be negative", d.name, d.opts.Version, d.opts.MaxBytes)
	}
	if d.opts.Version == 0 {
		d.opts.Version = 1
	}
	if d.opts.MaxBytes == 0 {
		d.opts.MaxBytes = DefaultMaxBytes
	}
	for from, up := range d.opts.Upcast {
		if from < 1 || from >= d.opts.Version {
			return fmt.Errorf("topic %q: an upcaster starts at version %d, outside 1 to %d; the topic is at version %d",
				d.name, from, d.opts.Version-1, d.opts.Version)
		}
		if up == nil {
			return fmt.Errorf("topic %q: the upcaster from version %d is nil", d.name, from)
		}
	}
	return nil
}

// Name returns the stored name of the topic, "" for the zero Topic.
func (t Topic[T]) Name() string {
	if t.def == nil {
		return ""
	}
	return t.def.name
}

// Version returns the version under which payloads are encoded, from 1; 0 for
// the zero Topic.
func (t Topic[T]) Version() int {
	if t.def == nil {
		return 0
	}
	return t.def.opts.Version
}

// Key returns the idempotency key of v, "" if the topic derives none.
func (t Topic[T]) Key(v T) string {
	if t.def == nil || t.def.opts.Key == nil {
		return ""
	}
	return t.def.opts.Key(v)
}

// Order returns the ordering key of v, "" if the topic derives none.
func (t Topic[T]) Order(v T) string {
	if t.def == nil || t.def.opts.Order == nil {
		return ""
	}
	return t.def.opts.Order(v)
}

// Info describes the topic. The zero Topic has the zero Info, but for Type.
func (t Topic[T]) Info() Info {
	if t.def == nil {
		return Info{Type: reflect.TypeFor[T]()}
	}
	return Info{
		Name:    t.def.name,
		Version: t.def.opts.Version,
		Aliases: slices.Clone(t.def.opts.Aliases),
		Type:    t.def.typ,
		Source:  t.def.source,
	}
}

// Upcaster turns a payload of one version into a payload of the next.
type Upcaster func(json.RawMessage) (json.RawMessage, error)

// Upcast returns the Upcaster that decodes a payload as From, calls f and
// encodes its result.
func Upcast[From, To any](f func(From) (To, error)) Upcaster {
	return func(payload json.RawMessage) (json.RawMessage, error) {
		var from From
		if err := json.Unmarshal(payload, &from); err != nil {
			return nil, err
		}
		to, err := f(from)
		if err != nil {
			return nil, err
		}
		return json.Marshal(to)
	}
}
