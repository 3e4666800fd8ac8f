package toolkit

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code/clone"
)

// A result that is too large is shortened, and states how much is missing.
func TestLargeResultsAreShortened(t *testing.T) {
	res := &ComprehensiveResult{Duplicates: &DuplicatesPart{}, Complexity: &ComplexityPart{}}
	for i := range 1000 {
		path := fmt.Sprint(strings.Repeat("long/", 200), i)
		res.Duplicates.Clones = append(res.Duplicates.Clones, clone.Clone{Kind: clone.Exact, Places: []clone.Place{{Path: path}, {Path: path}}})
		res.Complexity.Violations = append(res.Complexity.Violations, Violation{File: path})
		res.LeftOut = append(res.LeftOut, LeftOut{Files: i})
	}
	text, err := fitting(res, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	var got ComprehensiveResult
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if n := len(got.Duplicates.Clones); len(text) > 100_000 || n == 0 || n+got.Duplicates.ClonesMore != 1000 {
		t.Errorf("got %d bytes, %d clones and %d more", len(text), n, got.Duplicates.ClonesMore)
	}
	if n := len(got.Complexity.Violations); n == 0 || n+got.Complexity.ViolationsMore != 1000 || len(got.LeftOut) != 1000 {
		t.Errorf("got %d violations and %d more, and %d reasons; these have no number for the rest", n, got.Complexity.ViolationsMore, len(got.LeftOut))
	}
	if _, err := fitting(res, 1000); err == nil || !strings.Contains(err.Error(), "name a smaller project_path") {
		t.Errorf("got %v, want an error: what cannot be shortened has more than 1000 bytes", err)
	}
}
