package act_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"belljar.dev/browser/act"
	"belljar.dev/internal/golden"
	"belljar.dev/internal/testenv"
)

// TestLookingChangesNothing: a page, what it stores and what it asks for are the same after 50
// looks of each kind (BR3).
func TestLookingChangesNothing(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><input id=i value=v aria-label=I><button onclick="0">B</button><p style="height:3000px">long</p><iframe src="http://other.example:PORT/in"></iframe><div id=host></div><script>
document.cookie = "k=v"; localStorage.k = "v"; i.focus(); scrollTo(0, 300);
host.attachShadow({mode: "closed"}).innerHTML = "<button>In</button>";
const seen = {}, count = (k) => { seen[k] = (seen[k] ?? 0) + 1 };
const state = () => JSON.stringify([document.documentElement.outerHTML.length, scrollX, scrollY, document.activeElement.id, document.cookie, JSON.stringify(localStorage), getSelection().toString(), innerWidth, document.hasFocus(), history.length, performance.getEntriesByType("resource").length]);
let was;
addEventListener("keydown", (e) => { if (e.key === "F7") scrollTo(0, 300); if (e.key !== "F4") return; was = state();
  new MutationObserver((l) => l.forEach(() => count("mutation"))).observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
  for (const k of ["focus", "blur", "scroll", "mousemove", "pointerover", "click", "visibilitychange", "resize", "selectionchange", "input", "freeze", "beforeprint"]) for (const t of [window, document]) t.addEventListener(k, () => count(k), true) });
addEventListener("keydown", (e) => { if (e.key === "F2") document.title = was === state() ? "same " + JSON.stringify(seen) : "was " + was + " is " + state() });
</script>`)
	s.page("/in", `<button>Inner</button>`)
	s.goTo(s.url("site", "/"))
	s.until(act.LookRequest{Scope: act.ScopeAll}, `button "Inner"`)
	s.look(act.LookRequest{At: act.AtPicture})
	s.must(act.Step{Do: act.DoPress, Text: "F7"}) // scroll to a place to which none of the looks before has scrolled
	s.must(act.Step{Do: act.DoPress, Text: "F4"})
	before := s.heard("")
	for _, q := range []act.LookRequest{
		{}, {Scope: act.ScopeAll}, {At: act.AtChanges}, {At: act.AtText}, {At: act.AtPicture}, {At: act.AtConsole}, {At: act.AtNetwork}, {At: act.AtTabs}, {At: act.AtDownloads}, {Find: "long"},
	} {
		for range 5 {
			if _, err := s.seat.Look(s.ctx(), q); err != nil {
				t.Errorf("%+v: %v", q, err)
			}
		}
	}
	if after := s.heard(""); after != before {
		t.Errorf("the server heard %v", s.hits[before:])
	}
	s.must(act.Step{Do: act.DoPress, Text: "F2"})
	if got := s.eval("document.title"); got != `"same {}"` {
		t.Errorf("after the looks: %s", got)
	}
}

// TestPartsAreTheWhole: a look has at most the characters that were asked for, is cut between
// lines, and its parts in their order are the whole (BR5).
func TestPartsAreTheWhole(t *testing.T) {
	s := open(t)
	rounds, r := testenv.Cases(t, 6)
	words := []string{"plain", "Straße", "日本語の文", "עברית", "🙂🙂", "[12]", "<<end", "# head", "a\u0301", "\U000e0041x", "long" + strings.Repeat("ness", 40)}
	for round := range min(rounds, 200) {
		var b strings.Builder
		for i := range 40 + r.IntN(200) {
			fmt.Fprintf(&b, "<p>%d", i)
			for range r.IntN(12) {
				b.WriteString(" " + strings.ReplaceAll(words[r.IntN(len(words))], "<", "&lt;"))
			}
			if r.IntN(3) == 0 {
				fmt.Fprintf(&b, " <button>%s %d</button>", words[r.IntN(len(words))], i)
			}
		}
		path := fmt.Sprintf("/p%d", round)
		s.page(path, "<!doctype html><title>t</title>"+b.String())
		s.goTo(s.url("site", path))
		most := 3000 + r.IntN(3000) // longer than any line
		lines := func(q act.LookRequest) []string {
			var all []string
			for {
				k, err := s.seat.Look(s.ctx(), q)
				if err != nil {
					t.Fatal(err)
				}
				if n := utf8.RuneCountInString(k.Text); n > q.MaxChars || !utf8.ValidString(k.Text) {
					t.Fatalf("a part has %d characters of %d, valid %t", n, q.MaxChars, utf8.ValidString(k.Text))
				}
				part := strings.Split(k.Text, "\n")
				part = part[1 : len(part)-1]
				if k.Next > 0 {
					part = part[:len(part)-1] // drop the line that says how to go on
				}
				all = append(all, part...)
				if q.Offset = k.Next; k.Next == 0 {
					return all
				}
			}
		}
		whole := strings.Join(lines(act.LookRequest{Scope: act.ScopeAll, MaxChars: act.MaxChars}), "\n")
		parts := strings.Join(lines(act.LookRequest{Scope: act.ScopeAll, MaxChars: most}), "\n")
		if parts != whole {
			t.Fatalf("in parts of %d characters:\n%s\nand whole:\n%s", most, parts, whole)
		}
		if k := s.look(act.LookRequest{}); utf8.RuneCountInString(k) > act.DefaultChars {
			t.Errorf("a look has %d characters", utf8.RuneCountInString(k))
		}
	}
	s.page("/long", "<!doctype html><title>t</title><p>"+strings.Repeat("ä", 3000)+"<p>next")
	s.goTo(s.url("site", "/long"))
	for _, scope := range []act.Scope{act.ScopeAll, act.ScopeView} {
		k, err := s.seat.Look(s.ctx(), act.LookRequest{Scope: scope, MaxChars: 1000})
		if err != nil {
			t.Fatal(err)
		}
		shown := strings.Count(k.Text, "ä")
		left := fmt.Sprintf("… %d,%03d more characters of this line: raise max_chars\n", (3000-shown)/1000, (3000-shown)%1000)
		if utf8.RuneCountInString(k.Text) > 1000 || shown < 400 || !strings.Contains(k.Text, left) {
			t.Errorf("%s: %d characters are shown of a long line: %s", scope, shown, k.Text)
		}
	}
	for _, n := range []int{1, 499, act.MaxChars + 1, -1} {
		if _, err := s.seat.Look(s.ctx(), act.LookRequest{MaxChars: n}); act.ReasonOf(err) != act.ReasonArgument {
			t.Errorf("max_chars %d: %v", n, err)
		}
	}
}

// TestWhatCanBeClickedIsSeen checks that everything that people can act on has a number
// (BR7).
func TestWhatCanBeClickedIsSeen(t *testing.T) {
	s := open(t)
	kinds := []string{
		`<a href="/x">N</a>`, `<button>N</button>`, `<input type=submit value=N>`, `<input type=button value=N>`, `<input type=reset value=N>`, `<input type=image alt=N style="width:20px;height:20px">`,
		`<label>N <input></label>`, `<label>N <input type=checkbox></label>`, `<label>N <input type=radio></label>`, `<label>N <input type=range></label>`, `<label>N <input type=date></label>`,
		`<label>N <input type=color></label>`, `<label>N <input type=file></label>`, `<label>N <input type=password></label>`, `<label>N <textarea></textarea></label>`, `<label>N <select><option>1</select></label>`,
		`<details><summary>N</summary>x</details>`, `<div contenteditable aria-label=N style="height:20px">x</div>`, `<div contenteditable=plaintext-only aria-label=N style="height:20px">x</div>`,
		`<div role=button>N</div>`, `<div role=link>N</div>`, `<div role=checkbox>N</div>`, `<div role=switch>N</div>`, `<div role=radio>N</div>`, `<div role=tab>N</div>`, `<div role=menuitem>N</div>`,
		`<div role=option>N</div>`, `<div role=slider aria-label=N style="height:20px"></div>`, `<div role=textbox contenteditable aria-label=N style="height:20px"></div>`, `<div role=combobox>N</div>`, `<div role=treeitem>N</div>`,
		`<div tabindex=0>N</div>`, `<div onclick="0">N</div>`, `<div onmousedown="0">N</div>`, `<div ondblclick="0">N</div>`, `<div draggable=true>N</div>`, `<span style="cursor:pointer">N</span>`,
		`<div class=listens>N</div>`, `<div class=points>N</div>`, `<ul class=list><li>N</li></ul>`, `<svg width=60 height=20><a href="/x"><text y=15>N</text></a></svg>`, `<label><input type=checkbox style="display:none">N</label>`,
	}
	var b strings.Builder
	for i, k := range kinds {
		name := fmt.Sprintf("Thing%d.", i)
		k = strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(k, "=N", "="+name), ">N", ">"+name), "N</", name+"</")
		b.WriteString("<div>" + k + "</div>\n")
	}
	s.page("/", "<!doctype html><title>s</title><style>*{line-height:14px}</style>"+b.String()+`<p>Nothing here to click</p><script>
for (const e of document.querySelectorAll(".listens")) e.addEventListener("click", () => {});
for (const e of document.querySelectorAll(".points")) e.addEventListener("pointerdown", () => {});
for (const e of document.querySelectorAll(".list")) e.addEventListener("click", (ev) => ev.target.tagName);
</script>`)
	s.goTo(s.url("site", "/"))
	l := s.look(act.LookRequest{Scope: act.ScopeAll, MaxChars: 20000})
	for i, k := range kinds {
		name := fmt.Sprintf("Thing%d.", i)
		seen := false
		for line := range strings.SplitSeq(l, "\n") {
			seen = seen || strings.HasPrefix(line, "[") && strings.Contains(line, name)
		}
		if !seen {
			t.Errorf("no line has a number for %s", k)
		}
	}
	if strings.Contains(l, `"Nothing here`) {
		t.Errorf("a text has a number:\n%s", l)
	}
	if t.Failed() {
		t.Log(l)
	}
}

// TestLookInsideAFrame checks that a look at a frame shows the frames in it, however deep
// they are.
func TestLookInsideAFrame(t *testing.T) {
	s := open(t)
	for path, inner := range map[string]string{"/": "/a", "/a": "/b", "/b": "/c"} {
		s.page(path, `<!doctype html><title>none</title><p>words of `+path+`</p><iframe title="leads to `+inner+`" src="`+inner+`"></iframe>`)
	}
	s.page("/c", `<!doctype html><title>none</title><p>words of /c</p>`)
	l := s.goFor(s.url("site", "/"), "words of /c")
	l = s.look(act.LookRequest{In: s.ref(strings.ReplaceAll(l, "frame [", "["), `"leads to /a"`)})
	if strings.Contains(l, "words of /\n") || !strings.Contains(l, "words of /a") || !strings.Contains(l, "words of /b") || !strings.Contains(l, "words of /c") {
		t.Errorf("a look at the frame is\n%s", l)
	}
}

// TestOddRoles checks that a control whose role or type has the name of a property of every
// object is shown and used like others.
func TestOddRoles(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><button role=constructor onclick="document.title += 'a'">A</button><button role=__proto__ onclick="document.title += 'b'">B</button><input type=constructor aria-label=C>`)
	l := s.goTo(s.url("site", "/"))
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "A"`)})
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "B"`)})
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `text "C"`), Text: "text"})
	if got := s.eval("document.title"); got != `"noneab"` {
		t.Errorf("the page says %s", got)
	}
}

// TestAfterAnAct checks what the agent reads after a step: a bounded number of changes, or
// the page if most of it has changed, and with them what else happened (BR13).
func TestAfterAnAct(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>After</title><style>p{margin:0;height:40px}</style><button onclick="o.textContent='one line more'">One</button> <button onclick="o.innerHTML=Array.from({length:400},(_,i)=>'<p>row '+i+' of many rows that came</p>').join('')">Many</button>
<button onclick="[...o.children].slice(0, 60).forEach((p, i) => { p.textContent = 'row ' + i + ' is another one now ' + 'and a long one '.repeat(4) })">Some</button> <button onclick="console.error('first'); console.error('second')">Errors</button> <button onclick="document.body.innerHTML='<h1>All new</h1>'+'<p>x</p>'.repeat(9)">New</button><p id=o></p><ul><li>a<li>b<li>c<li>d<li>e<li>f</ul>`)
	var out strings.Builder
	l := s.goTo(s.url("site", "/"))
	for _, name := range []string{"One", "One", "Errors", "Many", "Some", "New"} {
		s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "`+name+`"`)})
		c := s.look(act.LookRequest{At: act.AtChanges})
		changes := strings.HasPrefix(c, "<<changes")
		if n := utf8.RuneCountInString(c); n > act.MaxChanges && changes {
			t.Errorf("%s: the changes have %d characters", name, n)
		}
		if name == "Some" && (!changes || !strings.Contains(c, " more lines changed; look at the page\n")) {
			t.Errorf("of many changes it is shown:\n%s", c)
		}
		fmt.Fprintf(&out, "## %s\n%s\n\n", name, plainMarks(s, c))
	}
	golden.Equal(t, "after.golden", out.String())
}

// TestLargePages: a look at a page of any size comes in time, is bounded, and says that it is
// not all (BR6, BR-A9).
func TestLargePages(t *testing.T) {
	s := open(t)
	s.page("/name", `<!doctype html><title>n</title><button id=b>x</button><a id=a>link</a><script>b.textContent = "name ".repeat(2000000); b.setAttribute("aria-label", "l".repeat(5000000)); a.href = "/x?" + "q".repeat(1 << 20)</script>`)
	s.page("/many", `<!doctype html><title>m</title><div id=d></div><script>d.innerHTML = Array.from({length: 30000}, (_, i) => "<b tabindex=0>c" + i + "</b> ").join("")</script>`)
	s.page("/nodes", `<!doctype html><title>o</title><div id=d></div><script>d.innerHTML = Array.from({length: 25000}, (_, i) => "<p>" + i + "</p>").join("")</script>`)
	s.page("/deep", `<!doctype html><title>d</title><p>top</p><div id=d></div><script>let e = d; for (let i = 0; i < 400; i++) e = e.appendChild(document.createElement("div")); e.textContent = "bottom"</script>`)
	s.page("/deeper", `<!doctype html><title>d</title><p>top</p><div id=d style="display:none"></div><script>let e = d; for (let i = 0; i < 20000; i++) e = e.appendChild(document.createElement("div")); e.textContent = "bottom"</script>`)
	s.page("/text", `<!doctype html><title>t</title><p>top</p><div id=p hidden></div><script>p.textContent = "text ".repeat(1 << 20)</script>`)
	for path, long := range map[string]bool{"/text": true, "/deep": false} {
		s.must(act.Step{Do: act.DoOpen, URL: s.url("site", path)})
		k, err := answered(s, func() (*act.Look, error) { return s.seat.Look(s.ctx(), act.LookRequest{At: act.AtText}) })
		if err != nil {
			t.Fatal(err)
		}
		if k.Cut != long || len(k.HTML) < 1000 || len(k.HTML) > 4*act.MaxLook+utf8.UTFMax { // with the mark of a cut
			t.Errorf("%s: the document has %d bytes, and is cut: %v", path, len(k.HTML), k.Cut)
		}
	}
	for path, want := range map[string]string{"/name": `button "` + strings.Repeat("name ", 15) + `name…"`, "/many": "limit reached: ", "/nodes": "", "/deep": "limit reached: depth", "/deeper": "top"} {
		start := time.Now()
		s.must(act.Step{Do: act.DoOpen, URL: s.url("site", path)})
		for _, q := range []act.LookRequest{{}, {Scope: act.ScopeAll, MaxChars: act.MaxChars}} {
			k, err := s.seat.Look(s.ctx(), q)
			if err != nil && (act.ReasonOf(err) == act.ReasonTimeout || act.ReasonOf(err) == act.ReasonCrashed) {
				break // the look failed in time
			}
			if err != nil {
				t.Errorf("%s: %v (%v)", path, err, cause(err))
				continue
			}
			most := max(q.MaxChars, act.DefaultChars)
			if n := utf8.RuneCountInString(k.Text); n > most || !strings.Contains(k.Text, want) && q.Find == "" {
				t.Errorf("%s: the look has %d characters; want %q in\n%.300s", path, n, want, k.Text)
			}
		}
		t.Logf("%s was open and looked at after %v", path, time.Since(start))
	}
}

// TestPagesThatTakeWordsAway: our scripts work in a page that has changed what all scripts use
// (BR-A10).
func TestPagesThatTakeWordsAway(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><form id=f action="/sent"><input name=q aria-label=Q><input name=getAttribute><input name=parentNode><input name=localName><button>Send</button></form><p>words</p><script>
for (const [o, names] of [[Array.prototype, ["push", "map", "filter", "find", "includes", "join", "some", "every"]], [Document.prototype, ["querySelectorAll", "querySelector", "elementFromPoint"]], [Element.prototype, ["getBoundingClientRect", "getAttribute", "matches", "closest", "checkVisibility", "querySelectorAll"]],
  [JSON, ["stringify", "parse"]], [WeakMap.prototype, ["get", "set"]], [Map.prototype, ["get", "set"]], [String.prototype, ["replace", "slice", "trim", "split"]], [Object, ["keys", "assign", "defineProperty"]], [EventTarget.prototype, ["addEventListener"]], [Event.prototype, ["composedPath", "stopImmediatePropagation", "preventDefault"]]])
  for (const n of names) o[n] = () => { throw new Error("taken") };
Object.defineProperty(Node.prototype, "textContent", { get: () => "forged" });
Object.defineProperty(HTMLElement.prototype, "innerText", { get: () => "forged" });
window.Reflect = window.Promise = window.Set = window.MutationObserver = null;
belljar = { look: () => ({}) };
</script>`)
	s.page("/sent", "<p>sent</p>")
	l := s.goTo(s.url("site", "/"))
	if !strings.Contains(l, "words") || strings.Contains(l, "forged") {
		t.Errorf("the look is\n%s", l)
	}
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `text "Q"`), Text: "abc"})
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Send"`)})
	if s.heard("/sent?q=abc") != 1 {
		t.Errorf("the server heard %v", s.hits)
	}
}
