package lock

import (
	"fmt"
	"slices"
	"strings"

	"github.com/typedoutbox/typedoutbox/internal/payload"
)

// Effect is what becomes of a value that is written by one type and read by
// another.
type Effect string

const (
	OK      Effect = "ok"      // it is the same, or a key that nobody asks for
	Zero    Effect = "zero"    // without an error it is read as the zero value
	Wrong   Effect = "wrong"   // without an error it is read as another value
	Fails   Effect = "fails"   // the row does not decode
	Unknown Effect = "unknown" // methods of the type decide
)

// Verdict is what a difference does to rows.
type Verdict struct {
	Rule     string // J01 to J51
	Backward Effect // new code reads old rows
	Forward  Effect // old code reads new rows
	Note     bool   // allowed, whatever the effects; worth a line with -v
	Always   bool   // refused, whatever the effects
	Text     string // what changed: what would happen to rows
	Keep     string // the way out without a new version; empty if it is a note
}

// Refused reports whether the rules stand against the change. With backward,
// for compat=backward, what old code reads does not matter.
func (v Verdict) Refused(backward bool) bool {
	return !v.Note && (v.Always || v.Backward != OK || v.Forward != OK && !backward)
}

// Judge says what a difference does to rows. The reserved paths are those of
// the event. It is the table of rules, each of which has a test that does the
// same with encoding/json.
func Judge(d Difference, reserved []string) Verdict {
	switch d.Change {
	case Added, Folded:
		return added(d, reserved)
	case Removed:
		return removed(d.Old, reserved)
	case Renamed:
		switch {
		case isReserved(d.New.Path, reserved):
			return added(d, reserved)
		case slices.Contains(reserved, d.Old.Path):
			return removed(d.Old, reserved)
		}
		return renamed(d.Old, d.New)
	case Swapped:
		return Verdict{
			Rule: "J06", Backward: Wrong, Forward: Wrong,
			Text: fmt.Sprintf("%s was the key of %s and is now that of %s: stored rows would decode each into the other, without an error", label(d.Path), d.Old.Go, d.New.Go),
			Keep: fmt.Sprintf("keep %s on %s", d.Old.Tag(), d.Old.Go),
		}
	case Pointed:
		return pointed(d)
	case Omitted:
		return omitted(d)
	case Numbered:
		return numbered(d)
	}
	return retyped(d)
}

const (
	stored = "stored rows"
	fresh  = "for relays still on the old code, new rows"
)

func added(d Difference, reserved []string) Verdict {
	switch {
	case isReserved(d.New.Path, reserved):
		return Verdict{
			Rule: "J08", Backward: Fails, Forward: Fails, Always: true,
			Text: fmt.Sprintf("%s is reserved: rows that hold what it was before would fail to decode, or decode as what they are not", label(d.New.Path)),
			Keep: "give the field another key",
		}
	case d.Change == Folded:
		return Verdict{
			Rule: "J02", Backward: Zero, Forward: Wrong, Always: true,
			Text: fmt.Sprintf("%s differs from %q only in case, which decoders ignore: %s would decode with the value of one in the other, without an error",
				label(d.New.Path), d.Old.Path, fresh),
			Keep: "give the field another key",
		}
	}
	return Verdict{
		Rule: "J01", Backward: Zero, Forward: OK, Note: true,
		Text: fmt.Sprintf("%s added: %s decode as %s", label(d.Path), stored, zero(d.New)),
	}
}

func removed(f *Field, reserved []string) Verdict {
	v := Verdict{
		Rule: "J03", Backward: OK, Forward: Zero, Keep: "keep the field",
		Text: fmt.Sprintf("%s removed: %s would decode as %s without an error", label(f.Path), fresh, zero(f)),
	}
	if !slices.Contains(reserved, f.Path) {
		v.Rule, v.Always = "J04", true
		v.Text += ", and nothing keeps its key from being used for something else"
	}
	return v
}

func renamed(o, n *Field) Verdict {
	v := Verdict{Rule: "J06", Backward: Zero, Forward: Zero, Keep: "keep " + o.Tag()}
	what := "renamed"
	within, name, _ := split(o.Path)
	newWithin, newName, _ := split(n.Path)
	switch {
	case within != newWithin:
		v.Rule, what, v.Keep = "J35", "moved", fmt.Sprintf("keep it at %q", o.Path)
		if strings.HasPrefix(newWithin, within) {
			v.Rule = "J34"
		}
	case payload.Fold(name) == payload.Fold(newName):
		v.Rule, v.Backward, v.Forward, v.Always = "J07", OK, OK, true
		v.Text = fmt.Sprintf("%s renamed to %q: encoding/json ignores case, but decoders that do not, such as encoding/json/v2, would read %s in %s",
			label(o.Path), n.Path, zero(n), stored)
		return v
	case o.Go != n.Go:
		v.Keep += fmt.Sprintf(", or if these are two fields reserve the key of the old one with reserved=%s", o.Path)
	}
	v.Text = fmt.Sprintf("%s %s to %q: %s would decode as %s without an error", label(o.Path), what, n.Path, stored, zero(n))
	return v
}

func pointed(d Difference) Verdict {
	v := Verdict{Rule: "J17", Backward: OK, Forward: Zero, Note: true}
	what := fmt.Sprintf("%s became a pointer: %s with nil would decode as %s", label(d.Path), fresh, zero(d.Old))
	if d.Old.Pointer {
		v = Verdict{Rule: "J18", Backward: Zero, Forward: OK, Note: !d.Old.Null, Keep: "keep the pointer"}
		what = fmt.Sprintf("%s is no pointer any more: %s with nil would decode as %s without an error", label(d.Path), stored, zero(d.New))
	}
	if d.Old.Kind.nilable() && !d.Old.Pointer || d.New.Kind.nilable() && !d.New.Pointer {
		v.Backward, v.Forward, v.Note = OK, OK, true
		what, _, _ = strings.Cut(what, ":")
		what += ": nil decodes as nil all the same"
	}
	if v.Text = what; v.Note {
		v.Keep = ""
	}
	return v
}

func omitted(d Difference) Verdict {
	v := Verdict{Rule: "J21", Backward: OK, Forward: OK, Note: true}
	what := fmt.Sprintf("%s in the place of %s", d.New.Omit, d.Old.Omit)
	switch {
	case d.Old.Omit == "":
		v.Rule, what = "J19", d.New.Omit+" added"
	case d.New.Omit == "":
		v.Rule, what = "J20", d.Old.Omit+" removed"
	}
	v.Text = fmt.Sprintf("%s: %s: what is left out decodes as it was", label(d.Path), what)
	return v
}

// label is how a message names a value.
func label(path string) string {
	if path == "" {
		return "the payload"
	}
	return fmt.Sprintf("field %q", path)
}

// Tag is the tag that gives a field its key.
func (f *Field) Tag() string {
	_, name, _ := split(f.Path)
	return fmt.Sprintf("json:%q", strings.Trim(name, `"`))
}

// isReserved reports whether a path is one of those reserved, which decoders
// take for the same if only the case differs.
func isReserved(path string, reserved []string) bool {
	return slices.ContainsFunc(reserved, func(r string) bool { return payload.Fold(r) == payload.Fold(path) })
}

// zero is how a message spells the zero value.
func zero(f *Field) string {
	switch {
	case f.Pointer:
		return "nil"
	case f.Kind == "string":
		return `""`
	case f.Kind == "bool":
		return "false"
	case f.Kind == "number":
		return `""`
	case f.Kind.bits() > 0:
		return "0"
	case f.Kind.nilable():
		return "nil"
	case f.Kind == "time":
		return "the zero time"
	}
	return "the zero value"
}
