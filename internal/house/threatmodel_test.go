package house

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shownBy ends the head of a table whose rows are claims: their last cell names
// the tests that show them.
const shownBy = "| shown by |"

var (
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	coded    = regexp.MustCompile("`([^`]+)`")
)

// testNames are the tests of the tree: functions, and scripts by their file's name.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, name := range files(t) {
		switch {
		case strings.HasSuffix(name, ".txtar"):
			names[filepath.Base(name)] = true
		case strings.HasSuffix(name, "_test.go"):
			for _, m := range testFunc.FindAllStringSubmatch(read(t, name), -1) {
				names[m[1]] = true
			}
		}
	}
	return names
}

func TestEveryClaimOfTheThreatModelNamesItsTest(t *testing.T) {
	names := testNames(t)
	claims, within := 0, false
	for line := range strings.Lines(read(t, "docs/threat-model.md")) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasSuffix(line, shownBy):
			within = true
			continue
		case !strings.HasPrefix(line, "|"):
			within = false
		}
		if !within || strings.HasPrefix(line, "|---") {
			continue
		}
		claims++
		cells := strings.Split(strings.Trim(line, "|"), "|")
		shown := coded.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(shown) == 0 {
			t.Errorf("docs/threat-model.md: this claim names no test: %s", line)
		}
		for _, m := range shown {
			if !names[m[1]] {
				t.Errorf("docs/threat-model.md: there is no test %s: %s", m[1], line)
			}
		}
	}
	if claims < 20 {
		t.Errorf("docs/threat-model.md: got %d claims, want 20 at least", claims)
	}
}
