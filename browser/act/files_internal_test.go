package act

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestFileNames: the name that a site gives a file becomes one element of a path, without control characters
// (BR31, BR-A13, BR-A20).
func TestFileNames(t *testing.T) {
	for raw, want := range map[string]string{
		"a.csv": "a.csv", "../../a.csv": "a.csv", `C:\x\a.csv`: "a.csv", "/": "_", "..": "file", "": "file", " . ": "file", "a/": "a", "CON": "CON", "a\x00b": "a b", "a\nb\x1b[31m": "a b [31m",
		"gpj\u202egpj.exe": "gpjgpj.exe", "a\u200b\ufeffb": "ab", "\xff\xfea": "a", `a"b<c>d|e*f?g:h`: "a_b_c_d_e_f_g_h", ".hidden": "hidden", "日本.txt": "日本.txt",
	} {
		if got := fileName(raw); got != want {
			t.Errorf("%q is shown as %q, want %q", raw, got, want)
		}
	}
	if got := fileName(strings.Repeat("é", 4096)); utf8.RuneCountInString(got) != MaxName {
		t.Errorf("a name of 4,096 characters is shown with %d", utf8.RuneCountInString(got))
	}
}
