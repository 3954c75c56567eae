// Command roundtrip writes values of one type and reads them as another with
// encoding/json, for all pairs in the order of cases.go, which the test writes.
// It prints what happened as lines of JSON.
package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"time"
)

// pair is a type that writes and one that reads.
type pair struct {
	name     string
	old, new reflect.Type
}

// result is what became of one value.
type result struct {
	Case    string
	Forward bool
	Written json.RawMessage
	Error   string          `json:",omitempty"`
	Read    json.RawMessage `json:",omitempty"` // what was read, written again
}

func main() {
	enc := json.NewEncoder(os.Stdout)
	enc.SetEscapeHTML(false)
	for _, p := range pairs {
		for _, forward := range []bool{false, true} {
			from, to := p.old, p.new
			if forward {
				from, to = to, from
			}
			done := map[string]bool{}
			for _, v := range samples(from, 0) {
				written, err := json.Marshal(v.Interface())
				if err != nil || done[string(written)] {
					continue
				}
				done[string(written)] = true
				r := result{Case: p.name, Forward: forward, Written: written}
				r.Read, err = read(written, to)
				if err != nil {
					r.Error = err.Error()
				}
				if err := enc.Encode(r); err != nil {
					panic(err)
				}
			}
		}
	}
}

func read(written []byte, to reflect.Type) (again []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	v := reflect.New(to)
	if err := json.Unmarshal(written, v.Interface()); err != nil {
		return nil, err
	}
	return json.Marshal(v.Elem().Interface())
}

// samples are values of a type: ordinary ones, those at its limits and those
// that another type is likely to take for something else.
func samples(t reflect.Type, depth int) []reflect.Value {
	var out []reflect.Value
	add := func(list ...any) {
		for _, v := range list {
			out = append(out, reflect.ValueOf(v).Convert(t))
		}
	}
	out = append(out, reflect.Zero(t))
	switch t {
	case reflect.TypeFor[time.Time]():
		add(time.Unix(1, 5).UTC(), time.Date(2026, 2, 3, 4, 5, 6, 0, time.FixedZone("", 3600)))
		return out
	case reflect.TypeFor[json.Number]():
		add("0", "12", "1.5", "1e400", "123456789012345678901234567890")
		return out
	case reflect.TypeFor[json.RawMessage]():
		add("0", `"abc"`, "true", `{"a": [1]}`, "123456789012345678901234567890", `"YQ=="`)
		return out
	}
	switch t.Kind() {
	case reflect.Bool:
		add(true)
	case reflect.String:
		add("a b", "new", "paid", "12", "abcd", "true", "1.5", "\u2028<é", "\"")
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		for _, n := range []int64{1, 2, 3, -1, 127, 300, 1 << 24, 1<<24 + 1, 1<<31 - 1, 1<<53 + 1, math.MaxInt64, math.MinInt64, -128, -1 << 31} {
			if !reflect.Zero(t).OverflowInt(n) {
				add(n)
			}
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		for _, n := range []uint64{1, 2, 3, 127, 255, 300, 1<<24 + 1, 1<<32 - 1, 1<<53 + 1, math.MaxUint64} {
			if !reflect.Zero(t).OverflowUint(n) {
				add(n)
			}
		}
	case reflect.Float32, reflect.Float64:
		add(1, 1.5, -1, float32(0.1), 1e21, 1.0/3)
		if t.Kind() == reflect.Float64 {
			add(math.MaxFloat64, math.SmallestNonzeroFloat64)
		}
	case reflect.Interface:
		for _, v := range []any{"abc", 1.5, true, []any{"a"}, map[string]any{"a": 1.0}} {
			out = append(out, reflect.ValueOf(v))
		}
	case reflect.Pointer:
		if depth < 4 {
			for _, v := range samples(t.Elem(), depth+1) {
				p := reflect.New(t.Elem())
				p.Elem().Set(v)
				out = append(out, p)
			}
		}
	case reflect.Slice:
		out = append(out, reflect.MakeSlice(t, 0, 0))
		if depth < 4 {
			list := reflect.MakeSlice(t, 0, 0)
			for _, v := range samples(t.Elem(), depth+1) {
				out = append(out, reflect.Append(reflect.MakeSlice(t, 0, 1), v))
				list = reflect.Append(list, v)
			}
			out = append(out, list)
		}
	case reflect.Array:
		for i, v := range samples(t.Elem(), depth+1) {
			if t.Len() > 0 {
				a := reflect.New(t).Elem()
				a.Index(i % t.Len()).Set(v)
				a.Index(t.Len() - 1).Set(v)
				out = append(out, a)
			}
		}
	case reflect.Map:
		out = append(out, reflect.MakeMap(t))
		if depth < 4 {
			keys, values := samples(t.Key(), depth+1), samples(t.Elem(), depth+1)
			for i := range max(len(keys), len(values)) {
				m := reflect.MakeMap(t)
				m.SetMapIndex(keys[i%len(keys)], values[i%len(values)])
				out = append(out, m)
			}
		}
	case reflect.Struct:
		var fields [][]reflect.Value
		most := 0
		for i := range t.NumField() {
			if !t.Field(i).IsExported() && !t.Field(i).Anonymous || depth > 4 {
				fields = append(fields, nil)
				continue
			}
			fields = append(fields, samples(t.Field(i).Type, depth+1))
			most = max(most, len(fields[i]))
		}
		for n := 1; n < most; n++ {
			v := reflect.New(t).Elem()
			for i, values := range fields {
				if len(values) > 0 && v.Field(i).CanSet() {
					v.Field(i).Set(values[(n+i)%len(values)])
				}
			}
			out = append(out, v)
		}
	}
	return out
}
