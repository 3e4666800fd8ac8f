package policies_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
)

// acting is a policy of a shop. Some of its rules name acts, and older rules do not.
const acting = `version: 1
secrets: {pw: {env: PW}}
defaults: {decision: deny, profile: web}
profiles:
  web: {browser: {walls: sandboxed, act: true, secrets: [{secret: pw, origin: "https://shop.example", field: password}]}}
  reads: {browser: sandboxed}
  other: {browser: {walls: sandboxed, act: true}}
rules:
  - {id: look, match: {tool: BrowserLook}, decision: allow}
  - {id: move, match: {tool: Browser, act: [navigate, follow, press, type, point, download]}, decision: allow}
  - {id: order, match: {tool: Browser, act: submit, on: "https://shop.example/**", url: "https://shop.example/**"}, decision: allow}
  - {id: order-paid, match: {tool: Browser, act: submit, url: "https://pay.example/**"}, decision: ask}
  - {id: login, match: {tool: Browser, act: secret, on: "https://shop.example/login"}, decision: allow}
  - {id: keep, match: {tool: Browser, act: save, path: "/workspace/downloads/**", url: "https://shop.example/**"}, decision: allow}
  - {id: keep-ask, match: {tool: Browser, act: save}, unless: {path: "/workspace/downloads/**"}, decision: ask}
  - {id: bank, match: {tool: Browser, act: [press, type, submit], on: "https://bank.example/**"}, decision: deny}
  - {id: no-help, match: {act: follow, url: "https://shop.example/help/**"}, unless: {url: "https://shop.example/help/faq"}, decision: deny, reason: Help is slow., instead: Ask a person.}
  - {id: evil-host, match: {host: evil.example}, decision: deny}
  - {id: evil-url, match: {url: "https://bad.example/**"}, decision: deny}
  - {id: dotenv, match: {path: "**/.env"}, decision: deny}
  - {id: pages, match: {url: "*://*/**", tool: ReadDocs}, decision: allow}
  - {id: files, match: {path: "/workspace/**"}, decision: allow}
  - {id: other, match: {tool: Browser, act: eval, on: "https://shop.example/**"}, decision: allow, profile: other}
`

const (
	shopURL = "https://shop.example/cart"
	payURL  = "https://pay.example/charge"
)

func acts(all ...policies.Act) policies.Facts {
	return policies.Facts{Tool: policies.ActTool, Acts: all}
}

// TestActs checks the decisions about acts, and which rule decides.
func TestActs(t *testing.T) {
	p := parse(t, acting)
	type act = policies.Act
	for _, tt := range []struct {
		name string
		want string
		acts []act
	}{
		{"navigate", "allow move", []act{{Kind: policies.ActNavigate, To: "https://any.example/"}}},
		{"press", "allow move", []act{{Kind: policies.ActPress, On: shopURL}}},
		{"press where it is denied", "deny bank", []act{{Kind: policies.ActPress, On: "https://bank.example/x"}}},
		{"press on a document without address", "ask bank", []act{{Kind: policies.ActPress, On: "about:blank"}}},
		{"point there", "allow move", []act{{Kind: policies.ActPoint, On: "https://bank.example/x"}}},
		{"a link", "allow move", []act{{Kind: policies.ActFollow, On: shopURL, To: "https://shop.example/a", Method: "GET"}}},
		{"a link that is denied", "deny no-help", []act{{Kind: policies.ActFollow, On: shopURL, To: "https://shop.example/help/x", Method: "GET"}}},
		{"an exception of it", "allow move", []act{{Kind: policies.ActFollow, On: shopURL, To: "https://shop.example/help/faq", Method: "GET"}}},
		{"a link that servers may read as that", "ask no-help", []act{{Kind: policies.ActFollow, On: shopURL, To: "https://shop.example/x/../help/y", Method: "GET"}}},
		{"a form", "allow order", []act{{Kind: policies.ActSubmit, On: shopURL, To: "https://shop.example/pay", Method: "POST"}}},
		{"a form to another site", "ask order-paid", []act{{Kind: policies.ActSubmit, On: shopURL, To: payURL, Method: "POST"}}},
		{"a form on another site", "deny default", []act{{Kind: policies.ActSubmit, On: "https://x.example/", To: "https://shop.example/pay", Method: "POST"}}},
		{"a form of a document without address", "deny default", []act{{Kind: policies.ActSubmit, On: "about:srcdoc", To: "https://shop.example/pay", Method: "POST"}}},
		{"a form with a path that servers read in two ways, on a host that may have any", "allow order", []act{{Kind: policies.ActSubmit, On: shopURL, To: "https://shop.example/a/%2e%2e/b", Method: "POST"}}},
		{"a secret", "allow login", []act{{Kind: policies.ActSecret, On: "https://shop.example/login", Field: "password", Secret: "pw"}}},
		{"a secret elsewhere", "deny default", []act{{Kind: policies.ActSecret, On: shopURL, Field: "password", Secret: "pw"}}},
		{"a file", "allow keep", []act{{Kind: policies.ActSave, To: "https://shop.example/i.pdf", Path: "/workspace/downloads/i.pdf"}}},
		{"a file from elsewhere", "deny default", []act{{Kind: policies.ActSave, To: payURL, Path: "/workspace/downloads/i.pdf"}}},
		{"a file of a blob", "deny default", []act{{Kind: policies.ActSave, To: "blob:https://shop.example/1", Path: "/workspace/downloads/i.pdf"}}},
		{"a file elsewhere", "ask keep-ask", []act{{Kind: policies.ActSave, To: "https://shop.example/i.pdf", Path: "/workspace/i.pdf"}}},
		{"a file in what seems the same", "ask keep-ask", []act{{Kind: policies.ActSave, To: "https://shop.example/i.pdf", Path: "/workspace/downloads/../i.pdf"}}},
		{"upload", "deny default", []act{{Kind: policies.ActUpload, On: shopURL, Path: "/workspace/a.png", Field: "file"}}},
		// A rule without acts that refuses something refuses it to a browser, too.
		{"an older rule about a host, where it leads", "deny evil-host", []act{{Kind: policies.ActNavigate, To: "https://evil.example/"}}},
		{"an older rule about a host, where it is", "deny evil-host", []act{{Kind: policies.ActPress, On: "https://evil.example/"}}},
		{"an older rule about a URL, where it leads", "deny evil-url", []act{{Kind: policies.ActFollow, On: shopURL, To: "https://bad.example/x"}}},
		{"an older rule about a URL, where it is", "deny evil-url", []act{{Kind: policies.ActType, On: "https://bad.example/x", Field: "text"}}},
		{"an older rule about a path", "deny dotenv", []act{{Kind: policies.ActSave, To: "https://shop.example/e", Path: "/workspace/downloads/.env"}}},
		// A rule without acts that allows something does not allow it to a browser.
		{"an older rule that allows a path", "deny default", []act{{Kind: policies.ActUpload, On: shopURL, Path: "/workspace/x"}}},
		{"a rule for another profile", "allow other", []act{{Kind: policies.ActEval, On: shopURL}}},
		{"two acts, the stricter", "ask order-paid", []act{{Kind: policies.ActPress, On: shopURL}, {Kind: policies.ActSubmit, On: shopURL, To: payURL, Method: "POST"}}},
		{"two acts of two profiles", "deny mixed-profiles", []act{{Kind: policies.ActPress, On: shopURL}, {Kind: policies.ActEval, On: shopURL}}},
		// An act that lacks a fact is denied as unreadable.
		{"the zero act", "deny unreadable", []act{{}}},
		{"no such kind", "deny unreadable", []act{{Kind: "click", On: shopURL}}},
		{"zero beside another", "deny unreadable", []act{{Kind: policies.ActPress, On: shopURL}, {}}},
		{"a form without method", "deny unreadable", []act{{Kind: policies.ActSubmit, On: shopURL, To: shopURL}}},
		{"a secret without name", "deny unreadable", []act{{Kind: policies.ActSecret, On: shopURL, Field: "password"}}},
		{"a script", "deny unreadable", []act{{Kind: policies.ActNavigate, To: "javascript:alert(1)"}}},
		{"a file of the machine", "deny unreadable", []act{{Kind: policies.ActNavigate, To: "file:///etc/passwd"}}},
		{"another scheme", "deny unreadable", []act{{Kind: policies.ActFollow, On: shopURL, To: "ftp://shop.example/"}}},
		{"user information", "deny unreadable", []act{{Kind: policies.ActNavigate, To: "https://shop.example@evil.example/"}}},
		{"a path with NUL", "deny unreadable", []act{{Kind: policies.ActSave, To: shopURL, Path: "/workspace/\x00"}}},
	} {
		d := p.Decide(acts(tt.acts...))
		if got := d.Verdict.String() + " " + d.Rule; got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if !d.Grant.IsZero() && d.Verdict != policies.Allow {
			t.Errorf("%s: a grant with the verdict %v", tt.name, d.Verdict)
		}
	}
}

// Only the tool of browsers may have acts, and a call of another tool with an act is
// denied.
func TestActsAreOfOneTool(t *testing.T) {
	p := parse(t, strings.Replace(acting, "decision: deny, profile: web", "decision: allow, profile: web", 1))
	press := policies.Act{Kind: policies.ActPress, On: shopURL}
	for tool, want := range map[string]policies.Verdict{policies.ActTool: policies.Allow, policies.LookTool: policies.Deny, "Bash": policies.Deny, "ext.browse": policies.Deny} {
		if d := p.Decide(policies.Facts{Tool: tool, Acts: []policies.Act{press}}); d.Verdict != want {
			t.Errorf("%s with an act: got %v by %s, want %v", tool, d.Verdict, d.Rule, want)
		}
	}
	// A call of the browser without acts is judged by rules about each call alone.
	if d := parse(t, acting).Decide(policies.Facts{Tool: policies.ActTool}); d.Verdict != policies.Deny {
		t.Errorf("a call without acts: got %v by %s", d.Verdict, d.Rule)
	}
}

// If no profile lets browsers act, or no rule lets an act through, the tools are not
// offered (BR1).
func TestActsAreOff(t *testing.T) {
	const rules = "rules:\n  - {id: all, match: {tool: \"*\"}, decision: allow}\n"
	press := acts(policies.Act{Kind: policies.ActPress, On: shopURL})
	look := policies.Facts{Tool: policies.LookTool}
	for _, tt := range []struct {
		name, profile, rules string
		listed, looks, acts  bool
	}{
		{"nothing", "{}", rules, false, false, false},
		{"short form", "{browser: sandboxed}", rules, false, false, false},
		{"long form", "{browser: {walls: sandboxed}}", rules, false, false, false},
		{"act: false", "{browser: {walls: sandboxed, act: false}}", rules, false, false, false},
		{"act: true", "{browser: {walls: sandboxed, act: true}}", rules, true, true, true},
		{"degraded", "{browser: {walls: degraded, act: true}}", rules, true, true, true},
		{"no rule", "{browser: {walls: sandboxed, act: true}}", "", false, false, false},
		{"denied", "{browser: {walls: sandboxed, act: true}}", rules + "  - {id: no, match: {tool: \"Browser*\"}, decision: deny}\n", false, false, false},
		{"other kinds", "{browser: {walls: sandboxed, act: true}}", "rules:\n  - {id: a, match: {act: point}, decision: allow}\n", true, false, false},
		{"another profile", "{}\n  b: {browser: {walls: sandboxed, act: true}}", rules, true, false, false},
	} {
		p := parse(t, "version: 1\ndefaults: {decision: deny, profile: a}\nprofiles:\n  a: "+tt.profile+"\n"+tt.rules)
		if got := !p.HiddenFrom(policies.Facts{Tool: policies.ActTool}); got != tt.listed {
			t.Errorf("%s: listed: got %v, want %v", tt.name, got, tt.listed)
		}
		if got := p.Decide(press).Verdict == policies.Allow; got != tt.acts {
			t.Errorf("%s: acts: got %v, want %v", tt.name, got, tt.acts)
		}
		if got := p.Decide(look).Verdict == policies.Allow; got != tt.looks {
			t.Errorf("%s: looks: got %v, want %v", tt.name, got, tt.looks)
		}
	}
}

// Only the kinds of act that some rule may let through are offered (BR2).
func TestActsThatMayPass(t *testing.T) {
	const profile = "version: 1\nsecrets: {pw: {env: PW}}\ndefaults: {decision: deny, profile: a}\nprofiles:\n  a: {browser: {walls: sandboxed, act: true%s}}\nrules:\n"
	const every = "navigate follow submit download press type point upload save confirm"
	for _, tt := range []struct{ name, also, rules, want string }{
		{"all", "", "  - {id: a, match: {tool: Browser}, decision: allow}\n", every + " eval"},
		{"asked about", ", eval: off", "  - {id: a, match: {tool: Browser}, decision: ask}\n", every},
		{"with a secret", ", eval: off, secrets: [{secret: pw, origin: \"https://a.example\", field: password}]", "  - {id: a, match: {tool: Browser}, decision: ask}\n", strings.Replace(every, "point", "secret point", 1)},
		{"some", "", "  - {id: a, match: {act: [point, follow]}, decision: allow}\n", "follow point"},
		{"some, somewhere", "", "  - {id: a, match: {act: point, on: \"https://a.example/**\"}, decision: ask}\n", "point"},
		{"but one", ", eval: off", "  - {id: a, match: {tool: Browser}, decision: allow}\n  - {id: b, match: {act: submit}, decision: deny}\n", strings.Replace(every, "submit ", "", 1)},
		{"but one somewhere", ", eval: off", "  - {id: a, match: {tool: Browser}, decision: allow}\n  - {id: b, match: {act: submit, on: \"https://a.example/**\"}, decision: deny}\n", every},
		{"but one with an exception", ", eval: off", "  - {id: a, match: {tool: Browser}, decision: allow}\n  - {id: b, match: {act: submit}, unless: {on: \"https://a.example/**\"}, decision: deny}\n", every},
		{"but one in another profile", ", eval: off}}\n  b: {browser: {walls: sandboxed", "  - {id: a, match: {tool: Browser}, decision: allow}\n  - {id: b, match: {act: submit, profile: b}, decision: deny}\n", every},
		{"none", "", "  - {id: a, match: {tool: Bash}, decision: allow}\n", ""},
		{"asked about by a document", ", eval: off", "  - {id: a, match: {url: \"https://a.example/**\"}, decision: ask}\n", every},
		{"rules of another kind", "", "  - {id: a, match: {tool: Browser, url: \"https://a.example/**\"}, decision: allow}\n", ""},
		{"not enforced", "", "  - {id: a, match: {tool: Browser}, decision: allow, mode: warn}\n", ""},
	} {
		var got []string
		for _, k := range policies.PossibleActs(parse(t, fmt.Sprintf(profile, tt.also)+tt.rules)) {
			got = append(got, string(k))
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, s, tt.want)
		}
	}
}

// A document that a page asks for is judged as an act of the same call. The page that an
// act leads to is already decided about, until the act is done.
func TestDecideDocument(t *testing.T) {
	p := parse(t, acting)
	form := policies.Act{Kind: policies.ActSubmit, On: shopURL, To: payURL, Method: "POST"}
	yes := p.Decide(acts(form)).Approved().Grant
	plain := p.Decide(acts(policies.Act{Kind: policies.ActPress, On: shopURL})).Grant
	goes := p.Decide(acts(policies.Act{Kind: policies.ActNavigate, To: "https://shop.example/help/x#top"})).Grant
	saves := p.Decide(acts(policies.Act{Kind: policies.ActSave, To: "https://shop.example/help/x", Path: "/workspace/downloads/x"})).Grant
	look := p.Decide(policies.Facts{Tool: policies.LookTool}).Grant
	for _, tt := range []struct {
		name           string
		grant          policies.Grant
		on, to, method string
		want           policies.Verdict
	}{
		{"the form that was asked about", yes, shopURL, payURL, "POST", policies.Allow},
		{"and after it was sent", yes.Acted(), shopURL, payURL, "POST", policies.Ask},
		{"the same to another place", yes, shopURL, "https://pay.example/other", "POST", policies.Ask},
		{"the same by another method", yes, shopURL, payURL, "PUT", policies.Ask},
		{"a form of a press", plain, shopURL, payURL, "POST", policies.Ask},
		{"a form that is allowed", plain, shopURL, shopURL, "POST", policies.Allow},
		{"a link", plain, shopURL, payURL, "GET", policies.Allow},
		{"a link that is denied", yes, shopURL, "https://evil.example/", "GET", policies.Deny},
		{"an address that may be opened, and not followed to", goes, "", "https://shop.example/help/x", "GET", policies.Allow},
		{"the same after that", goes.Acted(), "", "https://shop.example/help/x", "GET", policies.Deny},
		{"the same, from a page that it is not opened from", plain, shopURL, "https://shop.example/help/x", "GET", policies.Deny},
		{"the same by another method there", goes, "", "https://shop.example/help/x", "POST", policies.Deny},
		{"where only a file came from", saves, shopURL, "https://shop.example/help/x", "GET", policies.Deny},
		{"a script", plain, shopURL, "javascript:1", "GET", policies.Deny},
		{"of a call that only looks", look, shopURL, payURL, "GET", policies.Deny},
		{"of the zero grant", policies.Grant{}, shopURL, payURL, "GET", policies.Deny},
	} {
		d := tt.grant.DecideDocument(tt.on, tt.to, tt.method)
		if d.Verdict != tt.want || !d.Grant.IsZero() || !d.Offers().IsZero() {
			t.Errorf("%s: got %v by %s, want %v", tt.name, d.Verdict, d.Rule, tt.want)
		}
	}
	for url, want := range map[string]policies.Verdict{payURL: policies.Allow, "https://evil.example/": policies.Deny, "javascript:1": policies.Deny} {
		if d := yes.DecideURL(url); d.Verdict != want {
			t.Errorf("%s: got %v by %s, want %v", url, d.Verdict, d.Rule, want)
		}
	}
}

// A decision about a URL is valid for the URL that a browser asks for, however an agent has
// written it.
func TestApprovedAddressesAsBrowsersWriteThem(t *testing.T) {
	p := parse(t, `version: 1
defaults: {decision: deny, profile: web}
profiles: {web: {browser: {walls: sandboxed, act: true}}}
rules: [{id: ask, match: {act: navigate}, decision: ask}]
`)
	for _, tt := range []struct {
		decided, asked string
		want           policies.Verdict
	}{
		{"https://shop.example", "https://shop.example/", policies.Allow},
		{"HTTPS://Shop.Example:443/a", "https://shop.example/a", policies.Allow},
		{"https://shop.example?q=1", "https://shop.example/?q=1", policies.Allow},
		{"https://shop.example/a/./b/../c", "https://shop.example/a/c", policies.Allow},
		{"https://shop.example/a/%2e%2E/c/..", "https://shop.example/", policies.Allow},
		{"https://shop.example/ä\"<`{}>|'?q=ü'\"<>`{}", "https://shop.example/%C3%A4%22%3C%60%7B%7D%3E|'?q=%C3%BC%27%22%3C%3E`{}", policies.Allow},
		{"https://shop.example/a#b", "https://shop.example/a#c", policies.Allow},
		{"https://shop.example/a", "https://shop.example/a/", policies.Deny},
		{"https://shop.example/a", "https://shop.example/A", policies.Deny},
		{"https://shop.example/a", "http://shop.example/a", policies.Deny},
		{"https://shop.example/a", "https://shop.example:8443/a", policies.Deny},
		{"https://shop.example/a", "https://shop.example/a?", policies.Deny},
		{"https://shop.example/a?q=1", "https://shop.example/a?q=2", policies.Deny},
		{"https://shop.example/a?q=%27", "https://shop.example/a?q=%28", policies.Deny},
		{"https://shop.example/a//b", "https://shop.example/a/b", policies.Deny},
		{"https://shop.example/a/..%2fb", "https://shop.example/b", policies.Deny},
		{"https://shop.example/a", "https://shop.example.evil.example/a", policies.Deny},
	} {
		g := p.Decide(acts(policies.Act{Kind: policies.ActNavigate, To: tt.decided, Method: "GET"})).Approved().Grant
		if d := g.DecideDocument("", tt.asked, "GET"); d.Verdict != tt.want {
			t.Errorf("%s was decided about, %s asked for: got %v, want %v", tt.decided, tt.asked, d.Verdict, tt.want)
		}
	}
}

// A policy that was loaded after the grant can decide about a document.
func TestDocumentsByALaterPolicy(t *testing.T) {
	p := parse(t, acting)
	later := parse(t, strings.Replace(acting, "rules:\n", "rules:\n  - {id: closed, match: {act: [follow, submit]}, decision: deny}\n", 1))
	g := p.Decide(acts(policies.Act{Kind: policies.ActPress, On: shopURL})).Grant
	if d := g.DecideDocument(shopURL, payURL, "GET"); d.Verdict != policies.Allow {
		t.Fatalf("got %v by %s", d.Verdict, d.Rule)
	}
	if d := g.DecideDocumentBy(later.Decide, shopURL, payURL, "GET"); d.Verdict != policies.Deny || d.Rule != "closed" {
		t.Errorf("got %v by %s", d.Verdict, d.Rule)
	}
	// Downloading a file is another act than opening a document, even at the same address.
	files := parse(t, `version: 1
defaults: {decision: deny, profile: web}
profiles: {web: {browser: {walls: sandboxed, act: true}}}
rules: [{id: files, match: {act: [download, press]}, decision: allow}]
`)
	click := files.Decide(acts(policies.Act{Kind: policies.ActDownload, On: shopURL, To: payURL, Method: "GET"})).Grant
	never := func(policies.Facts) policies.Decision { return policies.Decision{} }
	if d := click.DecideFileBy(never, shopURL, payURL, "GET"); d.Verdict != policies.Allow {
		t.Errorf("the file of a click: %v by %s", d.Verdict, d.Rule)
	}
	if d := click.DecideDocument(shopURL, payURL, "GET"); d.Verdict != policies.Deny {
		t.Errorf("a document in its place: %v by %s", d.Verdict, d.Rule)
	}
	for method, want := range map[string]policies.Verdict{"GET": policies.Allow, "POST": policies.Deny} {
		if d := click.Acted().DecideFileBy(files.Decide, shopURL, payURL, method); d.Verdict != want {
			t.Errorf("a file of a script by %s: %v by %s", method, d.Verdict, d.Rule)
		}
	}
	if d := (policies.Grant{}).DecideDocumentBy(later.Decide, shopURL, payURL, "GET"); d.Verdict != policies.Deny {
		t.Errorf("the zero grant: %v by %s", d.Verdict, d.Rule)
	}
}

// A question about an act offers the profile that a rule grants to the act: a call does not
// name the profile of a browser.
func TestAskedActsHaveTheirProfile(t *testing.T) {
	p := parse(t, "version: 1\ndefaults: {decision: deny, profile: work}\nprofiles:\n  work: {}\n  web: {browser: {walls: sandboxed, act: true}}\nrules:\n"+
		"  - {id: surf, match: {tool: Browser}, decision: allow, profile: web}\n  - {id: forms, match: {act: submit}, decision: ask}\n  - {id: alone, match: {tool: Bash}, decision: ask}\n")
	form := acts(policies.Act{Kind: policies.ActSubmit, On: shopURL, To: payURL, Method: "POST"})
	if d := p.Decide(form); d.Verdict != policies.Ask || d.Offers().Profile() != "web" || !d.Approved().Grant.Acting().Act {
		t.Errorf("got %v by %s, with profile %q", d.Verdict, d.Rule, d.Offers().Profile())
	}
	if d := p.Decide(bash("ls")); d.Offers().Profile() != "work" {
		t.Errorf("a command gets profile %q", d.Offers().Profile())
	}
}

// A layer narrows what browsers do, and never allows an act that the policy denies.
func TestActsUnderLayers(t *testing.T) {
	p := parse(t, acting)
	layer, err := policies.ParseLayer(policies.LayerSession, "layer.yaml", []byte("version: 1\nrules:\n  - {id: no-pay, match: {act: submit, url: \"https://shop.example/pay\"}, decision: deny}\n  - {id: free, match: {act: upload}, decision: allow}\n"), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		act  policies.Act
		want policies.Verdict
	}{
		{policies.Act{Kind: policies.ActSubmit, On: shopURL, To: "https://shop.example/pay", Method: "POST"}, policies.Deny},
		{policies.Act{Kind: policies.ActSubmit, On: shopURL, To: "https://shop.example/x", Method: "POST"}, policies.Allow},
		{policies.Act{Kind: policies.ActUpload, On: shopURL, Path: "/a"}, policies.Deny},
	} {
		f := acts(tt.act)
		if d := layer.Narrow(p.Decide(f), f); d.Verdict != tt.want {
			t.Errorf("%v: got %v by %s, want %v", tt.act, d.Verdict, d.Rule, tt.want)
		}
	}
}

// TestActRefusals compares the texts that agents get about refused acts and about questions
// with a golden file.
func TestActRefusals(t *testing.T) {
	p := parse(t, acting)
	var b strings.Builder
	for _, a := range []policies.Act{
		{Kind: policies.ActSubmit, On: shopURL, To: payURL, Method: "POST"},
		{Kind: policies.ActSubmit, On: "https://x.example/", To: "https://shop.example/pay?token=" + strings.Repeat("x", 300), Method: "POST"},
		{Kind: policies.ActSubmit, On: "https://xn--shp-1na.example:8443/a", To: "https://xn--shp-1na.example/", Method: "GET"},
		{Kind: policies.ActSecret, On: shopURL, Field: "password", Secret: "pw"},
		{Kind: policies.ActUpload, On: shopURL, Path: "/workspace/a.png", Field: "file"},
		{Kind: policies.ActSave, To: "https://shop.example/i.pdf", Path: "/workspace/downloads/../i.pdf"},
		{Kind: policies.ActSave, To: payURL, Path: "i.pdf"},
		{Kind: policies.ActFollow, On: shopURL, To: "https://shop.example/x/../help/y"},
		{Kind: policies.ActFollow, On: "about:blank", To: "ftp://shop.example/"},
		{Kind: policies.ActNavigate, To: "https://shop.example@evil.example/"},
		{Kind: policies.ActNavigate, To: "https://evil.example/"},
		{Kind: policies.ActPress, On: "about:blank"},
		{Kind: policies.ActPress},
		{Kind: "click\x1b[31m", On: shopURL},
	} {
		fmt.Fprintf(&b, "%s\n\n", p.Decide(acts(a)).Refusal("c-81f2"))
	}
	fmt.Fprintf(&b, "%s\n\n", p.Decide(acts(make([]policies.Act, 1001)...)).Refusal("c-81f2"))
	fmt.Fprintf(&b, "%s\n\n", p.Decide(policies.Facts{Tool: policies.LookTool, Profile: "reads"}).Refusal("c-81f2"))
	fmt.Fprintf(&b, "%s\n\n", policies.Grant{}.DecideDocument(shopURL, payURL, "GET").Refusal(""))
	toOther := parse(t, strings.NewReplacer("act: eval, on: ", "act: follow, url: ", "[navigate, follow, press", "[navigate, press").Replace(acting))
	press := toOther.Decide(acts(policies.Act{Kind: policies.ActPress, On: shopURL})).Grant
	fmt.Fprintf(&b, "%s\n", press.DecideDocument("", shopURL, "GET").Refusal(""))
	golden.Equal(t, "refusal/acts.golden", b.String())
}

// TestOpens checks which addresses an agent may open by name (BR27).
func TestOpens(t *testing.T) {
	seen := policies.Acting{Act: true}
	anywhere := policies.Acting{Act: true, Open: policies.OpenAny}
	for _, tt := range []struct {
		url        string
		seen, want bool
	}{
		{"https://ok.example/", false, true},
		{"https://ok.example/a/b", false, true},
		{"https://ok.example/?", false, false},
		{"https://ok.example/#", false, false},
		{"https://ok.example/?d=text", false, false},
		{"https://ok.example/#text", false, false},
		{"https://ok.example?d=text", false, false},
		{"https://ok.example/a%3Fd", false, true},
		{"https://ok.example/?d=text", true, true},
		{"https://ok.example/#text", true, true},
	} {
		if got := seen.Opens(tt.url, tt.seen); got != tt.want {
			t.Errorf("%s, seen %v: got %v, want %v", tt.url, tt.seen, got, tt.want)
		}
		if !anywhere.Opens(tt.url, tt.seen) {
			t.Errorf("%s is refused where any may be opened", tt.url)
		}
		if (policies.Acting{Open: policies.OpenAny}).Opens(tt.url, true) {
			t.Errorf("%s is opened where no browser acts", tt.url)
		}
	}
}

// ActKinds returns all kinds, and the text of an act contains no control character.
func TestActKinds(t *testing.T) {
	kinds := policies.ActKinds()
	if len(kinds) != 12 || slices.Contains(kinds, "") {
		t.Errorf("got %q", kinds)
	}
	for _, k := range append(kinds, "", "x\x1b[1m\n") {
		s := policies.Act{Kind: k, On: "https://a\x1b.example/\n", To: "\x1b]0;x\a", Method: "\r\n", Field: "\t", Secret: "\x00", Path: "/\x9b"}.String()
		if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
			t.Errorf("%q is not printable", s)
		}
	}
}

// The text of an act keeps the end of each host, which says whose host it is: a long name
// in front of it must not push it out of a question or a refusal.
func TestActKeepsOrigins(t *testing.T) {
	long := func(end string) string {
		return "https://accounts.bank.example." + strings.Repeat("a.", 90) + end + "/" + strings.Repeat("p", 300)
	}
	for _, k := range policies.ActKinds() {
		a := policies.Act{Kind: k, On: long("on.example"), To: long("to.example:8443"), Method: "POST", Field: "password", Secret: strings.Repeat("s", 64), Path: "/" + strings.Repeat("p", 300)}
		if s := a.String(); !strings.Contains(s, ".on.example") || !strings.Contains(s, ".to.example:8443/p") {
			t.Errorf("%s does not show the origins: %s", k, s)
		}
	}
	a := policies.Act{Kind: policies.ActSubmit, On: long("on.example"), To: long("to.example"), Method: "POST"}
	if d := parse(t, acting).Decide(acts(a)); d.Verdict != policies.Deny || !strings.Contains(d.Part, ".on.example, POST to https://...") || !strings.Contains(d.Part, ".to.example/p") {
		t.Errorf("the refused part does not show the origins: %v %s", d.Verdict, d.Part)
	}
	short := policies.Act{Kind: policies.ActFollow, On: "https://a.example/x", To: "HTTPS://b.example?q", Method: "GET"}
	if got, want := short.String(), "follow on https://a.example, GET to HTTPS://b.example?q"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
