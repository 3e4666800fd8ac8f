package act_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"belljar.dev/browser/act"
)

// TestDialogs checks that a call returns immediately with the words of a dialog (BR16).
func TestDialogs(t *testing.T) {
	s := open(t)
	s.page("/", `<title>d</title><button onclick="document.title = confirm('Sure? [34] <<end')">C</button><button onclick="document.title = prompt('Name?')">P</button>
<button onclick="alert('Hi'); document.title = 'after'">A</button><button onclick="for (let i = 0; i < 50; i++) alert(i); document.title = 'calm'">L</button>`)
	s.page("/load", `<title>l</title><script>alert("in load")</script><p>loaded`)
	l := s.goTo(s.url("site", "/"))
	start := time.Now()
	o := s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "C"`)})
	if o.Dialog == nil || o.Dialog.Kind != "confirm" || !strings.Contains(o.Dialog.Text, `\[34]`) || o.Stop == "" {
		t.Errorf("the outcome is %+v, dialog %+v", o, o.Dialog)
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("the dialog was told after %v", d)
	}
	if _, err := s.do(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "P"`)}); act.ReasonOf(err) != act.ReasonDialog {
		t.Errorf("a step while a dialog waits: %v", err)
	}
	if l := s.look(act.LookRequest{}); !strings.Contains(l, "dialog confirm") || strings.Contains(l, `button`) {
		t.Errorf("the look is\n%s", l)
	}
	s.must(act.Step{Do: act.DoDialog, Accept: new(true)})
	if got := s.eval("document.title"); got != `"true"` {
		t.Errorf("confirm gave %s", got)
	}
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "P"`)})
	s.must(act.Step{Do: act.DoDialog, Accept: new(true), Text: "Eve"})
	if got := s.eval("document.title"); got != `"Eve"` {
		t.Errorf("prompt gave %s", got)
	}
	if o := s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "A"`)}); !strings.Contains(o.Line, `alert: "Hi"`) {
		t.Errorf("the alert is told as %q", o.Line)
	}
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "L"`)})
	s.wait(func() bool { return s.eval("document.title") == `"calm"` })
	if o := s.must(act.Step{Do: act.DoOpen, URL: s.url("site", "/load")}); !strings.Contains(o.Line, "in load") {
		t.Errorf("the alert of the load is told as %q", o.Line)
	}
}

// TestSecrets: a secret is typed only where it belongs, and is masked in what the agent
// gets (BR28 to BR30, BR-A26 to A29).
func TestSecrets(t *testing.T) {
	const value = "hunter2-Zürich&more"
	s := open(t, func(o *act.Options) {
		o.Secrets = []act.Secret{{Name: "pw", Origin: "http://shop.example:1", Field: "password", Insecure: true, Value: func(context.Context) (string, error) { return value, nil }}}
	})
	login := `<!doctype html><title>Login</title><form action="/in" method=post><label>Password <input type=password id=p name=pw></label><label>Note <input id=q></label><button>In</button></form><p id=o style="font-size:30px"></p><script>
p.addEventListener("input", () => { const v = p.value; o.textContent = v + " " + btoa(unescape(encodeURIComponent(v))) + " " + [...v].reverse().join("") + " " + encodeURIComponent(v); document.title = v; console.log("typed", v); const a = document.createElement("a"); a.href = "/x?" + encodeURIComponent(v); a.textContent = "link " + v; a.setAttribute("aria-label", v); document.body.append(a);
for (const c of v) { const b = document.createElement("b"); b.textContent = c; document.body.append(b) } history.replaceState(null, "", "/login?v=" + encodeURIComponent(v)) });
</script>`
	s.page("/login", login)
	s.page("/turns", strings.Replace(login, "<script>", `<script>p.addEventListener("focus", () => { p.type = "text" });`, 1))
	s.page("/frame", `<iframe width=800 height=400 src="http://shop.example:PORT/login"></iframe>`)
	s.page("/moves", strings.Replace(login, "<script>", `<iframe></iframe><script>p.addEventListener("focus", () => { const d = document.querySelector("iframe").contentDocument; d.body.append(p); p.focus() });`, 1))
	s.page("/sandbox", `<iframe sandbox="allow-scripts" width=800 height=400 src="/login"></iframe>`)
	s.page("/blob", `<script>fetch("/login").then((r) => r.text()).then((t) => { const f = document.createElement("iframe"); f.width = 800; f.height = 400; f.src = URL.createObjectURL(new Blob([t], {type: "text/html"})); document.body.append(f) })</script>`)
	s.page("/written", `<iframe width=800 height=400 srcdoc="<label>Password <input type=password></label>"></iframe>`)
	s.mux.HandleFunc("/csp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "sandbox allow-scripts")
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, login)
	})
	origin := fmt.Sprintf("http://shop.example:%d", s.port)
	again := func(change func(*act.Secret)) {
		_ = s.seat.Close()
		s.seat = s.another(func(o *act.Options) {
			x := act.Secret{Name: "pw", Origin: origin, Field: "password", Insecure: true, Value: func(context.Context) (string, error) { return value, nil }}
			change(&x)
			o.Secrets = []act.Secret{x}
		})
	}
	for name, c := range map[string]struct {
		url    string
		field  string
		change func(*act.Secret)
		want   act.Reason
	}{
		"other origin":          {s.url("evil", "/login"), `password "Password"`, func(*act.Secret) {}, act.ReasonSecret},
		"other port":            {s.url("shop", "/login"), `password "Password"`, func(x *act.Secret) { x.Origin = "http://shop.example" }, act.ReasonSecret},
		"without TLS":           {s.url("shop", "/login"), `password "Password"`, func(x *act.Secret) { x.Insecure = false }, act.ReasonSecret},
		"other field":           {s.url("shop", "/login"), `text "Note"`, func(*act.Secret) {}, act.ReasonSecret},
		"frame of another page": {s.url("evil", "/frame"), `password "Password"`, func(*act.Secret) {}, act.ReasonSecret},
		"sandboxed frame":       {s.url("shop", "/sandbox"), `password "Password"`, func(*act.Secret) {}, act.ReasonSecret},
		"sandboxed by a header": {s.url("shop", "/csp"), `password "Password"`, func(*act.Secret) {}, act.ReasonSecret},
		"blob":                  {s.url("shop", "/blob"), `password "Password"`, func(*act.Secret) {}, act.ReasonSecret},
		"srcdoc":                {s.url("shop", "/written"), `password "Password"`, func(*act.Secret) {}, act.ReasonSecret},
		"other frame on focus":  {s.url("shop", "/moves"), `password "Password"`, func(*act.Secret) {}, ""},
		"other field on focus":  {s.url("shop", "/turns"), `password "Password"`, func(*act.Secret) {}, ""},
		"no such a secret":      {s.url("shop", "/login"), `password "Password"`, func(x *act.Secret) { x.Name = "another" }, act.ReasonSecret},
	} {
		again(c.change)
		l := s.goFor(c.url, c.field)
		if _, err := s.do(act.Step{Do: act.DoFill, Ref: s.ref(l, c.field), Secret: "pw"}); err == nil || c.want != "" && act.ReasonOf(err) != c.want {
			t.Errorf("%s: it was typed, or failed by %v", name, err)
		}
		if l := s.look(act.LookRequest{}); strings.Contains(l, "filled") || strings.Contains(l, "(secret") {
			t.Errorf("%s: something was typed:\n%s", name, l)
		}
	}
	again(func(*act.Secret) {})
	l := s.goTo(s.url("shop", "/login"))
	if here := s.seat.SecretsHere(""); len(here) != 1 || here[0] != "pw" {
		t.Errorf("the secrets here are %v", here)
	}
	o := s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `password "Password"`), Secret: "pw"})
	all := []string{fmt.Sprintf("%+v", o)}
	for _, q := range []act.LookRequest{{}, {At: act.AtConsole}, {At: act.AtNetwork}, {At: act.AtTabs}, {At: act.AtChanges}, {Scope: act.ScopeAll}, {Find: "link"}} {
		k, err := s.seat.Look(s.ctx(), q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k.Text+k.URL+k.Title)
	}
	if !strings.Contains(all[1], "(secret pw)") || !strings.Contains(all[1], `password "Password" filled`) {
		t.Errorf("the secret was not typed, or is not marked:\n%s", all[1])
	}
	for i, text := range all {
		for _, form := range []string{value, "hunter2", "2retnuh", "aHVudGVyM", "hunter2-Z%C3"} {
			if strings.Contains(text, form) {
				t.Errorf("answer %d has %s:\n%s", i, form, text)
			}
		}
	}
	if _, err := s.do(act.Step{Do: act.DoEval, Text: "document.title"}); act.ReasonOf(err) != act.ReasonSecret {
		t.Errorf("eval after a secret: %v", err)
	}
	if _, err := s.do(act.Step{Do: act.DoPDF, Path: "x.pdf"}); act.ReasonOf(err) != act.ReasonSecret {
		t.Errorf("pdf after a secret: %v", err)
	}
}

// TestPicturesHaveNoSecret: where a secret is drawn as text, its place is painted over
// (BR29).
func TestPicturesHaveNoSecret(t *testing.T) {
	const value = "MMMMMMMMMM"
	s := open(t)
	_ = s.seat.Close()
	s.seat = s.another(func(o *act.Options) {
		o.Secrets = []act.Secret{{Name: "pw", Origin: fmt.Sprintf("http://shop.example:%d", s.port), Field: "password", Insecure: true, Value: func(context.Context) (string, error) { return value, nil }}}
	})
	s.page("/echo", `<!doctype html><input type=password id=p><div id=o style="font:bold 40px monospace;color:#f00"></div><script>
p.addEventListener("input", () => { const v = p.value; o.textContent = v; const i = document.createElement("input"); i.value = v; i.style = "font:bold 40px monospace;color:#f00;display:block;width:600px"; document.body.append(i);
const d = document.createElement("div"); d.style = o.style.cssText; for (const c of v) { const b = document.createElement("i"); b.textContent = c; d.append(b) } document.body.append(d);
const f = document.createElement("iframe"); f.width = 700; f.srcdoc = "<body style='font:bold 40px monospace;color:#f00'>" + v; document.body.append(f);
const h = document.createElement("div"); h.style = o.style.cssText; h.attachShadow({mode: "open"}).textContent = v; document.body.append(h);
const w = document.createElement("div"); w.style = o.style.cssText; w.textContent = " ".repeat(4100) + v; document.body.prepend(w) });
</script>`)
	red := func() (n int) {
		k, err := s.seat.Look(s.ctx(), act.LookRequest{At: act.AtPicture})
		if err != nil {
			t.Fatal(err, cause(err))
		}
		img, err := jpeg.Decode(bytes.NewReader(k.Picture))
		if err != nil {
			t.Fatal(err)
		}
		for y := range k.Height {
			for x := range k.Width {
				if r, g, b, _ := img.At(x, y).RGBA(); r > 0xa000 && g < 0x5000 && b < 0x5000 {
					n++
				}
			}
		}
		return n
	}
	// In the second page, the secret comes after thousands of other texts, and at the end of
	// long ones.
	s.page("/long", `<!doctype html><input type=password id=p><p id=many style="font-size:2px"></p><div id=o style="position:absolute;top:40px;font:bold 40px monospace;color:#f00"></div><script>
many.innerHTML = "<b>a </b>".repeat(8000);
const a = document.createElement("textarea"); a.rows = 2; a.style = o.style.cssText + ";top:100px"; document.body.append(a);
p.addEventListener("input", () => { o.textContent = " ".repeat(8000) + p.value; a.value = "\n".repeat(8000) + p.value; a.scrollTop = 1e6; });
</script>`)
	for _, path := range []string{"/echo", "/long"} {
		l := s.goTo(s.url("shop", path))
		s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `password`), Text: value})
		if n := red(); n < 1000 {
			t.Fatalf("what was filled in shows %d red pixels in %s, so this test sees nothing", n, path)
		}
	}
	for _, path := range []string{"/echo", "/long"} {
		l := s.goTo(s.url("shop", path))
		s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `password`), Secret: "pw"})
		if n := red(); n > 0 {
			t.Errorf("the secret shows %d red pixels in %s", n, path)
		}
	}
	// If a page has more text or frames than are searched, no picture of it is taken.
	s.page("/more", `<!doctype html><p id=many style="font-size:2px"></p><script>many.innerHTML = "<b>a </b>".repeat(60000)</script>`)
	s.page("/frames", `<!doctype html><p id=many></p><script>many.innerHTML = "<iframe width=10 height=10></iframe>".repeat(80)</script>`)
	for _, path := range []string{"/more", "/frames"} {
		if l := s.goTo(s.url("shop", path)); path == "/frames" && !strings.Contains(l, "limit reached: frames") {
			t.Errorf("a look at a page of 80 frames does not say that it lacks some:\n%.300s", l)
		}
		if k, err := s.seat.Look(s.ctx(), act.LookRequest{At: act.AtPicture}); act.ReasonOf(err) != act.ReasonLimit {
			t.Errorf("a picture of %s, which was not searched as a whole: %v, %v", path, k, err)
		}
	}
}

// TestCutSecrets: where a text of a page is cut, the beginning of a secret does not remain
// (BR29).
func TestCutSecrets(t *testing.T) {
	const value = "hunter2-and-more-of-it-than-fits"
	s := open(t)
	_ = s.seat.Close()
	s.seat = s.another(func(o *act.Options) {
		o.Secrets = []act.Secret{{Name: "pw", Origin: fmt.Sprintf("http://shop.example:%d", s.port), Field: "password", Insecure: true, Value: func(context.Context) (string, error) { return value, nil }}}
	})
	s.page("/echo", `<!doctype html><title>none</title><label>Password <input type=password id=p></label><div id=o></div><script>
const add = (html) => o.insertAdjacentHTML("beforeend", html);
p.addEventListener("input", () => { const v = p.value, x = (n) => "x".repeat(n);
add("<select><option>" + x(55) + v + "<option>b</select> <select multiple><option selected>" + x(75) + v + "</select>");
add("<ul><li>" + x(70) + v + " <button id=b>" + x(72) + v + "</button></li><li>Row <button>Other</button></li></ul>");
add("<div style='position:relative;width:200px;height:40px'><button>Under</button><div role=dialog style='position:absolute;inset:0;background:#eee'>" + x(75) + v + "</div></div>");
add("<canvas title='" + x(70) + v + "'></canvas><p>" + x(19990) + v + "</p>");
add("<a href=/x>" + v.repeat(14) + "</a>");
console.log(x(490) + v); console.log(v.repeat(130));
fetch("/" + x(260) + encodeURIComponent(v)).catch(() => {}); document.title = v.repeat(40); });
addEventListener("keydown", (e) => { if (e.key === "F2") b.outerHTML = b.outerHTML });
</script>`)
	l := s.goTo(s.url("shop", "/echo"))
	s.must(act.Step{Do: act.DoFill, Ref: s.ref(l, `password "Password"`), Secret: "pw"})
	l = s.look(act.LookRequest{Scope: act.ScopeAll})
	all := []string{l}
	for _, q := range []act.LookRequest{{At: act.AtConsole}, {At: act.AtNetwork}, {At: act.AtTabs}, {Scope: act.ScopeAll, MaxChars: act.MaxChars}} {
		k, err := s.seat.Look(s.ctx(), q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, k.Text+k.URL+k.Title)
	}
	_, err := s.do(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Under"`)})
	all = append(all, fmt.Sprint(err))
	ref := s.ref(l, `button "xxx`)
	s.must(act.Step{Do: act.DoPress, Text: "F2"})
	_, err = s.do(act.Step{Do: act.DoClick, Ref: ref})
	if act.ReasonOf(err) != act.ReasonStale {
		t.Errorf("a button that was replaced: %v", err)
	}
	all = append(all, fmt.Sprint(err))
	for i, text := range all {
		if strings.Contains(text, "hunt") || strings.Contains(text, "\uffff") {
			t.Errorf("answer %d has the beginning of the secret, or a mark:\n%s", i, text)
		}
	}
}

// TestCanvasInARow: a canvas can be clicked by its number, also in a row and with a long
// name.
func TestCanvasInARow(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><ul><li>First <canvas title="`+strings.Repeat("n", 100)+`"></canvas></li><li>Second</li></ul><script>addEventListener("click", () => { document.title = "hit" })</script>`)
	l := s.goTo(s.url("site", "/"))
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `canvas "nnn`)})
	if got := s.eval("document.title"); got != `"hit"` {
		t.Errorf("the title is %s", got)
	}
}

// TestDownloads checks that a downloaded file waits to be saved, has a cleaned name and a
// bounded size, and is read once (BR31, BR-A20).
func TestDownloads(t *testing.T) {
	s := open(t)
	file := func(name, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
			_, _ = io.WriteString(w, text)
		}
	}
	s.mux.HandleFunc("/report", file("../../evil\u202egpj.csv", "a,b\n1,2\n"))
	s.mux.HandleFunc("/endless", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="big"`)
		block := make([]byte, 64<<10)
		for q.Context().Err() == nil {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	s.page("/", `<title>f</title><a href="/report">Report</a> <a href="/endless">Endless</a> <a href="/report" download>D</a>`)
	l := s.goTo(s.url("site", "/"))
	o := s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `link "Report"`)})
	if len(o.Downloads) != 1 || !strings.HasPrefix(o.Downloads[0], "d1 ") || strings.Contains(o.Downloads[0], "/evil") || strings.Contains(o.Downloads[0], "\u202e") {
		t.Errorf("the outcome is %+v", o)
	}
	s.until(act.LookRequest{At: act.AtDownloads}, "ready")
	p, err := s.seat.Prepare(s.ctx(), "", act.Step{Do: act.DoSave, Download: "d1", Path: "out.csv"})
	if err != nil {
		t.Fatal(err)
	}
	if p.Facts.Kind != act.KindSave || p.Facts.Path != "out.csv" || p.Facts.To != s.url("site", "/report") {
		t.Errorf("facts are %+v", p.Facts)
	}
	o, err = s.seat.Do(s.ctx(), p, act.Step{Do: act.DoSave, Download: "d1", Path: "out.csv"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(o.File.Content)
	if err != nil || string(text) != "a,b\n1,2\n" {
		t.Errorf("the file is %q, %v", text, err)
	}
	_ = o.File.Content.Close()
	if l := s.look(act.LookRequest{At: act.AtDownloads}); !strings.Contains(l, "nothing") {
		t.Errorf("after it was saved there is\n%s", l)
	}
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `link "Endless"`)})
	s.until(act.LookRequest{At: act.AtDownloads}, "cancelled")
	if _, err := s.do(act.Step{Do: act.DoSave, Download: "d2", Path: "x"}); act.ReasonOf(err) != act.ReasonLimit {
		t.Errorf("save of what was cancelled: %v", err)
	}
	if _, err := s.do(act.Step{Do: act.DoOpen, URL: s.url("site", "/report")}); err != nil {
		t.Errorf("open of a file: %v", err)
	}
	if l := s.look(act.LookRequest{}); !strings.Contains(l, "Endless") {
		t.Errorf("the session did not go on:\n%s", l)
	}
}

// TestDownloadsHaveNoRoom: a download stops at the bound even if its progress events are lost
// (BR31, BR-A20).
func TestDownloadsHaveNoRoom(t *testing.T) {
	s := open(t)
	s.mux.HandleFunc("/some", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", "attachment")
		_, _ = w.Write(make([]byte, maxDownloads-1<<20))
	})
	sent := make(chan int64, 1)
	s.mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", "attachment")
		all, block := int64(0), make([]byte, 64<<10)
		for all < 2<<30 {
			n, err := w.Write(block)
			if all += int64(n); err != nil {
				break
			}
		}
		select {
		case sent <- all:
		default: // Chrome has requested the file twice
		}
	})
	s.page("/", `<title>f</title><a href="/some">Some</a> <a href="/endless">Endless</a>`)
	l := s.goTo(s.url("site", "/"))
	s.seat.MissProgress()
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `link "Some"`)})
	s.wait(func() bool { return s.seat.Stored() == maxDownloads-1<<20 })
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `link "Endless"`)})
	select {
	case all := <-sent: // most of these bytes are in buffers between the server and Chrome
		if all > maxDownloads+20<<20 {
			t.Errorf("the server sent %d bytes of a file, and there is room for %d", all, 1<<20)
		}
	case <-s.ctx().Done():
		t.Error("the download goes on")
	}
	if n := s.seat.Stored(); n > maxDownloads+64*int64(os.Getpagesize()) {
		t.Errorf("%d bytes are stored", n)
	}
}

// TestDownloadsOfEveryKind checks that empty files and files of data: and blob: URLs wait
// to be saved like others. A file whose Content-Length is above the bound is cancelled
// immediately, and so is each file after MaxDownloads (BR31, BR-A20).
func TestDownloadsOfEveryKind(t *testing.T) {
	s := open(t)
	s.mux.HandleFunc("/empty", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Disposition", "attachment") })
	s.mux.HandleFunc("/large", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Disposition", "attachment")
		w.Header().Set("Content-Length", strconv.Itoa(maxDownloads+1))
		_, _ = w.Write(make([]byte, 64<<10))
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done() // the rest of the file is never sent
	})
	s.page("/", `<!doctype html><title>f</title><a href="/empty">Empty</a> <a href="/large">Large</a> <a download=d.txt href="data:text/plain,data">Data</a> <a download=b.txt id=b>Blob</a><script>b.href = URL.createObjectURL(new Blob(["blob"]))</script>`)
	l := s.goTo(s.url("site", "/"))
	click := func(name string) *act.Outcome {
		return s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, fmt.Sprintf("link %q", name))})
	}
	for _, c := range []struct{ name, text string }{{"Empty", ""}, {"Data", "data"}, {"Blob", "blob"}} {
		click(c.name)
		s.until(act.LookRequest{At: act.AtDownloads}, ": ready")
		d := regexp.MustCompile(`(?m)^d\d+`).FindString(s.look(act.LookRequest{At: act.AtDownloads}))
		o := s.must(act.Step{Do: act.DoSave, Download: d, Path: "/workspace/x"})
		if text, err := io.ReadAll(o.File.Content); err != nil || string(text) != c.text {
			t.Errorf("%s: the file is %q, %v", c.name, text, err)
		}
		_ = o.File.Content.Close()
	}
	click("Large")
	// The line ends here: it does not say that the file still takes room.
	s.until(act.LookRequest{At: act.AtDownloads}, "cancelled, since all files that wait to be saved may have 4.0 MiB together; save the others first\n")
	told := ""
	for range act.MaxDownloads + 1 {
		told += click("Empty").Line
	}
	s.until(act.LookRequest{At: act.AtDownloads}, fmt.Sprintf("1 more were cancelled, since at most %d may wait", act.MaxDownloads))
	// on a busy machine, the outcome of the last click may not report the file yet
	told += s.must(act.Step{Do: act.DoWait, MS: 1}).Line
	if n := strings.Count(s.look(act.LookRequest{At: act.AtDownloads}), ": ready"); n != act.MaxDownloads || !strings.Contains(told, fmt.Sprintf("a download was cancelled, since %d others wait to be saved", act.MaxDownloads)) {
		t.Errorf("%d files wait, and the steps said %q", n, told)
	}
}

// TestDownloadsThatBreakOff checks that the part of a download that broke off takes no room
// from later downloads, even if Chrome would keep the part in order to resume it (BR31).
func TestDownloadsThatBreakOff(t *testing.T) {
	s := open(t)
	s.mux.HandleFunc("/half", func(w http.ResponseWriter, _ *http.Request) {
		for k, v := range map[string]string{"Content-Disposition": "attachment", "ETag": `"1"`, "Last-Modified": "Mon, 02 Jan 2006 15:04:05 GMT", "Accept-Ranges": "bytes", "Content-Length": "3900000"} {
			w.Header().Set(k, v)
		}
		_, _ = w.Write(make([]byte, 3_000_000))
		panic(http.ErrAbortHandler)
	})
	s.mux.HandleFunc("/good", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", "attachment")
		_, _ = w.Write(make([]byte, 2_000_000))
	})
	s.page("/", `<title>f</title><a href="/half">Half</a> <a href="/good">Good</a>`)
	l := s.goTo(s.url("site", "/"))
	for n := range 3 {
		s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `link "Half"`)})
		s.wait(func() bool {
			files := s.look(act.LookRequest{At: act.AtDownloads})
			return strings.Count(files, "the server or the page ended it") == n+1 && !strings.Contains(files, "being removed")
		})
		if n := s.seat.Stored(); n != 0 {
			t.Fatalf("%d bytes of the files are left", n)
		}
	}
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `link "Good"`)})
	s.until(act.LookRequest{At: act.AtDownloads}, ": ready")
}

// TestUploads: a field gets the file's bytes and a name, and no path (BR32, BR33).
func TestUploads(t *testing.T) {
	s := open(t)
	s.page("/", `<title>u</title><label>File <input type=file id=f></label><script>f.onchange = async () => { const t = await f.files[0].text(); document.title = f.files[0].name + " " + t.length + " " + t.slice(0, 3) }</script>`)
	l := s.goTo(s.url("site", "/"))
	step := act.Step{Do: act.DoUpload, Ref: s.ref(l, `file "File"`), Path: "/workspace/a.txt"}
	p, err := s.seat.Prepare(s.ctx(), "", step)
	if err != nil {
		t.Fatal(err)
	}
	if p.Facts.Kind != act.KindUpload || p.Facts.Path != step.Path || p.Facts.Field != "file" {
		t.Errorf("facts are %+v", p.Facts)
	}
	text := strings.Repeat("abc", 300000)
	step.File = &act.File{Name: "/etc/a.txt", Size: int64(len(text)), Content: io.NopCloser(strings.NewReader(text))}
	if _, err := s.seat.Do(s.ctx(), p, step); err != nil {
		t.Fatal(err, cause(err))
	}
	s.wait(func() bool { return s.eval("document.title") == `"a.txt 900000 abc"` })
	if p, err = s.seat.Prepare(s.ctx(), "", step); err != nil {
		t.Fatal(err)
	}
	step.File = &act.File{Name: "b", Content: io.NopCloser(io.LimitReader(zeros{}, 1<<40))}
	if _, err := s.seat.Do(s.ctx(), p, step); act.ReasonOf(err) != act.ReasonLimit {
		t.Errorf("a file without end: %v", err)
	}
}

// TestLargeUploads checks that a file that is too large for scripts reaches the page
// unchanged, through a file in Chrome's box, and that such files are bounded (BR32, BR33).
func TestLargeUploads(t *testing.T) {
	const size = 12 << 20
	s := open(t, func(o *act.Options) { o.Uploads = size })
	s.page("/", `<title>u</title><label>File <input type=file id=f></label><script>f.onchange = async () => { const b = new Uint8Array(await f.files[0].arrayBuffer()); let sum = b.indexOf(1); for (let i = 0; i < b.length; i += 4096) sum = (sum * 31 + b[i]) | 0; document.title = f.files[0].name + " " + b.length + " " + sum + " " + f.value }</script>`)
	l := s.goTo(s.url("site", "/"))
	step := act.Step{Do: act.DoUpload, Ref: s.ref(l, `file "File"`), Path: "/workspace/a.txt"}
	give := func(n int64, then ...io.Reader) error {
		p, err := s.seat.Prepare(s.ctx(), "", step)
		if err != nil {
			t.Fatal(err)
		}
		given := step
		given.File = &act.File{Name: "/etc/../a b.bin", Size: n, Content: io.NopCloser(io.MultiReader(append([]io.Reader{io.LimitReader(zeros{}, n)}, then...)...))}
		_, err = s.seat.Do(s.ctx(), p, given)
		return err
	}
	if err := give(size); err != nil {
		t.Fatal(err, cause(err))
	}
	sum := int32(-1) // as in the page: indexOf(1) is -1 for a file of zeros, and each byte adds 0
	for range size / 4096 {
		sum *= 31
	}
	s.wait(func() bool {
		return s.eval("document.title") == fmt.Sprintf(`"a b.bin %d %d C:\\fakepath\\a b.bin"`, size, sum)
	})
	if err := give(size + 1); act.ReasonOf(err) != act.ReasonLimit {
		t.Errorf("a file of a byte too much: %v", err)
	}
	if err := give(size-1000, iotest.ErrReader(errors.New("the disk is broken"))); act.ReasonOf(err) != act.ReasonFailed || !strings.Contains(err.Error(), "the file cannot be read; ") {
		t.Errorf("a file whose end cannot be read: %v", err)
	}
	var err error
	for range 4 {
		err = give(size)
	}
	if act.ReasonOf(err) != act.ReasonLimit || !strings.Contains(err.Error(), "large files") {
		t.Errorf("files without end: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestPDF: a page is printed to a PDF, which comes in several parts.
func TestPDF(t *testing.T) {
	s := open(t)
	noise := image.NewGray(image.Rect(0, 0, 1200, 1200))
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise.Pix) // never fails
	s.mux.HandleFunc("/noise.png", func(w http.ResponseWriter, _ *http.Request) { _ = png.Encode(w, noise) })
	s.page("/", `<!doctype html><title>bill: one</title><p>hello</p><img src=/noise.png>`)
	s.goTo(s.url("site", "/"))
	s.wait(func() bool { return s.eval("document.images[0].complete") == "true" })
	f := s.must(act.Step{Do: act.DoPDF, Path: "/workspace/x.pdf"}).File
	if f == nil {
		t.Fatal("there is no file")
	}
	text, err := io.ReadAll(f.Content)
	if err != nil || int64(len(text)) != f.Size || len(text) < 256<<10 {
		t.Errorf("the PDF has %d bytes, and is said to have %d: %v", len(text), f.Size, err)
	}
	if !bytes.HasPrefix(text, []byte("%PDF-")) || !bytes.HasSuffix(bytes.TrimSpace(text), []byte("%%EOF")) || f.Type != "application/pdf" || f.Name != "bill_ one.pdf" {
		t.Errorf("it is %.20q, %s, %q", text, f.Type, f.Name)
	}
}

// TestEvalOnlyReads checks that an expression of the agent can only read (BR34).
func TestEvalOnlyReads(t *testing.T) {
	s := open(t)
	s.page("/", `<title>e</title><input type=password id=p value=top><script>document.cookie = "k=v"; localStorage.x = 1; var own = () => { document.title = "ran" }; Object.defineProperty(window, "trap", {get() { document.title = "ran"; return 1 }})</script>`)
	s.goTo(s.url("site", "/"))
	for _, ok := range []string{"document.title", "document.querySelectorAll('input').length", "({a: [1, 2]})", "document.body.innerHTML.length", "innerWidth"} {
		if _, err := s.do(act.Step{Do: act.DoEval, Text: ok}); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
	for _, bad := range []string{
		"document.title = 'ran'", "document.body.append('x')", "fetch('/hit')", "localStorage.x = 2", "location = '/hit'", "new Image().src = '/hit'", "navigator.sendBeacon('/hit')",
		"window.open('/hit')", "document.querySelector('input').click()", "document.cookie = 'a=b'", "history.pushState(0, '', '/hit')", "document.write('x')", "document.querySelector('input').value = 'x'",
		"new WebSocket('ws://site.example')", "new Worker('/hit')", "setTimeout(() => { document.title = 'ran' })", "document.forms", "import('/hit')", "postMessage(1, '*')", "document.body.remove()",
		"alert(1)", "document.execCommand('selectAll')", "new MutationObserver(() => 0).observe(document, {subtree: true, childList: true})", "document.body.setAttribute('a', 'b')", "indexedDB.open('x')",
		"1) ; (document.title = 'ran'", "while (true) ;", "(() => { while (true); })()", "'x'.repeat(100000)",
	} {
		o, err := s.do(act.Step{Do: act.DoEval, Text: bad})
		if err == nil && bad != "document.forms" {
			t.Errorf("%s: was evaluated to %s", bad, o.Value)
		}
	}
	for secret, want := range map[string]string{"document.cookie": `""`, "document.querySelector('input').value": `""`} {
		if got := s.eval(secret); got != want {
			t.Errorf("%s is %s", secret, got)
		}
	}
	if got := s.eval("document.title"); got != `"e"` || s.heard("/hit") != 0 {
		t.Errorf("the title is %s, the server heard %v", got, s.hits)
	}
}

// TestOtherWaysOfFiles checks that a field for a directory gets one file, and that an
// upload to a place where files are dropped is refused (BR-A25).
func TestOtherWaysOfFiles(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><label>Dir <input type=file webkitdirectory id=f></label><div id=d onclick="0" style="width:200px;height:30px">Drop here</div><script>
f.onchange = () => { document.title = f.files.length + " " + f.files[0].name + " " + f.files[0].webkitRelativePath };
for (const k of ["drop", "paste"]) addEventListener(k, (e) => { e.preventDefault(); document.title = k + " " + (e.dataTransfer ?? e.clipboardData).files.length });
</script>`)
	l := s.goTo(s.url("site", "/"))
	if err := s.upload(s.ref(l, `item "Drop here"`)); act.ReasonOf(err) != act.ReasonArgument {
		t.Errorf("a place to drop files: %v", err)
	}
	if err := s.upload(s.ref(l, `file "Dir"`)); err != nil {
		t.Errorf("a field for a directory: %v (%v)", err, cause(err))
	}
	if got := s.eval("document.title"); got != `"1 a.txt"` {
		t.Errorf("the page says %s", got)
	}
	s.must(act.Step{Do: act.DoPress, Text: "Control+v"})
	if got := s.eval("document.title"); got != `"1 a.txt"` && got != `"paste 0"` {
		t.Errorf("something was pasted: %s", got)
	}
}

// TestTallPages checks that a picture shows only the window, however tall the page is
// (BR37, BR-A48).
func TestTallPages(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>t</title><div style="width:50000px;height:50000px;background:linear-gradient(red,blue)"></div>`)
	s.must(act.Step{Do: act.DoOpen, URL: s.url("site", "/")})
	k, err := s.seat.Look(s.ctx(), act.LookRequest{At: act.AtPicture})
	if err != nil {
		t.Fatal(err, cause(err))
	}
	c, err := jpeg.DecodeConfig(bytes.NewReader(k.Picture))
	if err != nil || c.Width != k.Width || c.Height != k.Height || c.Width*c.Height > act.MaxPicture {
		t.Errorf("the picture is %+v, and was told to be %dx%d, %v", c, k.Width, k.Height, err)
	}
}
