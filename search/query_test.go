package search

import (
	"reflect"
	"testing"

	"belljar.dev/search/engine"
)

// TestForEngineHasEveryField checks that forEngine fills in every field that an engine can
// be asked with.
func TestForEngineHasEveryField(t *testing.T) {
	q := Query{Text: "words", MaxResults: 3, Language: "de", Region: "AT", SafeSearch: "strict", TimeRange: "week", Page: 2}
	whole, part := reflect.ValueOf(q), reflect.ValueOf(q.forEngine())
	for i := range part.NumField() {
		name := reflect.TypeFor[engine.Query]().Field(i).Name
		want := whole.FieldByName(name)
		if !want.IsValid() || want.IsZero() {
			t.Errorf("Query has no %s, or this test gives it no value", name)
			continue
		}
		if got := part.Field(i); !got.Equal(want) {
			t.Errorf("%s: an engine is asked %v, want %v", name, got, want)
		}
	}
}
