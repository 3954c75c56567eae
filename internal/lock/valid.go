package lock

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mistake says what in a shape could not come from a type, or "".
func (s Shape) mistake() string {
	byPath := map[string]Field{}
	for _, f := range s {
		if _, twice := byPath[f.Path]; twice {
			return fmt.Sprintf("%s is there twice", label(f.Path))
		}
		byPath[f.Path] = f
	}
	if _, ok := byPath[""]; !ok {
		return "the field \"\" of the whole payload is missing"
	}
	for _, f := range s {
		if wrong := f.mistake(byPath); wrong != "" {
			return fmt.Sprintf("%s %s", label(f.Path), wrong)
		}
	}
	return ""
}

func (f Field) mistake(byPath map[string]Field) string {
	if !f.Kind.valid() {
		return fmt.Sprintf("is of kind %q, which there is not", f.Kind)
	}
	if f.Path != "" {
		within, name, ok := split(f.Path)
		parent, found := byPath[within]
		if !ok || !found || parent.Same != "" || parent.Kind.container() != containerOf(name) {
			return "is in nothing that could hold it"
		}
	}
	target, found := byPath[f.same()]
	switch {
	case f.Same != "" && (!found || target.Same != "" || target.Kind != f.Kind || f.Kind.container() == ""):
		return fmt.Sprintf("is said to be the same as %q, which it cannot be", f.Same)
	case !slices.Contains([]string{"", "omitempty", "omitzero", "omitempty,omitzero"}, f.Omit):
		return fmt.Sprintf("has the option %q, which there is not", f.Omit)
	case slices.ContainsFunc(f.Enum, func(c string) bool { return !strings.Contains(c, "=") }):
		return "has a constant without a value"
	}
	return ""
}

// containerOf is what holds a value of that name.
func containerOf(name string) string {
	switch name {
	case elements:
		return "list"
	case values:
		return "map"
	}
	return "object"
}

func (k Kind) valid() bool {
	switch word, of := k.word(), k.of(); word {
	case "text", "opaque":
		return of != ""
	case "array":
		n, err := strconv.Atoi(of)
		return err == nil && strconv.Itoa(n) == of && n >= 0
	case "map":
		return Kind(of).valid()
	}
	return slices.Contains([]Kind{
		"bool", "string", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
		"number", "bytes", "time", "duration", "any", "raw", "object", "list",
	}, k)
}
