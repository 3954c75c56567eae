package lock

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// reading is what becomes of a value that one type wrote and another reads.
type reading struct {
	Effect
	such string // a value that it happens to, or which values
	will string // what happens: "would ..."
}

var (
	fine  = reading{Effect: OK}
	fails = reading{Effect: Fails, will: "fail to decode and be retried, then parked"}
)

func failsFor(such string) reading { return reading{Fails, such, fails.will} }

func wrong(will string) reading {
	return reading{Effect: Wrong, will: will + " without an error"}
}

func unknown(name string) reading {
	will := fmt.Sprintf("decode as the methods of %s have it, which only a test with a stored payload can tell", strings.TrimPrefix(name, "*"))
	return reading{Effect: Unknown, will: will}
}

// rounded is what happens to numbers in a float64.
var rounded = reading{Wrong, " with numbers above 9007199254740992", "decode with other digits, without an error"}

// value is what is known of one side.
type value struct {
	kind   Kind
	quoted bool
	node   *node // for what is inside
}

func valueOf(n *node) value { return value{n.Kind, n.Quoted, n} }

// inside returns the values inside, by name.
func (v value) inside() map[string]*node {
	if v.node == nil {
		return nil
	}
	return v.node.contents.inside
}

// read says what becomes of values that are written as one kind and read as
// another, null aside. It is what encoding/json does; where some values fare
// worse than others it is what most see.
func read(from, to value) reading {
	switch {
	case from.kind == to.kind && from.quoted == to.quoted || to.kind == "raw":
		return fine
	case to.kind == "any":
		return readAny(from)
	case from.kind == "any", from.kind == "raw":
		return failsFor(" with another kind of JSON")
	case from.kind.word() == "opaque":
		return unknown(from.kind.of())
	case to.kind.word() == "opaque":
		return unknown(to.kind.of())
	case from.quoted:
		return readQuoted(from, to)
	case to.quoted && from.kind.word() != "text":
		return fails
	case from.kind.isNumber():
		return readNumber(from.kind, to.kind)
	case from.kind.container() != "":
		return readContainer(from, to)
	}
	return readString(from.kind, to)
}

// readAny reads into an empty interface, where a number is a float64.
func readAny(from value) reading {
	switch {
	case from.kind.word() == "opaque":
		return unknown(from.kind.of())
	case from.quoted:
		return fine
	case from.kind.container() == "" && from.wide(), from.kind.container() != "" && wide(from.node, map[*node]bool{}):
		return rounded
	}
	return fine
}

// wide reports whether a value may be a number that a float64 does not hold.
func (v value) wide() bool {
	return !v.quoted && (v.kind.isInt() && !exact(v.kind, "float64") || v.kind == "number" || v.kind == "raw" || v.kind.word() == "opaque")
}

// wide is the same for what is inside.
func wide(n *node, seen map[*node]bool) bool {
	if n == nil || seen[n.contents] {
		return false
	}
	seen[n.contents] = true
	for _, in := range n.contents.inside {
		if valueOf(in).wide() || wide(in, seen) {
			return true
		}
	}
	return false
}

// readQuoted reads a string that holds a JSON value.
func readQuoted(from, to value) reading {
	inner := value{kind: from.kind}
	switch {
	case to.quoted:
		return read(inner, value{kind: to.kind})
	case to.kind == "string" && from.kind == "string":
		return wrong("decode with quotes in them")
	case to.kind == "string", to.kind == "number" && from.kind.isNumber():
		return fine
	case to.kind.word() == "text":
		return unknown(to.kind.of())
	}
	return fails
}

func readNumber(from, to Kind) reading {
	switch {
	case to == "number":
		return fine
	case from.isInt() && to.isInt():
		if example := beyond(from, to); example != "" {
			return failsFor(" with a value such as " + example)
		}
		return fine
	case from.isInt() && to.isFloat():
		switch {
		case exact(from, to):
			return fine
		case to == "float32":
			return reading{Wrong, " with numbers above 16777216", rounded.will}
		}
		return rounded
	case to.isInt():
		return failsFor(" with a value such as 1.5")
	case from == "float32" && to == "float64":
		return fine
	case to == "float32":
		return reading{Wrong, " with a value such as 0.123456789", "be rounded to 7 digits without an error"}
	case to == "float64":
		return reading{Wrong, " with more than 15 digits", rounded.will}
	}
	return fails
}

// readString reads what is written as a string, or a bool.
func readString(from Kind, to value) reading {
	switch {
	case from == "bool":
		return fails
	case to.kind == "string" && !to.quoted:
		if from == "bytes" {
			return wrong("decode as the text of their base64")
		}
		return fine
	case from.word() == "text" && (to.quoted || to.kind == "time" || to.kind == "bytes" || to.kind == "number"):
		return unknown(from.of())
	case to.kind.word() == "text":
		return unknown(to.kind.of())
	case from == "string" && to.kind == "bytes":
		return failsFor(` with a value such as "a b"`) // others are taken for base64
	case from == "string" && to.kind != "bool":
		return failsFor(` with a value such as "abc"`)
	}
	return fails
}

func readContainer(from, to value) reading {
	short := func() reading { return wrong(fmt.Sprintf("be cut to %d elements", to.kind.length())) }
	switch pair := [2]string{from.kind.word(), to.kind.word()}; pair {
	case [2]string{"list", "array"}:
		return short()
	case [2]string{"array", "array"}:
		if from.kind.length() < to.kind.length() {
			return reading{Effect: Zero, will: "decode with zero values at the end, without an error"}
		}
		return short()
	case [2]string{"array", "list"}:
		return fine
	case [2]string{"list", "bytes"}, [2]string{"array", "bytes"}:
		if element := from.inside()[elements]; element != nil {
			return read(valueOf(element), value{kind: "uint8"})
		}
	case [2]string{"map", "map"}:
		return readKey(Kind(from.kind.of()), Kind(to.kind.of()))
	case [2]string{"map", "object"}:
		return reading{Zero, " with keys that are no field", "lose them without an error"}
	case [2]string{"object", "map"}:
		return readAsMap(from, to)
	}
	return fails
}

// readAsMap reads the fields of a struct as the values of a map.
func readAsMap(from, to value) reading {
	all := to.inside()[values]
	if of := to.kind.of(); all == nil || of != "string" {
		return fails
	}
	for _, name := range slices.Sorted(maps.Keys(from.inside())) {
		n := from.inside()[name]
		r := read(valueOf(n), valueOf(all))
		switch {
		case r.Effect != OK:
			return r
		case n.Null && !all.Pointer && !all.Kind.nilable():
			return reading{Zero, " with nil inside", "decode with the zero value there, without an error"}
		case n.Kind.container() != "" && all.Kind.container() != "" && !same(n, all):
			return fails
		}
	}
	return fine
}

// same reports whether two values hold the same. Two that hold what would be
// read all the same are not worth a finer answer.
func same(o, n *node) bool {
	d := differ{seen: map[[2]*node]bool{}}
	d.value("", o, n)
	return len(d.out)+len(d.gone)+len(d.come) == 0
}

// readKey reads the keys of a map, which are strings all of them.
func readKey(from, to Kind) reading {
	switch {
	case from.word() == "opaque" || to.word() == "opaque" || to.word() == "text":
		return unknown(to.of())
	case to == "string":
		return fine
	case from.isInt() && to.isInt():
		return readNumber(from, to)
	}
	return failsFor(` with a key such as "abc"`)
}
