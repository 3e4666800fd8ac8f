package act_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"belljar.dev/browser/act"
)

// TestCaptcha checks that a look reports a CAPTCHA that people see, and does not report a
// CAPTCHA that they do not see (BR-A50).
func TestCaptcha(t *testing.T) {
	s := open(t)
	s.page("/test", `<div class="h-captcha" style="height:80px">test</div>`)
	s.page("/in", `inside`)
	rows := []struct {
		html, has string // has is a text that the look has to contain
		test      bool
	}{
		{`<div class="g-recaptcha" style="height:80px">x</div>`, "", true},
		{`<p>captcha<p>recaptcha`, "", false},
		{`<div class="cf-turnstile" style="height:60px"></div>`, "", true},
		{`<div class="g-recaptcha" style="display:none">x</div>`, "", false},
		{`<iframe title="Widget with hCaptcha" src="/in"></iframe>`, "inside", true},
		{`<iframe src="/in?captcha=no"></iframe>`, "inside", false},
		{`<img src="/captcha.png" width=100 height=40>`, "", true},
		{fmt.Sprintf(`<iframe src="http://other.example:%d/test"></iframe>`, s.port), "test", true},
	}
	all := make([]string, len(rows))
	for i, r := range rows {
		all[i] = fmt.Sprintf("%s<p>row %d.", r.html, i)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	s.page("/", `<!doctype html><title>t</title><div id=r></div><script>const rows = `+string(text)+`; addEventListener("keydown", () => { r.innerHTML = rows.shift() })</script>`)
	s.goTo(s.url("site", "/"))
	for i, r := range rows {
		s.must(act.Step{Do: act.DoPress, Text: "F2"})
		var l string
		s.wait(func() bool {
			l = s.look(act.LookRequest{})
			return strings.Contains(l, fmt.Sprintf("row %d.", i)) && strings.Contains(l, r.has)
		})
		if r.test != strings.Contains(l, ", a CAPTCHA: leave it to a person>>") {
			t.Errorf("%s: want %t, and the look is\n%s", r.html, r.test, l)
		}
	}
	if l := s.look(act.LookRequest{Scope: act.ScopeAll}); !strings.Contains(l, "row 7.") {
		t.Errorf("the look is\n%s", l)
	}
}
