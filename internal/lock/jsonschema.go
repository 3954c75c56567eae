package lock

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// JSONSchema returns the shape as a JSON Schema of 2020-12, without the
// keywords that name one. Rows of the version are valid under it, those included
// that hold what a change has removed or lack what it has added.
func (s Shape) JSONSchema() map[string]any {
	return schemaOf(tree(s))
}

func schemaOf(n *node) map[string]any {
	var out map[string]any
	if n.contents != n {
		out = map[string]any{"$ref": "#" + n.contents.pointer()}
	} else {
		out = n.Kind.schema(n.Quoted)
		n.describe(out)
		n.contain(out)
	}
	typ, ok := out["type"].(string)
	switch {
	case n.Null && ok:
		out["type"] = []string{typ, "null"}
	case n.Null && out["$ref"] != nil:
		out = map[string]any{"anyOf": []any{out, map[string]any{"type": "null"}}}
	}
	return out
}

// pointer is the JSON pointer to the schema of a value that holds others, in
// that of the whole payload.
func (n *node) pointer() string {
	switch {
	case n.parent == nil:
		return ""
	case n.name == elements:
		return n.parent.pointer() + "/items"
	case n.name == values:
		return n.parent.pointer() + "/additionalProperties"
	}
	key := strings.NewReplacer("~", "~0", "/", "~1").Replace(keyOf(n.name))
	return n.parent.pointer() + "/properties/" + escapeFragment(key)
}

// escapeFragment spells a part of a JSON pointer as RFC 6901 has it in URIs.
func escapeFragment(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c > ' ' && c < 0x7f && !strings.ContainsRune("\"#%<>[\\]^`{|}", rune(c)) {
			b.WriteByte(c)
			continue
		}
		const hex = "0123456789ABCDEF"
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}

// keyOf is the key of an object behind a name in a path.
func keyOf(name string) string {
	if key, err := strconv.Unquote(name); err == nil {
		return key
	}
	return name
}

// schema is that of the values of a kind, nothing for those that may be
// anything.
func (k Kind) schema(quoted bool) map[string]any {
	out := map[string]any{}
	switch word := k.word(); {
	case quoted:
		out["type"] = "string"
		switch {
		case k == "bool":
			out["pattern"] = "^(true|false)$"
		case k.isInt():
			out["pattern"] = "^-?[0-9]+$"
		}
	case k.isInt():
		low, high := k.limits()
		out["type"], out["minimum"], out["maximum"] = "integer", json.Number(low.String()), json.Number(high.String())
	case k.isNumber():
		out["type"] = "number"
	case k == "bool":
		out["type"] = "boolean"
	case k == "bytes":
		out["type"], out["contentEncoding"] = "string", "base64"
	case k == "time":
		out["type"], out["format"] = "string", "date-time"
	case k == "string", word == "text" && !strings.HasPrefix(k.of(), "*"):
		out["type"] = "string"
	case word == "object", word == "map":
		out["type"] = "object"
		if Kind(k.of()).isInt() {
			out["propertyNames"] = map[string]any{"pattern": "^-?[0-9]+$"}
		}
	case word == "list":
		out["type"] = "array"
	case word == "array":
		out["type"], out["minItems"], out["maxItems"] = "array", k.length(), k.length()
	}
	return out
}

// describe says what a schema cannot. The constants of a type do not limit
// what is stored: the zero value need not be one, nor one that a later release
// adds.
func (n *node) describe(out map[string]any) {
	switch {
	case len(n.Enum) > 0:
		out["description"] = "one of " + strings.Join(n.Enum, ", ")
	case n.Kind == "duration":
		out["description"] = "nanoseconds"
	case n.Kind.word() == "opaque":
		out["description"] = "as " + n.Kind.of() + " writes it"
	}
}

// contain adds the schemas of what a value holds.
func (n *node) contain(out map[string]any) {
	switch n.Kind.container() {
	case "object":
		properties, required := map[string]any{}, []string{}
		for _, name := range slices.Sorted(maps.Keys(n.inside)) {
			f, key := n.inside[name], keyOf(name)
			properties[key] = schemaOf(f)
			if f.Omit == "" && !f.Absent {
				required = append(required, key)
			}
		}
		if len(properties) > 0 {
			out["properties"] = properties
		}
		if len(required) > 0 {
			slices.Sort(required)
			out["required"] = required
		}
	case "map":
		if f := n.inside[values]; f != nil {
			out["additionalProperties"] = schemaOf(f)
		}
	case "list":
		if f := n.inside[elements]; f != nil {
			out["items"] = schemaOf(f)
		}
	}
}
