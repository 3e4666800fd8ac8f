package act_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"belljar.dev/browser/act"
	"belljar.dev/internal/testenv"
)

// TestParking checks that a seat that is not used ends its Chrome, that the next call gets
// the addresses of its tabs, and that only steps load documents (BR19).
func TestParking(t *testing.T) {
	s := resting(t, 0, time.Second)
	s.page("/one", `<p>one</p>`)
	s.page("/two", `<p>two</p>`)
	rest := func() {
		t.Helper()
		s.wait(func() bool { return s.seats.List()[0].State == "parked" && len(descendants()) == 0 })
	}
	s.must(act.Step{Do: act.DoOpen, URL: s.url("site", "/one?q=1")})
	rest()
	s.forget()
	l := s.look(act.LookRequest{})
	if !strings.Contains(l, "was not used for a while") || !strings.Contains(l, s.url("site", "/one?q=1")) {
		t.Errorf("the look after it rested:\n%s", l)
	}
	rest()
	if _, err := s.do(act.Step{Do: act.DoPress, Text: "F2"}); act.ReasonOf(err) != act.ReasonStale || !strings.Contains(err.Error(), "open what you need again") {
		t.Errorf("a step after it rested: %v", err)
	}
	if s.judged("") != 0 || s.heard("/one") != 1 {
		t.Errorf("a document was loaded by no step: %v", s.hits)
	}
	p, err := s.seat.Prepare(s.ctx(), "", act.Step{Do: act.DoOpen, URL: s.url("site", "/one?q=1")})
	if err != nil || !p.Seen {
		t.Errorf("the address that was told counts as seen %+v, %v", p, err)
	}
	if l := s.goTo(s.url("site", "/two")); !strings.Contains(l, "two") {
		t.Errorf("the seat does not go on:\n%s", l)
	}
}

// TestIdleSeatsStandStill checks that all processes of a Chrome that nobody uses are
// stopped, whatever its page does, so they use no processor time. The next call, or a
// person who watches, lets them run again (BR19). A Chrome that loads a file is not
// stopped, and a Chrome that is stopped can be closed.
func TestIdleSeatsStandStill(t *testing.T) {
	s := resting(t, time.Second, 0)
	s.page("/", `<title>0</title><button onclick="p.textContent = 'clicked'">B</button><p id=p>none</p><a download href="/file">F</a><iframe src="http://other.example:PORT/busy"></iframe>
<script>setInterval(() => document.title++, 10)</script>`)
	s.page("/busy", `<script>setInterval(() => { for (const end = performance.now() + 5; performance.now() < end;); }, 10)</script>`)
	let := make(chan struct{})
	s.mux.HandleFunc("/file", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Disposition", "attachment")
		_, _ = w.Write(make([]byte, 64<<10))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-let:
		case <-q.Context().Done():
		}
	})
	// running returns the names of the processes of Chrome that are not stopped.
	running := func() (names []string) {
		for _, p := range testenv.Below(testenv.Processes(), os.Getpid()) {
			if strings.HasPrefix(p.Name, "chrom") && p.State != "T" && p.State != "Z" {
				names = append(names, p.Name+" "+p.State)
			}
		}
		return names
	}
	still := func() {
		t.Helper()
		s.wait(func() bool { return s.seats.List()[0].State == "frozen" && len(running()) == 0 })
	}
	l := s.goFor(s.url("site", "/"), "frame")
	still()
	at := s.eval("document.title")
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "B"`)})
	if got := s.eval("p.textContent"); got != `"clicked"` {
		t.Errorf("a click after it stood still made %s", got)
	}
	s.wait(func() bool {
		goesOn := s.eval("document.title") != at
		return goesOn && s.seats.List()[0].State == "live" && len(running()) > 0
	})
	still()
	if _, err := s.seat.Show(s.ctx()); err != nil {
		t.Errorf("a picture for a person: %v", err)
	}
	still()
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `link "F"`)})
	s.until(act.LookRequest{At: act.AtDownloads}, "on its way")
	later := s.another()
	if _, err := later.Look(s.ctx(), act.LookRequest{}); err != nil {
		t.Fatal(err)
	}
	s.wait(func() bool { return s.seats.List()[1].State == "frozen" })
	if got := s.seats.List()[0].State; got != "live" {
		t.Errorf("one that loads a file, when a seat that was used later stands still: it is %s", got)
	}
	if err := later.Close(); err != nil {
		t.Error(err)
	}
	close(let)
	still()
	if err := s.seat.Close(); err != nil || len(descendants()) > 0 {
		t.Errorf("the end of one that stands still: %v, %d processes are left", err, len(descendants()))
	}
}

// TestNothingIsLeft checks that no process is left of a closed seat, whatever state the
// seat was in (BR18).
func TestNothingIsLeft(t *testing.T) {
	s := newStage(t)
	const html = `<title>x</title><iframe src="http://other.example:PORT/in"></iframe><button onclick="confirm('stay?')">C</button><a href="/endless">File</a><script>addEventListener("beforeunload", (e) => { e.preventDefault() })</script>`
	s.page("/calm", html)
	s.page("/busy", html+`<script>new Worker(URL.createObjectURL(new Blob(["while (true);"]))); document.querySelector("iframe").onload = (e) => e.target.contentWindow.postMessage("busy", "*")</script>`)
	s.page("/in", `<script>onmessage = () => { while (true); }</script>`)
	s.mux.HandleFunc("/endless", func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Disposition", "attachment")
		for q.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1000)); err != nil {
				return
			}
		}
	})
	ends := []func(l string){
		func(string) {},
		func(l string) { s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "C"`)}) },
		func(l string) { s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `link "File"`)}) },
		func(string) { s.seat.Kill() },
		func(string) { s.seat.Crash() },
	}
	n, _ := testenv.Cases(t, len(ends))
	for i := range min(n, 200) {
		s.seat = s.another()
		page := "/calm"
		if i == 1 || n > len(ends) {
			page = "/busy"
		}
		l := s.goTo(s.url("site", page))
		if len(descendants()) == 0 {
			t.Fatal("a Chrome has no process")
		}
		ends[i%len(ends)](l)
		start := time.Now()
		if err := s.seat.Close(); err != nil {
			t.Error(err)
		}
		if left := descendants(); len(left) > 0 {
			t.Errorf("end %d: %d processes are left", i%len(ends), len(left))
		}
		t.Logf("end %d took %v", i%len(ends), time.Since(start))
	}
}

// TestPagesThatStay checks that a page that asks people to stay (beforeunload) can keep
// neither its tab nor its session open (BR-A15).
func TestPagesThatStay(t *testing.T) {
	t.Parallel() // the test waits most of the time
	s := open(t)
	s.page("/", `<title>stays</title><button>B</button><script>addEventListener("beforeunload", (e) => { e.preventDefault(); e.returnValue = "stay" }); addEventListener("unload", () => { while (true); })</script>`)
	s.page("/next", `<p>next</p>`)
	l := s.goTo(s.url("site", "/"))
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "B"`)}) // without a click, Chrome shows no beforeunload dialog
	o := s.must(act.Step{Do: act.DoOpen, URL: s.url("site", "/next")})
	if o.Dialog == nil || o.Dialog.Kind != "beforeunload" {
		t.Fatalf("the outcome is %+v", o)
	}
	s.must(act.Step{Do: act.DoDialog, Accept: new(false)})
	if l := s.look(act.LookRequest{}); !strings.Contains(l, `button "B"`) {
		t.Errorf("it did not stay:\n%s", l)
	}
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "B"`)})
	start := time.Now()
	s.must(act.Step{Do: act.DoClose})
	if d := time.Since(start); d > act.DialogTime/2 { // the time in which a dialog would wait for an answer
		t.Errorf("the page held its tab for %v", d)
	}
	if l := s.goTo(s.url("site", "/next")); !strings.Contains(l, "next") {
		t.Errorf("the session does not go on:\n%s", l)
	}
	l = s.goTo(s.url("site", "/"))
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "B"`)})
	if err := s.seat.Close(); err != nil {
		t.Error(err)
	}
}

// TestCrashes checks that a renderer that dies during a look, a PDF, an upload or a click
// is reported, that nothing is repeated, and that the other tabs still work (BR21, BR-A18).
func TestCrashes(t *testing.T) {
	s := open(t)
	s.page("/", `<title>first</title><button onclick="document.title='clicked'">B</button><button onclick="window.open('http://other.example:PORT/other')">Window</button>`)
	s.page("/other", `<title>other</title><label>File <input type=file></label><button onclick="fetch('/hit')">Hit</button>`)
	for name, step := range map[string]act.Step{"click": {Do: act.DoClick}, "pdf": {Do: act.DoPDF, Path: "/workspace/x.pdf"}, "upload": {Do: act.DoUpload, Path: "/workspace/x"}, "look": {}} {
		died := 0
		for !s.crashBefore(name, step) {
			if died++; died == 5 {
				t.Fatalf("%s: Chrome died with its page, %d times", name, died)
			}
		}
	}
	if s.heard("/hit") != 0 {
		t.Errorf("the server heard %v", s.hits)
	}
}

// crashBefore crashes a page before a step. It returns false if Chrome died with the page,
// or died when the page was closed: on a busy machine, Chrome 156 sometimes does so.
func (s *stage) crashBefore(name string, step act.Step) bool {
	s.t.Helper()
	l := s.goTo(s.url("site", "/"))
	first := s.ref(l, `button "B"`)
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Window"`)})
	window := s.window()
	s.must(act.Step{Do: act.DoSwitch, Text: window})
	s.until(act.LookRequest{}, "Hit")
	there := s.look(act.LookRequest{})
	var err error
	switch name {
	case "click":
		step.Ref = s.ref(there, `button "Hit"`)
	case "upload":
		step.Ref = s.ref(there, `file "File"`)
	}
	var p *act.Prepared
	if name != "look" {
		if p, err = s.seat.Prepare(s.ctx(), "", step); err != nil {
			s.t.Fatal(name, err)
		}
		step.File = nil
		if name == "upload" {
			step.File = &act.File{Name: "x", Content: nobody{strings.NewReader("text")}}
		}
	}
	s.seat.Crash()
	if name == "look" {
		_, err = s.seat.Look(s.ctx(), act.LookRequest{})
	} else {
		_, err = s.seat.Do(s.ctx(), p, step)
	}
	if err == nil {
		s.t.Errorf("%s: a page that has crashed did it", name)
	}
	died := false
	s.wait(func() bool {
		l, err := s.seat.Look(s.ctx(), act.LookRequest{At: act.AtTabs})
		died = err == nil && !strings.Contains(l.Text, "/other") // the tabs are those of another Chrome
		return died || err == nil && strings.Contains(l.Text, "crashed")
	})
	if died {
		return false
	}
	if _, err := s.do(act.Step{Do: act.DoClose, Text: window}); err != nil {
		if r, ok := errors.AsType[*act.Refusal](err); ok && r.Message == "the browser died" {
			return false
		}
		s.t.Fatalf("%s: close: %v (%v)", name, err, cause(err))
	}
	s.must(act.Step{Do: act.DoClick, Ref: first})
	if got := s.eval("document.title"); got != `"clicked"` {
		s.t.Errorf("%s: the other tab says %s", name, got)
	}
	return true
}

// TestDialogsWithoutEnd checks that the agent gets the first dialogs of a page that opens
// dialogs in a loop. The rest is dismissed, so the page goes on and can be left (BR16,
// BR-A14).
func TestDialogsWithoutEnd(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><button onclick="for (let i = 0; i < 1000; i++) prompt(i); document.title = 'asked'">Ask</button><script>addEventListener("unload", () => { alert("stay"); confirm("stay"); prompt("stay") })</script>`)
	l := s.goTo(s.url("site", "/"))
	o := s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Ask"`)})
	told := 0
	for ; o.Dialog != nil && told < 100; told++ {
		o = s.must(act.Step{Do: act.DoDialog, Accept: new(true)})
	}
	if told != act.MaxAsked {
		t.Errorf("%d dialogs were told, want %d", told, act.MaxAsked)
	}
	s.wait(func() bool {
		o, err := s.do(act.Step{Do: act.DoEval, Text: "document.title"})
		return err == nil && o.Value == `"asked"`
	})
	if l := s.goTo(s.url("site", "/?again")); !strings.Contains(l, "Ask") {
		t.Errorf("the page was not left:\n%s", l)
	}
}

// TestDownloadLinks checks that a click on a link to a file is an act of KindDownload, and
// that its file is judged as a file, not as a document (BR31).
func TestDownloadLinks(t *testing.T) {
	s := open(t)
	s.page("/file", "the file")
	s.page("/", `<title>f</title><a href="/file?a" download>Here</a> <a href="http://other.example:PORT/refused" download>There</a> <button onclick="const a = document.createElement('a'); a.href = '/file?b'; a.download = 'x'; a.click()">Script</button>`)
	l := s.goTo(s.url("site", "/"))
	s.forget()
	p, err := s.seat.Prepare(s.ctx(), "", act.Step{Do: act.DoClick, Ref: s.ref(l, `link "Here"`)})
	if err != nil || p.Facts.Kind != act.KindDownload {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, name := range []string{`link "Here"`, `button "Script"`, `link "There"`} {
		s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, name)})
	}
	s.wait(func() bool { return s.judged("/") == 3 })
	s.must(act.Step{Do: act.DoOpen, URL: s.url("site", "/file?c")})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.asks {
		// In Chrome, a link to another origin leads to a document, even with the attribute
		// download.
		if want := strings.Contains(n.URL, "?a") || strings.Contains(n.URL, "?b"); n.File != want {
			t.Errorf("%s was judged as a file %t, want %t", n.URL, n.File, want)
		}
	}
}

// TestDialogsEverywhere checks that a dialog of any kind, whatever in the page opens it, is
// reported, blocks only its tab, and can be answered (BR16, BR-A14).
func TestDialogsEverywhere(t *testing.T) {
	s := open(t)
	kinds := map[string]string{"alert": `alert("words")`, "confirm": `confirm("words")`, "prompt": `prompt("words", "x")`}
	places := map[string]string{
		"click": `<button onclick='CALL'>Go</button>`, "load": `<button>Go</button><script>CALL</script>`, "timer": `<button onclick='setTimeout(() => CALL, 30)'>Go</button>`,
		"frame": `<iframe srcdoc="&lt;button onclick='CALL'>Go&lt;/button>"></iframe>`, "other": `<iframe src="http://other.example:PORT/in/KIND"></iframe>`, "key": `<button onkeydown='CALL'>Go</button>`,
	}
	rows := 0
	for kind, js := range kinds {
		s.page("/in/"+kind, `<button onclick='`+js+`'>Go</button>`)
		for place, html := range places {
			name := kind + " at " + place
			call := js
			if place == "frame" {
				call = strings.ReplaceAll(js, `"`, "&quot;")
			}
			path := "/d/" + kind + "/" + place
			s.page(path, "<!doctype html><title>d</title>"+strings.ReplaceAll(strings.ReplaceAll(html, "CALL", call), "KIND", kind))
			rows++
			o := s.must(act.Step{Do: act.DoOpen, URL: s.url("site", path)})
			told := o.Line
			d := o.Dialog
			if place != "load" {
				step := act.Step{Do: act.DoClick, Ref: s.ref(s.look(act.LookRequest{}), `button "Go"`)}
				if place == "key" {
					step.Do, step.Text = act.DoPress, "Shift+F2"
				}
				if o, err := s.do(step); err != nil {
					t.Errorf("%s: %v (%v)", name, err, cause(err))
				} else {
					told, d = told+o.Line, o.Dialog
				}
			}
			s.wait(func() bool {
				if kind == "alert" {
					if !strings.Contains(told, `alert: "words"`) {
						told += s.must(act.Step{Do: act.DoWait, MS: 20}).Line
					}
					return strings.Contains(told, `alert: "words"`)
				}
				if d == nil {
					k, err := s.seat.Look(s.ctx(), act.LookRequest{})
					switch {
					case err == nil:
						d = k.Dialog
					case act.ReasonOf(err) != act.ReasonDialog: // the dialog opened during the look
						t.Fatalf("%s: %v", name, err)
					}
				}
				return d != nil && d.Kind == kind && d.Text == "words"
			})
			if d != nil {
				s.must(act.Step{Do: act.DoDialog, Accept: new(rows%2 == 0)})
			}
		}
	}
	if l := s.goTo(s.url("site", "/in/alert")); !strings.Contains(l, `button "Go"`) || rows < 18 {
		t.Errorf("%d rows, and the session does not go on:\n%s", rows, l)
	}
}

// TestCancelledCallKeepsTheSeat checks that the error of a call that was cancelled does not
// say that the seat is closed: its owner would forget the seat, and its logins with it.
func TestCancelledCallKeepsTheSeat(t *testing.T) {
	s := open(t)
	came, let := make(chan struct{}), make(chan struct{})
	s.page("/", `<!doctype html><title>none</title><button onclick="document.title = 'clicked'; const x = new XMLHttpRequest(); x.open('GET', '/slow', false); x.send()">B</button>`)
	s.hold("/slow", came, let)
	l := s.goTo(s.url("site", "/"))
	ctx, cancel := context.WithCancel(s.ctx())
	ended := make(chan error, 1)
	go func() {
		_, err := s.doIn(ctx, act.Step{Do: act.DoClick, Ref: s.ref(l, `button "B"`)})
		ended <- err
	}()
	<-came
	cancel()
	if err := <-ended; act.ReasonOf(err) != act.ReasonTimeout || !strings.Contains(err.Error(), "the call was cancelled; the step may have taken effect; ") {
		t.Errorf("a call that was cancelled: %v", err)
	}
	close(let)
	s.until(act.LookRequest{}, "clicked")
}

// TestNoContent checks that a step does not wait for a page if the server answers that it
// sends none.
func TestNoContent(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>none</title><p>page`)
	s.mux.HandleFunc("/none", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	s.goTo(s.url("site", "/"))
	for range 2 {
		start := time.Now()
		_, err := s.do(act.Step{Do: act.DoOpen, URL: s.url("site", "/none")})
		if act.ReasonOf(err) != act.ReasonFailed || !strings.Contains(err.Error(), "the server answered 204 and sent no page; ") {
			t.Errorf("an answer without a page: %v", err)
		}
		if d := time.Since(start); d > act.OpenTime/2 {
			t.Errorf("the step waited %v for a page", d)
		}
	}
	if l := s.look(act.LookRequest{}); !strings.Contains(l, "page") {
		t.Errorf("the tab shows\n%s", l)
	}
	s.must(act.Step{Do: act.DoReload})
}
