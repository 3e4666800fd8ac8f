package act_test

import (
	"fmt"
	"strings"
	"testing"

	"belljar.dev/browser/act"
)

// TestNoOtherOption checks that, whatever a page does to a list when the list gets the
// focus, the page gets one change to the option that was asked for, or no change; then no
// other option is selected (BR10).
func TestNoOtherOption(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>t</title><select id=l aria-label=List></select><input aria-label=Way><script>
const fresh = () => { l.replaceChildren(...["Anna", "Bert", "Cleo", "Dora", "Emil"].map((n) => new Option(n))); l.selectedIndex = 4; l.disabled = false };
const ways = {
  nothing() {}, rename: () => { l.options[2].text = "Other" }, remove: () => l.options[2].remove(), before: () => l.options[1].remove(), reverse: () => l.replaceChildren(...[...l.options].reverse()),
  clone: () => { l.innerHTML = l.innerHTML; l.selectedIndex = 4 }, swap: () => { [l.options[2].text, l.options[3].text] = [l.options[3].text, l.options[2].text] }, disable: () => { l.options[2].disabled = true },
  neighbour: () => { l.options[1].disabled = true }, first: () => l.prepend(l.options[2]), hide: () => { l.options[2].style.display = "none" }, group: () => { const g = document.createElement("optgroup"); g.disabled = true; g.append(l.options[2]); l.append(g) },
  off: () => { l.disabled = true },
};
let way = "", heard = [];
l.addEventListener("focus", () => ways[way]?.());
l.addEventListener("keydown", (e) => { if (way === "prevent") e.preventDefault(); if (way === "stop") { e.preventDefault(); e.stopPropagation() } });
l.addEventListener("change", () => { heard.push(l.value); document.title = heard.join(); if (way === "reset") l.selectedIndex = 0 });
document.querySelector("input").addEventListener("keydown", (e) => { if (e.key === "F2") { way = e.target.value; heard = []; fresh(); document.title = "" } });
fresh();
</script>`)
	s.page("/frame", `<iframe src="http://other.example:PORT/"></iframe>`)
	for _, at := range []string{"/", "/frame"} {
		l := s.goFor(s.url("site", at), `text "Way"`)
		list, field := s.ref(l, `select "List"`), s.ref(l, `text "Way"`)
		state := func() string {
			t.Helper()
			if at == "/" {
				return strings.Trim(s.eval(`document.title + "|" + l.value`), `"`)
			}
			// The value in a frame of another site is read from its look.
			v := s.look(act.LookRequest{In: list})
			return "?|" + v
		}
		for _, way := range []string{"nothing", "rename", "remove", "before", "reverse", "clone", "swap", "disable", "neighbour", "first", "hide", "group", "off", "prevent", "stop", "reset"} {
			s.must(act.Step{Do: act.DoFill, Ref: field, Text: way})
			s.must(act.Step{Do: act.DoPress, Ref: field, Text: "F2"})
			_, err := s.do(act.Step{Do: act.DoSelect, Ref: list, Text: "Cleo"})
			got := state()
			if at != "/" {
				if err == nil && !strings.Contains(got, `="Cleo"`) || err != nil && way != "reset" && strings.Contains(got, `="Bert"`) {
					t.Errorf("%s %s: %v, and the page shows %s", at, way, err, got)
				}
				continue
			}
			refusal := fmt.Sprint(err)
			switch {
			case err == nil && got == "Cleo|Cleo":
			// the page took the option and reset it, and the step is not repeated
			case way == "reset" && act.ReasonOf(err) == act.ReasonFailed && got == "Cleo|Anna":
			case err != nil && strings.HasPrefix(got, "|") && !strings.Contains("Bert,Dora", got[1:]):
			default:
				t.Errorf("%s: %s, and the page heard of %s", way, refusal, got)
			}
			if (way == "nothing" || way == "before" || way == "neighbour" || way == "reverse") && err != nil {
				t.Errorf("%s: %v", way, err)
			}
		}
	}
}
