package console

import (
	"context"
	"net/url"
	"strings"
	"testing"
)

// A person logs in at an upstream from the page. The page shows as text which upstream asks
// for the login and where the login leads, and it shows the command line. The person
// returns to the page, and nothing of the login stays in its address. An answer that does
// not belong to a login of this tab is refused.
func TestChromeUpstreamLogin(t *testing.T) {
	w, with := withRemote(t, evil[0])
	browser := chrome(t)
	g := start(t, with)
	p := g.open(browser)
	p.mayFail("409")
	p.mayFail("502")
	p.mu.Lock()
	p.leads = w.far.URL + "/authorize?"
	p.mu.Unlock()
	p.login(Operator)
	p.at("#/upstreams")
	asks := func() {
		t.Helper()
		p.click("Log in at " + evil[0])
		p.until(`document.querySelector('dialog[open]')`)
	}
	asks()
	for _, want := range []string{evil[0], w.far.URL + "/mcp", w.far.URL, ours, "belljar upstream login", "--tenant " + ours} {
		if text := value[string](p, `document.querySelector('dialog').innerText`); !strings.Contains(text, want) {
			t.Errorf("the page does not say %q: %s", want, text)
		}
	}
	p.plain("the question for a login")
	if label := value[string](p, `[...document.querySelectorAll('dialog .facts')].map(n => n.closest('.agent')?.querySelector('.agent-label').innerText).join('|')`); !strings.Contains(label, "upstream server") {
		t.Errorf("the names and addresses of the server stand in the frame %q", label)
	}
	p.click("Cancel")
	p.until(`!document.querySelector('dialog')`)
	if len(w.far.redirects) > 0 || w.token(t, ours) != "" {
		t.Error("what was cancelled was done")
	}
	asks()
	p.sureOf(`dialog .actions .danger, dialog .actions .main`)
	p.until(`document.querySelector('.said')?.innerText.includes('Logged in at')`)
	if at := value[string](p, `location.href + document.cookie`); at != g.URL()+"#/upstreams" {
		t.Errorf("after the login the address is %s", at)
	}
	if got := w.token(t, ours); got != "Bearer a-token" {
		t.Errorf("the login is %q", got)
	}
	p.plain("after the login")

	// Another person leads this person here, with an answer of their own.
	for i, said := range []string{"no login at an upstream has begun", "does not belong to the login"} {
		if i == 1 {
			g.begins(value[string](p, `sessionStorage.getItem('token')`), evil[0], ours)
		}
		p.visit(g.URL() + upstreamLoginPath + "?" + url.Values{"code": {"a-code"}, "state": {"guessed"}, "iss": {w.far.URL}}.Encode())
		p.until(`document.querySelector('.said .error')?.textContent.includes(` + quote(said) + `)`)
	}

	// The addresses that a server names are shown as text, and the page goes only to
	// addresses of the web.
	w.mu.Lock()
	w.shown = &UpstreamLogin{URL: "javascript:window.evil=1", Server: evil[11], Issuer: evil[0], Close: func(context.Context) {}}
	w.mu.Unlock()
	p.click("Log in at " + evil[0])
	p.reads("The server names a login address that does not begin with http:// or https://.")
	w.mu.Lock()
	w.shown = &UpstreamLogin{URL: w.far.URL + "/authorize?x", Server: evil[11], Issuer: evil[0], Close: func(context.Context) {}}
	w.mu.Unlock()
	asks()
	p.plain("a login with hostile addresses")

	for _, role := range []Role{Viewer, Approver} {
		viewer := g.open(browser)
		viewer.login(role)
		viewer.at("#/upstreams")
		viewer.reads("belljar upstream login")
		if value[bool](viewer, `!!`+theControl("Log in at "+evil[0])) {
			t.Errorf("a person who is a %s has a button for a login", role)
		}
	}
}
