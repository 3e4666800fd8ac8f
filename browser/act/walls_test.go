package act_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/browser/act"
	"belljar.dev/internal/testenv"
)

// TestPopups checks that windows of every kind are reported and have a number, that windows
// with a page can be acted in, and that the numbers of the opener stay valid (BR35,
// BR-A16).
func TestPopups(t *testing.T) {
	s := open(t)
	s.page("/child", `<title>child</title><button onclick="document.title='in child'">In</button><script>addEventListener("mousedown", () => { document.title = "struck" }, true)</script>`)
	ways := []string{
		`window.open('/child')`, `window.open('/child', '_blank', 'noopener')`, `window.open('/child', '_blank', 'noreferrer')`, `window.open('/child', 'name')`, `window.open('/child', '', 'popup,width=200,height=100')`,
		`window.open()`, `window.open('about:blank')`, `window.open('http://other.example:PORT/child')`, `window.open('http://other.example:PORT/child', '', 'noopener')`, `window.open('/child').focus()`,
		`const a=document.createElement('a');a.href='/child';a.target='_blank';document.body.append(a);a.click()`, `const a=document.createElement('a');a.href='/child';a.target='_blank';a.rel='opener';document.body.append(a);a.click()`,
		`const f=document.createElement('form');f.action='/child';f.target='_blank';document.body.append(f);f.submit()`, `const w=window.open('about:blank');w.location='/child'`, `const w=window.open('about:blank');w.document.write('<p>written')`,
	}
	var b strings.Builder
	for i, w := range ways {
		fmt.Fprintf(&b, `<button onclick="%s">W%d.</button>`, w, i)
	}
	s.page("/", "<!doctype html><title>p</title>"+b.String()+`<button onclick="document.title='still'">Still</button>`)
	rounds, _ := testenv.Cases(t, len(ways))
	l := s.goTo(s.url("site", "/"))
	opened := 0
	for i := range min(rounds, 50) {
		way := ways[i%len(ways)]
		s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, fmt.Sprintf(`button "W%d."`, i%len(ways)))})
		window := s.window()
		opened++
		if strings.Contains(way, "/child") {
			s.must(act.Step{Do: act.DoSwitch, Text: window})
			s.until(act.LookRequest{}, `button "In"`)
			s.seat.SendInput(20, 20) // input of no step: the guard of this window stops it
			if got := s.eval("document.title"); got != `"child"` {
				t.Errorf("%s: before a step the window says %s", way, got)
			}
			s.must(act.Step{Do: act.DoClick, Ref: s.ref(s.look(act.LookRequest{}), `button "In"`)})
			if got := s.eval("document.title"); got != `"in child"` {
				t.Errorf("%s: the window says %s", way, got)
			}
			s.must(act.Step{Do: act.DoSwitch, Text: "t1"})
		}
		s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Still"`)})
		if got := s.eval("document.title"); got != `"still"` {
			t.Fatalf("%s: the opener says %s", way, got)
		}
		s.must(act.Step{Do: act.DoClose, Text: window})
	}
	if n := strings.Count(s.look(act.LookRequest{At: act.AtTabs}), "\nt"); n != 1 {
		t.Errorf("after %d windows there are %d tabs:\n%s", opened, n, s.look(act.LookRequest{At: act.AtTabs}))
	}
}

// TestWindowsThatCloseTheirOpener: the session goes on in the window, and a step in the tab that is gone
// is refused as unknown (BR35, BR-A16).
func TestWindowsThatCloseTheirOpener(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>first</title><button onclick="window.open('/middle')">Window</button>`)
	s.page("/middle", `<!doctype html><title>middle</title><button onclick="window.open('/closes')">Another</button>`)
	s.page("/closes", `<!doctype html><title>last</title><script>opener.close()</script><button onclick="document.title = 'clicked'">B</button>`)
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(s.goTo(s.url("site", "/")), `button "Window"`)})
	middle := s.window()
	s.must(act.Step{Do: act.DoSwitch, Text: middle})
	s.until(act.LookRequest{}, "Another")
	step := act.Step{Do: act.DoClick, Ref: s.ref(s.look(act.LookRequest{}), `button "Another"`)}
	_, _ = s.do(step) // the tab may be gone before Chrome answers
	s.wait(func() bool {
		l, err := s.seat.Look(s.ctx(), act.LookRequest{At: act.AtTabs}) // a look fails in the tab that is about to close
		return err == nil && !strings.Contains(l.Text, "/middle") && strings.Contains(l.Text, "/closes")
	})
	if _, err := s.seat.Prepare(s.ctx(), middle, step); act.ReasonOf(err) != act.ReasonUnknown {
		t.Errorf("a step in the tab that is gone: %v", err)
	}
	m := regexp.MustCompile(`(?m)^(t\d+) \S+/closes`).FindStringSubmatch(s.look(act.LookRequest{At: act.AtTabs}))
	s.must(act.Step{Do: act.DoSwitch, Text: m[1]})
	s.until(act.LookRequest{}, `button "B"`)
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(s.look(act.LookRequest{}), `button "B"`)})
	if got := s.eval("document.title"); got != `"clicked"` {
		t.Errorf("the window says %s", got)
	}
}

// window waits until a page has opened a window, and returns the name of its tab.
func (s *stage) window() (tab string) {
	s.t.Helper()
	s.wait(func() bool {
		m := regexp.MustCompile(`(?m)^(t\d+) .*opened by`).FindStringSubmatch(s.look(act.LookRequest{At: act.AtTabs}))
		if m != nil {
			tab = m[1]
		}
		return m != nil
	})
	return tab
}

// TestWindowsWhileTabsChange checks that a window that hides its opener becomes a tab even
// if it opens while another tab is opened, switched to or closed. A session whose last tab
// closes itself goes on.
func TestWindowsWhileTabsChange(t *testing.T) {
	s := open(t)
	s.page("/child", `<title>child</title><button onclick="window.close()">End</button>`)
	s.page("/", `<!doctype html><title>p</title><button onclick="let n = 0; const h = setInterval(() => { if (++n > 3) return clearInterval(h); window.open('/child?' + n, '_blank', 'noopener') }, 30)">Later</button><button onclick="window.open('/child', 'x')">One</button>`)
	l := s.goTo(s.url("site", "/"))
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "One"`)})
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Later"`)})
	s.must(act.Step{Do: act.DoSwitch, Text: "t2"})
	s.must(act.Step{Do: act.DoClose, Text: "t1"})
	// Each window that the server served is seen, and no other window is.
	s.wait(func() bool {
		n := s.heard("/child?")
		return n > 0 && strings.Count(s.look(act.LookRequest{At: act.AtTabs}), "/child?") == n
	})
	others := regexp.MustCompile(`(?m)^(t[3-9]\d*) `)
	s.wait(func() bool {
		m := others.FindStringSubmatch(s.look(act.LookRequest{At: act.AtTabs}))
		if m != nil {
			_, _ = s.do(act.Step{Do: act.DoClose, Text: m[1]})
		}
		return m == nil
	})
	s.must(act.Step{Do: act.DoSwitch, Text: "t2"})
	l = s.look(act.LookRequest{})
	// A tab that closes itself may be gone before Chrome reports that it was clicked.
	_, _ = s.do(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "End"`)})
	s.wait(func() bool { return !strings.Contains(s.look(act.LookRequest{At: act.AtTabs}), "/child") })
	if l := s.goTo(s.url("site", "/")); !strings.Contains(l, "Later") {
		t.Errorf("the session does not go on:\n%s", l)
	}
}

// TestOnlyReads checks that a seat with the methods GET and HEAD sends no request of
// another method, whatever causes the request (BR26, BR-A8).
func TestOnlyReads(t *testing.T) {
	s := newStage(t)
	grant := s.grantOf("t", strings.ReplaceAll(`net: {mode: proxy, allow: [{host: site.example, ports: [PORT], methods: [GET, HEAD]}, {host: other.example, ports: [PORT], methods: [GET, HEAD]}], tls: intercept, allow_private: ["site.example:PORT", "other.example:PORT"]}`, "PORT", fmt.Sprint(s.port)))
	seat, err := s.seats.Open(t.Context(), grant, act.Options{Eval: true, Judge: func(context.Context, act.Navigation) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	s.seat = seat
	s.page("/got", `<p>got</p>`)
	s.mux.HandleFunc("/worker.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write([]byte(`fetch("/hit/worker", {method: "POST"}); onconnect = () => fetch("/hit/shared", {method: "POST"})`))
	})
	s.page("/frame", `<form id=f method=post action="/hit/frame"></form><script>f.submit()</script>`)
	ways := []string{}
	for _, m := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "post", "X"} {
		ways = append(ways, fmt.Sprintf(`fetch("/hit/fetch", {method: %q, body: %q === "DELETE" ? undefined : "d"})`, m, m), fmt.Sprintf(`const x = new XMLHttpRequest(); x.open(%q, "/hit/xhr"); x.send("d")`, m),
			fmt.Sprintf(`fetch("http://other.example:PORT/hit/cross", {method: %q, mode: "cors", headers: {"x-y": "1"}})`, m), fmt.Sprintf(`fetch("/hit/alive", {method: %q, keepalive: true, body: "d"})`, m))
	}
	ways = append(ways, `fetch("http://other.example:PORT/hit/simple", {method: "POST", mode: "no-cors", body: "d"})`, `fetch("http://other.example:PORT/hit/preflight", {headers: {"x-y": "1"}})`,
		`navigator.sendBeacon("/hit/beacon", "d")`, `navigator.sendBeacon("http://other.example:PORT/hit/beacon", new Blob(["d"]))`, `new Worker("/worker.js")`, `new SharedWorker("/worker.js").port.start()`, `new WebSocket("ws://site.example:PORT/hit/socket")`, `new WebSocket("ws://other.example:PORT/hit/socket")`,
		`const f = document.createElement("form"); f.method = "post"; f.action = "/hit/form"; document.body.append(f); f.submit()`, `const f = document.createElement("form"); f.method = "post"; f.action = "/hit/blank"; f.target = "_blank"; document.body.append(f); f.submit()`,
		`const f = document.createElement("form"); f.method = "post"; f.enctype = "multipart/form-data"; f.action = "/hit/multi"; document.body.append(f); f.submit()`, `const f = document.createElement("iframe"); f.src = "/frame"; document.body.append(f)`,
		`const f = document.createElement("iframe"); f.srcdoc = '<form id=f method=post action="/hit/srcdoc"></form><script>f.submit()<\/script>'; document.body.append(f)`, `const a = document.createElement("a"); a.href = "/got"; a.ping = "/hit/ping"; a.textContent = "p"; document.body.append(a); a.click()`,
		`const m = document.createElement("meta"); m.httpEquiv = "Content-Security-Policy"; m.content = "img-src 'none'; report-uri /hit/report"; document.head.append(m); new Image().src = "/x.png"`, `new ReportingObserver(() => {}).observe()`,
		`document.querySelector("form").onsubmit = (e) => { e.preventDefault(); fetch("/hit/onsubmit", {method: "POST"}) }; document.querySelector("form").requestSubmit()`, `addEventListener("pagehide", () => navigator.sendBeacon("/hit/hide")); location = "/got"`,
		`new EventSource("/got")`, `import("/worker.js")`, `fetch("/got", {method: "HEAD"})`, `const i = document.createElement("img"); i.attributionSrc = "/hit/attribution"; document.body.append(i)`,
		`const b = document.createElement("button"); b.formMethod = "post"; b.formAction = "/hit/button"; document.querySelector("form").append(b); b.click()`, `const w = open("about:blank"); w.document.write('<form id=f method=post action="/hit/opened"></form>'); w.document.forms[0].submit()`)
	for i, way := range ways {
		s.page(fmt.Sprintf("/way/%d", i), `<!doctype html><title>none</title><form action="/got"><input type=submit value=Go></form><script>addEventListener("keydown", (e) => { if (e.key === "F2") { document.title = "ran"; `+way+` } })</script>`)
		s.goTo(s.url("site", fmt.Sprintf("/way/%d", i)))
		if _, err := s.do(act.Step{Do: act.DoPress, Text: "F2"}); err != nil {
			t.Errorf("%s: %v", way, err)
		}
		if tabs := s.look(act.LookRequest{At: act.AtTabs}); strings.Contains(tabs, "opened by") {
			for _, m := range regexp.MustCompile(`(?m)^(t\d+) .*opened by`).FindAllStringSubmatch(tabs, -1) {
				_, _ = s.do(act.Step{Do: act.DoClose, Text: m[1]})
			}
		}
	}
	s.goTo(s.url("site", "/got"))
	s.mu.Lock()
	defer s.mu.Unlock()
	reads := 0
	for _, h := range s.hits {
		method, _, _ := strings.Cut(h, " ")
		if method != "GET" && method != "HEAD" || strings.Contains(h, "/hit/socket") {
			t.Errorf("the server heard %s", h)
		}
		if strings.Contains(h, "/way/") {
			reads++
		}
	}
	if reads != len(ways) || len(ways) < 55 {
		t.Errorf("%d of %d pages were read", reads, len(ways))
	}
}

// TestNothingOfTheDevice: a page that asks people or the machine for something is denied without a question,
// no scheme but those of the web is opened by a click, and nothing hangs (BR36, BR-A31, BR-A44).
func TestNothingOfTheDevice(t *testing.T) {
	s := newStage(t)
	s.secure() // without TLS a page has none of these interfaces
	s.seat = s.another()
	asks := []string{
		`navigator.permissions.query({name: "geolocation"}).then((p) => { if (p.state !== "denied") throw p.state })`, `new Promise((ok, no) => navigator.geolocation.getCurrentPosition(no, ok))`, `Notification.requestPermission().then((p) => { if (p === "granted") throw p })`,
		`not(() => navigator.mediaDevices.getUserMedia({video: true, audio: true}))`, `not(() => navigator.mediaDevices.getDisplayMedia())`, `not(() => navigator.clipboard.readText())`, `not(() => navigator.clipboard.writeText("x"))`, `not(() => navigator.usb.requestDevice({filters: []}))`,
		`not(() => navigator.bluetooth.requestDevice({acceptAllDevices: true}))`, `not(() => navigator.serial.requestPort())`, `not(() => navigator.hid.requestDevice({filters: []}))`, `not(() => navigator.requestMIDIAccess({sysex: true}))`, `not(() => navigator.credentials.create({publicKey: {}}))`,
		`not(() => new PaymentRequest([{supportedMethods: "https://pay.example"}], {total: {label: "x", amount: {currency: "EUR", value: "1"}}}).show())`, `not(() => showOpenFilePicker())`, `not(() => showDirectoryPicker())`, `not(() => navigator.storage.getDirectory().then(() => { throw 0 }))`, `not(() => queryLocalFonts().then((l) => l.length ? l : undefined))`,
		`not(() => navigator.wakeLock.request("screen"))`, `not(() => new IdleDetector().start())`, `not(() => navigator.registerProtocolHandler("web+x", "http://evil.example/?%s"))`, `not(() => navigator.share({title: "x"}))`, `not(() => new EyeDropper().open())`,
		`print()`, `debugger`, `document.documentElement.requestFullscreen().catch(() => {})`, `document.body.requestPointerLock()`, `const g = document.createElement("canvas").getContext("webgl"); g && g.clear(g.COLOR_BUFFER_BIT)`, `moveTo(0, 0)`, `resizeTo(10, 10)`, `stop()`, `find("x")`,
	}
	var b strings.Builder
	for i, a := range asks {
		fmt.Fprintf(&b, "if (n === %d) %s;\n", i, strings.Replace(a, "const g", "var g", 1))
	}
	schemes := []string{"file:///etc/passwd", "chrome://version", "chrome-extension://x/y", "data:text/html,<title>bad", "view-source:http://site.example:PORT/", "mailto:a@b.example", "tel:1", "intent://x#Intent;end", "ftp://site.example/", "devtools://x", "filesystem:http://site.example:PORT/temporary/x", "javascript:void(location='data:text/html,x')"}
	for i, u := range schemes {
		fmt.Fprintf(&b, "/* */ if (n === %d) { const a = document.createElement('a'); a.href = %q; document.body.append(a); a.click(); open(%q); const f = document.createElement('iframe'); f.src = %q; document.body.append(f); try { location = %q } catch {} }\n", len(asks)+i, u, u, u, u)
	}
	links := ""
	for i, u := range schemes {
		links += fmt.Sprintf(`<a href=%q>L%d.</a> `, u, i)
	}
	s.page("/", `<!doctype html><title>none</title>`+links+`<input id=n aria-label=N><script>
let next = -1;
// Nobody awaits what was asked, so what is granted is an unhandled rejection. It is kept when the page is loaded again.
const bad = (why) => { if (why) document.documentElement.dataset.bad = sessionStorage.bad = (sessionStorage.bad ?? "") + why };
bad(sessionStorage.bad && " ");
addEventListener("unhandledrejection", (e) => bad(" " + e.reason));
const not = async (f) => { let got; try { got = await f() } catch { return } if (got !== undefined) throw "given " + got };
addEventListener("keydown", async (e) => { if (e.key !== "F2") return; if (next < 0) next = +document.querySelector("#n").value; const n = next++; document.title = "asked " + n; try { await run(n); document.title = "fine " + n } catch (e) { document.title = "BAD " + n + " " + e } });
const run = async (n) => { `+strings.ReplaceAll(b.String(), "if (n", "\nif (n")+` };
</script>`)
	var l string
	var field int
	from := func(i int) {
		l = s.goTo(s.url("site", "/"))
		field = s.ref(l, `text "N"`)
		s.must(act.Step{Do: act.DoFill, Ref: field, Text: fmt.Sprint(i)})
	}
	from(0)
	for i, what := range slices.Concat(asks, schemes) {
		// If Chrome first starts a renderer of graphics, this can take longer than a step.
		start := time.Now()
		if _, err := s.do(act.Step{Do: act.DoPress, Ref: field, Text: "F2"}); err != nil {
			t.Logf("%s: %v (%v), after %v", what, err, cause(err), time.Since(start))
			if act.ReasonOf(err) != act.ReasonTimeout {
				t.Fail()
			}
			from(i + 1)
			continue
		}
		got := s.eval("document.title + ' ' + document.URL")
		if strings.Contains(got, "BAD") {
			t.Errorf("%s: the page says %s", what, got)
		}
		if !regexp.MustCompile(fmt.Sprintf(`^"(asked|fine|BAD) %d.* %s"$`, i, regexp.QuoteMeta(s.url("site", "/")))).MatchString(got) {
			t.Fatalf("%s: the page is %s", what, got)
		}
	}
	if got := s.eval("document.documentElement.dataset.bad"); got != "undefined" {
		t.Errorf("the page was given what it asked for: %s", got)
	}
	for i, u := range schemes[:len(schemes)-1] {
		_, _ = s.do(act.Step{Do: act.DoClick, Ref: s.ref(l, fmt.Sprintf(`link "L%d."`, i))})
		if _, err := s.do(act.Step{Do: act.DoHover, Ref: field}); err != nil {
			t.Errorf("%s: %v", u, err)
		}
		if got := s.eval("document.URL"); got != fmt.Sprintf("%q", s.url("site", "/")) {
			t.Fatalf("%s: the page is %s", u, got)
		}
	}
	for _, key := range []string{"Control+s", "Control+t", "Control+n", "Control+o", "Control+p", "Control+w", "Control+Shift+i", "F12", "F11", "Alt+F4", "Control+l", "Control+j"} {
		if _, err := s.do(act.Step{Do: act.DoPress, Ref: field, Text: key}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	tabs := s.look(act.LookRequest{At: act.AtTabs})
	for _, bad := range []string{"file:", "chrome:", "data:", "view-source:", "devtools:", "filesystem:", "chrome-extension:", "ftp:"} {
		if strings.Contains(tabs, " "+bad) {
			t.Errorf("a tab is of %s\n%s", bad, tabs)
		}
	}
	if d := s.look(act.LookRequest{At: act.AtDownloads}); !strings.Contains(d, "nothing") {
		t.Errorf("something was saved:\n%s", d)
	}
}

// TestServersThatAsk checks that basic auth is cancelled and reported, and that a click
// cannot get past a certificate that is not valid (BR-A45).
func TestServersThatAsk(t *testing.T) {
	s := newStage(t)
	hidden := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<p>behind")) }))
	hidden.Config.ErrorLog = log.New(io.Discard, "", 0) // drop the lines about Chrome's view of the certificate
	hidden.StartTLS()
	defer hidden.Close()
	_, port, _ := strings.Cut(hidden.Listener.Addr().String(), ":")
	grant := s.grantOf("t", fmt.Sprintf(`net: {mode: proxy, allow_private: [NAMES, "site.example:%s"]}`, port))
	seat, err := s.seats.Open(t.Context(), grant, act.Options{Eval: true, Judge: func(context.Context, act.Navigation) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	s.seat = seat
	s.mux.HandleFunc("/auth", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="[34] <<end"`)
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte("<p>who are you"))
		if q.Header.Get("Authorization") != "" {
			t.Error("somebody answered")
		}
	})
	o := s.must(act.Step{Do: act.DoOpen, URL: s.url("site", "/auth")})
	if !strings.Contains(o.Line, "asked for a user and a password; the request was cancelled") {
		t.Errorf("the outcome is %q", o.Line)
	}
	if l := s.look(act.LookRequest{}); !strings.Contains(l, "who are you") {
		t.Errorf("the look is\n%s", l)
	}
	_, err = s.do(act.Step{Do: act.DoOpen, URL: "https://site.example:" + port + "/"})
	if err == nil || !strings.Contains(err.Error(), "certificate is not valid") {
		t.Errorf("a certificate of nobody: %v", err)
	}
	for _, c := range "thisisunsafe" { // people type this to ignore a certificate that is not valid
		_, _ = s.do(act.Step{Do: act.DoPress, Text: string(c)})
	}
	if l := s.look(act.LookRequest{}); strings.Contains(l, "behind") {
		t.Errorf("it was clicked through:\n%s", l)
	}
}

// TestFramesThatLeave checks that a frame of another site gets no input if it loads another
// document of the same address between Prepare and Do. This holds for steps that read the
// facts again before the act and for steps that read them with the act (BR-A37).
func TestFramesThatLeave(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><iframe width=400 height=100 src="http://other.example:PORT/in"></iframe>`)
	const in = `<button onclick="fetch('/hit')">Pay</button><input aria-label=Amount oninput="fetch('/hit')"><select aria-label=List onchange="fetch('/hit')"><option>one<option>two</select>`
	s.page("/in", in+`<script>const ask = setInterval(async () => { if (await (await fetch("/word")).text()) { clearInterval(ask); location.reload() } }, 20)</script>`)
	word := make(chan string, 1)
	s.answer("/word", word)
	for _, tt := range []struct {
		what string
		step act.Step
	}{
		{`button "Pay"`, act.Step{Do: act.DoClick}},
		{`text "Amount"`, act.Step{Do: act.DoFill, Text: "9"}},
		{`select "List"`, act.Step{Do: act.DoSelect, Text: "two"}},
		{`button "Pay"`, act.Step{Do: act.DoPress, Text: "Enter"}},
	} {
		what, step := tt.what, tt.step
		step.Ref = s.ref(s.goFor(s.url("site", "/?"+string(step.Do)), what), what)
		p, err := s.seat.Prepare(s.ctx(), "", step)
		if err != nil {
			t.Fatal(err)
		}
		before := s.heard("/in")
		word <- "go"
		s.wait(func() bool { return s.heard("/in") > before })
		s.wait(func() bool {
			k, err := s.seat.Look(s.ctx(), act.LookRequest{}) // the frame may be left meanwhile
			return err == nil && strings.Contains(k.Text, what) && !strings.Contains(k.Text, fmt.Sprintf("[%d]", step.Ref))
		})
		if _, err := s.seat.Do(s.ctx(), p, step); act.ReasonOf(err) != act.ReasonStale && act.ReasonOf(err) != act.ReasonChanged {
			t.Errorf("%s: the act was done, or failed by %v", step.Do, err)
		}
		s.must(act.Step{Do: act.DoWait, MS: 50}) // everything that was sent by now has arrived
	}
	if n := s.heard("/hit"); n != 0 {
		t.Errorf("the server heard %d events of controls", n)
	}
}

// TestNumbersOfALeftDocument checks that a look that runs while a document is left returns
// numbers of that document, and that these numbers stand for nothing in the next one
// (BR-A37, BR10).
func TestNumbersOfALeftDocument(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><button onclick="document.title = 'clicked'">Pay</button>`)
	now := s.ref(s.goTo(s.url("site", "/")), `button "Pay"`)
	left := s.seat.RefOfLeftDocument(now)
	for _, step := range []act.Step{{Do: act.DoClick}, {Do: act.DoHover}, {Do: act.DoPress, Text: "Enter"}} {
		step.Ref = left
		if _, err := s.do(step); act.ReasonOf(err) != act.ReasonStale {
			t.Errorf("%s: %v", step.Do, err)
		}
	}
	if got := s.eval("document.title"); got != `"none"` {
		t.Errorf("the page says %s", got)
	}
	s.must(act.Step{Do: act.DoClick, Ref: now})
}

// TestOneAtATime checks that calls of one seat wait for each other, and that a call that is
// cancelled releases the button of the mouse (BR-A38).
func TestOneAtATime(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><style>div{width:100px;height:40px;border:1px solid}</style><button id=b>B</button><input aria-label=T><div id=d draggable=true>Drag</div><div id=z onclick="0">Drop</div><button onclick="document.title='clicked'">Other</button><script>
let down = 0; addEventListener("mousedown", () => { down++; if (window.slow) { slow = false; const end = performance.now() + 3000; while (performance.now() < end); } }, true); addEventListener("mouseup", (e) => { down--; document.body.dataset.down = down }, true);
z.ondragover = (e) => e.preventDefault();
addEventListener("keydown", (e) => { if (e.key === "F2") slow = true });
</script>`)
	l := s.goTo(s.url("site", "/"))
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			step := act.Step{Do: act.DoFill, Ref: s.ref(l, `text "T"`), Text: strings.Repeat(string(rune('a'+i)), 12)}
			if i%2 == 0 {
				if _, err := s.seat.Look(s.ctx(), act.LookRequest{}); err != nil {
					t.Errorf("look %d: %v", i, err)
				}
				return
			}
			if _, err := s.do(step); err != nil {
				t.Errorf("fill %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if got := s.eval("document.querySelector('input').value"); !regexp.MustCompile(`^"(b{12}|d{12}|f{12})"$`).MatchString(got) {
		t.Errorf("the field has %s", got)
	}
	for _, step := range []act.Step{{Do: act.DoClick}, {Do: act.DoDrag}} {
		step.Ref = s.ref(l, `button "B"`)
		if step.Do == act.DoDrag {
			step.Ref, step.To = s.ref(l, `item "Drag"`), s.ref(l, `item "Drop"`)
		}
		s.must(act.Step{Do: act.DoPress, Text: "F2"})
		p, err := s.seat.Prepare(s.ctx(), "", step)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(s.ctx(), 700*time.Millisecond)
		_, err = s.seat.Do(ctx, p, step)
		cancel()
		if err == nil {
			continue // on a busy machine, the step had not begun, or was done
		}
		if r, _ := errors.AsType[*act.Refusal](err); r == nil {
			t.Errorf("%s: %v", step.Do, err)
		}
		s.wait(func() bool {
			_, err := s.do(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Other"`)})
			return err == nil && s.eval("document.title") == `"clicked"`
		})
		if got := s.eval("document.body.dataset.down"); got != `"0"` {
			t.Errorf("%s: a button is down: %s", step.Do, got)
		}
		l = s.goTo(s.url("site", "/?again"))
	}
}
