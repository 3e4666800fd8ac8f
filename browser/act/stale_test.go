package act_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"belljar.dev/browser/act"
	"belljar.dev/internal/testenv"
)

// wild is a page with a list that the page changes at random, by a seed, when F2 is
// pressed: immediately, when the mouse arrives at an element, or one frame later. The page
// knows which button was shown, and with which words, and reports what a click hit.
const wild = `<!doctype html><title>none</title><style>button{width:120px}li{height:24px}</style><ul id=l></ul><ul id=m><li><button>Other</button></ul><script>
let s, X, was, undo = [];
const rnd = (n) => { s = (s * 1664525 + 1013904223) >>> 0; return Math.floor(s / 4294967296 * n) };
const words = (b) => [b.innerText.trim(), (b.closest("li")?.innerText ?? "").replace(/\s+/g, " ").trim(), b.getAttribute("role") ?? "", b.getAttribute("aria-label") ?? ""].join("|");
const names = ["Anna", "Bert", "Cleo", "Dora", "Emil", "Fred"];
const row = (n) => { const li = document.createElement("li"); li.innerHTML = "<span>" + n + "</span> <button>Delete</button>"; return li };
const draw = (list = names) => l.replaceChildren(...list.map(row));
const some = (list) => list[rnd(list.length)];
const hop = () => some(l.children);
const ops = [
  () => draw(), () => draw(names.toReversed()), () => l.append(hop()), () => l.prepend(hop()), () => { hop().querySelector("span").textContent = some(names) + "2" },
  () => { for (const [i, c] of [...l.children].entries()) c.querySelector("span").textContent = ["Zoe", ...names][i] }, () => { X.textContent = "Delete all" }, () => X.remove(), () => hop().remove(),
  () => { const a = X, b = hop().querySelector("button"); if (b && b !== a) { const p = b.parentNode, q = b.nextSibling; a.replaceWith(b); p.insertBefore(a, q) } },
  () => X.setAttribute("role", some(["link", "tab", "menuitem"])), () => l.replaceChildren(), () => { l.innerHTML = l.innerHTML }, () => X.replaceWith(X.cloneNode(true)), () => X.closest("li")?.replaceWith(X.closest("li").cloneNode(true)),
  () => { const f = document.createElement("iframe"); document.body.append(f); undo.push(() => f.remove()); f.contentDocument.body.append(X) }, () => { X.disabled = true }, () => { (X.closest("li") ?? X).style.display = "none" }, () => { X.style.visibility = "hidden" },
  () => { const d = document.createElement("div"); d.style = "position:fixed;inset:0;background:#fff"; document.body.append(d); undo.push(() => d.remove()) },
  () => { const b = document.createElement("button"); b.textContent = "Delete"; const r = X.getBoundingClientRect(); b.style = "position:fixed;left:" + r.left + "px;top:" + r.top + "px;height:" + r.height + "px"; document.body.append(b); undo.push(() => b.remove()) },
  () => l.prepend(row("Zoe")), () => l.insertBefore(row("Anna"), hop()), () => { m.firstChild.append(X) }, () => { document.body.style.paddingTop = rnd(80) + "px"; undo.push(() => { document.body.style.paddingTop = "" }) },
  () => { X.innerHTML = "<b>Delete</b>" }, () => { const w = document.createElement("button"); X.before(w); w.append(X) }, () => { X.textContent = "Dele\u200bte" }, () => { l.style.transform = "translateY(" + rnd(60) + "px)"; undo.push(() => { l.style.transform = "" }) },
  () => { hop().querySelector("button")?.focus() }, () => { const a = document.createElement("a"); a.href = "#x"; X.replaceWith(a); a.append(X) }, () => { X.closest("li")?.append(" and more") }, () => {}, () => {},
];
const mutate = () => { for (let n = 1 + rnd(3); n > 0; n--) try { some(ops)() } catch {} };
// More may stand in a row when the mouse comes, as where rows show buttons then.
const same = () => { const a = was.split("|"), b = words(X).split("|"); let k = 0; const row = a[1].split(" "); for (const w of b[1].split(" ")) if (w === row[k]) k++; return a[0] === b[0] && a[2] === b[2] && a[3] === b[3] && (time === "now" ? a[1] === b[1] : k === row.length) };
let armed = "", time = "";
addEventListener("keydown", (e) => {
  if (e.key !== "F2") return;
  for (const f of undo.splice(0)) f();
  document.title = "none";
  const [seed, at, when] = document.querySelector("#seed").value.split(" ");
  s = +seed;
  X = document.querySelectorAll("#l button")[at];
  was = words(X);
  armed = time = when;
  if (when === "now") mutate();
});
const late = (e) => { if (armed && (armed === e.type || armed === "frame" && e.type === "pointermove")) { const f = mutate, when = armed; armed = ""; if (when === "frame") requestAnimationFrame(f); else f() } };
for (const k of ["pointermove", "pointerover"]) addEventListener(k, late, true);
addEventListener("click", (e) => {
  if (!e.isTrusted) return;
  const hit = e.composedPath().find((n) => n.localName === "button");
  document.title = hit === X && X.isConnected && same() ? "right" : "WRONG hit " + (hit ? words(hit) : e.target.localName) + " for " + was;
}, true);
addEventListener("keydown", (e) => { if (e.key === "F4") { for (const f of undo.splice(0)) f(); armed = ""; draw(); m.innerHTML = "<li><button>Other</button>" } });
draw();
</script><input id=seed aria-label=Seed>`

// TestNoOtherElement checks that, whatever a page does to its elements between a look and a
// step, or between the last check and the input, no step acts on an element other than the
// one that was shown (BR10, BR-A1 to A3, A5).
func TestNoOtherElement(t *testing.T) {
	s := open(t)
	s.page("/list", wild)
	rounds, r := testenv.Cases(t, 40)
	acted, refused := 0, 0
	l := s.goTo(s.url("site", "/list"))
	seed := s.ref(l, `text "Seed"`)
	for range min(rounds, 400) {
		s.must(act.Step{Do: act.DoPress, Ref: seed, Text: "F4"})
		at, when := r.IntN(6), []string{"now", "now", "now", "pointermove", "pointerover", "frame"}[r.IntN(6)]
		how := fmt.Sprintf("%d %d %s", r.Uint32(), at, when)
		s.must(act.Step{Do: act.DoFill, Ref: seed, Text: how})
		all := refs(s.look(act.LookRequest{}), `button "Delete"`)
		if len(all) != 6 {
			t.Fatalf("the look has %d buttons:\n%s", len(all), s.look(act.LookRequest{}))
		}
		s.must(act.Step{Do: act.DoPress, Ref: seed, Text: "F2"})
		_, err := s.do(act.Step{Do: act.DoClick, Ref: all[at]})
		title := s.eval("document.title")
		refusal, _ := errors.AsType[*act.Refusal](err)
		switch {
		case err == nil && title == `"right"`:
			acted++
		case err != nil && (title == `"none"` || refusal.Ran && title == `"right"`):
			refused++
		default:
			t.Errorf("%s: error %v, and the page says %s", how, err, title)
		}
	}
	t.Logf("%d acts on the element that was shown, %d refused, 0 on another", acted, refused)
	if acted == 0 || refused == 0 {
		t.Error("one of them was not tried")
	}
}

// TestPublishedMistakes checks mistakes that were reported for other tools (BR10): a number
// that was given to another element after the page was drawn again, a click that counted as
// done and did nothing, and a message to the wrong person because a list had moved.
func TestPublishedMistakes(t *testing.T) {
	s := open(t)
	s.page("/chat", `<!doctype html><title>none</title><ul id=l></ul><script>
const draw = (list) => { l.innerHTML = list.map((n) => "<li><button onclick=\"document.title='to "+n+"'\">"+n+"</button></li>").join("") };
draw(["Ann", "Bob", "Cid"]);
addEventListener("keydown", (e) => { if (e.key === "F2") draw(["New", "Ann", "Bob", "Cid"]); if (e.key === "F4") l.querySelectorAll("button")[1].style.pointerEvents = "none" });
</script>`)
	l := s.goTo(s.url("site", "/chat"))
	bob := s.ref(l, `button "Bob"`)
	s.must(act.Step{Do: act.DoPress, Text: "F2"})
	if _, err := s.do(act.Step{Do: act.DoClick, Ref: bob}); act.ReasonOf(err) != act.ReasonStale {
		t.Errorf("a list that was drawn anew: %v", err)
	}
	now := s.look(act.LookRequest{})
	if again := s.ref(now, `button "Bob"`); again == bob || s.ref(now, `button "New"`) == bob {
		t.Errorf("the number %d was given anew:\n%s", bob, now)
	}
	s.must(act.Step{Do: act.DoPress, Text: "F4"})
	if _, err := s.do(act.Step{Do: act.DoClick, Ref: s.ref(now, `button "Ann"`)}); act.ReasonOf(err) != act.ReasonNotReady {
		t.Errorf("a button that takes no click: %v", err)
	}
	if got := s.eval("document.title"); got != `"none"` {
		t.Errorf("the page says %s", got)
	}
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(now, `button "Bob"`)})
	if got := s.eval("document.title"); got != `"to Bob"` {
		t.Errorf("the page says %s", got)
	}
}

// swaps is a page whose controls change what they do, when the server says so or at an event.
const swaps = `<!doctype html><title>none</title><a id=a href="/ok">Go</a>
<form id=f action="/ok" method=get><input id=i name=q aria-label=Q autocomplete=off><label><input type=checkbox id=c name=c> Box</label><select id=o name=o aria-label=List><option>x<option>y</select><input type=file id=u name=u aria-label=File><button id=b>Send</button></form>
<div id=d style="width:100px;height:30px" onclick="0">Drop</div><script>
const M = { href: () => a.href = "/evil", action: () => f.action = "/evil", method: () => f.method = "post", formaction: () => b.setAttribute("formaction", "/evil"), formmethod: () => b.setAttribute("formmethod", "post"),
  base: () => { const x = document.createElement("base"); x.href = "http://evil.example:PORT/"; document.head.append(x) }, field: () => { i.type = "password" }, otp: () => { i.autocomplete = "one-time-code" }, file: () => { u.type = "text" },
  download: () => a.setAttribute("download", ""), value: () => { i.value = "9999" }, other: () => { o.selectedIndex = 1 }, name: () => { a.textContent = b.textContent = d.textContent = "Delete" },
  role: () => { a.role = b.role = d.role = "tab" }, form: () => { const g = document.createElement("form"); g.id = "g"; g.action = "/evil"; document.body.append(g); b.setAttribute("form", "g") }, type: () => { b.type = "button" },
  link: () => { const x = document.createElement("a"); x.href = "/evil"; d.before(x); x.append(d) }, readonly: () => { i.readOnly = true }, checkbox: () => { c.type = "radio" }, list: () => { const x = document.createElement("option"); x.text = "z"; o.replaceWith(o.cloneNode(true)) } };
let did = false, armed = false;
addEventListener("keydown", (e) => { if (e.key === "F2") armed = true });
const swap = (w) => { if (w && M[w] && !did) { did = true; M[w](); document.title = "swapped" } };
const [when, what] = location.hash.slice(1).split(",");
if (when === "word") setInterval(async () => { if (!did) swap(await (await fetch("/word")).text()) }, 20);
else addEventListener(when, (e) => { if (armed) if (e.type !== "focusin" || e.target === i) swap(what) }, true);
for (const k of ["click", "input", "change"]) addEventListener(k, (e) => { if (did) document.body.dataset.hit = k }, true);
</script>`

// TestSwappedBetweenPrepareAndDo checks that facts are read again when a step is done and
// at its first event (BR24, BR-A36).
func TestSwappedBetweenPrepareAndDo(t *testing.T) {
	s := open(t)
	s.page("/swap", swaps)
	word := make(chan string, 1)
	s.answer("/word", word)
	s.page("/ok", "ok")
	s.page("/evil", "evil")
	click, enter := act.Step{Do: act.DoClick}, act.Step{Do: act.DoPress, Text: "Enter"}
	fill, pick := act.Step{Do: act.DoFill, Text: "x"}, act.Step{Do: act.DoSelect, Text: "y"}
	tick, drag := act.Step{Do: act.DoCheck}, act.Step{Do: act.DoDrag}
	tried := 0
	for _, c := range []struct {
		when, swap string
		step       act.Step
		what       string
	}{
		{"word", "href", click, `link "Go"`},
		{"word", "download", click, `link "Go"`},
		{"word", "base", click, `link "Go"`},
		{"word", "name", click, `link "Go"`},
		{"word", "role", click, `link "Go"`},
		{"word", "action", click, `button "Send"`},
		{"word", "method", click, `button "Send"`},
		{"word", "formaction", click, `button "Send"`},
		{"word", "formmethod", click, `button "Send"`},
		{"word", "form", click, `button "Send"`},
		{"word", "type", click, `button "Send"`},
		{"word", "value", click, `button "Send"`},
		{"word", "other", click, `button "Send"`},
		{"word", "base", click, `button "Send"`},
		{"word", "field", fill, `text "Q"`},
		{"word", "otp", fill, `text "Q"`},
		{"word", "readonly", fill, `text "Q"`},
		{"word", "action", enter, `text "Q"`},
		{"word", "formaction", enter, `text "Q"`},
		{"word", "type", enter, `button "Send"`},
		{"word", "checkbox", tick, `check "Box"`},
		{"word", "list", pick, `select "List"`},
		{"word", "name", drag, `item "Drop"`},
		{"word", "file", act.Step{Do: act.DoUpload, Path: "/workspace/x"}, `file "File"`},
		{"pointermove", "href", click, `link "Go"`},
		{"pointermove", "download", click, `link "Go"`},
		{"pointermove", "action", click, `button "Send"`},
		{"pointermove", "formaction", click, `button "Send"`},
		{"pointermove", "value", click, `button "Send"`},
		{"pointermove", "link", click, `item "Drop"`},
		{"pointermove", "name", click, `item "Drop"`},
		{"focusin", "field", fill, `text "Q"`},
		{"focusin", "otp", fill, `text "Q"`},
		{"focusin", "action", enter, `text "Q"`},
		{"focusin", "formmethod", enter, `text "Q"`},
	} {
		name := c.when + " " + c.swap + " " + string(c.step.Do)
		tried++
		l := s.goTo(fmt.Sprintf("%s?%d#%s,%s", s.url("site", "/swap"), tried, c.when, c.swap))
		c.step.Ref = s.ref(l, c.what)
		if c.step.Do == act.DoDrag {
			c.step.To = s.ref(l, `link "Go"`)
		}
		s.must(act.Step{Do: act.DoPress, Text: "F2"})
		p, err := s.seat.Prepare(s.ctx(), "", c.step)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.when == "word" {
			word <- c.swap
			s.wait(func() bool { return s.eval("document.title") == `"swapped"` })
		}
		if c.step.Do == act.DoUpload {
			c.step.File = &act.File{Name: "x", Content: nobody{strings.NewReader("secret")}}
		}
		_, err = s.seat.Do(s.ctx(), p, c.step)
		r, _ := errors.AsType[*act.Refusal](err)
		if r == nil || r.Ran {
			t.Errorf("%s: the step was done, or failed by %v", name, err)
		}
		if got := s.eval("document.title + document.body.dataset.hit"); got != `"swappedundefined"` {
			t.Errorf("%s: the page says %s", name, got)
		}
	}
	if s.heard("/evil")+s.heard("/ok") != 0 {
		t.Errorf("the server heard %d and %d", s.heard("/evil"), s.heard("/ok"))
	}
	t.Logf("%d swaps, nothing done", tried)
}

// nobody is a reader whose Close does nothing.
type nobody struct{ *strings.Reader }

func (nobody) Close() error { return nil }

var numbered = regexp.MustCompile(`\[(\d+)\] button "(B\d+)"`)

// TestNumbers checks that an element keeps its number as long as it exists, and that no
// number is given twice in a tab, whatever else happens to the page, even after another
// page was opened (BR9).
func TestNumbers(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>n</title><div id=box></div><script>
let last = +location.search.slice(1);
const make = () => { const b = document.createElement("button"); b.textContent = "B" + ++last; b.style = "height:14px;font-size:9px"; return b };
const any = () => box.children[Math.floor(Math.random() * box.children.length)];
const step = () => { const r = Math.random();
  if (box.children.length < 10 || r < .3 && box.children.length < 40) box.insertBefore(make(), any() ?? null); else if (r < .5) any().remove(); else if (r < .9) box.insertBefore(any(), any()); else box.append(...[...box.children].sort(() => Math.random() - .5)) };
addEventListener("keydown", (e) => { if (e.key === "F2") for (let i = 0; i < 500; i++) step() });
for (let i = 0; i < 20; i++) step();
</script>`)
	n, _ := testenv.Cases(t, 6)
	given := map[string]string{} // button of each number, and number of each button
	for round := range min(n, 20) {
		if round%2 == 0 { // open another document, whose buttons have other names
			s.must(act.Step{Do: act.DoOpen, URL: s.url("site", fmt.Sprintf("/?%d", round*10000))})
		}
		for range 2 {
			l, seen := s.look(act.LookRequest{Scope: act.ScopeAll}), 0
			for _, m := range numbered.FindAllStringSubmatch(l, -1) {
				seen++
				for _, pair := range [][2]string{{m[1], m[2]}, {m[2], m[1]}} {
					if was, ok := given[pair[0]]; ok && was != pair[1] {
						t.Fatalf("%s was %s and is %s", pair[0], was, pair[1])
					}
					given[pair[0]] = pair[1]
				}
			}
			if seen < 9 { // a page may be read while one of its ten buttons is out of the document
				t.Fatalf("%d buttons in\n%s", seen, l)
			}
		}
		s.must(act.Step{Do: act.DoPress, Text: "F2"})
		s.seat.Collect() // garbage collection must not change the numbers
	}
	t.Logf("%d buttons had a number of their own", len(given)/2)
}

// TestStepsInATabBehindAnother checks that a step works in its tab although another call has
// looked at another tab since the step was prepared.
func TestStepsInATabBehindAnother(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><button onclick="window.open('/child')">Window</button><button onclick="document.title += ' clicked'">Click</button><input aria-label=Field>`)
	s.page("/child", `<!doctype html><title>child</title><p>child`)
	l := s.goTo(s.url("site", "/"))
	if o := s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Window"`)}); len(o.Opened) != 1 {
		t.Fatalf("the window did not open: %+v", o)
	}
	for _, step := range []act.Step{
		{Do: act.DoClick, Ref: s.ref(l, `button "Click"`)}, {Do: act.DoFill, Ref: s.ref(l, `text "Field"`), Text: "abc"}, {Do: act.DoPress, Ref: s.ref(l, `text "Field"`), Text: "d"},
	} {
		p, err := s.seat.Prepare(s.ctx(), "t1", step)
		if err != nil {
			t.Fatal(err)
		}
		s.until(act.LookRequest{Tab: "t2"}, "child")
		if _, err := s.seat.Do(s.ctx(), p, step); err != nil {
			t.Errorf("%s: %v (%v)", step.Do, err, cause(err))
		}
	}
	if got := s.eval("document.title + document.querySelector('input').value"); got != `"none clickedabcd"` {
		t.Errorf("the page has %s", got)
	}
	if k, err := s.seat.Look(s.ctx(), act.LookRequest{Tab: "t2", At: act.AtPicture}); err != nil {
		t.Errorf("a picture of the other tab: %v, %v", k, err)
	}
	if o := s.must(act.Step{Do: act.DoSwitch, Text: "t2"}); o.Tab != "t2" || o.URL != s.url("site", "/child") {
		t.Errorf("after the switch, the outcome is of %s at %s", o.Tab, o.URL)
	}
}
