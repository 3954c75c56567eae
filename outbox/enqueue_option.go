package outbox

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxKeyBytes is the length of the longest key or order key, in bytes.
const MaxKeyBytes = 1024

// EnqueueOption changes how one call of Enqueue or EnqueueAll writes.
type EnqueueOption func(*enqueueOptions)

// Receipt says what Enqueue did. ID is zero when Duplicate is true: the key was
// taken and nothing was written.
type Receipt struct {
	ID        ID
	Duplicate bool
}

type enqueueOptions struct {
	key, orderKey *string
	delay         time.Duration
	at            time.Time
	delayed       bool // After was given
	timed         bool // At was given
	headers       map[string]string
	into          *Receipt
	errs          []error
}

// Key sets the idempotency key, in place of one that the topic derives: it is
// unique in the table, over all topics, and a repeat enqueues nothing. It holds
// until the row is swept; see Relay.Retention. Key("") drops a derived key.
// Default the key that the topic derives.
func Key(k string) EnqueueOption {
	return func(o *enqueueOptions) { o.key = &k }
}

// OrderKey sets the ordering key, in place of one that the topic derives: rows
// of one ordering key are delivered first-in first-out, across topics.
// OrderKey("") drops a derived one. Default the key that the topic derives.
func OrderKey(k string) EnqueueOption {
	return func(o *enqueueOptions) { o.orderKey = &k }
}

// After delays the message: it is not delivered before d from this call, on the
// database's clock. A d of zero or less delays nothing. Default due at once.
func After(d time.Duration) EnqueueOption {
	return func(o *enqueueOptions) { o.delay, o.delayed = d, true }
}

// At delays the message until t, whose year must be from 1 to 9999. A time in
// the past is due at once, before what became due later. Default due at once.
func At(t time.Time) EnqueueOption {
	return func(o *enqueueOptions) {
		if y := t.UTC().Year(); y < 1 || y > 9999 {
			o.errs = append(o.errs, fmt.Errorf("outbox: At(year %d): use a year from 1 to 9999", y))
		}
		o.at, o.timed = t, true
	}
}

// Header adds a header, for instance a trace context; a repeated name
// overwrites. Default none.
func Header(name, value string) EnqueueOption {
	return func(o *enqueueOptions) {
		if name == "" {
			o.errs = append(o.errs, fmt.Errorf("%w: a header needs a name", ErrInvalidKey))
		}
		o.errs = append(o.errs, checkText("header name", name), checkText("header value", value))
		if o.headers == nil {
			o.headers = map[string]string{}
		}
		o.headers[name] = value
	}
}

// Into writes the receipt to r when Enqueue returns nil.
func Into(r *Receipt) EnqueueOption {
	return func(o *enqueueOptions) {
		if r == nil {
			o.errs = append(o.errs, errors.New("outbox: Into(nil): pass the address of a Receipt"))
		}
		o.into = r
	}
}

func applyOptions(opts []EnqueueOption) (enqueueOptions, error) {
	var o enqueueOptions
	for _, opt := range opts {
		opt(&o)
	}
	if o.delayed && o.timed {
		o.errs = append(o.errs, errors.New("outbox: After and At contradict each other; use one"))
	}
	return o, errors.Join(o.errs...)
}

// checkKey reports why key cannot be stored as what it is meant for.
func checkKey(what, key string) error {
	if len(key) > MaxKeyBytes {
		return fmt.Errorf("%w: the %s is %d bytes long, the limit is %d; use a hash of it", ErrInvalidKey, what, len(key), MaxKeyBytes)
	}
	return checkText(what, key)
}

// checkText refuses what Postgres cannot store as text.
func checkText(what, s string) error {
	switch {
	case !utf8.ValidString(s):
		return fmt.Errorf("%w: the %s %q is not valid UTF-8; encode it, for instance in base64", ErrInvalidKey, what, s)
	case strings.ContainsRune(s, 0):
		return fmt.Errorf("%w: the %s %q holds a NUL; encode it, for instance in base64", ErrInvalidKey, what, s)
	}
	return nil
}
