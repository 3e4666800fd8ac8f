package audit

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/policies"
)

// Records of calls write their fields themselves. TestEveryFieldIsWritten checks that each
// field of their types changes the line.
func TestEveryFieldIsWritten(t *testing.T) {
	for _, rec := range []quick{Decision{Args: map[string]any{}}, Outcome{}} {
		was := reflect.ValueOf(rec)
		for _, field := range reflect.VisibleFields(was.Type()) {
			if field.Anonymous || field.Type == reflect.TypeFor[policies.AuditLevel]() {
				continue // an embedded struct, whose fields follow, or a level, which TestLevels checks
			}
			changed := reflect.New(was.Type()).Elem()
			changed.Set(was)
			fillValue(t, changed.FieldByIndex(field.Index))
			other, ok := reflect.TypeAssert[quick](changed)
			if !ok {
				t.Fatalf("%v is not quick", changed.Type())
			}
			if before, now := body_(t, rec), body_(t, other); before == now {
				t.Errorf("field %s of %T stands nowhere in %s", field.Name, rec, now)
			}
		}
	}
}

// body_ returns the part of a record's line that does not depend on the time.
func body_(t *testing.T, rec quick) string {
	t.Helper()
	line, err := encode("1", "x", newRedactor(policies.AuditFull), rec)
	if err != nil || !json.Valid(append([]byte("{"), line...)) {
		t.Fatalf("%s: %v", line, err)
	}
	_, rest, _ := strings.Cut(string(line), `"pid":`)
	return rest
}

// fillValue sets a value to something that is not zero.
func fillValue(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.String:
		v.SetString("something")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(time.Second))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillValue(t, v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		e := reflect.New(v.Type().Elem()).Elem()
		if e.Kind() == reflect.Interface {
			e.Set(reflect.ValueOf("value"))
		} else {
			fillValue(t, e)
		}
		v.SetMapIndex(reflect.ValueOf("key"), e)
	case reflect.Struct: // every field gets a value
		for _, field := range v.Fields() {
			fillValue(t, field)
		}
	default:
		t.Fatalf("no value of %v", v.Type())
	}
}

// Each field of the parts of a record is written, too.
func TestEveryPartIsWritten(t *testing.T) {
	for name, with := range map[string]func(i int) quick{
		"rule":   func(i int) quick { return Decision{Rules: []Rule{one[Rule](t, i)}} },
		"facts":  func(i int) quick { return Decision{Facts: one[Facts](t, i)} },
		"client": func(i int) quick { return Decision{Client: one[Client](t, i)} },
		"act":    func(i int) quick { return Decision{Facts: Facts{Acts: []Act{one[Act](t, i)}}} },
	} {
		seen := map[string]int{body_(t, with(-1)): -1}
		for i := range map[string]int{"rule": reflect.TypeFor[Rule]().NumField(), "facts": reflect.TypeFor[Facts]().NumField(), "client": reflect.TypeFor[Client]().NumField(), "act": reflect.TypeFor[Act]().NumField()}[name] {
			line := body_(t, with(i))
			if other, ok := seen[line]; ok {
				t.Errorf("%s: fields %d and %d are written alike: %s", name, other, i, line)
			}
			seen[line] = i
		}
	}
}

// one returns a value whose i-th field is not zero, or the zero value if i is negative.
func one[T any](t *testing.T, i int) T {
	var v T
	if i >= 0 {
		fillValue(t, reflect.ValueOf(&v).Elem().Field(i))
	}
	return v
}

// Records that are encoded by hand are read back by encoding/json, whatever
// the values.
func TestValues(t *testing.T) {
	var args map[string]any
	text := `{"b":[1,2.5,-3,1e300,1e-7,123456789012345678,true,false,null,"x",[],{}],"a":{"z":1,"y":{"x":"\u0000\u001f\"\\\n\t\r<>&\u2028\u2029\u007fé😀"}},"":""}`
	if err := json.Unmarshal([]byte(text), &args); err != nil {
		t.Fatal(err)
	}
	d := decision(1)
	d.Args = args
	var got struct{ Args map[string]any }
	line, err := encode("1", KindDecision, newRedactor(policies.AuditRequest), d)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(append([]byte("{"), line...), &got); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if diff := cmp.Diff(args, got.Args); diff != "" {
		t.Error(diff)
	}
	if bytes.ContainsAny(line, "\n\r\u2028") {
		t.Errorf("%q breaks a line", line)
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("\x00\xff\u2028\"\\<é")
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		line := appendString(nil, s)
		if err := json.Unmarshal(line, &got); err != nil || got != strings.ToValidUTF8(s, "\ufffd") && got != runes(s) {
			t.Errorf("%q: got %s, which is read as %q: %v", s, line, got, err)
		}
	})
}

// runes returns s with each byte that is not UTF-8 replaced by U+FFFD.
func runes(s string) string { return string([]rune(s)) }
