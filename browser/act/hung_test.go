package act_test

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/browser/act"
	"belljar.dev/internal/testenv"
)

// stopProcesses stops all processes that the test has started until goOn is called.
func stopProcesses(t *testing.T) (goOn func()) {
	t.Helper()
	all := descendants()
	signal := func(sig unix.Signal) {
		for _, pid := range all {
			_ = unix.Kill(pid, sig) // the process is of Chrome, and may have ended
		}
	}
	signal(unix.SIGSTOP)
	goOn = func() { signal(unix.SIGCONT) }
	t.Cleanup(goOn)
	return goOn
}

// stops checks that a call whose page begins a script without end stops the script and
// reports that. On a busy machine the script may get too little processor time to count as
// hung; then it is begun again.
func (s *stage) stops(url string, hang func(look string) error) {
	s.t.Helper()
	const tries = 6
	for n := 1; ; n++ {
		look := s.goTo(url)
		start := time.Now()
		err := hang(look)
		took := time.Since(start)
		switch told := err != nil && strings.Contains(err.Error(), "was stopped"); {
		case act.ReasonOf(err) != act.ReasonTimeout:
			s.t.Fatalf("a script without end is reported as %v", err)
		case !told && n < tries:
		case !told:
			s.t.Fatalf("a script without end is not stopped by the call that it holds: %v", err)
		default:
			if most := 2 * act.LookPatience * testenv.Patience(s.t); took > most {
				s.t.Errorf("a script without end was stopped after %v, want %v at most", took, most)
			}
			s.t.Logf("a script without end was stopped after %v", took)
			if _, err := s.seat.Look(s.ctx(), act.LookRequest{}); err != nil {
				s.t.Errorf("afterwards the page is not seen: %v", err)
			}
			return
		}
	}
}

// TestStarvedPage checks that a Chrome that gets no processor time for longer than a call
// may take is not ended, and that the script of its page is not stopped: it goes on when
// Chrome gets processor time (BR21).
func TestStarvedPage(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>0</title><button>B</button><script>const work = () => { for (let i = 0; i < 5e7; i++); document.title = +document.title + 1; setTimeout(work) }; work()</script>`)
	s.goTo(s.url("site", "/"))
	goOn := stopProcesses(t)
	if _, err := s.seat.Look(s.ctx(), act.LookRequest{}); act.ReasonOf(err) != act.ReasonTimeout {
		t.Errorf("a look at a page that stands still: %v", err)
	}
	goOn()
	if l := s.look(act.LookRequest{}); !strings.Contains(l, `button "B"`) {
		t.Errorf("the session does not go on:\n%s", l)
	}
	was := s.eval("document.title")
	s.wait(func() bool { return s.eval("document.title") != was })
}

// TestHungPageIsLeft checks that a tab leaves a page whose script runs without end, even if
// its Chrome has had too little processor time since to know that the page hangs (BR21).
func TestHungPageIsLeft(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>h</title><button onclick="setTimeout(() => { navigator.sendBeacon('/began'); while (true); }, 1000)">Hang</button>`)
	s.page("/next", "<!doctype html><title>n</title>next")
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(s.goTo(s.url("site", "/")), `button "Hang"`)})
	s.wait(func() bool { return s.heard("/began") > 0 })
	goOn := stopProcesses(t)
	if _, err := s.seat.Look(s.ctx(), act.LookRequest{}); act.ReasonOf(err) != act.ReasonTimeout {
		t.Errorf("a look at a page that stands still: %v", err)
	}
	goOn()
	if l := s.goTo(s.url("site", "/next")); !strings.Contains(l, "next") {
		t.Errorf("the session does not go on:\n%s", l)
	}
}

// TestHungPage checks that a page that does not answer while its Chrome gets processor
// time, and whose script does not end, is waited for once in a call and then ended with its
// Chrome. The session goes on (BR21).
func TestHungPage(t *testing.T) {
	s := open(t)
	came, let := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(let) })
	s.hold("/held", came, let)
	s.page("/spins", `<script>new Worker(URL.createObjectURL(new Blob(["while (true);"])))</script>`)
	s.page("/", `<!doctype html><title>h</title><button onclick="const x = new XMLHttpRequest(); x.open('GET', '/held', false); x.send()">Wait</button><iframe src="http://other.example:PORT/spins"></iframe>`)
	l := s.goTo(s.url("site", "/"))
	start := time.Now()
	if _, err := s.do(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Wait"`)}); act.ReasonOf(err) != act.ReasonTimeout {
		t.Errorf("the step in a page that hangs: %v", err)
	}
	if took := time.Since(start); took > 2*act.LookPatience*testenv.Patience(t) {
		t.Errorf("the step waited for the page more than once: %v", took)
	}
	<-came
	if !testenv.Until(time.Minute*testenv.Patience(t), func() bool {
		k, err := s.seat.Look(s.ctx(), act.LookRequest{})
		return err == nil && strings.Contains(k.Text, "the browser died")
	}) {
		t.Error("the browser of a page that hangs was not ended")
	}
	s.goTo(s.url("site", "/spins"))
}

// soon waits for something that needs processor time, which a busy machine may not have.
func (s *stage) soon(what string, ok func() bool) {
	s.t.Helper()
	if !testenv.Until(time.Minute*testenv.Patience(s.t), ok) {
		s.t.Fatal(what + " did not come")
	}
}

// TestHungFrames checks that a script without end in a frame of another site is stopped, by
// the step that has begun it or by one of the next calls, which report that. Until then a
// look shows the rest of the page (BR21).
func TestHungFrames(t *testing.T) {
	t.Parallel() // the test waits most of the time
	s := open(t)
	const told = "a script that ran without end was stopped"
	s.page("/", `<!doctype html><title>o</title><button>Own</button><iframe src="http://evil.example:PORT/hangs"></iframe>`)
	s.page("/hangs", `<button onclick="while (true);">Hang</button><button onclick="setTimeout(() => { navigator.sendBeacon('/began'); while (true); }, 500)">Later</button>`)
	l := s.goFor(s.url("site", "/"), `button "Hang"`)
	_, err := s.do(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Hang"`)})
	if act.ReasonOf(err) != act.ReasonTimeout {
		t.Fatalf("a click that never ends: %v", err)
	}
	said := strings.Contains(err.Error(), told)
	s.soon("the frame", func() bool {
		l = s.look(act.LookRequest{})
		said = said || strings.Contains(l, told)
		return strings.Contains(l, `button "Hang"`)
	})
	if !said {
		t.Error("nobody says that a script was stopped")
	}

	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Later"`)})
	s.wait(func() bool { return s.heard("/began") > 0 })
	shown := false
	s.soon("the end of the script", func() bool {
		l = s.look(act.LookRequest{})
		shown = shown || strings.Contains(l, `button "Own"`) && !strings.Contains(l, `button "Hang"`) && strings.Contains(l, "limit reached: time")
		return strings.Contains(l, told)
	})
	if !shown {
		t.Error("while a frame hangs, no look shows the rest of the page")
	}
	if l = s.look(act.LookRequest{}); !strings.Contains(l, `button "Hang"`) || strings.Contains(l, told) {
		t.Errorf("afterwards, the look is\n%s", l)
	}

	if n, _ := testenv.Cases(t, 1); n == 1 { // the rest of the test takes long
		return
	}
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Later"`)})
	s.wait(func() bool { return s.heard("/began") > 1 })
	s.soon("a step that says so", func() bool {
		return strings.Contains(s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "Own"`)}).Line, "; "+told)
	})
}

// TestManyHungFrames checks that a look waits for all hanging frames at the same time, and
// shows the rest of the page. A frame that hangs again before it has answered is stopped
// again (BR21).
func TestManyHungFrames(t *testing.T) {
	t.Parallel() // the test waits most of the time
	s := open(t)
	s.page("/", `<!doctype html><title>o</title><iframe src="http://evil.example:PORT/hangs"></iframe><iframe src="http://other.example:PORT/hangs"></iframe><iframe src="http://third.example:PORT/hangs"></iframe><iframe src="http://shop.example:PORT/1"></iframe>`)
	s.page("/hangs", `<button>Hangs</button><script>setTimeout(() => { navigator.sendBeacon('/began'); while (true); }, 1000)</script>`)
	s.page("/1", `<iframe src="http://site.example:PORT/2"></iframe>`)
	s.page("/2", `<button>Calm</button>`)
	s.page("/keys", `<!doctype html><title>k</title><iframe src="http://evil.example:PORT/field"></iframe>`)
	s.page("/field", `<input aria-label=Q onkeydown="while (true);">`)
	s.goFor(s.url("site", "/"), `button "Calm"`)
	s.wait(func() bool { return s.heard("/began") == 3 })
	shown := false
	s.soon("all frames", func() bool {
		l := s.look(act.LookRequest{})
		shown = shown || strings.Contains(l, `button "Calm"`) && !strings.Contains(l, `button "Hangs"`)
		return strings.Count(l, `button "Hangs"`) == 3
	})
	if !shown {
		t.Error("while frames hang, no look shows what is beside them")
	}
	if n, _ := testenv.Cases(t, 1); n == 1 { // the rest of the test takes long
		return
	}
	l := s.goFor(s.url("site", "/keys"), `text "Q"`)
	if _, err := s.do(act.Step{Do: act.DoFill, Ref: s.ref(l, `text "Q"`), Text: "abc"}); act.ReasonOf(err) != act.ReasonTimeout {
		t.Errorf("keys of which each hangs: %v", err)
	}
	s.soon("the field", func() bool { return strings.Contains(s.look(act.LookRequest{}), `text "Q"`) })
}

// TestFramesThatHangWhenLeft checks that a frame of another site that hangs when it is left
// can keep a tab neither on its page nor on the next page (BR21).
func TestFramesThatHangWhenLeft(t *testing.T) {
	t.Parallel() // the test waits most of the time
	s := open(t)
	s.page("/", `<!doctype html><title>o</title><iframe src="http://evil.example:PORT/hangs"></iframe>`)
	s.page("/hangs", `<button>Hangs</button><script>onbeforeunload = () => { while (true); }</script>`)
	s.page("/next", `<!doctype html><title>n</title>next`)
	s.goTo(s.url("site", "/next"))
	for _, step := range []act.Step{{Do: act.DoOpen, URL: s.url("site", "/next")}, {Do: act.DoReload}} {
		s.goFor(s.url("site", "/"), `button "Hangs"`)
		s.must(step)
		if l := s.look(act.LookRequest{}); strings.Contains(l, "next") == (step.Do == act.DoReload) {
			t.Errorf("after %s the page shows\n%s", step.Do, l)
		}
	}
}

// TestDragsThatEndEarly checks that after a drag that ended with a dialog, later steps can
// use the mouse.
func TestDragsThatEndEarly(t *testing.T) {
	s := open(t)
	s.page("/", `<!doctype html><title>d</title><div draggable=true ondragstart="event.dataTransfer.setData('text/plain', 'x')">Drag</div><div id=d onclick="0">Drop</div><button onclick="document.title = 'clicked'">B</button><script>
d.ondragenter = () => { d.ondragenter = null; confirm("sure?") };
d.ondragover = (e) => e.preventDefault();
d.ondrop = () => { document.title = "dropped" };</script>`)
	l := s.goTo(s.url("site", "/"))
	drag := act.Step{Do: act.DoDrag, Ref: s.ref(l, `item "Drag"`), To: s.ref(l, `item "Drop"`)}
	if o := s.must(drag); o.Dialog == nil {
		t.Fatalf("a drag into what asks ends as %+v", o)
	}
	s.must(act.Step{Do: act.DoDialog, Accept: new(true)})
	s.must(act.Step{Do: act.DoClick, Ref: s.ref(l, `button "B"`)})
	if got := s.eval("document.title"); got != `"clicked"` {
		t.Errorf("after a drag that ended early, a click leads to %s", got)
	}
	s.must(drag)
	if got := s.eval("document.title"); got != `"dropped"` {
		t.Errorf("after a drag that ended early, another leads to %s", got)
	}
}
