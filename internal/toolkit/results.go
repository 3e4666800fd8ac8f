package toolkit

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// result is what an analysis returns. It is marshalled as it is.
type result interface {
	tell(t *text, detailed bool)
	findings() []finding
	missing() []string
	place() string
}

// gated is a result that can make the call fail.
type gated interface{ failed() bool }

// documented is a result with formats of its own.
type documented interface {
	document(format string) (whole []byte, ok bool)
}

// analysis is implemented by the arguments of each analysis.
type analysis interface {
	run(r *reading) (result, error)
}

// fitting returns the JSON of a result. It shortens the lists of the result until the JSON
// is not longer than the given number of bytes.
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

// halve removes half of each list that has a number for the removed elements: for a list
// named x, the number is named x_more. It reports whether there was such a list.
func halve(v reflect.Value) (shorter bool) {
	if v.Kind() == reflect.Pointer {
		return !v.IsNil() && halve(v.Elem())
	}
	if v.Kind() != reflect.Struct {
		return false
	}
	more := map[string]reflect.Value{} // numbers of removed elements, by the name of the list
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
