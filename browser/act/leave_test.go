package act_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/browser/act"
	"belljar.dev/internal/testenv"
)

// TestSecretsKeepTheSite checks that a tab in which a secret was typed stays on the site of
// the secret until a step opens another page in it (BR30).
func TestSecretsKeepTheSite(t *testing.T) {
	s := newStage(t)
	origin := strings.TrimSuffix(s.url("shop", "/"), "/")
	s.seat = s.another(func(o *act.Options) {
		o.OneSite = true
		o.Secrets = []act.Secret{{Name: "pw", Origin: origin, Field: "password", Insecure: true, Value: func(context.Context) (string, error) { return "hunter2-hunter2", nil }}}
	})
	s.page("/login", `<!doctype html><title>l</title><input type=password aria-label=P><a href="http://evil.example:PORT/link">Away</a> <a target=_blank href="http://evil.example:PORT/window">Window</a>`)
	s.page("/link", "evil")
	s.page("/window", "evil")
	s.page("/else", "<p>elsewhere</p>")
	l := s.goTo(s.url("shop", "/login"))
	away, window := s.ref(l, `link "Away"`), s.ref(l, `link "Window"`)
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, "password"), Secret: "pw"})
	s.must(act.Step{Do: act.DoOpen, URL: s.url("shop", "/login") + "#there"}) // this stays in the same document
	s.must(act.Step{Do: act.DoClick, Ref: away})
	s.must(act.Step{Do: act.DoClick, Ref: window})
	s.must(act.Step{Do: act.DoSwitch, Text: s.window()})
	s.wait(func() bool { // wait until its document was judged
		return strings.Contains(s.must(act.Step{Do: act.DoWait, MS: 20}).Line, "a secret was typed") || s.heard("evil.example") > 0
	})
	if n := s.heard("evil.example"); n != 0 {
		t.Errorf("the other site was asked %d times: %v", n, s.hits)
	}
	_, _ = s.do(act.Step{Do: act.DoSwitch, Text: "t1"})
	if l := s.goTo(s.url("other", "/else")); !strings.Contains(l, "elsewhere") {
		t.Errorf("no step leaves the site:\n%s", l)
	}
}

// TestScriptsStayInTheirDocument checks that a script for a document that is left runs in
// no other document before the tab is notified of that one, even if the next document has
// worlds with the same numbers and functions with the same names (BR28, BR-A27).
func TestScriptsStayInTheirDocument(t *testing.T) {
	s := open(t)
	ready, let := make(chan struct{}), make(chan struct{})
	s.page("/login", `<!doctype html><title>l</title><input type=password aria-label=P><a href="http://evil.example:PORT/next">Next</a>`)
	s.page("/next", `<!doctype html><title>secret</title><body><p>next<script>
globalThis.belljar = { insert: (...a) => { fetch("/got?" + a[2]); return true } };
for (let i = 0; i < 20; i++) { const f = document.createElement("iframe"); document.body.append(f); f.contentWindow.belljar = belljar }
fetch("/ready")</script>`)
	s.mux.HandleFunc("/ready", func(http.ResponseWriter, *http.Request) { close(ready) })
	s.eval("1") // makes one more world, so that our worlds have numbers of the next page's worlds
	l := s.goTo(s.url("shop", "/login"))
	field, next := s.ref(l, "password"), s.ref(l, `link "Next"`)
	s.must(act.Step{Do: act.DoClick, Ref: field})
	reads, err := s.seat.Reading(s.ctx())
	if err != nil {
		t.Fatal(err)
	}
	s.seat.HoldNavigations(let)
	var all sync.WaitGroup
	all.Go(func() { _, _ = s.do(act.Step{Do: act.DoClick, Ref: next}) })
	<-ready
	ran, read := s.seat.BeginScript(s.ctx(), field, "hunter2"), reads("document.title")
	close(let)
	if got, err := read(); err == nil {
		t.Errorf("an expression of the agent has read %s in the next page", got)
	}
	if err := ran(); err == nil {
		t.Error("the script has run, and its document is gone")
	}
	all.Wait()
	s.until(act.LookRequest{}, "next")
	if n := s.heard("hunter2"); n > 0 {
		t.Errorf("the next page heard of it %d times", n)
	}
}

// TestAddressesOfFieldsAreNotSeen checks that an address that an agent types into a field
// does not count as seen by it (BR27).
func TestAddressesOfFieldsAreNotSeen(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>s</title><input aria-label=Q><p>see http://site.example:PORT/said?x=1</p><a href="/linked?x=1">Link</a>`)
	l := s.goTo(s.url("site", "/"))
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `text "Q"`), Text: s.url("evil", "/?d=1")})
	s.look(act.LookRequest{})
	for u, want := range map[string]bool{s.url("evil", "/?d=1"): false, s.url("site", "/said?x=1"): true, s.url("site", "/linked?x=1"): true, s.url("site", "/linked?x=2"): false} {
		if p, err := s.seat.Prepare(s.ctx(), "", act.Step{Do: act.DoOpen, URL: u}); err != nil || p.Seen != want {
			t.Errorf("%s: seen %+v, %v; want %t", u, p, err, want)
		}
	}
}

// TestHistory: a tab goes back and forward, and the policy gets the address.
func TestHistory(t *testing.T) {
	s := open(t)
	s.page("/a", `<!doctype html><title>a</title>first`)
	s.page("/b", `<!doctype html><title>b</title>second`)
	s.goTo(s.url("site", "/a"))
	s.goTo(s.url("other", "/b"))
	for _, c := range []struct {
		do        act.Verb
		to, shows string
	}{{act.DoBack, s.url("site", "/a"), "first"}, {act.DoForward, s.url("other", "/b"), "second"}, {act.DoBack, s.url("site", "/a"), "first"}} {
		p, err := s.seat.Prepare(s.ctx(), "", act.Step{Do: c.do})
		if err != nil || p.Facts.Kind != act.KindNavigate || p.Facts.To != c.to {
			t.Errorf("%s: the policy decides about %+v, %v", c.do, p, err)
		}
		if o := s.must(act.Step{Do: c.do}); o.URL != c.to || o.Stop != "" {
			t.Errorf("%s ends as %+v", c.do, o)
		}
		if l := s.look(act.LookRequest{}); !strings.Contains(l, c.shows) {
			t.Errorf("after %s the page shows\n%s", c.do, l)
		}
	}
}

// TestHandlersThatHang checks that no handler of a page, and no frame, blocks a step
// forever (BR-A17).
func TestHandlersThatHang(t *testing.T) {
	t.Parallel()          // the test waits most of the time
	const size = 12 << 20 // larger than MaxUploadParts, so the upload needs a file
	s := open(t, func(o *act.Options) { o.Uploads = size })
	s.page("/", `<!doctype html><title>h</title><input aria-label=Q onfocus="while (true);"><input type=file aria-label=F onchange="while (true);">
<button onclick="setTimeout(() => { navigator.sendBeacon('/began'); while (true); }, 500)">Later</button><script>onbeforeunload = () => {}</script>`)
	s.page("/drags", `<!doctype html><title>d</title><div draggable=true ondragstart="event.dataTransfer.setData('text/plain', 'x')">Drag</div><div id=hang onclick="0">Hang</div><div id=ask onclick="0">Ask</div><script>
for (const to of [hang, ask]) to.ondragover = (e) => e.preventDefault();
hang.ondrop = () => { while (true); };
ask.ondrop = () => { confirm("sure?") };</script>`)
	s.page("/outer", `<!doctype html><title>o</title><button onclick="document.title = 'clicked'">B</button><iframe src="http://evil.example:PORT/inner"></iframe>`)
	s.page("/inner", `<script>setTimeout(() => { navigator.sendBeacon('/began?inner'); while (true); }, 1500)</script>`)
	s.stops(s.url("site", "/"), func(l string) error {
		_, err := s.do(act.Step{Do: act.DoFill, Ref: s.ref(l, `text "Q"`), Text: "x"})
		if r, ok := errors.AsType[*act.Refusal](err); !ok || !r.Ran {
			t.Errorf("of the handler that ran is said: %v", err)
		}
		return err
	})
	s.stops(s.url("site", "/"), func(l string) error {
		s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Later"`)})
		_, err := s.do(act.Step{Do: act.DoWait, Text: "never", MS: 8000})
		return err
	})
	s.stops(s.url("site", "/"), func(l string) error {
		step := act.Step{Do: act.DoUpload, Ref: s.ref(l, `file "F"`), Path: "/workspace/a.txt"}
		p, err := s.seat.Prepare(s.ctx(), "", step)
		if err != nil {
			t.Fatal(err)
		}
		step.File = &act.File{Name: "a.txt", Size: size, Content: io.NopCloser(io.LimitReader(zeros{}, size))}
		_, err = s.seat.Do(s.ctx(), p, step)
		return err
	})
	s.stops(s.url("site", "/drags"), func(l string) error {
		_, err := s.do(act.Step{Do: act.DoDrag, Ref: s.ref(l, `item "Drag"`), To: s.ref(l, `item "Hang"`)})
		return err
	})
	l := s.goTo(s.url("site", "/drags"))
	if o := s.must(act.Step{Do: act.DoDrag, Ref: s.ref(l, `item "Drag"`), To: s.ref(l, `item "Ask"`)}); o.Dialog == nil {
		t.Errorf("a drop that asks ends as %+v", o)
	}
	s.must(act.Step{Do: act.DoDialog, Accept: new(true)})
	began := s.heard("/began")
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(s.goTo(s.url("site", "/")), `button "Later"`)})
	s.wait(func() bool { return s.heard("/began") > began })
	s.must(act.Step{Do: act.DoReload})
	l = s.goTo(s.url("site", "/outer"))
	s.wait(func() bool { return s.heard("/began?inner") > 0 })
	start := time.Now()
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "B"`)})
	if d := time.Since(start); d > 2*act.LookPatience*testenv.Patience(t) {
		t.Errorf("a frame held a click for %v", d)
	}
}

// TestClicksOnPagesThatAreLeft checks pages and frames that load another document when the
// mouse moves to an element: nothing of the next document is clicked, and the step reports
// a click only if the element was pressed (BR10, BR-A5).
func TestClicksOnPagesThatAreLeft(t *testing.T) {
	s := open(t)
	s.mux.HandleFunc("/pressed", func(http.ResponseWriter, *http.Request) {})
	s.mux.HandleFunc("/wrong", func(http.ResponseWriter, *http.Request) {})
	// The synchronous request arrives before the press is over.
	s.page("/from", `<!doctype html><title>from</title><button style="position:absolute;inset:20px;width:300px;height:200px" onpointerdown="const x = new XMLHttpRequest(); x.open('GET', '/pressed?' + location.search.slice(1), false); x.send()">Pay</button><script>
const [ms, to] = location.search.slice(1).split(","), go = () => { location = to };
document.querySelector("button").addEventListener("mousemove", () => ms === "now" ? go() : setTimeout(go, ms), { once: true })</script>`)
	s.mux.HandleFunc("/next", func(w http.ResponseWriter, q *http.Request) {
		ms, _ := strconv.Atoi(q.FormValue("late"))
		late, cancel := context.WithTimeout(q.Context(), time.Duration(ms)*time.Millisecond)
		defer cancel()
		<-late.Done()
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><title>next</title><script>for (const k of ["pointerdown", "mousedown", "mouseup", "click"]) addEventListener(k, (e) => { if (e.target === document.querySelector("button")) fetch("/wrong?" + k) }, true)</script><button style="position:absolute;inset:20px;width:300px;height:200px">Delete</button>`)
	})
	s.page("/outer", `<!doctype html><title>outer</title><iframe width=500 height=400></iframe><script>document.querySelector("iframe").src = location.search.slice(1)</script>`)
	clicked, refused := 0, 0
	for _, framed := range []string{"", "site", "other"} {
		for _, ms := range []string{"now", "2", "10"} {
			for i, to := range []string{s.url("site", "/next?late=5"), s.url("third", "/next?late=0")} {
				id := fmt.Sprintf("%s,%s%%26%s%d", ms, to, framed, i)
				at := s.url("site", "/from?"+id)
				if framed != "" {
					at = s.url("site", "/outer?"+s.url(framed, "/from?"+id))
				}
				ref := s.ref(s.goFor(at, `button "Pay"`), `button "Pay"`)
				before := s.heard("/pressed")
				_, err := s.do(act.Step{Do: act.DoClick, Ref: ref})
				pressed := s.heard("/pressed") > before
				switch r, _ := errors.AsType[*act.Refusal](err); {
				case err == nil && !pressed:
					t.Errorf("%s: it says that it clicked, and nothing was pressed", at)
				case err != nil && (r == nil || r.Ran || pressed):
					t.Errorf("%s: pressed %v, and it failed by %v", at, pressed, err)
				case err == nil:
					clicked++
				default:
					refused++
				}
			}
		}
	}
	s.must(act.Step{Do: act.DoWait, MS: 100}) // everything that was sent by now has arrived
	if s.heard("/wrong") != 0 {
		s.mu.Lock()
		hits := slices.Clone(s.hits)
		s.mu.Unlock()
		t.Errorf("events reached the next document: %q", slices.DeleteFunc(hits, func(h string) bool { return !strings.Contains(h, "/wrong") }))
	}
	if refused == 0 {
		t.Errorf("%d were clicked, and none refused", clicked)
	}
}

// TestInputOfNoStep: input that no step sends now, such as the late input of a step whose page was left, does
// not reach the page (BR10).
func TestInputOfNoStep(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><input aria-label=Q autofocus style="position:absolute;inset:0;width:300px;height:200px"><script>
for (const k of ["pointerdown", "mousedown", "click", "keydown", "input"]) addEventListener(k, (e) => { document.title += " " + k }, true);
</script>`)
	l := s.goTo(s.url("site", "/"))
	s.seat.SendInput(100, 100)
	if got := s.eval("document.title"); got != `"none"` {
		t.Errorf("before the first step, the page says %s", got)
	}
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `text "Q"`), Text: "x"})
	was := s.eval("document.title")
	s.seat.SendInput(100, 100)
	if got := s.eval("document.title"); got != was || !strings.Contains(was, "input") {
		t.Errorf("after a step, the page says %s, and it said %s", got, was)
	}
	if got := s.eval("document.querySelector('input').value"); got != `"x"` {
		t.Errorf("the field has %s", got)
	}
}

// TestClicksOnPagesThatStay checks that a page can be clicked if it requests another
// document at each move of the mouse, and stays because the answer is not a document.
func TestClicksOnPagesThatStay(t *testing.T) {
	s := open(t)
	s.mux.HandleFunc("/none", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	s.mux.HandleFunc("/file", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", "attachment")
		_, _ = io.WriteString(w, "file")
	})
	s.page("/", `<!doctype html><title>0</title><button>Pay</button><script>
let n = 0;
document.querySelector("button").onclick = () => { document.title = String(++n) };
onmousemove = () => { location = decodeURIComponent(location.search.slice(1)) };
</script>`)
	for _, to := range []string{"/none", "mailto:a@site.example", "/file", "#there"} {
		ref := s.ref(s.goTo(s.url("site", "/?"+url.QueryEscape(to))), `button "Pay"`)
		for n := 1; n <= 2; n++ {
			if _, err := s.do(act.Step{Do: act.DoClick, Ref: ref}); err != nil {
				t.Errorf("%s: %v", to, err)
			}
			if got := s.eval("document.title"); got != fmt.Sprintf("%q", strconv.Itoa(n)) {
				t.Errorf("%s: after %d clicks the page says %s", to, n, got)
			}
		}
	}
}

// TestPagesThatOpenAnew checks a page that opens its document again, which removes all
// listeners. A field of the page that handles what is typed and then empties itself still
// counts as filled.
func TestPagesThatOpenAnew(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><script>onload = () => { document.open(); document.write('<title>t</title><input aria-label=Tags oninput="document.title += this.value; this.value = String()">'); document.close() }</script>`)
	ref := s.ref(s.goFor(s.url("site", "/"), `text "Tags"`), `text "Tags"`)
	if _, err := s.do(act.Step{Do: act.DoFill, Ref: ref, Text: "ab"}); err != nil {
		t.Error(err)
	}
	if got := s.eval("document.title"); got != `"tab"` {
		t.Errorf("the page says %s", got)
	}
}

// TestKeysInTheElementWithTheFocus checks keys that are sent without a wait to an element
// that has the focus. Each key arrives once, and only at the element that was shown, even
// if that element loses the focus or becomes another field between Prepare and Do (BR10,
// BR24). The slower way passes this test as well.
func TestKeysInTheElementWithTheFocus(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>k</title><input aria-label=A><input aria-label=B><script>
const [a, b] = document.querySelectorAll("input"), got = { a: 0, b: 0 };
for (const [k, e] of [["a", a], ["b", b]]) e.onkeydown = () => { got[k]++; document.title = got.a + " " + got.b };
const ask = setInterval(async () => { const w = await (await fetch("/say")).text(); if (w === "blur") b.focus(); if (w === "type") a.type = "password"; if (w) document.body.dataset.did = w }, 20);
</script>`)
	word := make(chan string, 1)
	s.answer("/say", word)
	l := s.goTo(s.url("site", "/"))
	step := act.Step{Do: act.DoPress, Ref: s.ref(l, `text "A"`), Text: "x"}
	for range 10 {
		s.must(step)
	}
	if got := s.eval("document.title"); got != `"10 0"` {
		t.Errorf("after ten keys the page says %s", got)
	}
	for _, c := range []struct {
		word, title string
		reason      act.Reason
	}{{"blur", `"11 0"`, act.ReasonOf(nil)}, {"type", `"11 0"`, act.ReasonStale}} {
		s.must(act.Step{Do: act.DoClick, Ref: step.Ref})
		p, err := s.seat.Prepare(s.ctx(), "", step)
		if err != nil {
			t.Fatal(err)
		}
		word <- c.word
		s.wait(func() bool { return s.eval("document.body.dataset.did") == `"`+c.word+`"` })
		if _, err := s.seat.Do(s.ctx(), p, step); act.ReasonOf(err) != c.reason {
			t.Errorf("%s: %v", c.word, err)
		}
		if got := s.eval("document.title"); got != c.title {
			t.Errorf("%s: the page says %s, want %s", c.word, got, c.title)
		}
	}
}
