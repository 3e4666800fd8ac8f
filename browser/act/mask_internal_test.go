package act

import (
	"net/url"
	"strings"
	"testing"
)

// TestMasksOfBrowsers: a secret is masked as browsers write it in addresses and in HTML.
func TestMasksOfBrowsers(t *testing.T) {
	var m masks
	m.add("pw", "p!w*1~&'<x> #[é")
	for _, text := range []string{
		"p!w*1~%26'%3Cx%3E%20%23%5B%C3%A9",       // encodeURIComponent
		"p%21w*1%7E%26%27%3Cx%3E+%23%5B%C3%A9",   // in a form
		"p!w*1~&%27%3Cx%3E%20%23[%C3%A9",         // in a query
		"p!w*1~&amp;'&lt;x&gt; #[é",              // in HTML
		url.QueryEscape("p!w*1~&'<x> #[é") + "&", // by Go
	} {
		if got := m.hide(text); !strings.HasPrefix(got, "(secret pw)") {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
}
