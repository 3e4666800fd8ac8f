package approval

import (
	"strings"
	"testing"

	"belljar.dev/policies"
)

// The text of the arguments is unambiguous: no text looks like another argument, and no
// value looks like a value of another type.
func TestArgumentsOf(t *testing.T) {
	for _, tt := range []struct {
		name string
		args map[string]any
		want string
	}{
		{"sorted", map[string]any{"b": "x", "a": 1.0}, "a: 1\nb: \"x\"\n"},
		{"a number and its text", map[string]any{"a": "1"}, "a: \"1\"\n"},
		{"one word of two", map[string]any{"a": []any{"x y"}}, "a: [\"x y\"]\n"},
		{"two words", map[string]any{"a": []any{"x", "y"}}, "a: [\"x\",\"y\"]\n"},
		{"a large number", map[string]any{"a": 12345678.0}, "a: 12345678\n"},
		{"as it stands", map[string]any{"a": "<b> & c"}, "a: \"<b> & c\"\n"},
		{"an argument in a text", map[string]any{"stdin": "x\ncwd: /safe\r\ncommand: make\rend"}, "stdin:\n    x\n    cwd: /safe\n    command: make\n    end\n"},
		{"an argument in a name", map[string]any{"a\ncwd": "x"}, "a\\ncwd: \"x\"\n"},
	} {
		if got := argumentsOf(policies.Facts{Args: tt.args}); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// The person is told if a part is not shown, also if this part is the input of a command or
// one of several equal lines.
func TestCut(t *testing.T) {
	for _, tt := range []struct {
		name  string
		facts policies.Facts
		want  bool
	}{
		{"ten lines of input", policies.Facts{Command: "cat", Stdin: strings.Repeat("x\n", 10)}, false},
		{"eleven lines of input", policies.Facts{Command: "cat", Stdin: strings.Repeat("x\n", 11)}, true},
		{"different lines", policies.Facts{Args: map[string]any{"plan": "a\nb\n"}}, false},
		{"equal lines", policies.Facts{Args: map[string]any{"plan": "x\na\nb\na\n"}}, true},
	} {
		if got := shown(tt.facts, nil); got.Cut != tt.want {
			t.Errorf("%s: cut is %v: %+v", tt.name, got.Cut, got)
		}
	}
}
