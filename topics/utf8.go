package topics

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// maxWalkDepth bounds the walk; json.Marshal has already refused cycles.
const maxWalkDepth = 1000

var (
	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
)

// findInvalidUTF8 returns the path of the first string within v that
// encoding/json would silently repair. Types that marshal themselves answer
// for their own output, but for text marshalers, whose text is repaired too.
func findInvalidUTF8(v any) (path string, found bool) {
	return walkStrings(reflect.ValueOf(v), "payload", 0)
}

func walkStrings(v reflect.Value, path string, depth int) (string, bool) {
	if !v.IsValid() || depth > maxWalkDepth {
		return "", false
	}
	if v.CanInterface() && v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface {
		if v.Type().Implements(marshalerType) {
			return "", false
		}
		if v.Type().Implements(textMarshalerType) {
			text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
			return path, err == nil && !utf8.Valid(text)
		}
	}
	switch v.Kind() {
	case reflect.String:
		return path, !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return "", false
		}
		return walkStrings(v.Elem(), path, depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if (!f.IsExported() && !f.Anonymous) || f.Tag.Get("json") == "-" {
				continue
			}
			if p, bad := walkStrings(v.Field(i), path+"."+f.Name, depth+1); bad {
				return p, true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if p, bad := walkStrings(it.Key(), path+"[key]", depth+1); bad {
				return p, true
			}
			if p, bad := walkStrings(it.Value(), fmt.Sprintf("%s[%v]", path, it.Key()), depth+1); bad {
				return p, true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if p, bad := walkStrings(v.Index(i), fmt.Sprintf("%s[%d]", path, i), depth+1); bad {
				return p, true
			}
		}
	}
	return "", false
}
