package mcp

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"belljar.dev/mcp/wire"
)

// mostFaults is how many faults of one call are reported at most.
const mostFaults = 10

// argumentError says what is wrong with a call's arguments, for the agent.
type argumentError struct{ faults []string }

func (e *argumentError) Error() string { return strings.Join(e.faults, "\n") }

// decodeArgs reads a tool's arguments into a new value of type in. It is
// stricter than encoding/json, because the policy and the tool must see what
// the agent meant: names count with their case, a name that stands twice or is
// not known is refused, no value is converted, and null does not count as a value. An
// optional argument that is null counts as left out: OpenAI's strict mode sends it so.
// all is the same arguments as a map, for the policy's conditions, in one form
// whatever forms the arguments may have.
func decodeArgs(raw []byte, in *shape, depth int) (v reflect.Value, all map[string]any, err error) {
	v = reflect.New(in.typ).Elem()
	if len(raw) == 0 || string(raw) == "null" {
		raw = []byte(`{}`)
	}
	if err := wire.CheckJSON(raw, depth); err != nil {
		if dup, ok := errors.AsType[*wire.DuplicateKeyError](err); ok {
			return v, nil, &argumentError{[]string{fmt.Sprintf("argument %q is given twice; send it once", dup.Key)}}
		}
		return v, nil, &argumentError{[]string{fmt.Sprintf("the arguments are not JSON: %v", err)}}
	}
	d := argumentDecoder{}
	if err := json.Unmarshal(raw, &all); err != nil {
		d.wrong("", raw, "an object with the tool's arguments")
	} else {
		d.object("", raw, in, v)
	}
	if len(d.faults) > 0 {
		return v, nil, &argumentError{d.faults}
	}
	uniform(all, in.typ)
	return v, all, nil
}

// uniform brings decoded arguments of a type into one form: it removes members that
// are null, and turns a map that came as an array of names and values into a map. The
// arguments must have been decoded into the type without a fault.
func uniform(v any, t reflect.Type) any {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := v.(type) {
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return v
		}
		s, err := shapeOf(t)
		if err != nil {
			return v // cannot be: it was decoded by its shape
		}
		for name, value := range v {
			f := s.fields[name]
			switch {
			case f == nil: // of a type that reads itself
			case value == nil && !f.required:
				delete(v, name)
			default:
				v[name] = uniform(value, t.FieldByIndex(f.index).Type)
			}
		}
	case []any:
		switch t.Kind() {
		case reflect.Slice:
			for i := range v {
				v[i] = uniform(v[i], t.Elem())
			}
		case reflect.Map:
			byName := make(map[string]any, len(v))
			for _, pair := range v {
				if pair, ok := pair.(map[string]any); ok {
					name, _ := pair["name"].(string)
					byName[name] = pair["value"]
				}
			}
			return byName
		default:
		}
	}
	return v
}

// shape is what decodeArgs needs to know of a struct type.
type shape struct {
	typ    reflect.Type
	fields map[string]*field
	names  []string // in the order of the struct
}

type field struct {
	index    []int
	required bool
	about    string // its description
}

// shapeOf returns the shape of a struct type, by the rules of its JSON schema: a
// field without omitempty or omitzero is required.
func shapeOf(t reflect.Type) (*shape, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v is not a struct", t)
	}
	s := &shape{typ: t, fields: make(map[string]*field)}
	for _, f := range reflect.VisibleFields(t) {
		tag, tagged := f.Tag.Lookup("json")
		if f.Anonymous && !tagged || !f.IsExported() || tag == "-" {
			continue // the fields of an embedded struct are visible by themselves
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = f.Name
		}
		optional := slices.ContainsFunc(strings.Split(options, ","), func(o string) bool {
			return o == "omitempty" || o == "omitzero"
		})
		s.fields[name] = &field{index: f.Index, required: !optional, about: f.Tag.Get("jsonschema")}
		s.names = append(s.names, name)
	}
	return s, nil
}

type argumentDecoder struct{ faults []string }

func (d *argumentDecoder) fault(format string, args ...any) {
	if len(d.faults) < mostFaults {
		d.faults = append(d.faults, fmt.Sprintf(format, args...))
	}
}

func (d *argumentDecoder) wrong(path string, raw []byte, want string) {
	if path == "" {
		d.fault("the arguments are %s; they must be %s", kindOf(raw), want)
		return
	}
	d.fault("argument %q is %s; it must be %s", path, kindOf(raw), want)
}

func (d *argumentDecoder) object(path string, raw []byte, s *shape, v reflect.Value) {
	seen := make(map[string]bool, len(s.fields))
	wire.Members(raw, func(quoted, value []byte) bool {
		name := wire.Unquote(quoted)
		f := s.fields[name]
		if f == nil {
			d.unknown(join(path, name), name, s)
			return len(d.faults) < mostFaults
		}
		seen[name] = true
		target, err := v.FieldByIndexErr(f.index)
		if err != nil {
			d.fault("argument %q cannot be taken: %v", join(path, name), err)
			return true
		}
		if f.required || string(value) != "null" {
			d.value(join(path, name), value, target)
		}
		return true
	})
	for _, name := range s.names {
		f := s.fields[name]
		switch {
		case !f.required || seen[name]:
		case f.about == "":
			d.fault("argument %q is missing", join(path, name))
		default:
			d.fault("argument %q is missing: %s", join(path, name), f.about)
		}
	}
}

func (d *argumentDecoder) unknown(path, name string, s *shape) {
	switch near := nearest(name, s.names); {
	case len(s.names) == 0:
		d.fault("argument %q is not known; the tool takes none", path)
	case near != "":
		d.fault("argument %q is not known; did you mean %q? Known: %s", path, near, strings.Join(s.names, ", "))
	default:
		d.fault("argument %q is not known. Known: %s", path, strings.Join(s.names, ", "))
	}
}

func (d *argumentDecoder) value(path string, raw []byte, v reflect.Value) {
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		v.Set(reflect.New(t.Elem())) // null, too, is decoded as what it points to, and refused
		d.value(path, raw, v.Elem())
		return
	}
	if done := d.custom(path, raw, v); done {
		return
	}
	got := raw[0]
	number := got == '-' || '0' <= got && got <= '9'
	switch t.Kind() {
	case reflect.String:
		if got != '"' {
			d.wrong(path, raw, "a string")
			return
		}
		v.SetString(wire.Unquote(raw))
	case reflect.Bool:
		if got != 't' && got != 'f' {
			d.wrong(path, raw, "true or false")
			return
		}
		v.SetBool(got == 't')
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, ok := whole(raw)
		if !number || !ok || v.OverflowInt(n) {
			d.wrong(path, raw, "a whole number")
			return
		}
		v.SetInt(n)
	case reflect.Float32, reflect.Float64:
		f, err := strconv.ParseFloat(string(raw), 64)
		if !number || err != nil || v.OverflowFloat(f) {
			d.wrong(path, raw, "a number")
			return
		}
		v.SetFloat(f)
	case reflect.Slice:
		d.slice(path, raw, v)
	case reflect.Map:
		d.mapping(path, raw, v)
	case reflect.Struct:
		s, err := shapeOf(t)
		if err != nil || got != '{' {
			d.wrong(path, raw, "an object")
			return
		}
		d.object(path, raw, s, v)
	case reflect.Interface:
		if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
			d.fault("argument %q: %v", path, err)
		}
	default:
		d.wrong(path, raw, "left out")
	}
}

// custom lets a type decode itself; json.RawMessage, for example, does.
func (d *argumentDecoder) custom(path string, raw []byte, v reflect.Value) bool {
	switch u := v.Addr().Interface().(type) {
	case json.Unmarshaler:
		if err := u.UnmarshalJSON(raw); err != nil {
			d.fault("argument %q: %v", path, err)
		}
	case encoding.TextUnmarshaler:
		if raw[0] != '"' {
			d.wrong(path, raw, "a string")
		} else if err := u.UnmarshalText([]byte(wire.Unquote(raw))); err != nil {
			d.fault("argument %q: %v", path, err)
		}
	default:
		return false
	}
	return true
}

func (d *argumentDecoder) slice(path string, raw []byte, v reflect.Value) {
	if raw[0] != '[' {
		d.wrong(path, raw, "an array")
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, 0)
	wire.Elements(raw, func(value []byte) bool {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(fmt.Sprintf("%s[%d]", path, out.Len()), value, item)
		out = reflect.Append(out, item)
		return len(d.faults) < mostFaults
	})
	v.Set(out)
}

// mapping reads a map of texts, which is an array of names and values or an object:
// see pairs.
func (d *argumentDecoder) mapping(path string, raw []byte, v reflect.Value) {
	out := make(map[string]string)
	text := func(path string, raw []byte) (s string) {
		d.value(path, raw, reflect.ValueOf(&s).Elem())
		return s
	}
	switch {
	case v.Type() != reflect.TypeFor[map[string]string]():
		d.wrong(path, raw, "left out")
	case raw[0] == '{':
		wire.Members(raw, func(quoted, value []byte) bool {
			name := wire.Unquote(quoted)
			out[name] = text(join(path, name), value)
			return len(d.faults) < mostFaults
		})
	case raw[0] == '[':
		n := 0
		wire.Elements(raw, func(value []byte) bool {
			at := fmt.Sprintf("%s[%d]", path, n)
			n++
			if value[0] != '{' {
				d.wrong(at, value, "an object {name, value}")
				return len(d.faults) < mostFaults
			}
			var one pair
			told := len(d.faults)
			d.value(at, value, reflect.ValueOf(&one).Elem())
			if _, twice := out[one.Name]; twice && len(d.faults) == told {
				d.fault("argument %q has the name %q of an earlier one; send it once", at, one.Name)
			}
			out[one.Name] = one.Value
			return len(d.faults) < mostFaults
		})
	default:
		d.wrong(path, raw, "an array of {name, value}, or an object")
	}
	v.Set(reflect.ValueOf(out))
}

// pair is a member of a map, as the schema has it.
type pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// whole is a JSON number without a fraction: 3, and also 3.0 and 3e2, which
// JSON Schema counts as integers.
func whole(raw []byte) (int64, bool) {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// kindOf names the type of a JSON value, with its text if that is short.
func kindOf(raw []byte) string {
	shown := ""
	if len(raw) <= 40 {
		shown = " " + string(raw)
	}
	switch raw[0] {
	case '"':
		return "the string" + shown
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 'n':
		return "null"
	case 't', 'f':
		return string(raw)
	}
	return "the number" + shown
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// nearest returns the known name that an unknown one was likely meant to be: it
// differs in case and separators only, or in about a third of its letters. It is
// empty if no name is near.
func nearest(name string, known []string) string {
	best, least := "", math.MaxInt
	for _, k := range known {
		if d := distance(plain(name), plain(k)); d < least {
			best, least = k, d
		}
	}
	if least > (len(plain(name))+1)/3 {
		return ""
	}
	return best
}

func plain(name string) string {
	name = strings.ToLower(name)
	if len(name) > 64 {
		name = name[:64] // no name of ours is longer, and distance is quadratic
	}
	return strings.NewReplacer("_", "", "-", "", ".", "").Replace(name)
}

// distance counts the insertions, deletions and replacements from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
