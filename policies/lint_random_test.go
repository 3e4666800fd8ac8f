package policies_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"belljar.dev/policies"
)

// If lint says that a rule decides nothing, the rule can be removed, and no call whose
// words say everything gets another verdict.
func TestLintDeadRulesDecideNothing(t *testing.T) {
	g := rand.New(rand.NewPCG(11, 0))
	pick := func(all ...string) string { return all[g.IntN(len(all))] }
	words := func() string {
		n := 1 + g.IntN(3)
		all := make([]string, n)
		for i := range all {
			all[i] = pick("a", "b", "-f", "a", "*", "**", "{a,b}", "a*", "-*")
		}
		return strings.Join(all, " ")
	}
	key := func() string {
		switch g.IntN(8) {
		case 0:
			return fmt.Sprintf("command: %q, path: %q", words(), pick("/a", "/a/**", "**/b", "**"))
		case 1:
			return fmt.Sprintf("path: %q", pick("/a", "/a/**", "**/b", "**"))
		case 2:
			return fmt.Sprintf("url: %q", pick("https://a.example/**", "https://*.example/**", "*://*/**", "https://<public>/a/**", "https://*:*/**"))
		case 3:
			return fmt.Sprintf("host: %q", pick("a.example", "*.example", "*"))
		}
		return fmt.Sprintf("command: %q", words())
	}
	rule := func(i int) string {
		match := []string{}
		if g.IntN(4) > 0 {
			match = append(match, "tool: "+pick("Bash", `"*Bash"`, "ReadDocs", `"*"`, "[Bash, ReadDocs]"))
		}
		if g.IntN(5) > 0 || len(match) == 0 {
			match = append(match, key())
		}
		if strings.Contains(match[len(match)-1], "command") && g.IntN(4) == 0 {
			match = append(match, pick("flags: [-f]", "env: [X]", `any_flag: ["-*"]`))
		}
		if g.IntN(6) == 0 {
			match = append(match, "profile: "+pick("offline", "net", "[net, offline]"))
		}
		unless := ""
		if g.IntN(5) == 0 {
			unless = "unless: {" + key() + "}, "
		}
		return fmt.Sprintf("  - {id: r%d, match: {%s}, %sdecision: %s}\n", i, strings.Join(match, ", "), unless, pick("allow", "ask", "deny"))
	}
	call := func() policies.Facts {
		f := policies.Facts{Tool: pick("Bash", "BackgroundBash", "ReadDocs"), Profile: pick("", "net")}
		switch g.IntN(4) {
		case 0:
			f.URLs = []string{"https://" + pick("a.example", "b.example", "a.b.example:8443") + pick("/", "/a/b", "")}
		case 1:
			f.Hosts = []string{pick("a.example", "b.example", "10.0.0.1")}
		case 2:
			f.Paths = []string{pick("/a", "/a/b", "/c/b")}
		default:
			f.Command = pick("", "", "X=1 ", "Y=1 ") + pick("a", "b", "ab") + pick("", " a", " -f", " b a", " a -x") + pick("", "", " > /a/b", "; a b")
		}
		return f
	}
	dead := 0
	for range 1000 {
		rules := make([]string, 4)
		for i := range rules {
			rules[i] = rule(i)
		}
		top := strings.Replace(head, "decision: ask", "decision: "+pick("allow", "ask", "deny"), 1) + "rules:\n"
		text := top + strings.Join(rules, "")
		found, err := policies.Lint("p.yaml", []byte(text), policies.Files{}, nil)
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		for _, f := range found {
			if f.Severity == policies.LintWarning || f.Check != "shadowed" && f.Check != "redundant" && f.Check != "swallowed" && f.Check != "impossible" {
				continue
			}
			dead++
			var rest string
			for i, r := range rules {
				if f.Rule != fmt.Sprintf("r%d", i) {
					rest += r
				}
			}
			with, without := parse(t, text), parse(t, top+rest)
			for range 40 {
				c := call()
				// this check only looks at what calls of belljar's tools can show
				if f.Check == "impossible" && c.Tool != "Bash" {
					continue
				}
				if f.Check == "impossible" && len(c.URLs)+len(c.Hosts) > 0 {
					continue
				}
				if a, b := with.Decide(c), without.Decide(c); a.Verdict != b.Verdict {
					t.Fatalf("%s\n%s\n%+v: %v by %s with the rule, %v by %s without", text, f, c, a.Verdict, a.Rule, b.Verdict, b.Rule)
				}
			}
		}
	}
	t.Logf("%d rules that decide nothing", dead)
	if dead < 200 {
		t.Errorf("only %d rules that decide nothing", dead)
	}
}
