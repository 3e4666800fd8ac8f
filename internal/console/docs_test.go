package console

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The table in docs/console.md contains every route with its role, and no other routes:
// WC30.
func TestRoutesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/console.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]string) // role by route
	var known []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		for i, word := range strings.Split(cells[1], "`") {
			if method, path, ok := strings.Cut(word, " "); ok && i%2 == 1 {
				documented[method+" "+path] = strings.TrimSpace(cells[2])
			}
		}
	}
	front, _, _ := linked(t)
	for _, r := range append(start(t, full).routes(), front.routes()...) {
		if slices.Contains(known, r.method+" "+r.path) {
			continue
		}
		known = append(known, r.method+" "+r.path)
		role := r.needs.String()
		if r.needs == 0 {
			role = "none"
		}
		if is := documented[r.method+" "+r.path]; is != role {
			t.Errorf("%s %s is for %s, and docs/console.md says %q", r.method, r.path, role, is)
		}
		delete(documented, r.method+" "+r.path)
	}
	for name := range documented {
		t.Errorf("docs/console.md has %s, which is not a route", name)
	}
}
