package page

import (
	"strings"
	"testing"
)

// TestConsent checks that boxes that ask for consent are removed, also from a whole page,
// and that texts about cookies stay.
func TestConsent(t *testing.T) {
	words := strings.Repeat("Words of the page that are worth reading. ", 10)
	for box, gone := range map[string]bool{
		`<div id="onetrust-consent-sdk"><div class="x"><p>BOX We use cookies.</p><button>Accept All Cookies</button></div></div>`:                true,
		`<div id="CybotCookiebotDialog"><p>BOX This site uses cookies.</p><a href="#">Allow all</a></div>`:                                       true,
		`<div class="my-CookieBanner open"><p>BOX Wir verwenden Cookies.</p><button>Alle akzeptieren</button><button>Ablehnen</button></div>`:    true,
		`<section class="gdpr-notice"><p>BOX Nous utilisons des cookies.</p><input type="submit" value="Tout accepter"></section>`:               true,
		`<div class="privacy-bar" role="region">BOX <span role="button">Got it!</span></div>`:                                                    true,
		`<section id="cookie-notice-api"><h2>Cookie notices</h2><p>BOX How a notice is shown.</p></section>`:                                     false,
		`<section id="consent-manager"><h2>Consent</h2><p>BOX It is called so:</p><pre>consent.accept()</pre><a href="x">accept()</a></section>`: false,
		`<div class="notice"><p>BOX Mind this.</p><a href="x">OK</a></div>`:                                                                      false,
		`<div class="cookie-recipe"><p>BOX Bake for ten minutes.</p><a href="/print">Print</a></div>`:                                            false,
	} {
		for _, whole := range []bool{false, true} {
			if !gone && !whole {
				continue // the search for an article has rules of its own
			}
			p := convertString(t, "<body><main><h1>Page</h1><p>"+words+"</p>"+box+"<p>"+words+"</p></main></body>", Options{Whole: whole})
			if strings.Contains(p.Content, "BOX") == gone || !strings.Contains(p.Content, "worth reading") {
				t.Errorf("%s, whole %v: got %s", box, whole, p.Content)
			}
		}
	}
}
