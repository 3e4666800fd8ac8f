package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestEnvFiles(t *testing.T) {
	const file = `# settings
A=1
 export B = two words  # why not
C="quoted # text"  # comment
D='single $HOME ${A}'
E=
F="line\none"
G=a=b#c
H="no end

A=again
`
	all, faults := ReadEnvFile(".env", []byte(file))
	var b strings.Builder
	for _, v := range all {
		value, plain := v.Value.Plain()
		fmt.Fprintf(&b, "%s=%q %v\n", v.Name, value, plain)
	}
	want := `A="1" true
B="two words" true
C="quoted # text" true
D="single $HOME ${A}" true
E="" true
F="line\none" true
G="a=b#c" true
H="\"no end" true
A="again" true
`
	if len(faults) > 0 || b.String() != want {
		t.Errorf("got %v and\n%s, want\n%s", faults, b.String(), want)
	}
	for name, file := range map[string]string{
		"not a variable":    "A=1\n" + canary + "\n",
		"without a name":    "=" + canary,
		"belljar's":         "A=1\nBELLJAR_TOKEN=" + canary,
		"two words":         "A B=" + canary,
		"UTF-16":            "\xff\xfeA\x00",
		"NUL":               "A=\x00",
		"too many":          strings.Repeat("A=1\n", maxKeys+1),
		"too long":          "A=" + strings.Repeat("x", maxText+1),
		"a byte order mark": "\ufeffA=1",
	} {
		all, faults := ReadEnvFile(".env", []byte(file))
		if len(all) > 0 || !Failed(faults) {
			t.Errorf("%s: got %d variables and %v", name, len(all), faults)
		}
		mute(t, fmt.Sprint(faults))
	}
}
