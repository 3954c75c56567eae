package outbox

import (
	"database/sql/driver"
	"fmt"

	"github.com/google/uuid"
)

// ID is the identity of a message: a UUID of version 7, whose order is the
// order of creation within one process. It stays the same over all deliveries
// of a message, so that a receiver recognises a duplicate by it. ID converts
// to any [16]byte UUID type. The zero ID stands for no message.
type ID [16]byte

// newID returns a fresh ID. It fails only if the system's source of
// randomness does.
func newID() (ID, error) {
	id, err := uuid.NewV7()
	return ID(id), err
}

// newToken returns an unguessable value for one claim.
func newToken() (ID, error) {
	id, err := uuid.NewRandom()
	return ID(id), err
}

// ParseID returns the ID that s spells in hexadecimal, with or without dashes.
func ParseID(s string) (ID, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return ID{}, fmt.Errorf("outbox: %q is no message id: %w", s, err)
	}
	return ID(id), nil
}

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id == ID{} }

// String returns the 36 characters of the canonical form.
func (id ID) String() string { return uuid.UUID(id).String() }

// MarshalText returns the canonical form. It never fails.
func (id ID) MarshalText() ([]byte, error) { return uuid.UUID(id).MarshalText() }

// UnmarshalText sets id to what text spells, in the manner of [ParseID].
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// Scan sets id from a database value: text, 16 bytes, or NULL for the zero ID.
func (id *ID) Scan(src any) error {
	if src == nil {
		*id = ID{}
		return nil
	}
	var parsed uuid.UUID
	if err := parsed.Scan(src); err != nil {
		return fmt.Errorf("outbox: scan message id: %w", err)
	}
	*id = ID(parsed)
	return nil
}

// Value returns the canonical form, or NULL for the zero ID.
func (id ID) Value() (driver.Value, error) {
	if id.IsZero() {
		return nil, nil
	}
	return id.String(), nil
}
