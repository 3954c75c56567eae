package lock

import (
	"cmp"
	"fmt"
	"strings"
)

func retyped(d Difference) Verdict {
	o := value{d.Old.Kind, d.Old.Quoted, d.old}
	n := value{d.New.Kind, d.New.Quoted, d.new}
	backward, forward := read(o, n), read(n, o)
	v := Verdict{
		Rule: retypeRule(d.Old, d.New), Backward: backward.Effect, Forward: forward.Effect,
		Text: fmt.Sprintf("%s changed from %s to %s: ", label(d.Path), o.words(), n.words()),
		Keep: "keep it " + o.source(),
	}
	switch {
	case v.Backward != OK:
		v.Text += stored + backward.such + " would " + backward.will
	case v.Forward != OK:
		v.Text += fresh + forward.such + " would " + forward.will
	default:
		v.Note, v.Keep = true, ""
		v.Text += "rows decode to the same; check that the values mean the same"
	}
	return v
}

// retypeRule is the row of the table that a change of kind belongs to.
func retypeRule(o, n *Field) string {
	either := func(word string) bool { return o.Kind.word() == word || n.Kind.word() == word }
	switch oc, nc := o.Kind.container(), n.Kind.container(); {
	case o.Kind == n.Kind:
		return "J16"
	case len(o.Enum) > 0 && len(n.Enum) > 0 && (o.Kind == "string") != (n.Kind == "string"):
		return "J44"
	case either("raw"):
		return "J28"
	case either("any"):
		return "J29"
	case either("opaque"), either("text"):
		if o.Kind.word() == n.Kind.word() && strings.TrimPrefix(o.Kind.of(), "*") == strings.TrimPrefix(n.Kind.of(), "*") {
			return "J41"
		}
		return "J40"
	case o.Kind == "bytes" && n.Kind.word() == "array":
		return "J25"
	case o.Kind.word() == "array" && n.Kind == "bytes":
		return "J26"
	case either("bytes"):
		return "J27"
	case either("time"):
		return "J32"
	case oc == "list" && nc == "list":
		return "J24"
	case oc == "map" && nc == "map":
		return "J31"
	case either("map") && oc != "" && nc != "":
		return "J30"
	case oc != nc && (oc == "list" || nc == "list" || oc == "map" || nc == "map"):
		return "J23"
	case either("duration") && o.Kind.isInt() && n.Kind.isInt():
		return "J33"
	case o.Kind.isNumber() && n.Kind.isNumber():
		return numberRule(o.Kind, n.Kind)
	case either("duration"):
		return "J33"
	}
	return "J15"
}

func numberRule(o, n Kind) string {
	switch {
	case o.isInt() && n.isInt():
		switch there, back := beyond(o, n), beyond(n, o); {
		case there == "":
			return "J09"
		case back == "":
			return "J10"
		}
		return "J11"
	case o.isInt():
		return "J12"
	case n.isInt():
		return "J13"
	}
	return "J14" // between the floats and json.Number
}

// source is how a field may be declared to be what it was: the lock takes int for
// int64.
func (v value) source() string {
	words := v.words()
	switch v.kind {
	case "int64":
		return "int or " + words
	case "uint64":
		return "uint or " + words
	}
	return words
}

// words spells a kind for a message, in Go where Go has a word.
func (v value) words() string {
	words := string(v.kind)
	switch v.kind.word() {
	case "object":
		words = "a struct"
	case "list":
		words = "a slice"
	case "array":
		words = "an array of " + v.kind.of()
	case "map":
		key := v.kind.of()
		words = fmt.Sprintf("a map with %s keys", cmp.Or(Kind(key).of(), key))
	case "text":
		words = v.kind.of() + " with MarshalText"
	case "opaque":
		words = v.kind.of() + " with MarshalJSON"
	case "bytes":
		words = "[]byte"
	case "time":
		words = "time.Time"
	case "duration":
		words = "time.Duration"
	case "number":
		words = "json.Number"
	case "raw":
		words = "json.RawMessage"
	}
	if v.quoted {
		words += " with the option string"
	}
	return words
}
