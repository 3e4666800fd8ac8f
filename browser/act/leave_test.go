package act_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"belljar.dev/browser/act"
)

// TestSecretsKeepTheSite: a tab stays with the site of a secret until another document
// is there (BR30).
func TestSecretsKeepTheSite(t *testing.T) {
	s := newStage(t)
	origin := strings.TrimSuffix(s.url("shop", "/"), "/")
	s.seat = s.another(func(o *act.Options) {
		o.OneSite = true
		o.Secrets = []act.Secret{{Name: "pw", Origin: origin, Field: "password", Insecure: true, Value: func(context.Context) (string, error) { return "hunter2-hunter2", nil }}}
	})
	s.page("/login", `<!doctype html><title>l</title><input type=password aria-label=P><a href="http://evil.example:PORT/link">Away</a> <a target=_blank href="http://evil.example:PORT/window">Window</a>`)
	s.page("/link", "evil")
	s.page("/window", "evil")
	s.page("/else", "<p>elsewhere</p>")
	l := s.goTo(s.url("shop", "/login"))
	away, window := s.ref(l, `link "Away"`), s.ref(l, `link "Window"`)
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, "password"), Secret: "pw"})
	s.must(act.Step{Do: act.DoOpen, URL: s.url("shop", "/login") + "#there"}) // the same document
	s.must(act.Step{Do: act.DoClick, Ref: away})
	_, _ = s.do(act.Step{Do: act.DoClick, Ref: window})
	if n := s.heard("evil.example"); n != 0 {
		t.Errorf("the other site was asked %d times: %v", n, s.hits)
	}
	_, _ = s.do(act.Step{Do: act.DoSwitch, Text: "t1"})
	if l := s.goTo(s.url("other", "/else")); !strings.Contains(l, "elsewhere") {
		t.Errorf("no step leaves the site:\n%s", l)
	}
}

// TestAddressesOfFieldsAreNotSeen: an agent that types an address has not seen it (BR27).
func TestAddressesOfFieldsAreNotSeen(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>s</title><input aria-label=Q><p>see http://site.example:PORT/said?x=1</p><a href="/linked?x=1">Link</a>`)
	l := s.goTo(s.url("site", "/"))
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `text "Q"`), Text: s.url("evil", "/?d=1")})
	s.look(act.LookRequest{})
	for u, want := range map[string]bool{s.url("evil", "/?d=1"): false, s.url("site", "/said?x=1"): true, s.url("site", "/linked?x=1"): true, s.url("site", "/linked?x=2"): false} {
		if p, err := s.seat.Prepare(s.ctx(), "", act.Step{Do: act.DoOpen, URL: u}); err != nil || p.Seen != want {
			t.Errorf("%s: seen %+v, %v; want %t", u, p, err, want)
		}
	}
}

// TestHandlersThatHang: no handler of a page, and no frame, holds a step for ever (BR-A17).
func TestHandlersThatHang(t *testing.T) {
	t.Parallel() // it waits most of the time
	s := open(t)
	s.page("/", `<!doctype html><title>h</title><input aria-label=Q onfocus="while (true);">`)
	s.page("/outer", `<!doctype html><title>o</title><button onclick="document.title = 'clicked'">B</button><iframe src="http://evil.example:PORT/inner"></iframe>`)
	s.page("/inner", `<script>setTimeout(() => { while (true); }, 1500)</script>`)
	l := s.goTo(s.url("site", "/"))
	start := time.Now()
	if _, err := s.do(act.Step{Do: act.DoFill, Ref: s.ref(l, `text "Q"`), Text: "x"}); act.ReasonOf(err) != act.ReasonTimeout {
		t.Errorf("the hang is told as %v", err)
	}
	if d := time.Since(start); d > 15*time.Second {
		t.Errorf("it was told after %v", d)
	}
	l = s.goTo(s.url("site", "/outer"))
	s.must(act.Step{Do: act.DoWait, MS: 2000})
	start = time.Now()
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "B"`)})
	if d := time.Since(start); d > 15*time.Second {
		t.Errorf("a frame held a click for %v", d)
	}
}
