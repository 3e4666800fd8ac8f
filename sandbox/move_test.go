package sandbox

import "testing"

func TestMayMove(t *testing.T) {
	for script, want := range map[string]bool{
		"echo hi": false, "go test ./...": false, "ls -la /tmp": false, "make abc=1": false, "cat a.cd": false,
		"cd /tmp": true, "true; cd x": true, "pushd x": true, ". ./x": true, "source x": true, "$X /tmp": true,
		"c\\d /tmp": true, "'cd' /tmp": true, "true\ncd x": true, "eval cd x": true, "builtin cd x": true, "true && cd": true,
		"command cd x": true, "f() { cd x; }; f": true,
	} {
		if got := mayMove(script); got != want {
			t.Errorf("mayMove(%q) = %v, want %v", script, got, want)
		}
	}
}
