package act_test

import (
	"fmt"
	"strings"
	"testing"

	"belljar.dev/browser/act"
)

// TestCaptcha: an agent is told of a CAPTCHA that people see, and of none that they do not
// (BR-A50).
func TestCaptcha(t *testing.T) {
	s := open(t)
	s.page("/test", `<div class="h-captcha" style="height:80px">test</div>`)
	s.page("/in", `in`)
	n := 0
	for html, want := range map[string]bool{
		`<div class="g-recaptcha" style="height:80px">x</div>`: true, `<div class="cf-turnstile" style="height:60px"></div>`: true, `<iframe title="Widget with hCaptcha" src="/in"></iframe>`: true,
		`<img src="/captcha.png" width=100 height=40>`: true, `<p>captcha<p>recaptcha`: false, `<div class="g-recaptcha" style="display:none">x</div>`: false, `<iframe src="/in?captcha=no"></iframe>`: false,
		`<iframe src="http://other.example:PORT/test"></iframe>`: true,
	} {
		n++
		path := fmt.Sprintf("/%d", n)
		s.page(path, `<!doctype html><title>t</title>`+html+`<p>end`)
		l := s.goTo(s.url("site", path))
		if want != strings.Contains(l, ", a CAPTCHA: leave it to a person>>") {
			t.Errorf("%s: want %t, and the look is\n%s", html, want, l)
		}
	}
	if l := s.look(act.LookRequest{Scope: act.ScopeAll}); !strings.Contains(l, "end") {
		t.Errorf("the look is\n%s", l)
	}
}
