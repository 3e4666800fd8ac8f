package house

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shownBy is the end of the head of a table whose rows are claims. The last cell of each
// row names the tests that prove the claim.
const shownBy = "| shown by |"

var (
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
	coded    = regexp.MustCompile("`([^`]+)`")
)

// testNames returns the names of all tests of the tree: test functions, and the file names
// of scripts.
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

// claims returns the rows of a page whose last cell names the tests that prove them. It
// fails t if a test does not exist.
func claims(t *testing.T, page string) (rows [][]string) {
	t.Helper()
	names, within := testNames(t), false
	for line := range strings.Lines(read(t, page)) {
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
		cells := cellsOf(line)
		rows = append(rows, cells)
		shown := coded.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(shown) == 0 {
			t.Errorf("%s: this claim names no test: %s", page, line)
		}
		for _, m := range shown {
			if !names[m[1]] {
				t.Errorf("%s: there is no test %s: %s", page, m[1], line)
			}
		}
	}
	return rows
}

// cellsOf returns the cells of a row of a table.
func cellsOf(line string) (cells []string) {
	for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	return cells
}

func TestEveryClaimOfTheThreatModelNamesItsTest(t *testing.T) {
	if n := len(claims(t, "docs/threat-model.md")); n < 20 {
		t.Errorf("docs/threat-model.md: got %d claims, want 20 at least", n)
	}
}

// Each row of the gateway names its tests, or is listed once below the table with the
// reason why it has no test.
func TestEveryRowOfTheGatewayNamesItsTest(t *testing.T) {
	everyRow(t, "docs/gateway-rows.md", map[string]int{"GW": 52, "GW-A": 55})
}

// Each row of the console, and each attack on the console, names its tests.
func TestEveryRowOfTheConsoleNamesItsTest(t *testing.T) {
	everyRow(t, "docs/console-rows.md", map[string]int{"WC": 30, "WC-A": 33})
}

// Each row of the agent's browser, and each attack on this browser, names its tests.
func TestEveryRowOfTheBrowserNamesItsTest(t *testing.T) {
	everyRow(t, "docs/browsing-rows.md", map[string]int{"BR": 43, "BR-A": 50})
}

// If a comment contains the ID of a row, the row is on its page.
func TestEveryRowThatACommentNamesIsOnItsPage(t *testing.T) {
	id, known := regexp.MustCompile(`\b(?:BR|GW|HF|WC)(?:-A)?[0-9]+\b`), make(map[string]bool)
	for _, page := range []string{"docs/browsing-rows.md", "docs/console-rows.md", "docs/front-rows.md", "docs/gateway-rows.md"} {
		for _, found := range id.FindAllString(read(t, page), -1) {
			known[found] = true
		}
	}
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".txtar") {
			continue
		}
		for _, found := range id.FindAllString(read(t, name), -1) {
			if !known[found] {
				t.Errorf("%s: no page has the row %s", name, found)
			}
		}
	}
}

// Each row of the HTTP front, and each attack on this front, names its tests.
func TestEveryRowOfTheFrontNamesItsTest(t *testing.T) {
	everyRow(t, "docs/front-rows.md", map[string]int{"HF": 36, "HF-A": 52})
}

// everyRow checks that a page has each row exactly once. kinds contains the number of rows
// of each kind.
func everyRow(t *testing.T, page string, kinds map[string]int) {
	t.Helper()
	got := make(map[string]int)
	for _, row := range claims(t, page) {
		got[row[0]]++
	}
	_, missing, _ := strings.Cut(read(t, page), "| id | what | why |")
	for line := range strings.Lines(missing) {
		if cells := cellsOf(strings.TrimSpace(line)); len(cells) == 3 && cells[2] != "" {
			got[cells[0]]++
		}
	}
	for kind, most := range kinds {
		for i := range most {
			if id := fmt.Sprintf("%s%d", kind, i+1); got[id] != 1 {
				t.Errorf("%s: the row %s is there %d times, want once", page, id, got[id])
			}
		}
	}
}
