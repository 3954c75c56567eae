package lock

import "fmt"

// Effect is what becomes of a value that is written by one type and read by
// another, at worst.
type Effect string

const (
	OK      Effect = "ok"
	Zero    Effect = "zero"    // without an error it is read as its zero value
	Wrong   Effect = "wrong"   // without an error it is read as another value
	Fails   Effect = "fails"   // the row fails to decode
	Unknown Effect = "unknown" // the type's own methods decide
)

// Verdict is what a difference does to rows.
type Verdict struct {
	Rule     string // J01 to J51
	Backward Effect // new code reads old rows
	Forward  Effect // old code reads new rows
	Note     bool   // it is allowed whatever the effects, and worth a line with -v
	Text     string // what changed: what would happen to rows
	Keep     string // how to leave it as it was, in the imperative
}

// Refused reports whether the verdict stands against the change. With backward
// only what new code reads counts.
func (v Verdict) Refused(backward bool) bool {
	return !v.Note && (v.Backward != OK || v.Forward != OK && !backward)
}

// Judge says what a difference does to rows. The reserved paths are those of
// the event.
func Judge(d Difference, reserved []string) Verdict {
	switch d.Change {
	case Added:
		return Verdict{
			Rule: "J01", Backward: Zero, Forward: OK, Note: true,
			Text: fmt.Sprintf("field %q added: stored rows decode it as its zero value", d.Path),
		}
	case Removed:
		return Verdict{
			Rule: "J04", Backward: OK, Forward: Zero,
			Text: fmt.Sprintf("field %q removed: old relays would decode new rows with its zero value, without an error", d.Path),
			Keep: fmt.Sprintf("keep it, or reserve its name with reserved=%s", d.Path),
		}
	}
	return Verdict{
		Rule: "J15", Backward: Fails, Forward: Fails,
		Text: fmt.Sprintf("field %q changed from %s to %s: stored rows would fail to decode and be retried, then parked", d.Path, d.Old.Kind, d.New.Kind),
		Keep: fmt.Sprintf("keep %s", d.Old.Kind),
	}
}

// widths are the numbers.
var widths = map[Kind]int{
	"int8": 8, "int16": 16, "int32": 32, "int64": 64,
	"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64,
}
