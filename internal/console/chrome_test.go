package console

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	chromelog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"belljar.dev/internal/testenv"
)

// tab is a page of a console in a real browser. At the end of its test the page must have
// no error, no violation of the Content-Security-Policy, and no request to another server.
type tab struct {
	ctx context.Context
	t   testing.TB
	g   *rig

	mu     sync.Mutex
	faults []string // guarded by mu
	sent   []string // guarded by mu: URLs of all requests
	may    []string // guarded by mu: parts of faults that the test causes
	leads  string   // guarded by mu: prefix of other URLs that the page may go to; empty if there is none
}

// theChrome starts the browser of all tests when the first test calls it, and returns the
// browser's context.
var theChrome = sync.OnceValues(func() (context.Context, error) {
	opts := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	for _, name := range []string{"chromium-headless-shell", "chrome-headless-shell", "headless_shell", "chromium", "chromium-browser"} {
		if path, err := exec.LookPath(name); err == nil {
			opts = append(opts, chromedp.ExecPath(path))
			break
		}
	}
	ctx, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, _ = chromedp.NewContext(ctx)
	endChrome = func() error {
		defer stop()
		return chromedp.Cancel(ctx)
	}
	return ctx, chromedp.Do(ctx)
})

// endChrome ends theChrome.
var endChrome = func() error { return nil }

// chrome returns a new browser context of theChrome, so that no test finds cookies, storage
// or tabs of another test.
func chrome(t testing.TB) context.Context {
	t.Helper()
	testenv.Need(t, testenv.Chromium)
	all, err := theChrome()
	if err != nil {
		t.Fatal("start Chrome:", err)
	}
	ctx, _ := chromedp.NewContext(all, chromedp.WithNewBrowserContext())
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Error("close the browser context:", err)
		}
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// watch runs before the scripts of the page. It records every violation of the policy, and
// in window.told the address of the last hashchange event: the page shows that address,
// while location.hash changes before the page is notified.
const watch = `window.violations = [];
document.addEventListener('securitypolicyviolation', e => window.violations.push(e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample));
window.told = location.hash;
addEventListener('hashchange', () => { window.told = location.hash })`

// open opens an empty tab of a browser.
func (g *rig) open(browser context.Context) *tab {
	g.t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	p := &tab{ctx: ctx, t: g.t, g: g}
	g.t.Cleanup(func() {
		p.fine()
		cancel()
	})
	if err := chromedp.Do(ctx); err != nil {
		g.t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, p.note); err != nil {
		g.t.Fatal(err)
	}
	must(g.t)(chromedp.Call(ctx, network.Enable, network.EnableParams{}))
	must(g.t)(chromedp.Call(ctx, chromelog.Enable, struct{}{}))
	p.size(1280, 850)
	return p
}

// must returns a function that fails a test if a command returns an error.
func must(t testing.TB) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// note records what a tab reports.
func (p *tab) note(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text, _ := json.Marshal(e.ExceptionDetails)
		p.faults = append(p.faults, "exception: "+string(text))
	case *runtime.EventConsoleAPICalled:
		text, _ := json.Marshal(e.Args)
		p.faults = append(p.faults, fmt.Sprintf("console.%s: %s", e.Type, text))
	case *chromelog.EventEntryAdded:
		if e.Entry.Level == chromelog.EntryLevelInfo {
			return
		}
		p.faults = append(p.faults, fmt.Sprintf("%s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		p.sent = append(p.sent, e.Request.URL)
	}
}

// mayFail allows faults that contain a text, because the test causes them.
func (p *tab) mayFail(part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.may = append(p.may, part)
}

// fine checks that nothing has gone wrong so far.
func (p *tab) fine() {
	p.t.Helper()
	if found, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]string](`window.violations || []`)); err != nil || len(found) > 0 {
		p.t.Errorf("violations of the policy: %q, %v", found, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
faults:
	for _, f := range p.faults {
		for _, part := range p.may {
			if strings.Contains(f, part) {
				continue faults
			}
		}
		p.t.Errorf("in the browser: %.600s", f)
	}
	for _, url := range p.sent {
		if p.leads != "" && strings.HasPrefix(url, p.leads) {
			continue
		}
		if !strings.HasPrefix(strings.TrimPrefix(url, "blob:"), p.g.URL()) { // a blob belongs to the page itself
			p.t.Errorf("a request to %s", url)
		}
	}
	p.faults = nil
}

// size sets the size of a tab in pixels.
func (p *tab) size(width, height int64) {
	p.t.Helper()
	must(p.t)(chromedp.Call(p.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1}))
}

// theme sets the preferred colours of the browser, "light" or "dark".
func (p *tab) theme(name string) {
	p.t.Helper()
	must(p.t)(chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	}))
}

// login opens the console with a link for a role.
func (p *tab) login(role Role) {
	p.t.Helper()
	must(p.t)(chromedp.Call(p.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watch}))
	p.visit(first(p.g.Link("ann (uid 7)", role)))
	p.until(`document.querySelector('.state.live')`)
}

// visit goes to a URL.
func (p *tab) visit(url string) {
	p.t.Helper()
	must(p.t)(chromedp.Call(p.ctx, page.Navigate, page.NavigateParams{URL: url}))
}

// at goes to a page of the console, and waits until the tab shows it.
func (p *tab) at(hash string) {
	p.t.Helper()
	p.eval(`void (location.hash = ` + quote(hash) + `)`)
	p.until(`window.told === location.hash && document.querySelector('nav a[aria-current]')`)
}

// follow presses Enter on a link or a button, and waits until the page shows an address
// that begins with hash.
func (p *tab) follow(hash string) {
	p.t.Helper()
	p.press("Enter")
	p.until(`window.told.startsWith(` + quote(hash) + `) && window.told === location.hash`)
}

// theControl returns a script that finds the visible control with a name.
func theControl(name string) string {
	return `[...document.querySelectorAll('button, summary, input, select, textarea, a')].find(node => node.checkVisibility() && (` + named(name) + ` || node.closest('label')?.firstElementChild?.textContent === ` + quote(name) + `))`
}

// click presses a control, after waiting until it exists.
func (p *tab) click(name string) {
	p.t.Helper()
	p.until(theControl(name))
	p.eval(theControl(name) + `.click()`)
}

// sure presses a control that ignores an answer when it has just appeared.
func (p *tab) sure(name string) {
	p.t.Helper()
	p.surely(theControl(name))
}

// sureOf is sure for a control that a selector finds.
func (p *tab) sureOf(selector string) {
	p.t.Helper()
	p.surely(`document.querySelector(` + quote(selector) + `)`)
}

// surely is sure for a control that a script finds.
func (p *tab) surely(control string) {
	p.t.Helper()
	p.until(control)
	p.waits()
	p.eval(control + `.click()`)
}

// The method waits returns when a control that has just appeared accepts an answer.
func (p *tab) waits() {
	p.t.Helper()
	p.eval(`window.pressed = performance.now()`)
	p.until(`window.pressed + 700 < performance.now()`)
}

// set sets the text of a control, as if a person had typed or chosen it.
func (p *tab) set(name, text string) {
	p.t.Helper()
	p.until(theControl(name))
	p.eval(`(node => { node.value = ` + quote(text) + `; node.dispatchEvent(new Event('input')); node.dispatchEvent(new Event('change')) })(` + theControl(name) + `)`)
}

// reads waits until a page contains a text.
func (p *tab) reads(text string) {
	p.t.Helper()
	p.until(`document.querySelector('main').innerText.includes(` + quote(text) + `)`)
}

func quote(text string) string {
	out, _ := json.Marshal(text) // every string can be written as JSON
	return string(out)
}

// eval evaluates a script in a tab.
func (p *tab) eval(script string) {
	p.t.Helper()
	value[any](p, script)
}

// value returns the value of a script in a tab.
func value[T any](p *tab, script string, opts ...chromedp.EvaluateOption) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](script, opts...))
	if err != nil {
		p.t.Fatalf("%s: %v", script, err)
	}
	return v
}

// until waits until a script is true.
func (p *tab) until(script string) {
	p.t.Helper()
	if !testenv.Until(20*time.Second*testenv.Patience(p.t), func() bool {
		is, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](`!!(`+script+`)`))
		return err == nil && is
	}) {
		text := value[string](p, `document.body.innerText`)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.t.Fatalf("never true: %s\nfaults: %.1000q\nthe page has: %.2000s", script, p.faults, text)
	}
}

// keys are the keys that are pressed by their names. Other texts are typed.
var keys = map[string]input.DispatchKeyEventParams{
	"Tab": {Code: "Tab", WindowsVirtualKeyCode: 9}, "Enter": {Code: "Enter", WindowsVirtualKeyCode: 13, Text: "\r"}, "Escape": {Code: "Escape", WindowsVirtualKeyCode: 27},
	" ": {Code: "Space", WindowsVirtualKeyCode: 32, Text: " "}, "ArrowDown": {Code: "ArrowDown", WindowsVirtualKeyCode: 40}, "ArrowRight": {Code: "ArrowRight", WindowsVirtualKeyCode: 39},
}

// press presses keys, one after the other.
func (p *tab) press(names ...string) {
	p.t.Helper()
	for _, name := range names {
		k := keys[name]
		if key, shifted := strings.CutPrefix(name, "Shift+"); shifted {
			k = keys[key]
			name, k.Modifiers = key, 8 // Shift
		}
		k.Key, k.Type = name, input.DispatchKeyEventTypeKeyDown
		must(p.t)(chromedp.Call(p.ctx, input.DispatchKeyEvent, k))
		k.Type, k.Text = input.DispatchKeyEventTypeKeyUp, ""
		must(p.t)(chromedp.Call(p.ctx, input.DispatchKeyEvent, k))
	}
}

// write types a text into the element that has the focus.
func (p *tab) write(text string) {
	p.t.Helper()
	must(p.t)(chromedp.Call(p.ctx, input.InsertText, input.InsertTextParams{Text: text}))
}

// tabTo presses Tab until script is true for the element with the focus, which it knows as
// node.
func (p *tab) tabTo(script string) {
	p.t.Helper()
	p.moveTo("Tab", script)
}

// backTo is tabTo in the other direction.
func (p *tab) backTo(script string) {
	p.t.Helper()
	p.moveTo("Shift+Tab", script)
}

// moveTo presses a key until script is true for the element with the focus, which it knows
// as node.
func (p *tab) moveTo(key, script string) {
	p.t.Helper()
	for range 200 {
		if value[bool](p, `(node => !!(`+script+`))(document.activeElement)`) {
			return
		}
		p.press(key)
	}
	p.t.Fatalf("no Tab leads to %s; the focus is at %s", script, value[string](p, `document.activeElement.outerHTML.slice(0, 300)`))
}

// named returns a script for tabTo that is true for a control with a name.
func named(name string) string {
	return `(node.getAttribute('aria-label') || node.textContent || '').trim() === ` + quote(name)
}
