package lex

import (
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/toolkit/code"
)

const shellText = `#!/bin/bash
. ./lib.sh
# a comment
greet() {
	echo "hello
# not a comment" 'x' # but this
	cat <<EOF
it's text $1
EOF
	inner() { true; }
	inner
}

function bye { greet; /bin/ls; }
greet
`

func TestShell(t *testing.T) {
	f := Parse("a.sh", code.Shell, shellText)
	check(t, f)
	var got []string
	for _, fn := range f.Funcs {
		var calls []string
		for _, c := range fn.Calls {
			calls = append(calls, c.Name)
		}
		got = append(got, strings.Join([]string{fn.Name, f.Of(f.Tokens[fn.Start]), f.Of(f.Tokens[fn.End-1]), strings.Join(calls, " ")}, "/"))
		if fn.Cyclomatic != 0 || fn.Halstead != (code.Halstead{}) {
			t.Errorf("%s has metrics", fn.Name)
		}
	}
	if want := []string{"greet/greet/}/echo cat inner", "inner/inner/}/true", "bye/function/}/greet"}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if f.Funcs[0].First != 4 || f.Funcs[0].Last != 12 || f.Funcs[2].First != 14 {
		t.Errorf("got lines %d to %d and %d, want 4 to 12 and 14", f.Funcs[0].First, f.Funcs[0].Last, f.Funcs[2].First)
	}
	if want := (code.Lines{Code: 13, Comment: 1, Blank: 1}); f.Lines != want {
		t.Errorf("got %+v, want %+v", f.Lines, want)
	}
	if len(f.Imports) != 1 || f.Imports[0].Path != "./lib.sh" {
		t.Errorf("got %+v, want ./lib.sh", f.Imports)
	}
	if len(f.Gaps) > 0 {
		t.Errorf("got %+v, want no gap", f.Gaps)
	}
}

// A script that the parser cannot read, or must not get, has tokens, and a gap states why
// it has no functions.
func TestShellGaps(t *testing.T) {
	for text, want := range map[string]string{
		"if true; then\n": "not valid bash: line 1: ",
		strings.Repeat("(", 65) + strings.Repeat(")", 65): "brackets more than 64 levels deep",
		strings.Repeat("echo a\n", 10000):                 "longer than 64 KiB, the most that is read of a shell script",
		strings.Repeat("if a; then ", 5000):               "not valid bash: ",
		"echo $((" + strings.Repeat("!", 60000) + "1))":   "",
		"[[ " + strings.Repeat("! ", 30000) + "a ]]":      "",
		strings.Repeat("a |", 20000) + " b":               "",
		strings.Repeat("a && ", 12000) + " b":             "",
		strings.Repeat("`", 60000):                        "",
		strings.Repeat("\"$", 30000):                      "",
		strings.Repeat("cat <<A\n", 8000):                 "not valid bash: ",
		strings.Repeat("while a; do ", 5000):              "not valid bash: ",
	} {
		f := Parse("a.sh", code.Shell, text)
		check(t, f)
		switch {
		case want == "" && len(f.Gaps) == 0:
		case len(f.Gaps) != 1 || !strings.HasPrefix(f.Gaps[0].Reason, want) || f.Gaps[0].Field != "functions":
			t.Errorf("%.20q: got %+v, want %q", text, f.Gaps, want)
		}
	}
}
