package search

import "testing"

func TestBundledEnginesLoad(t *testing.T) {
	if _, err := LoadEngines(""); err != nil {
		t.Fatal(err)
	}
}
