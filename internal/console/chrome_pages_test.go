package console

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
)

// allPages are the pages of the console, each with an expression that is true when the page
// is shown.
var allPages = []struct{ hash, shown string }{
	{"#/overview", `document.querySelector('.tile') && document.querySelector('.chart')`},
	{"#/inbox", `document.querySelector('.list li')`},
	{"#/history", `document.querySelector('tbody tr')`},
	{"#/boxes", `document.querySelector('tbody tr')`},
	{"#/jobs", `document.querySelector('tbody tr')`},
	{"#/jobs/s-1/3", `document.querySelector('.output .lines-out div') && document.querySelector('.facts')`},
	{"#/sessions", `document.querySelector('tbody tr')`},
	{"#/work", `document.querySelector('.steps li')`},
	{"#/workspaces", `document.querySelector('tbody tr')`},
	{"#/audit", `document.querySelector('tbody tr')`},
	{"#/policy", `document.querySelector('.source div')`},
	{"#/upstreams", `document.querySelector('.page .card')`},
	{"#/search", `document.querySelector('tbody tr')`},
	{"#/browser", `document.querySelector('.meter')`},
}

// everyPage calls f for each page, and for one page of each kind that these pages link to.
func everyPage(p *tab, f func(hash string)) {
	p.t.Helper()
	for _, one := range allPages {
		p.at(one.hash)
		p.until(one.shown)
		f(one.hash)
	}
	for hash, into := range map[string]string{
		"#/inbox":      `[...document.querySelectorAll('.list a')].find(a => a.hash.includes('KIND'))`,
		"#/workspaces": `document.querySelector('tbody a')`,
		"#/audit":      `document.querySelector('tbody tr:last-child ~ tr a, tbody tr:nth-last-child(3) a')`,
	} {
		for _, kind := range []string{"approval", "question", "pin"} {
			p.at(hash)
			link := strings.Replace(into, "KIND", kind, 1)
			p.until(link)
			p.eval(link + `.click()`)
			p.until(`document.querySelector('.agent, .files button')`)
			if hash == "#/workspaces" {
				p.eval(`document.querySelector('.files button').click()`)
				// the chosen file, not the text shown before a file is chosen
				p.until(`document.querySelector('.detail h2')`)
			}
			f(hash + " " + kind)
			if hash != "#/inbox" {
				break
			}
		}
	}
}

// Text that an agent, a web page or an upstream wrote is plain text on every page: WC6,
// WC10, WC-A1 to A6, A33.
func TestChromeHostileTexts(t *testing.T) {
	g := start(t, hostile)
	p := g.open(chrome(t))
	p.login(Operator)
	everyPage(p, func(hash string) {
		p.plain(hash)
		p.fine()
	})
	if cookie := value[string](p, `document.cookie`); cookie != "" {
		t.Errorf("cookies: %q", cookie)
	}
}

// plain checks that the texts of a page are only text, and visible.
func (p *tab) plain(hash string) {
	p.t.Helper()
	t := p.t
	if value[bool](p, `'evil' in window || !document.title.endsWith('belljar') || !!document.querySelector('script:not([src]), style, iframe, object, embed, meta[http-equiv], img, form, base')`) {
		t.Errorf("%s: a text became markup", hash)
	}
	for _, href := range value[[]string](p, `[...document.querySelectorAll('[href]')].map(a => a.getAttribute('href'))`) {
		if !strings.HasPrefix(href, "#/") && !strings.HasPrefix(href, "assets/") {
			t.Errorf("%s: a link to %q", hash, href)
		}
	}
	// No character is invisible or changes how other characters look.
	if found := value[[]string](p, `[...document.body.innerText.matchAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g)].map(m => m[0])`); len(found) > 0 {
		t.Errorf("%s: hidden characters %q", hash, found)
	}
	if wide := value[int](p, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
		t.Errorf("%s is %d pixels wider than the window", hash, wide)
	}
}

// Every operation that could turn a text into markup throws an error, whatever code calls
// it: WC6.
func TestChromeSinksThrow(t *testing.T) {
	g := start(t)
	p := g.open(chrome(t))
	p.login(Viewer)
	for _, sink := range []string{
		`document.body.innerHTML = 'x'`, `document.body.outerHTML = 'x'`, `document.body.insertAdjacentHTML('beforeend', 'x')`, `document.write('x')`, `eval('1')`, `new Function('1')()`,
		`document.createElement('iframe').srcdoc = 'x'`, `new DOMParser().parseFromString('<p>', 'text/html')`, `document.createElement('script').text = 'x'`, `setTimeout('1')`,
		`document.createRange().createContextualFragment('x')`, `document.createElement('script').src = 'https://evil.example/'`, `trustedTypes.createPolicy('x', {createHTML: x => x})`,
	} {
		got, err := chromedp.Call(p.ctx, runtime.Evaluate, runtime.EvaluateParams{
			Expression: `(() => { try { ` + sink + `; return false } catch { return true } })()`, AllowUnsafeEvalBlockedByCSP: new(false),
		})
		if err != nil || got.Result == nil || string(got.Result.Value) != "true" {
			t.Errorf("does not throw: %s", sink)
		}
	}
	p.eval(`window.violations = []`) // forgets the violations that this test has caused
	p.mayFail("security error")
	p.mayFail("recommendation")
}

// Every control has a name, every page has one heading of the first level, and no element
// has a positive tabindex: WC25.
func TestChromeAccessibility(t *testing.T) {
	g := start(t, hostile)
	p := g.open(chrome(t))
	p.login(Operator)
	everyPage(p, p.accessible)
}

// needName are the roles of elements that need a name.
var needName = map[string]bool{"button": true, "link": true, "textbox": true, "searchbox": true, "combobox": true, "checkbox": true, "radio": true, "slider": true, "image": true, "img": true, "meter": true, "table": true, "region": true, "navigation": true, "dialog": true, "log": true}

// tabbable is a script that returns the roles of the elements that the Tab key reaches, in
// the order of the page.
const tabbable = `[...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')].filter(n => n.checkVisibility({visibilityProperty: true}) && !n.disabled).map(n => n.matches('a') ? 'link' : n.matches('button') ? 'button' : n.matches('summary') ? 'summary' : n.matches('input, select, textarea') ? 'input' : 'other')`

// goesUp is a script that returns the elements that Tab reaches later although they stand
// higher in the same column.
const goesUp = `[...document.querySelectorAll('main :is(a[href], button, input, select, textarea, summary)')].filter(n => n.checkVisibility({visibilityProperty: true})).map(n => [n, n.getBoundingClientRect()]).filter(([, box], i, all) => i > 0 && box.bottom < all[i - 1][1].top && box.left < all[i - 1][1].right).map(([n]) => n.outerHTML.slice(0, 200))`

// unstopped are the roles of elements that can have the focus, but that Tab does not reach.
var unstopped = []string{"RootWebArea", "heading", "option", "MenuListOption"}

// focusOrder returns the roles of the elements that a screen reader moves the focus to, in
// this order.
func focusOrder(nodes []*accessibility.Node) (order []string) {
	byID := make(map[accessibility.NodeID]*accessibility.Node)
	for _, n := range nodes {
		byID[n.NodeID] = n
	}
	kinds := map[string]string{"DisclosureTriangle": "summary", "link": "link", "button": "button"}
	for _, role := range []string{"textbox", "searchbox", "combobox", "checkbox", "radio", "slider", "spinbutton"} {
		kinds[role] = "input"
	}
	var walk func(n *accessibility.Node)
	walk = func(n *accessibility.Node) {
		role := ""
		if n.Role != nil {
			role = strings.Trim(string(n.Role.Value), `"`)
		}
		for _, p := range n.Properties {
			if p.Name == "focusable" && string(p.Value.Value) == "true" && !n.Ignored && !slices.Contains(unstopped, role) {
				kind := kinds[role]
				if kind == "" {
					kind = "other"
				}
				order = append(order, kind)
			}
		}
		for _, id := range n.ChildIDs {
			if child := byID[id]; child != nil {
				walk(child)
			}
		}
	}
	if len(nodes) > 0 {
		walk(nodes[0])
	}
	return order
}

// accessible checks the page as a screen reader sees it.
func (p *tab) accessible(hash string) {
	p.t.Helper()
	t := p.t
	var tree accessibility.GetFullAXTreeResult
	var in, got []string
	if !testenv.Until(5*time.Second, func() bool { // the rows of a long list are in the tree only after they were drawn
		var err error
		if tree, err = chromedp.Call(p.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}); err != nil {
			t.Fatal(err)
		}
		in, got = value[[]string](p, tabbable), focusOrder(tree.Nodes)
		return slices.Equal(in, got)
	}) {
		t.Errorf("%s: the focus goes through %q, and in the page stand %q", hash, got, in)
	}
	roles := make(map[string]int)
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		role, name := strings.Trim(string(n.Role.Value), `"`), ""
		if n.Name != nil {
			name = strings.Trim(string(n.Name.Value), `"`)
		}
		roles[role]++
		if needName[role] && strings.TrimSpace(name) == "" {
			t.Errorf("%s: a %s has no name", hash, role)
		}
	}
	if up := value[[]string](p, goesUp); len(up) > 0 {
		t.Errorf("%s: the focus goes up: %q", hash, up)
	}
	for role, want := range map[string]int{"main": 1, "navigation": 1, "banner": 1} {
		if roles[role] != want {
			t.Errorf("%s: %d times %s, want %d", hash, roles[role], role, want)
		}
	}
	if got := value[string](p, `[...document.querySelectorAll('h1')].length + ' ' + document.querySelectorAll('[tabindex]:not([tabindex="0"]):not([tabindex="-1"])').length`); got != "1 0" {
		t.Errorf("%s: headings of the first level, positive tabindexes: %s", hash, got)
	}
}

// contrast is a script that finds texts that are hard to read. It computes the contrast
// ratio as WCAG does: it must be at least 4.5, and 3 for large texts.
const contrast = `(() => {
	const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return {rgb: m.slice(0, 3), a: m.length > 3 ? m[3] : 1} }
	const lum = rgb => { const [r, g, b] = rgb.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b }
	const behind = n => { for (; n; n = n.parentElement) { const c = parse(getComputedStyle(n).backgroundColor); if (c.a === 1) return c.rgb } return [255, 255, 255] }
	const bad = new Set(), walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	let seen = 0
	while (walk.nextNode()) {
		const node = walk.currentNode.parentElement
		if (!walk.currentNode.data.trim() || !node.checkVisibility() || node.closest('svg title, .sr')) continue
		const style = getComputedStyle(node), text = parse(node.closest('svg') ? style.fill : style.color).rgb, ground = behind(node)
		const [a, b] = [lum(text), lum(ground)].sort((x, y) => y - x), size = parseFloat(style.fontSize)
		const large = size >= 24 || size >= 18.66 && style.fontWeight >= 700
		seen++
		if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5)) bad.add(node.className + ' ' + text + ' on ' + ground + ' ' + ((a + 0.05) / (b + 0.05)).toFixed(2))
	}
	return seen < 20 ? ['only ' + seen + ' texts were seen'] : [...bad]
})()`

// Texts are readable in both themes, and pages fit a window of 320 pixels: WC27.
func TestChromeLooks(t *testing.T) {
	g := start(t, hostile)
	p := g.open(chrome(t))
	p.login(Operator)
	for _, theme := range []string{"light", "dark"} {
		p.theme(theme)
		p.size(map[string]int64{"light": 1280, "dark": 320}[theme], 800)
		everyPage(p, func(hash string) { p.readable(hash + ", " + theme) })
	}
	for width, want := range map[int64]string{1280: "0 0 982 170", 768: "0 0 718 170", 480: "0 0 430 170", 320: "0 0 270 170"} {
		p.size(width, 800)
		p.at("#/inbox")
		p.at("#/overview")
		p.until(`document.querySelector('.chart')`)
		if box := value[string](p, `document.querySelector('.chart').getAttribute('viewBox')`); box != want {
			t.Errorf("the chart in a window of %d pixels has the view box %q, want %q", width, box, want)
		}
	}
}

// readable checks that the texts of a page are readable, and that the page fits its window.
func (p *tab) readable(hash string) {
	p.t.Helper()
	if bad := value[[]string](p, contrast); len(bad) > 0 {
		p.t.Errorf("%s: hard to read: %q", hash, bad)
	}
	if wide := value[int](p, `document.documentElement.scrollWidth - innerWidth`); wide > 0 {
		p.t.Errorf("%s: %d pixels wider than the window: %s", hash, wide, value[string](p, `[...document.querySelectorAll('main *')].filter(n => n.getBoundingClientRect().right > innerWidth + 1 && !n.closest('.scroll, .output, .diff, .source, pre')).slice(0, 3).map(n => n.outerHTML.slice(0, 200)).join('\n')`))
	}
}

// A host with letters of other scripts is shown together with the name that the network
// uses: WC-A5.
func TestChromeHomoglyphs(t *testing.T) {
	g := start(t)
	a := g.ask("curl https://b\u0435lljar.example/x && wget t\u0435st.example")
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/inbox/approval/" + a.ID)
	p.until(`document.querySelector('.detail .agent')`)
	for _, want := range []string{"xn--blljar-", "xn--tst-rdd.example"} {
		if text := value[string](p, `document.querySelector('.detail .agent').innerText`); !strings.Contains(text, want) {
			t.Errorf("%s is not beside the host: %s", want, text)
		}
	}
}

// A host in an approval, alone or as part of a URL, is shown with that name too: WC-A5.
func TestChromeHomoglyphHosts(t *testing.T) {
	g := start(t)
	a, _, err := g.approvals.Ask(t.Context(), approval.Request{
		CallID:   "c-1",
		Facts:    policies.Facts{Tenant: "a", Session: "s-1", Tool: "ReadDocs", Hosts: []string{"b\u0435lljar.example"}, URLs: []string{"https://t\u0435st.example/belljar.example", "https://plain.example/"}},
		Decision: policies.Decision{Verdict: policies.Ask, Rule: "rule"},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/inbox/approval/" + a.ID)
	p.until(`document.querySelector('.detail .agent')`)
	want := []string{"is xn--tst-rdd.example on the network", "is xn--blljar-3of.example on the network"}
	if got := value[[]string](p, `[...document.querySelectorAll('.detail .agent .puny')].map(n => n.textContent)`); !slices.Equal(got, want) {
		t.Errorf("beside the hosts stands %q, want %q", got, want)
	}
}

// In a command, characters that hide or that change the direction of text are shown as
// codes, and the page says that they exist. For a plain command it does not say this:
// WC-A4.
func TestChromeHiddenCharacters(t *testing.T) {
	g := start(t)
	plain, turned := g.ask("rm -rf build"), g.ask("rm -rf \u202edliub\u2069 # \u200b")
	p := g.open(chrome(t))
	p.login(Approver)
	for id, want := range map[string][]string{plain.ID: {}, turned.ID: {`\u202e`, `\u2069`, `\u200b`}} {
		p.at("#/inbox/approval/" + id)
		p.until(`document.querySelector('.detail .answer')`)
		got := value[[]string](p, `[...new Set([...document.querySelectorAll('.detail .agent .hid')].map(n => n.textContent))]`)
		if !slices.Equal(got, want) {
			t.Errorf("%s has the codes %q, want %q", id, got, want)
		}
		said := value[bool](p, `[...document.querySelectorAll('.detail .agent > .flag')].some(n => n.checkVisibility() && n.textContent.startsWith('This text has characters that are invisible'))`)
		if said != (len(want) > 0) {
			t.Errorf("that %s has hidden characters is said: %t", id, said)
		}
	}
}

// Whatever data a page is made of, it never creates an element that runs or loads
// something, never sets an attribute that does so, and has only links to pages of the
// console: WC10, WC-A6.
func TestChromeElements(t *testing.T) {
	module, err := os.ReadFile("assets/page/dom.js")
	if err != nil {
		t.Fatal(err)
	}
	g := start(t)
	p := g.open(chrome(t))
	p.login(Viewer)
	makes := func(call string) string {
		t.Helper()
		return value[string](p, `(() => { `+strings.ReplaceAll(string(module), "\nexport ", "\n")+`
			try { return `+call+`.outerHTML } catch (e) { return e.message } })()`)
	}
	for call, want := range map[string]string{
		`el('a', {to: '#/inbox/approval/ap-1'}, '<b>')`: `<a href="#/inbox/approval/ap-1">&lt;b&gt;</a>`,
		`svg('path', {d: 'M0 0'})`:                      `<path d="M0 0"></path>`,
	} {
		if got := makes(call); got != want {
			t.Errorf("%s makes %s, want %s", call, got, want)
		}
	}
	calls := map[string][]string{ // scripts, by the end of the error that they throw
		"is not used here": {`svg('path', {href: '#x'})`, `svg('path', {'xlink:href': '#x'})`},
		"is made here":     {`svg('a')`, `svg('use')`, `svg('image')`, `svg('foreignObject')`, `svg('script')`, `svg('style')`},
	}
	add := func(said, call string, with ...string) {
		for _, one := range with {
			calls[said] = append(calls[said], fmt.Sprintf(call, quote(one)))
		}
	}
	add("a link leads to a page of this console", `el('a', {to: %s})`, "javascript:window.evil=1", "JavaScript:1", " #/inbox", "data:text/html,x", "vbscript:x", "blob:x", "https://evil.example/", "//evil.example/#/", "/login", "?x#/inbox", "")
	add("is not used here", `el('p', {%s: 'x'})`, "href", "src", "srcset", "srcdoc", "style", "action", "formaction", "target", "download", "ping", "background", "poster", "http-equiv", "onclick", "onerror", "onload", "is")
	add("is made here", `el(%s)`, "script", "style", "iframe", "object", "embed", "base", "link")
	for said, all := range calls {
		for _, call := range all {
			if got := makes(call); !strings.HasSuffix(got, said) {
				t.Errorf("%s: got %s, want an error that ends with %q", call, got, said)
			}
		}
	}
}

// All arguments can be read, part by part: WC-A7.
func TestChromeLargeArguments(t *testing.T) {
	g := start(t)
	a, err := g.wrote(numbered(30_000) + "the end")
	if err != nil {
		t.Fatal(err)
	}
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/inbox/approval/" + a.ID)
	fold := `[...document.querySelectorAll('details')].find(d => d.querySelector('summary').innerText === 'All arguments')`
	p.until(fold)
	p.eval(fold + `.open = true`)
	all := fold + `.querySelector('.agent')`
	p.until(all + `?.innerText.includes('text:\n    0\n')`)
	if size := value[int](p, all+`.textContent.length`); size > 9000 {
		t.Errorf("%d characters of a part are shown at once", size)
	}
	later := []string{"\n    20000\n", "the end"}
	for _, text := range later {
		if shown := value[bool](p, all+`.textContent.includes(`+quote(text)+`)`); shown {
			t.Errorf("%q is there at once", text)
		}
	}
	for _, text := range later {
		p.until(`(` + all + `.querySelectorAll('button').forEach(b => b.hidden || b.click()), ` + all + `.textContent.includes(` + quote(text) + `))`)
	}
	if shown := value[int](p, `document.querySelector('.detail .agent').innerText.length`); shown > 4000 {
		t.Errorf("at once %d characters are shown", shown)
	}
}

// A person sees every field of what a call does: WC13.
func TestChromeShowsAllOfACall(t *testing.T) {
	var s approval.Shown
	want := map[string]string{}
	for v, i := reflect.ValueOf(&s).Elem(), 0; i < v.NumField(); i++ {
		mark := "mark-of-" + strings.ToLower(v.Type().Field(i).Name)
		switch f := v.Field(i); f.Interface().(type) {
		case []string:
			f.Set(reflect.ValueOf([]string{mark}))
		case string:
			f.SetString(mark)
		case int:
			f.SetInt(7654)
			mark = "7654"
		case bool:
			f.SetBool(true)
			mark = "All arguments"
		}
		want[v.Type().Field(i).Name] = mark
	}
	g := start(t, func(g *rig, v *Views) { v.People = &shows{g, s} })
	a := g.ask("rm x")
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/inbox/approval/" + a.ID)
	p.until(`document.querySelector('.detail .agent')`)
	text := value[string](p, `document.querySelector('.detail').innerText`)
	for name, mark := range want {
		if !strings.Contains(text, mark[:min(16, len(mark))]) {
			t.Errorf("%s is not shown: %s", name, text)
		}
	}
}

// shows is a rig whose approvals all show the same data.
type shows struct {
	*rig
	shown approval.Shown
}

func (v *shows) Approvals(ctx context.Context, all bool) ([]approval.Approval, error) {
	list, err := v.rig.Approvals(ctx, all)
	for i := range list {
		list[i].Shown = v.shown
	}
	return list, err
}

// In a narrow window each value is shown next to its name. If a value is missing, its name
// is not shown either, so that names do not cover each other: WC27.
func TestChromeNarrowTable(t *testing.T) {
	p := start(t, full).open(chrome(t))
	p.login(Viewer)
	p.size(320, 800)
	p.at("#/sessions")
	p.until(`document.querySelector('tbody td')`)
	if low := value[[]string](p, `[...document.querySelectorAll('tbody td')].filter(n => n.checkVisibility() && n.getBoundingClientRect().height < 16).map(n => n.outerHTML)`); len(low) > 0 {
		t.Errorf("lower than their names: %q", low)
	}
}
