package act_test

import (
	"fmt"
	"testing"

	"belljar.dev/browser/act"
	"belljar.dev/internal/testenv"
)

// TestNoOtherElement: whatever a page does to its elements between a look and a step,
// no step acts on one that is not the one that was shown (BR10, BR-A1 to A3).
func TestNoOtherElement(t *testing.T) {
	s := open(t, func(o *act.Options) { o.Eval = true })
	// The mutation runs when the server is asked for the word to go on.
	s.page("/list", `<!doctype html><title>none</title><ul id=l></ul><script>
const names = ["Anna", "Bert", "Cleo", "Dora"];
const row = (n) => { const li = document.createElement("li"); li.innerHTML = "<span>" + n + "</span> <button>Delete</button>"; li.querySelector("button").onclick = () => { document.title = "deleted " + li.querySelector("span").textContent }; return li };
const draw = (list) => l.replaceChildren(...list.map(row));
draw(names);
const M = {
  redraw: () => draw(names), resort: () => draw(names.toReversed()), move: () => l.append(l.children[1]),
  recycle: () => { l.children[1].querySelector("span").textContent = "Emil" }, shift: () => { for (const [i, c] of [...l.children].entries()) c.querySelector("span").textContent = ["Zoe", ...names][i] },
  rename: () => { l.children[1].querySelector("button").textContent = "Delete all" }, remove: () => l.children[1].remove(),
  swap: () => { const a = l.children[1].querySelector("button"), b = l.children[2].querySelector("button"); const x = a.nextSibling, y = b.nextSibling; l.children[1].insertBefore(b, x); l.children[2].insertBefore(a, y) },
  role: () => l.children[1].querySelector("button").setAttribute("role", "link"), empty: () => l.replaceChildren(),
  inner: () => { l.innerHTML = l.innerHTML }, adopt: () => { const f = document.createElement("iframe"); document.body.append(f); f.contentDocument.body.append(l.children[1].querySelector("button")) },
  disable: () => { l.children[1].querySelector("button").disabled = true }, hide: () => { l.children[1].style.display = "none" },
  cover: () => { const d = document.createElement("div"); d.style = "position:fixed;inset:0;background:red"; d.id = "cover"; d.onclick = () => { document.title = "hit the cover" }; document.body.append(d) },
  insert: () => l.prepend(row("Zoe")), none: () => {},
};
addEventListener("keydown", (e) => { if (e.key === "F2") M[location.hash.slice(1)]() });
</script>`)
	// What keeps the element what it was shown as may be acted on, and then on Bert.
	fine := map[string]bool{"none": true, "move": true, "insert": true}
	kinds := []string{"redraw", "resort", "move", "recycle", "shift", "rename", "remove", "swap", "role", "empty", "inner", "adopt", "disable", "hide", "cover", "insert", "none"}
	acted, refused := 0, 0
	rounds, _ := testenv.Cases(t, len(kinds))
	for i := range rounds {
		kind := kinds[i%len(kinds)]
		l := s.goTo(fmt.Sprintf("%s?%d#%s", s.url("site", "/list"), i, kind))
		all := refs(l, `button "Delete"`)
		if len(all) != 4 {
			t.Fatalf("the look has %d buttons:\n%s", len(all), l)
		}
		s.must(act.Step{Do: act.DoPress, Text: "F2"})
		_, err := s.do(act.Step{Do: act.DoClick, Ref: all[1]})
		title := s.eval("document.title")
		switch {
		case err == nil && fine[kind] && title == `"deleted Bert"`:
			acted++
		case err != nil && !fine[kind] && title == `"none"`:
			refused++
		default:
			t.Errorf("%s: error %v, and the page says %s", kind, err, title)
		}
	}
	t.Logf("%d acts on the element that was shown, %d refused, 0 on another", acted, refused)
}

// TestSwappedBetweenPrepareAndDo: facts are read again (BR24).
func TestSwappedBetweenPrepareAndDo(t *testing.T) {
	s := open(t)
	s.page("/swap", `<!doctype html><title>none</title><a id=a href="/ok">Go</a>
<form id=f action="/ok" method=get><input id=i name=q autocomplete=off><button id=b>Send</button></form><script>
const M = { href: () => a.href = "/evil", action: () => f.action = "/evil", method: () => f.method = "post", formaction: () => b.setAttribute("formaction", "/evil"),
  base: () => { const x = document.createElement("base"); x.href = "http://evil.example:PORT/"; document.head.append(x) }, field: () => { i.type = "password" }, download: () => a.setAttribute("download", ""), value: () => { i.value = "9999" } };
addEventListener("hashchange", () => M[location.hash.slice(1)]?.());
setInterval(async () => { const r = await fetch("/word"); const w = await r.text(); if (w && M[w] && !window["did" + w]) { window["did" + w] = 1; M[w](); document.title = "swapped" } }, 20);
</script>`)
	word := make(chan string, 1)
	s.answer("/word", word)
	s.page("/ok", "ok")
	s.page("/evil", "evil")
	for _, c := range []struct {
		swap string
		step act.Step
		what string
	}{
		{"href", act.Step{Do: act.DoClick}, `link "Go"`},
		{"download", act.Step{Do: act.DoClick}, `link "Go"`},
		{"base", act.Step{Do: act.DoClick}, `link "Go"`},
		{"action", act.Step{Do: act.DoClick}, `button "Send"`},
		{"method", act.Step{Do: act.DoClick}, `button "Send"`},
		{"formaction", act.Step{Do: act.DoClick}, `button "Send"`},
		{"value", act.Step{Do: act.DoClick}, `button "Send"`},
		{"field", act.Step{Do: act.DoFill, Text: "x"}, `text "q"`},
		{"action", act.Step{Do: act.DoPress, Text: "Enter"}, `text "q"`},
	} {
		l := s.goTo(s.url("site", "/swap"))
		c.step.Ref = s.ref(l, c.what)
		p, err := s.seat.Prepare(s.ctx(), "", c.step)
		if err != nil {
			t.Errorf("%s: %v", c.swap, err)
			continue
		}
		word <- c.swap
		s.wait(func() bool { return s.eval("document.title") == `"swapped"` })
		_, err = s.seat.Do(s.ctx(), p, c.step)
		if r := act.ReasonOf(err); r != act.ReasonChanged && r != act.ReasonStale {
			t.Errorf("%s: the step was done, or failed by %v", c.swap, err)
		}
	}
	if s.heard("/evil")+s.heard("/ok") != 0 {
		t.Errorf("the server heard %v", s.hits)
	}
}
