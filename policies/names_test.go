package policies_test

import (
	"regexp"
	"strings"
	"testing"

	"belljar.dev/policies"
)

// The schema that editors check a policy with names a pattern for names. The decoder
// does not use that pattern, whose bound is slow to compile, and must take the same.
func TestNamesAreThoseOfTheSchema(t *testing.T) {
	const pattern = `^[a-z0-9][a-z0-9._-]{0,63}$`
	if !strings.Contains(string(policies.Schema()), `"pattern": "`+pattern+`"`) {
		t.Fatalf("the schema has no pattern %s", pattern)
	}
	names := []string{"a", "0", "a.b", "a_b-c", ".a", "-a", "_a", "A", "aB", "a b", "é", "a\u00e9", "a/b", "a:b"}
	for _, n := range []int{63, 64, 65, 1000} {
		names = append(names, strings.Repeat("a", n), strings.Repeat("a", n-1)+"-", strings.Repeat("a", n-1)+"B")
	}
	for _, name := range names {
		_, err := policies.Parse("test.yaml", []byte("version: 1\nprofiles: {p: {}}\nrules: [{id: \""+name+"\", decision: deny}]\n"))
		refused := err != nil && strings.Contains(err.Error(), "cannot be the id of a rule")
		if want := regexp.MustCompile(pattern).MatchString(name); refused == want {
			t.Errorf("%.80q: the schema takes it: %v; the decoder: %v", name, want, err)
		}
	}
}
