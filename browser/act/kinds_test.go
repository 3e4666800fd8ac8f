package act_test

import (
	"testing"

	"belljar.dev/browser/act"
)

// TestControlsWithinControls checks that a click of a row does not click a button in the
// row.
func TestControlsWithinControls(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><form action="/del" method=post><div tabindex=0 style="width:400px;text-align:center" onclick="document.title = 'row'">Row <button>Delete</button></div>
<div tabindex=0 style="width:100px"><button style="width:100px;height:30px;padding:0;border:0">All</button></div></form>`)
	l := s.goTo(s.url("site", "/"))
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `item "Row`)})
	if got := s.eval("document.title"); got != `"row"` {
		t.Errorf("the page says %s", got)
	}
	if _, err := s.do(act.Step{Do: act.DoClick, Ref: s.ref(l, `item "All"`)}); act.ReasonOf(err) != act.ReasonNotReady {
		t.Errorf("a control that another fills: %v", err)
	}
	if s.heard("POST") != 0 {
		t.Errorf("the server heard %v", s.hits)
	}
}

// TestStepsAreOfTheirKind checks that no step has the effect of another kind of act (BR23).
func TestStepsAreOfTheirKind(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><form id=f action="/first" method=post><input name=q aria-label=Q>
<input type=submit value=One><input type=submit value=Two formaction="/second"><input type=button value=Three>
<button role=checkbox aria-checked=false formaction="/third">Box</button></form>
<textarea aria-label=Message onkeydown="if (event.key === 'Enter') document.title = 'sent'"></textarea><label><input type=checkbox id=c> News</label><div id=d style="width:200px;height:40px" onclick="document.title = 'clicked'">Pad</div>`)
	l := s.goTo(s.url("site", "/"))
	two, pad := s.ref(l, `button "Two"`), s.ref(l, `item "Pad"`)
	for name, c := range map[string]struct {
		step act.Step
		want act.Facts
	}{
		"enter at a button":       {act.Step{Do: act.DoPress, Ref: two, Text: "Enter"}, act.Facts{Kind: act.KindSubmit, To: s.url("site", "/second"), Method: "POST", Shown: `button "Two"`}},
		"space at a plain button": {act.Step{Do: act.DoPress, Ref: s.ref(l, `button "Three"`), Text: "Space"}, act.Facts{Kind: act.KindPress, Shown: `button "Three"`}},
		"check of a button":       {act.Step{Do: act.DoCheck, Ref: s.ref(l, `check "Box"`)}, act.Facts{Kind: act.KindSubmit, To: s.url("site", "/third"), Method: "POST", Field: "text", Shown: `check "Box"`}},
		"check":                   {act.Step{Do: act.DoCheck, Ref: s.ref(l, `check "News"`)}, act.Facts{Kind: act.KindType, Field: "text", Shown: `check "News"`}},
		"drag":                    {act.Step{Do: act.DoDrag, Ref: pad, To: two}, act.Facts{Kind: act.KindPress, Shown: `item "Pad" to button "Two"`}},
	} {
		c.want.On = s.url("site", "/")
		if p, err := s.seat.Prepare(s.ctx(), "", c.step); err != nil || p.Facts != c.want {
			t.Errorf("%s: got %+v, %v; want %+v", name, p, err, c.want)
		}
	}
	for _, to := range []int{pad, two} {
		if _, err := s.do(act.Step{Do: act.DoDrag, Ref: to, To: to}); act.ReasonOf(err) != act.ReasonArgument {
			t.Errorf("a drag that is a click: %v", err)
		}
	}
	for _, text := range []string{"a\n", "\n", "a\rb"} {
		if _, err := s.do(act.Step{Do: act.DoFill, Ref: s.ref(l, `text "Q"`), Text: text}); act.ReasonOf(err) != act.ReasonArgument {
			t.Errorf("%q was typed into a field of one line: %v", text, err)
		}
	}
	// The character of a key is not its name: Enter sends the form, and the letter a does not.
	for _, text := range []string{"\r", "\n", "Shift+\r", "\t", "\b", "\x1b", "\x7f"} {
		if _, err := s.do(act.Step{Do: act.DoPress, Ref: s.ref(l, `text "Q"`), Text: text}); act.ReasonOf(err) != act.ReasonArgument {
			t.Errorf("%q was pressed in a field: %v", text, err)
		}
	}
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `text "Message"`), Text: "a\nb"})
	if got := s.eval("document.querySelector('textarea').value"); got != `"a\nb"` {
		t.Errorf("the text of several lines is %s", got)
	}
	if got := s.eval("document.title") + s.eval("document.URL"); got != `"none"`+`"`+s.url("site", "/")+`"` {
		t.Errorf("the page is %s", got)
	}
	if s.heard("POST") != 0 {
		t.Errorf("the server heard %v", s.hits)
	}
}
