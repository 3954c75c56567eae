package payload

import (
	"cmp"
	"go/token"
	"go/types"
)

// Field is a field of a struct as encoding/json writes it.
type Field struct {
	Key         string
	Name        string // from the struct, through what it embeds: "Base.ID"
	Type        types.Type
	Pos         token.Pos // see Problem.Pos
	Addressable bool      // whether Marshal can take its address
	Omit        string    // omitempty and omitzero as far as the tag has them, comma between
	Quoted      bool      // the option string, where it has an effect
}

// Fields returns the fields of a struct that are written, those of the structs
// that it embeds included, each key once. The position pos is that of the
// struct, for fields that from does not declare.
func Fields(from *types.Package, t types.Type, addressable bool, pos token.Pos) []Field {
	st, ok := t.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	w := &walker{from: from, told: map[told]int{}}
	var out []Field
	for _, f := range w.collect(types.Unalias(t), st, addressable, place{pos: pos}) {
		out = append(out, Field{
			Key: f.key, Name: f.name, Type: f.typ, Pos: f.at.pos, Addressable: f.addressable,
			Omit: f.tag.omit, Quoted: f.tag.quoted && quotable(f.typ),
		})
	}
	return out
}

// quotable reports whether the option string has an effect on a field.
func quotable(t types.Type) bool {
	if ptr, ok := types.Unalias(t).(*types.Pointer); ok {
		t = ptr.Elem()
	}
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsBoolean|types.IsInteger|types.IsFloat|types.IsString) != 0 && writer(t, true).name == ""
}

// Self returns the method by which values of t write or read themselves, the
// one that writes if there are both, or "". It reports whether Marshal calls
// it on a value of which it can take the address or not.
func Self(t types.Type, addressable bool) (method string, called bool) {
	out := writer(t, true).name
	return cmp.Or(out, reader(t).name), out != "" && writer(t, addressable).name == out
}

// SelfKey reports whether MarshalText of t is called where t is the key of a
// map.
func SelfKey(t types.Type) bool { return keyWritten(types.Unalias(t)) == custom }
