package act

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
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

// TestSecretsAtACut: of a secret over which a text was cut before it was masked, nothing
// remains.
func TestSecretsAtACut(t *testing.T) {
	const secret = "hunter2-and-more"
	var m masks
	m.add("pw", secret)
	long := strings.Repeat("x", 100)
	for _, tt := range []struct{ text, want string }{
		{"a " + secret + " b", "a (secret pw) b"},
		{long + clip(secret, 9), long[:100+9-64] + "…"},
		{long + "h" + cutMark, long[:100+1-64] + "…"},
		{secret + long + cutMark, "(secret pw)" + long[:100-64] + "…"},
		{long + secret[:4] + cutMark + long + secret[:3] + cutMark, long[:100+4-64] + "…" + long[:100+3-64] + "…"},
		{long + "é" + strings.Repeat("x", 63) + cutMark, long + "…"}, // half of a character
		{"a hunt", "a hunt"}, // this text is whole
		{cutMark, "…"},
		{"", ""},
	} {
		if got := m.hide(tt.text); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
	if got := new(masks).hide(clip("äöü", 2)); got != "äö…" {
		t.Errorf("without secrets: got %q", got)
	}
	for _, tt := range []struct{ text, want string }{
		{"follow to http://a.example/?hunter2..., by rule x", "follow to …, by rule x"},
		{`"http://a.example/?hunter2..." is not allowed`, `"…" is not allowed`},
		{"follow to http://...long.example/, by rule x", "follow to …long.example/, by rule x"},
		{"no address", "no address"},
	} {
		if got := m.hideReason(tt.text); got != tt.want {
			t.Errorf("a refusal: got %q, want %q", got, tt.want)
		}
	}
}

// A secret with spaces is left out before a cut too.
func TestSecretsWithSpaces(t *testing.T) {
	var m masks
	m.add("pw", "correct horse battery staple")
	long := "on " + strings.Repeat("x", 100)
	if got := m.hideReason(long + " correct horse batt..., by rule x"); strings.Contains(got, "correct") || !strings.HasPrefix(got, "on x") || !strings.HasSuffix(got, "…, by rule x") {
		t.Errorf("got %q", got)
	}
}

// TestACutTellsNothing: how much is left out before a cut is the same for the beginning of a
// secret and for any other text, so an agent cannot guess a secret letter by letter.
func TestACutTellsNothing(t *testing.T) {
	const secret = "hunter2-and-more"
	var m masks
	m.add("pw", secret)
	for n := range len(secret) {
		for _, before := range []string{"", strings.Repeat("q", 80), "http://a.example/?"} {
			guess, other := before+secret[:n]+"h", before+secret[:n]+"~"
			for _, shown := range []func(string) string{
				func(s string) string { return m.hide(s + cutMark) },
				func(s string) string { return m.hideReason("to " + s + "..., by rule x") },
			} {
				if a, b := shown(guess), shown(other); len(a) != len(b) || n > 2 && strings.Contains(a, secret[:3]) {
					t.Errorf("%q is shown as %q, and %q as %q", guess, a, other, b)
				}
			}
		}
	}
}

// TestKeptTextsAreCutAfterMasking: the beginning of a secret is not kept at the end of a
// text that is cut, also if the secret is typed after the text was kept.
func TestKeptTextsAreCutAfterMasking(t *testing.T) {
	const secret = "hunter2-and-more"
	for _, early := range []bool{true, false} {
		e := &engine{opts: &Options{}, masks: new(masks)}
		of := &tab{e: e, name: "t1", target: "f", changed: make(chan struct{}, 1), going: going{underway: map[string]bool{}}}
		if early {
			e.masks.add("pw", secret)
		}
		n := of.refs.number(refKey{"f", "l", 1})
		of.refs.show(n, "button", strings.Repeat("x", MaxName-8)+secret, strings.Repeat("y", MaxName-8)+secret)
		text := strings.Repeat("x", maxConsoleLine-8) + secret
		ear{of}.hear("s", runtime.ConsoleAPICalled.Method, []byte(`{"type":"log","args":[{"type":"string","value":"`+text+`"}]}`))
		ear{of}.hear("s", network.RequestWillBeSent.Method, []byte(`{"requestId":"r","type":"Fetch","request":{"method":"GET","url":"http://a.example/`+strings.Repeat("x", maxShownURL-25)+secret+`"}}`))
		e.masks.add("pw", secret)
		all := hand{of}.nameOf(aim{n: n}) + called("row", "", e.masks.hide(of.refs.byNum[n].row))
		for _, at := range []At{AtConsole, AtNetwork} {
			l, err := eye{of}.list(LookRequest{At: at, MaxChars: MaxChars})
			if err != nil {
				t.Fatal(err)
			}
			all += l.Text
		}
		if strings.Contains(all, "hunt") || !strings.Contains(all, "xxx(s") || !strings.Contains(all, "yyy(s") || strings.Contains(all, cutMark) {
			t.Errorf("early %v: got\n%s", early, all)
		}
	}
}
