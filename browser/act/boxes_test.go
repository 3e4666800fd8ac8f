package act_test

import (
	"testing"

	"belljar.dev/browser/act"
)

// A control inside the window that a scrolling element cuts off is scrolled into view and
// hit.
func TestControlsInBoxesThatScroll(t *testing.T) {
	s := open(t)
	s.page("/", `<title>Boxes</title><div style="height:100px;width:200px;overflow:auto"><div style="height:400px">top</div>
<div style="width:150px;height:60px;overflow-x:hidden;overflow-y:scroll"><p style="height:200px">in</p><button onclick="document.title='pressed'">Deep</button></div></div><p>below`)
	s.goTo(s.url("site", "/"))
	l := s.look(act.LookRequest{Scope: act.ScopeAll})
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Deep"`)})
	if got := s.eval("document.title"); got != `"pressed"` {
		t.Errorf("the title is %s", got)
	}
}

// Fields for dates and times get the value that the step writes. A value in another form is
// refused.
func TestDatesAreFilled(t *testing.T) {
	s := open(t)
	s.page("/", `<title>Dates</title><label>D <input type=date value=2001-02-03></label><label>T <input type=time></label><label>M <input type=month></label><label>A <input type=datetime-local></label>`)
	l := s.goTo(s.url("site", "/"))
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `date "D"`), Text: "2012-09-10"})
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `time "T"`), Text: "08:22"})
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `month "M"`), Text: "1999-12"})
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `datetime "A"`), Text: "2024-02-29T23:05"})
	const value = `Array.from(document.querySelectorAll("input"), (e) => e.value).join(" ")`
	if got := s.eval(value); got != `"2012-09-10 08:22 1999-12 2024-02-29T23:05"` {
		t.Errorf("the fields have %s", got)
	}
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `date "D"`), Text: ""})
	if got := s.eval(value); got != `" 08:22 1999-12 2024-02-29T23:05"` {
		t.Errorf("after one was emptied, the fields have %s", got)
	}
	if _, err := s.do(act.Step{Do: act.DoFill, Ref: s.ref(l, `date "D"`), Text: "10.9.2012"}); act.ReasonOf(err) != act.ReasonArgument {
		t.Errorf("got %v", err)
	}
}

// In a list of several options, the options that the step names are selected, and no
// others.
func TestSeveralOptions(t *testing.T) {
	s := open(t)
	s.page("/", `<title>List</title><select multiple aria-label=L size=4><option selected>A<option>B<option>C<option>D<option>E</select>`)
	l := s.goTo(s.url("site", "/"))
	for text, want := range map[string]string{"D\nB\nE": `"B D E"`, "C": `"C"`, "E\nA": `"A E"`} {
		s.must(act.Step{Do: act.DoSelect, Ref: s.ref(l, `select "L"`), Text: text})
		if got := s.eval(`Array.from(document.querySelector("select").selectedOptions, (o) => o.text).join(" ")`); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	if _, err := s.do(act.Step{Do: act.DoSelect, Ref: s.ref(l, `select "L"`), Text: "A\nX"}); act.ReasonOf(err) != act.ReasonUnknown {
		t.Errorf("an option that is not there: %v", err)
	}
}

// A drag between two points may begin and end in the same drawing. Within a link or a
// button, and by the number of an element, it would be a click under another name, so it is
// refused.
func TestADrawing(t *testing.T) {
	s := open(t)
	s.page("/", `<title>none</title><div id=d style="width:300px;height:200px;background:#eee" onmousedown="this.from = event.clientX" onmouseup="document.title = 'drawn ' + (event.clientX - this.from)">Canvas</div>
<a href="/away" draggable=false style="display:block;width:300px;height:100px;background:#ccc">Away</a>`)
	l := s.goTo(s.url("site", "/"))
	s.look(act.LookRequest{At: act.AtPicture})
	s.must(act.Step{Do: act.DoDrag, XY: &act.Point{X: 50, Y: 50}, ToXY: &act.Point{X: 150, Y: 100}})
	if got := s.eval("document.title"); got != `"drawn 100"` {
		t.Errorf("the title is %s", got)
	}
	n := s.ref(l, `item "Canvas"`)
	s.look(act.LookRequest{At: act.AtPicture})
	for what, step := range map[string]act.Step{
		"within a link": {Do: act.DoDrag, XY: &act.Point{X: 50, Y: 240}, ToXY: &act.Point{X: 150, Y: 260}},
		"by its number": {Do: act.DoDrag, Ref: n, To: n},
	} {
		if _, err := s.do(step); act.ReasonOf(err) != act.ReasonArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := s.heard("/away"); n != 0 {
		t.Errorf("the link was followed %d times", n)
	}
}

// A disabled field can be scrolled, as a person can do, but it cannot be filled.
func TestADisabledFieldScrolls(t *testing.T) {
	s := open(t)
	s.page("/", `<title>top</title><textarea aria-label=T disabled rows=3>1
2
3
4
5
6
7
8
9</textarea>`)
	l := s.goTo(s.url("site", "/"))
	s.must(act.Step{Do: act.DoScroll, Ref: s.ref(l, `text "T"`), Text: "end"})
	if got := s.eval(`(({scrollTop, clientHeight, scrollHeight}) => scrollTop + clientHeight >= scrollHeight - 2)(document.querySelector("textarea"))`); got != "true" {
		t.Errorf("at the end: %s", got)
	}
	if _, err := s.do(act.Step{Do: act.DoFill, Ref: s.ref(l, `text "T"`), Text: "x"}); err == nil {
		t.Error("it was filled")
	}
}
