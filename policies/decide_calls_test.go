package policies_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"belljar.dev/policies"
	"belljar.dev/policies/shell"
)

// ordinary is one call of testdata/calls.
type ordinary struct {
	file  string
	line  int
	text  string
	facts policies.Facts
}

// ordinaryCalls reads the calls of testdata/calls. The head of go.txt documents the
// format.
func ordinaryCalls(t testing.TB) []ordinary {
	t.Helper()
	files, err := filepath.Glob("testdata/calls/*.txt")
	if err != nil || len(files) < 6 {
		t.Fatalf("got %d files of calls: %v", len(files), err)
	}
	var all []ordinary
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first := len(all)
		for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
			switch mark, rest, ok := strings.Cut(line, " "); {
			case ok && (mark == "$" || mark == "&" || mark == "@"):
				all = append(all, ordinary{file: file, line: i + 1, text: line, facts: ordinaryFacts(mark, rest)})
			case len(all) > first: // one more line of the call above
				all[len(all)-1].text += "\n" + line
				all[len(all)-1].facts.Command += "\n" + line
			}
		}
	}
	return all
}

func ordinaryFacts(mark, rest string) policies.Facts {
	f := policies.Facts{Tenant: policies.LocalTenant, Tool: "Bash", Command: rest}
	switch mark {
	case "&":
		f.Tool = "BackgroundBash"
	case "@":
		f.Command = ""
		f.Tool, rest, _ = strings.Cut(rest, " ")
		switch key, value, _ := strings.Cut(rest, "="); key {
		case "url":
			f.URLs = []string{value}
		case "path":
			f.Paths = []string{value}
		}
	}
	return f
}

// Of a thousand ordinary calls, the bundled policy "default" asks about at most two in
// a hundred, and denies none. The test's log has the figures of the other policies.
func TestOrdinaryCalls(t *testing.T) {
	calls := ordinaryCalls(t)
	if len(calls) < 1000 {
		t.Errorf("there are only %d calls", len(calls))
	}
	for _, name := range policies.Bundled() {
		p, err := policies.OpenBundled(name)
		if err != nil {
			t.Fatal(err)
		}
		asks, denies, rules := 0, 0, make(map[string]int)
		for _, c := range calls {
			d := p.Decide(c.facts)
			switch d.Verdict {
			case deny:
				denies++
			case ask:
				asks++
			case allow:
				continue
			}
			rules[d.Rule]++
			if name == "default" && d.Verdict == deny {
				t.Errorf("%s:%d: denied by %s: %s", c.file, c.line, d.Rule, c.text)
			}
			if name == "default" && d.Rule != "publish" {
				t.Errorf("%s:%d: %v by %s: %s", c.file, c.line, d.Verdict, d.Rule, c.text)
			}
		}
		n := float64(len(calls)) / 100
		t.Logf("%-12s asks %5.2f and denies %5.2f of 100 (%d calls), by rule %v", name, float64(asks)/n, float64(denies)/n, len(calls), rules)
		if name == "default" && float64(asks) > 2*n {
			t.Errorf("default asks %d times in %d calls", asks, len(calls))
		}
		if name == "default" && asks == 0 {
			t.Error("none of the calls publishes, which ordinary ones do")
		}
	}
}

// The calls are a sample of what agents do, not copies of a template. No two differ
// only in numbers, except calls without a command, URL or path. They start many
// programs, and each command can be parsed.
func TestOrdinaryCallsVary(t *testing.T) {
	digits := regexp.MustCompile(`[0-9]+`)
	seen := make(map[string]ordinary)
	programs, tools := make(map[string]int), make(map[string]int)
	for _, c := range ordinaryCalls(t) {
		tools[c.facts.Tool]++
		plain := digits.ReplaceAllString(c.text, "0")
		if before, ok := seen[plain]; ok && len(c.facts.Command)+len(c.facts.URLs)+len(c.facts.Paths) > 0 {
			t.Errorf("%s:%d is %s:%d again: %s", c.file, c.line, before.file, before.line, c.text)
		}
		seen[plain] = c
		if c.facts.Command == "" {
			continue
		}
		s, err := shell.Analyze(c.facts.Command)
		if err != nil {
			t.Errorf("%s:%d: %v: %s", c.file, c.line, err, c.text)
		}
		for _, command := range s.Commands {
			if len(command.Words) > 0 && command.Words[0].Certainty == shell.Exact {
				programs[subcommand(command.Words)]++
			}
		}
	}
	t.Logf("%d calls, %d programs and subcommands, tools %v", len(seen), len(programs), tools)
	t.Logf("%v", slices.Sorted(maps.Keys(programs)))
	if len(seen) < 1000 {
		t.Errorf("only %d calls differ", len(seen))
	}
	if len(programs) < 150 {
		t.Errorf("the calls use only %d programs", len(programs))
	}
	if tools["Bash"] < 800 || len(tools) < 13 {
		t.Errorf("got the tools %v", tools)
	}
}

// subcommand returns the program of a command, and its subcommand if the program has many.
func subcommand(words []shell.Word) string {
	many := []string{"git", "go", "cargo", "npm", "npx", "pnpm", "docker", "gh", "uv", "pip", "kubectl"}
	if len(words) > 1 && slices.Contains(many, words[0].Text) && words[1].Certainty == shell.Exact && !strings.HasPrefix(words[1].Text, "-") {
		return words[0].Text + " " + words[1].Text
	}
	return words[0].Text
}
