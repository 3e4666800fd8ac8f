package mcp

import (
	"bytes"
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
	"sync"

	"belljar.dev/mcp/wire"
)

// Limits of what is reported for one call. A client chooses the names of its arguments, and
// the report goes to its model and to the audit log.
const (
	mostFaults = 10  // faults
	faultMost  = 500 // bytes of a name, or of a fault's reason, in a fault
)

// argumentError states, for the agent, what is wrong with a call's arguments.
type argumentError struct{ faults []string }

func (e *argumentError) Error() string { return strings.Join(e.faults, "\n") }

// decodeArgs reads a tool's arguments into a new value of type in. It is stricter than
// encoding/json, because the policy and the tool must see what the agent meant. Names must
// have the right case. A name that is unknown or occurs twice is refused. No value is
// converted, and null is not a value. An optional argument that is null counts as left out,
// because OpenAI's strict mode sends it in this way. all contains the same arguments as a
// map, for the policy's conditions. all has one form, even if the arguments may be written
// in several.
func decodeArgs(raw []byte, in *shape, depth int) (v reflect.Value, all map[string]any, err error) {
	v = reflect.New(in.typ).Elem()
	if len(raw) == 0 || string(raw) == "null" {
		raw = []byte(`{}`)
	}
	if err := wire.CheckJSON(raw, depth); err != nil {
		return v, nil, unreadable(err)
	}
	d := argumentDecoder{}
	if raw = bytes.TrimSpace(raw); raw[0] != '{' {
		d.wrong("", raw, "an object with the tool's arguments")
	} else {
		all = d.object("", raw, in, v)
	}
	if len(d.faults) > 0 {
		return v, nil, &argumentError{d.faults}
	}
	return v, all, nil
}

// unreadable returns the error for arguments that are not JSON.
func unreadable(err error) error {
	if dup, ok := errors.AsType[*wire.DuplicateKeyError](err); ok {
		return &argumentError{[]string{fmt.Sprintf("argument %q is given twice; send it once", brief(dup.Key))}}
	}
	return &argumentError{[]string{"the arguments are not JSON: " + brief(err.Error())}}
}

// shape contains what decodeArgs needs to know about a struct type.
type shape struct {
	typ    reflect.Type
	fields map[string]*field
	names  []string // names of the fields, in the order of the struct
}

type field struct {
	at       int // index in shape.names
	index    []int
	required bool
	about    string // description of the field
}

// shapes contains the shapes of the structs in the tools' inputs, by reflect.Type.
// Computing a shape takes longer than decoding the arguments of a call.
var shapes sync.Map

// shapeOf returns the shape of a struct type, by the rules of its JSON schema: a
// field without omitempty or omitzero is required.
func shapeOf(t reflect.Type) (*shape, error) {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape), nil //nolint:forcetypeassert // nothing else is stored
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v is not a struct", t)
	}
	s := &shape{typ: t, fields: make(map[string]*field)}
	defer shapes.Store(t, s)
	for _, f := range reflect.VisibleFields(t) {
		tag, tagged := f.Tag.Lookup("json")
		if f.Anonymous && !tagged || !f.IsExported() || tag == "-" {
			continue // VisibleFields returns the fields of an embedded struct as well
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "" {
			name = f.Name
		}
		optional := slices.ContainsFunc(strings.Split(options, ","), func(o string) bool {
			return o == "omitempty" || o == "omitzero"
		})
		s.fields[name] = &field{at: len(s.names), index: f.Index, required: !optional, about: f.Tag.Get("jsonschema")}
		s.names = append(s.names, name)
	}
	return s, nil
}

// brief returns a text of the client for a fault, cut to faultMost.
func brief(s string) string {
	if len(s) <= faultMost {
		return s
	}
	return clip(s, faultMost) + "..."
}

type argumentDecoder struct{ faults []string }

// fault reports a fault. It cuts the texts among its arguments.
func (d *argumentDecoder) fault(format string, args ...any) {
	if len(d.faults) >= mostFaults {
		return
	}
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = brief(arg)
		case error:
			args[i] = brief(arg.Error())
		}
	}
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
}

func (d *argumentDecoder) wrong(path string, raw []byte, want string) {
	if path == "" {
		d.fault("the arguments are %s; they must be %s", kindOf(raw), want)
		return
	}
	d.fault("argument %q is %s; it must be %s", path, kindOf(raw), want)
}

// object reads an object into a struct, and returns it as a map.
func (d *argumentDecoder) object(path string, raw []byte, s *shape, v reflect.Value) map[string]any {
	all, seen := make(map[string]any), make([]bool, len(s.names))
	wire.Members(raw, func(member, value []byte) bool {
		f := s.fields[string(member)]
		if f == nil {
			d.unknown(join(path, string(member)), string(member), s)
			return len(d.faults) < mostFaults
		}
		name := s.names[f.at]
		seen[f.at] = true
		target, err := v.FieldByIndexErr(f.index)
		if err != nil {
			d.fault("argument %q cannot be taken: %v", join(path, name), err)
			return true
		}
		if f.required || string(value) != "null" {
			all[name] = d.value(join(path, name), value, target)
		}
		return true
	})
	for i, name := range s.names {
		f := s.fields[name]
		switch {
		case !f.required || seen[i]:
		case f.about == "":
			d.fault("argument %q is missing", join(path, name))
		default:
			d.fault("argument %q is missing: %s", join(path, name), f.about)
		}
	}
	return all
}

func (d *argumentDecoder) unknown(path, name string, s *shape) {
	switch near := nearest(name, s.names); {
	case len(s.names) == 0:
		d.fault("argument %q is not known; the tool takes no arguments", path)
	case near != "":
		d.fault("argument %q is not known; did you mean %q? Known: %s", path, near, strings.Join(s.names, ", "))
	default:
		d.fault("argument %q is not known. Known: %s", path, strings.Join(s.names, ", "))
	}
}

// value reads a value into v, and returns it in the form of encoding/json. After a fault,
// the result has no meaning.
func (d *argumentDecoder) value(path string, raw []byte, v reflect.Value) any {
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		v.Set(reflect.New(t.Elem())) // null is decoded as the pointer's type, too, and refused
		return d.value(path, raw, v.Elem())
	}
	if done := d.custom(path, raw, v); done {
		return d.plain(path, raw)
	}
	got := raw[0]
	number := got == '-' || '0' <= got && got <= '9'
	switch t.Kind() {
	case reflect.String:
		if got != '"' {
			d.wrong(path, raw, "a string")
			return nil
		}
		text := wire.Unquote(raw)
		v.SetString(text)
		return text
	case reflect.Bool:
		if got != 't' && got != 'f' {
			d.wrong(path, raw, "true or false")
			return nil
		}
		v.SetBool(got == 't')
		return got == 't'
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, ok := whole(raw)
		if !number || !ok || v.OverflowInt(n) {
			d.wrong(path, raw, "a whole number")
			return nil
		}
		v.SetInt(n)
		return float64(n)
	case reflect.Float32, reflect.Float64:
		f, err := strconv.ParseFloat(string(raw), 64)
		if !number || err != nil || v.OverflowFloat(f) {
			d.wrong(path, raw, "a number")
			return nil
		}
		v.SetFloat(f)
		return f
	case reflect.Slice:
		return d.slice(path, raw, v)
	case reflect.Map:
		if t == reflect.TypeFor[map[string]any]() {
			return d.anything(path, raw, v)
		}
		return d.mapping(path, raw, v)
	case reflect.Struct:
		s, err := shapeOf(t)
		if err != nil || got != '{' {
			d.wrong(path, raw, "an object")
			return nil
		}
		return d.object(path, raw, s, v)
	case reflect.Interface:
		if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
			d.fault("argument %q: %v", path, err)
		}
		return d.plain(path, raw)
	default:
		d.wrong(path, raw, "left out")
		return nil
	}
}

// plain returns a value as encoding/json reads it.
func (d *argumentDecoder) plain(path string, raw []byte) (v any) {
	if err := json.Unmarshal(raw, &v); err != nil {
		d.fault("argument %q: %v", path, err)
	}
	return v
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

func (d *argumentDecoder) slice(path string, raw []byte, v reflect.Value) []any {
	if raw[0] != '[' {
		d.wrong(path, raw, "an array")
		return nil
	}
	all, out := make([]any, 0), reflect.MakeSlice(v.Type(), 0, 0)
	wire.Elements(raw, func(value []byte) bool {
		item := reflect.New(v.Type().Elem()).Elem()
		all = append(all, d.value(fmt.Sprintf("%s[%d]", path, out.Len()), value, item))
		out = reflect.Append(out, item)
		return len(d.faults) < mostFaults
	})
	v.Set(out)
	return all
}

// anything reads an object whose values may have any type.
func (d *argumentDecoder) anything(path string, raw []byte, v reflect.Value) any {
	if raw[0] != '{' {
		d.wrong(path, raw, "an object")
		return nil
	}
	all := d.plain(path, raw)
	if all != nil {
		v.Set(reflect.ValueOf(all))
	}
	return all
}

// mapping reads a map of texts, which is an array of names and values or an object: see
// pairs.
func (d *argumentDecoder) mapping(path string, raw []byte, v reflect.Value) map[string]any {
	all, out := make(map[string]any), make(map[string]string)
	text := func(path string, raw []byte) (s string) {
		d.value(path, raw, reflect.ValueOf(&s).Elem())
		return s
	}
	switch {
	case v.Type() != reflect.TypeFor[map[string]string]():
		d.wrong(path, raw, "left out")
	case raw[0] == '{':
		wire.Members(raw, func(member, value []byte) bool {
			name := string(member)
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
	for name, value := range out {
		all[name] = value
	}
	return all
}

// pair is a member of a map, in the form of the schema.
type pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// whole returns a JSON number without a fraction. 3.0 and 3e2 are such numbers, too: JSON
// Schema counts them as integers.
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

// kindOf names the type of a JSON value, with the value's text if it is short.
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

// nearest returns the known name that is most similar to an unknown one: it differs only in
// case and separators, or in at most about a third of the letters. nearest returns an empty
// text if no name is similar enough.
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
		name = name[:64] // no known name is longer, and distance takes quadratic time
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
