package page

import (
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// consentMarks are ids and classes of the boxes that consent managers put on the pages of
// their customers, and that cannot be recognized by their words alone.
var consentMarks = set(`onetrust-consent-sdk onetrust-banner-sdk onetrust-pc-sdk usercentrics-root uc-banner-modal qc-cmp2-container didomi-host didomi-popup
	cc-window cky-consent-container cky-modal truste_overlay truste-consent-track osano-cm-window iubenda-cs-banner klaro
	hs-eu-cookie-confirmation borlabs-cookie BorlabsCookieBox tarteaucitronRoot evidon-banner axeptio_overlay termly-code-snippet-support
	cookiefirst-root fc-consent-root cookieconsent cc_banner cc-banner sp_message_container sliding-popup`)

// Words in the class or id of a box that asks for consent, and on its buttons.
var (
	consentWords = []string{"cookie", "consent", "gdpr", "privacy"}
	boxWords     = []string{"banner", "notice", "bar", "popup", "modal", "dialog", "overlay", "layer", "prompt", "toast", "message", "manager", "wall"}
	agreeWords   = pattern(`(?i)^\W*(i )?(accept|agree|allow|got it|ok|okay|reject|decline|deny|alle|akzeptieren|zustimmen|ablehnen|einverstanden|accepter|tout accepter|refuser|aceptar|aceitar|accetta|rifiuta|akkoord|accepteren|godkänn|acceptera|akceptuj|zgadzam|принять|согласен|同意|接受|동의)`)
)

// dropConsent removes the boxes that ask whether a visitor accepts cookies: the boxes of
// known managers, and those that are named as such. Each has a button to agree; a text
// about cookies does not.
func dropConsent(root *html.Node) {
	walk(root, func(n *html.Node) bool {
		if !is(n, "div", "section", "aside", "dialog", "form", "footer") || !asksConsent(n) {
			return true
		}
		button := first(n, agrees) != nil
		content := first(n, func(c *html.Node) bool { return is(c, "pre", "h1", "main", "article") }) != nil
		if !button || content || length(n) > 3000 {
			return true
		}
		remove(n)
		return false
	})
}

// asksConsent reports whether an element is named as a box that asks for consent.
func asksConsent(n *html.Node) bool {
	id, class := attr(n, "id"), attr(n, "class")
	if id == "" && class == "" {
		return false
	}
	named := strings.ToLower(id + " " + class)
	holds := func(word string) bool { return strings.Contains(named, word) }
	return marked(n, consentMarks) || slices.ContainsFunc(consentWords, holds) && slices.ContainsFunc(boxWords, holds)
}

// agrees reports whether an element is a button to agree or to refuse.
func agrees(n *html.Node) bool {
	text := ""
	switch {
	case is(n, "button", "a") || attr(n, "role") == "button":
		text = lineOf(n)
	case is(n, "input"):
		text = attr(n, "value")
	}
	return text != "" && len(text) < 60 && agreeWords().MatchString(text)
}
