package act_test

import (
	"fmt"
	"strings"
	"testing"

	"belljar.dev/browser/act"
)

// TestPlaces: controls in shadows and frames are seen, and can be clicked, filled and given a
// file (BR8).
func TestPlaces(t *testing.T) {
	s := open(t)
	controls := func(where string) string {
		return fmt.Sprintf(`<button onclick="top.postMessage('clicked %[1]s', '*')">B %[1]s</button><label>F %[1]s <input oninput="top.postMessage('filled %[1]s '+this.value, '*')"></label><label>U %[1]s <input type=file onchange="top.postMessage('given %[1]s '+this.files[0].name, '*')"></label>`, where)
	}
	s.page("/same", controls("same"))
	s.page("/other", controls("other")+`<iframe width=700 height=250 src="http://third.example:PORT/deep"></iframe>`)
	s.page("/deep", controls("deep")+`<iframe width=600 height=150 src="http://other.example:PORT/deeper"></iframe>`)
	s.page("/deeper", `<div style="height:20px"></div>`+controls("deeper"))
	s.page("/", `<!doctype html><title>Places</title><script>
const got = []; addEventListener("message", (e) => { got.push(e.data); document.title = e.data });
</script><div id=open></div><div id=closed style="height:40px"></div>
<iframe width=400 height=60 src="/same"></iframe>
<iframe width=400 height=60 srcdoc="`+strings.ReplaceAll(controls("srcdoc"), `"`, "&quot;")+`"></iframe>
<iframe width=800 height=350 src="http://other.example:PORT/other"></iframe>
<script>
document.getElementById("open").attachShadow({mode: "open"}).innerHTML = `+"`"+controls("open")+"`"+`;
document.getElementById("closed").attachShadow({mode: "closed"}).innerHTML = `+"`"+controls("closed")+"`"+`;
</script>`)
	l := s.goFor(s.url("site", "/"), `button "B deeper"`) // this control is in the frame that loads last
	for _, where := range []string{"open", "closed", "same", "srcdoc", "other", "deep", "deeper"} {
		if !strings.Contains(l, `button "B `+where+`"`) {
			t.Errorf("the look lacks %s:\n%s", where, l)
			continue
		}
		if _, err := s.do(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "B `+where+`"`)}); err != nil {
			t.Errorf("click in %s: %v (%v)", where, err, cause(err))
		} else if got := s.eval("document.title"); got != `"clicked `+where+`"` {
			t.Errorf("click in %s made %s", where, got)
		}
		if _, err := s.do(act.Step{Do: act.DoFill, Ref: s.ref(l, `text "F `+where+`"`), Text: "xy"}); err != nil {
			t.Errorf("fill in %s: %v (%v)", where, err, cause(err))
		} else if got := s.eval("document.title"); got != `"filled `+where+` xy"` {
			t.Errorf("fill in %s made %s", where, got)
		}
		if err := s.upload(s.ref(l, `file "U `+where+`"`)); err != nil {
			t.Errorf("upload in %s: %v (%v)", where, err, cause(err))
		} else if got := s.eval("document.title"); got != `"given `+where+` a.txt"` {
			t.Errorf("upload in %s made %s", where, got)
		}
	}
}

// TestControlsUnderTheMouse checks that a control that looks different under the mouse is
// clicked once it is shown again, at its new place. A control that always moves away is not
// clicked (BR-A5).
func TestControlsUnderTheMouse(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><style>button { position: absolute; left: 20px; width: 60px; height: 30px }</style>
<button id=gone style="top:20px">Gone</button><button id=away style="top:80px">Away</button><button id=shy style="top:140px">Shy</button><script>
for (const b of document.querySelectorAll("button")) b.onclick = () => { document.title = "clicked " + b.id };
gone.onmouseenter = () => { gone.style.width = gone.style.padding = gone.style.border = "0"; setTimeout(() => { gone.style.width = "60px" }, 300) };
away.onmouseenter = () => { away.style.left = "300px" };
shy.onmousemove = () => { shy.style.left = (parseInt(shy.style.left || 20) + 100) + "px" };
</script>`)
	l := s.goTo(s.url("site", "/"))
	for _, name := range []string{"Gone", "Away"} {
		_, err := s.do(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "`+name+`"`)})
		if got, want := s.eval("document.title"), fmt.Sprintf(`"clicked %s"`, strings.ToLower(name)); err != nil || got != want {
			t.Errorf("click of %s: %v; the title is %s, want %s", name, err, got, want)
		}
	}
	l = s.goTo(s.url("site", "/?anew"))
	_, err := s.do(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Shy"`)})
	if got := s.eval("[document.title, navigator.userActivation.hasBeenActive]"); act.ReasonOf(err) != act.ReasonNotReady || got != `["none",false]` {
		t.Errorf("click of Shy: %v; the title and whether anything was pressed are %s", err, got)
	}
}
