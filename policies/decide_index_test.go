package policies

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestIndex checks that finding rules by the program of a command has the same result as
// looking at every rule.
func TestIndex(t *testing.T) {
	var text strings.Builder
	text.WriteString("version: 1\ndefaults: {decision: ask, profile: a}\nprofiles: {a: {}, b: {}}\nrules:\n")
	for i, match := range []string{
		`command: "git {status,log} **", flags: [--oneline]`, `command: "{go,cargo} **", env: [CI]`, `command: "g* **"`, `command: "** --force **"`, `command: ["ls", "cat **"]`,
		`command: "rm **"`, `command: "make **", path: "/workspace/**"`, `path: "/etc/**"`, `command: "{sh,bash} **"`, `command: "timeout **"`, `command: "/usr/bin/env **"`,
		`command: "git push **", any_flag: [-f]`, `profile: b, command: "sed **"`, `url: "https://a.example/**"`, `command: "find **", host: "*"`, `command: "[ **"`, `tool: ReadDocs`,
	} {
		if !strings.HasPrefix(match, "tool:") {
			match = `tool: "*Bash", ` + match
		}
		for k, decision := range []string{"allow", "ask", "deny"} {
			if (i+k)%2 == 0 {
				fmt.Fprintf(&text, "  - {id: r%d-%s, match: {%s}, decision: %s}\n", i, decision, match, decision)
			}
		}
	}
	with, err := Parse("p.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	without := *with
	without.index = nil
	if with.index == nil || len(with.index.programs) < 10 {
		t.Fatalf("got index %+v", with.index)
	}
	commands := []string{
		"", "$x y", "/bin/rm x", "'' x", "\"$(rm x)\"", "CI=1 go test", "CI=1", "> /etc/passwd", "{ ls; } > /workspace/x", "timeout 5 rm x", "~/rm x", "r* x", "[ a ]", "bash -c 'rm x'", "make > /workspace/x", "rm x; (",
	}
	files, err := filepath.Glob("testdata/calls/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %v, %v", files, err)
	}
	for _, file := range files {
		lines, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(lines)) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				commands = append(commands, command)
			}
		}
	}
	for _, command := range commands {
		for _, profile := range []string{"a", "b"} {
			f := Facts{Tool: "Bash", Command: command, Profile: profile}
			got, want := with.Decide(f), without.Decide(f)
			for _, g := range []*Grant{&got.Grant, got.pending, &want.Grant, want.pending} {
				if g != nil {
					g.policy = nil // the two grants have different policies
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s in %s: got %+v, want %+v", command, profile, got, want)
			}
		}
	}
}
