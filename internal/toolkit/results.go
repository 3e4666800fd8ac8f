package toolkit

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// result is what an analysis returns, and is marshalled as it is.
type result interface {
	tell(t *text, detailed bool)
	findings() []finding
	missing() []string
	place() string
}

// gated is a result that can fail.
type gated interface{ failed() bool }

// documented is a result with forms of its own.
type documented interface {
	document(format string) (whole []byte, ok bool)
}

// analysis is the part of its arguments that measures.
type analysis interface {
	run(r *reading) (result, error)
}

// fitting returns the JSON of a result, whose lists are shortened until it has at most that
// many bytes.
func fitting(res result, most int) ([]byte, error) {
	for {
		text, err := json.Marshal(res)
		if err != nil || len(text) <= most {
			return text, err
		}
		if !halve(reflect.ValueOf(res)) {
			return nil, fmt.Errorf("the result has %d bytes, more than %d; name a smaller project_path, or patterns", len(text), most)
		}
	}
}

// halve leaves out half of each list that has a number for what is beyond it: beside a list
// named x, x_more. It reports whether there was such a list.
func halve(v reflect.Value) (shorter bool) {
	if v.Kind() == reflect.Pointer {
		return !v.IsNil() && halve(v.Elem())
	}
	if v.Kind() != reflect.Struct {
		return false
	}
	more := map[string]reflect.Value{} // the numbers
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if list, ok := strings.CutSuffix(name, "_more"); ok {
			more[list] = v.Field(i)
		}
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		list, beyond := v.Field(i), more[name]
		if list.Kind() != reflect.Slice || !beyond.IsValid() {
			shorter = halve(list) || shorter
			continue
		}
		if n := list.Len(); n > 0 {
			beyond.SetInt(beyond.Int() + int64(n-n/2))
			list.SetLen(n / 2)
			shorter = true
		}
	}
	return shorter
}
