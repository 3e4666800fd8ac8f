package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"
)

// logsInAt loads the page of a console with a login provider in tab p. The tab accepts the
// provider's certificate.
func (g *rig) logsInAt(t *testing.T, p *tab, far *provided) {
	t.Helper()
	must(t)(chromedp.Call(p.ctx, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true}))
	must(t)(chromedp.Call(p.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch}))
	p.mu.Lock()
	p.leads = far.far.URL + "/authorize?"
	p.mu.Unlock()
	p.visit(g.URL())
}

// A person goes to the provider and returns logged in: nothing of the login stays in the
// address or the tab, no cookie is set, and the token is a new one. A login that did not
// begin in the tab, for example because another page links here, fails. If the provider is
// down, the other ways to log in still work.
func TestChromeProvider(t *testing.T) {
	far, with := withProvider(t)
	browser := chrome(t)
	g := start(t, full, with)
	p := g.open(browser)
	p.mayFail("401")
	g.logsInAt(t, p, far)
	const own = `sessionStorage.getItem('token')`
	enter := func() string {
		t.Helper()
		p.click("Log in at " + far.Host())
		p.until(`document.querySelector('.state.live')`)
		if left := value[string](p, `location.pathname + location.search + document.cookie + (sessionStorage.getItem('pending') || '')`); left != "/" {
			t.Errorf("after the login, this is left of it: %s", left)
		}
		return value[string](p, own)
	}
	token := enter()
	p.until(`document.body.innerText.includes('ann@example.com')`)
	p.eval(`location.reload()`)
	p.until(`document.querySelector('.state.live')`)
	p.click("Log out")
	p.until(`document.querySelector('.login')`)
	if got := g.send("GET", "api/v1/me", token, nil); got.status != http.StatusUnauthorized {
		t.Errorf("the token of somebody who logged out: %d", got.status)
	}
	if again := enter(); again == token {
		t.Error("two logins have the same token")
	}
	p.click("Log out")
	p.until(`document.querySelector('.login')`)
	said := g.goes(far) // a login that another person began, who leads this person here
	p.visit(g.URL() + "login?state=" + said["state"] + "&code=" + said["code"])
	p.until(`document.querySelector('.login .error')?.textContent.includes('did not begin in this tab')`)
	if left := value[string](p, `location.pathname + location.search + (`+own+` || '')`); left != "/" {
		t.Errorf("left of a login of somebody else: %s", left)
	}
	p.fine()

	far, with = withProvider(t)
	far.far.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "<script>evil()</script>", http.StatusServiceUnavailable)
		return true
	}
	g = start(t, full, with)
	p = g.open(browser)
	p.mayFail("502")
	g.logsInAt(t, p, far)
	p.click("Log in at " + far.Host())
	p.until(`document.querySelector('.login').innerText.includes('try again in a minute, or log in with a link or a token')`)
	if text := value[string](p, `document.body.innerText`); strings.Contains(text, "evil") || strings.Contains(text, "503") {
		t.Errorf("the page has words of the provider: %s", text)
	}
}
