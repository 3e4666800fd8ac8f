package act_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"belljar.dev/browser/act"
	"belljar.dev/internal/golden"
)

// TestEveryRefusal checks that each refusal says what was wrong, whether anything was done,
// and one thing to do (BR40).
func TestEveryRefusal(t *testing.T) {
	s := open(t, func(o *act.Options) {
		o.Secrets = []act.Secret{{Name: "pw", Origin: "https://shop.example", Field: "password"}}
		o.Uploads = 0
	})
	s.page("/", `<!doctype html><title>r</title><button id=a>First</button><button disabled>Off</button><div style="position:relative;width:200px;height:40px"><button>Under</button><div role=dialog style="position:absolute;inset:0;background:#eee">Cookies</div></div>
<input aria-label=Q><label><input type=checkbox>Box</label><select aria-label=List><option>x<option disabled>y</select><input type=file aria-label=File><input type=password aria-label=P><button onclick="confirm('Sure?')">Ask</button><div id=gone><button>Gone</button> <button>Named</button></div>
<div id=d style="width:90px;height:20px" onclick="0">Pad</div><div style="height:3000px"></div><script>addEventListener("keydown", (e) => { if (e.key === "F2") gone.innerHTML = ""; if (e.key === "F4") a.textContent = "Second"; if (e.key === "F7") location = "/else" })</script>`)
	s.page("/else", `<p>else`)
	var out strings.Builder
	seen := 0
	form := regexp.MustCompile(`^.+; (nothing was done|the step may have taken effect); .+$`)
	note := func(name string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: nothing was refused", name)
			return
		}
		seen++
		text := strings.ReplaceAll(err.Error(), fmt.Sprint(s.port), "PORT")
		if !form.MatchString(text) {
			t.Errorf("%s: %s", name, text)
		}
		fmt.Fprintf(&out, "%s\n  %s: %s\n", name, act.ReasonOf(err), text)
	}
	no := func(name string, step act.Step) {
		t.Helper()
		_, err := s.do(step)
		note(name, err)
	}
	for _, step := range []act.Step{
		{Do: "clik"},
		{Do: act.DoOpen},
		{Do: act.DoOpen, URL: "javascript:1"},
		{Do: act.DoOpen, URL: "http:///x"},
		{Do: act.DoOpen, URL: "http://a:b@x.example/"},
		{Do: act.DoOpen, URL: "http://x.example/ y"},
		{Do: act.DoOpen, URL: "http://x.example/" + strings.Repeat("x", act.MaxURL)},
		{Do: act.DoBack, Ref: 1},
		{Do: act.DoClick},
		{Do: act.DoClick, Ref: 1, XY: &act.Point{}},
		{Do: act.DoClick, Ref: -1},
		{Do: act.DoClick, Ref: 1, Button: "side"},
		{Do: act.DoClick, XY: &act.Point{X: 5000}},
		{Do: act.DoFill, Text: "x"},
		{Do: act.DoFill, Ref: 1, Text: "x", Secret: "pw"},
		{Do: act.DoFill, Ref: 1, Text: strings.Repeat("x", act.MaxText+1)},
		{Do: act.DoFill, Ref: 1, Text: "a\x00"},
		{Do: act.DoPress, Text: "Hyper+x"},
		{Do: act.DoScroll, Text: "left"},
		{Do: act.DoDrag, Ref: 1},
		{Do: act.DoWait, MS: 1 << 20},
		{Do: act.DoSave},
		{Do: act.DoDialog},
	} {
		no(fmt.Sprintf("%s %+.60q", step.Do, fmt.Sprint(step.Ref, step.URL, step.Text, step.Button)), step)
	}
	no("click before anything was shown", act.Step{Do: act.DoClick, Ref: 1})
	no("back without a page before", act.Step{Do: act.DoBack})
	l := s.goTo(s.url("site", "/"))
	ref := func(what string) int { return s.ref(l, what) }
	first := ref(`button "First"`)
	no("a number of nothing", act.Step{Do: act.DoClick, Ref: 9999})
	no("a disabled control", act.Step{Do: act.DoClick, Ref: ref(`button "Off"`)})
	no("a covered control", act.Step{Do: act.DoClick, Ref: ref(`button "Under"`)})
	no("click of a list", act.Step{Do: act.DoClick, Ref: ref("select")})
	no("an option that is not there", act.Step{Do: act.DoSelect, Ref: ref("select"), Text: "z"})
	no("an option that is off", act.Step{Do: act.DoSelect, Ref: ref("select"), Text: "y"})
	no("select of a button", act.Step{Do: act.DoSelect, Ref: first, Text: "x"})
	no("check of a button", act.Step{Do: act.DoCheck, Ref: first})
	no("fill of a button", act.Step{Do: act.DoFill, Ref: first, Text: "x"})
	no("lines in a field of one", act.Step{Do: act.DoFill, Ref: ref(`text "Q"`), Text: "a\nb"})
	no("upload into a field of text", act.Step{Do: act.DoUpload, Ref: ref(`text "Q"`), Path: "/workspace/x"})
	no("upload where there is none", act.Step{Do: act.DoUpload, Ref: ref(`file "File"`), Path: "/workspace/x"})
	no("a drag that is a click", act.Step{Do: act.DoDrag, Ref: first, To: first})
	no("a secret that is not there", act.Step{Do: act.DoFill, Ref: ref("password"), Secret: "other"})
	no("a secret at another origin", act.Step{Do: act.DoFill, Ref: ref("password"), Secret: "pw"})
	no("a point without a picture", act.Step{Do: act.DoClick, XY: &act.Point{X: 5, Y: 5}})
	no("a dialog that is not there", act.Step{Do: act.DoDialog, Accept: new(true)})
	no("a download that is not there", act.Step{Do: act.DoSave, Download: "d1", Path: "/workspace/x"})
	no("a tab that is not there", act.Step{Do: act.DoSwitch, Text: "t9"})
	no("a text that does not come", act.Step{Do: act.DoWait, Text: "no such words", MS: 20})
	no("an expression that fails", act.Step{Do: act.DoEval, Text: "nothing.here"})
	no("an expression that changes", act.Step{Do: act.DoEval, Text: "document.title = 'x'"})
	no("a long value", act.Step{Do: act.DoEval, Text: "'x'.repeat(9999)"})
	no("a refused document", act.Step{Do: act.DoOpen, URL: s.url("evil", "/refused")})
	no("a host that is not there", act.Step{Do: act.DoOpen, URL: "https://nowhere.example/"})
	l = s.goTo(s.url("site", "/?2"))
	first = ref(`button "First"`)
	gone := ref(`button "Gone"`)
	if _, err := s.seat.Look(s.ctx(), act.LookRequest{At: act.AtPicture}); err != nil {
		t.Fatal(err)
	}
	s.must(act.Step{Do: act.DoScroll, Text: "down"})
	no("a point of an older picture", act.Step{Do: act.DoClick, XY: &act.Point{X: 5, Y: 5}})
	s.must(act.Step{Do: act.DoPress, Text: "F2"})
	no("a control that is gone", act.Step{Do: act.DoClick, Ref: gone})
	s.must(act.Step{Do: act.DoPress, Text: "F4"})
	no("a control with another name", act.Step{Do: act.DoClick, Ref: first})
	p, err := s.seat.Prepare(s.ctx(), "", act.Step{Do: act.DoClick, Ref: ref(`button "Ask"`)})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.seat.Do(s.ctx(), p, act.Step{Do: act.DoClick, Ref: first})
	note("a step that was not prepared", err)
	if _, err = s.seat.Do(s.ctx(), p, act.Step{Do: act.DoClick, Ref: ref(`button "Ask"`)}); err != nil {
		t.Fatal(err)
	}
	no("a step while a dialog waits", act.Step{Do: act.DoClick, Ref: first})
	s.must(act.Step{Do: act.DoDialog, Accept: new(false)})
	_, err = s.seat.Do(s.ctx(), p, act.Step{Do: act.DoClick, Ref: ref(`button "Ask"`)})
	note("a step that was done", err)
	s.must(act.Step{Do: act.DoPress, Text: "F7"})
	s.until(act.LookRequest{}, "else")
	no("a control of a page that was left", act.Step{Do: act.DoClick, Ref: first})
	_, err = s.seat.Look(s.ctx(), act.LookRequest{MaxChars: 3})
	note("a look of three characters", err)
	_, err = s.seat.Look(s.ctx(), act.LookRequest{At: "sound"})
	note("a look at a sound", err)
	_, err = s.seat.Look(s.ctx(), act.LookRequest{Offset: 5, Tab: "t9"})
	note("a look at another tab", err)
	other := s.another()
	ctx, cancel := context.WithCancel(s.ctx())
	cancel()
	_, err = s.seats.Open(ctx, s.grant("t"), act.Options{})
	note("a seat too many", err)
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	_, err = other.Look(s.ctx(), act.LookRequest{})
	note("a look after the end", err)
	if seen < 50 {
		t.Errorf("only %d refusals", seen)
	}
	lines := slices.DeleteFunc(strings.Split(out.String(), "\n"), func(l string) bool { return l == "" })
	golden.Equal(t, "refusals.golden", strings.Join(lines, "\n")+"\n")
}
