package console

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/mcp"
	"belljar.dev/mcp/tools"
)

// longRuns are runs with the longest names that are allowed.
type longRuns struct{ *runs }

var (
	longID   = "s-" + strings.Repeat("Q", 26)
	longName = strings.Repeat("a-long-name-", 9)
)

func (longRuns) Boxes() []control.Box {
	return []control.Box{{ID: longID, Tenant: longName, Profile: longName, Memory: 7 << 20, Listening: []uint16{8080}}}
}

func (longRuns) Sessions() []control.Session {
	return []control.Session{
		{SessionInfo: mcp.SessionInfo{ID: longID, Tenant: longName, Principal: longName, Transport: "stdio", Client: longName, Version: "1.0", Began: time.Now(), Used: time.Now(), Calls: 1234}, Jobs: 100},
		{SessionInfo: mcp.SessionInfo{ID: "s-1"}},
	}
}

func (longRuns) Jobs() []control.Job {
	return []control.Job{{JobInfo: tools.JobInfo{ID: 3, Session: longID, Box: longID, Tenant: longName, Tool: "Bash", Command: longName, Started: time.Now()}}}
}

// If a table with many columns does not fit, each row becomes a card: nothing of the row is
// hidden, the id is broken into two lines at most, and each name has a value: WC27.
func TestChromeCards(t *testing.T) {
	g, _, _ := linked(t, func(_ *rig, v *Views) { v.Runs = longRuns{&runs{}} })
	p := g.open(chrome(t))
	p.login(Operator)
	for _, width := range []int64{1280, 1152, 900, 769, 320} {
		p.size(width, 800)
		for _, hash := range []string{"#/boxes", "#/jobs", "#/sessions"} {
			p.at(hash)
			p.until(`document.querySelector('tbody td')`)
			p.readable(hash)
			const wide = `document.querySelector('.table').scrollWidth - document.querySelector('.table').clientWidth`
			if n := value[int](p, wide); n > 0 && (width < 1280 || hash != "#/boxes") {
				t.Errorf("%s at %d pixels: %d of the table are out of sight", hash, width, n)
			}
			if broken := value[int](p, `[...document.querySelectorAll('td.main .id')].reduce((most, n) => Math.max(most, n.getClientRects().length), 0)`); broken > 2 {
				t.Errorf("%s at %d pixels: an id is in %d lines", hash, width, broken)
			}
			if width > 1152 {
				continue
			}
			if bare := value[[]string](p, `[...document.querySelectorAll('td')].filter(n => n.checkVisibility() && !n.textContent.trim() && !n.querySelector('svg')).map(n => n.dataset.label)`); len(bare) > 0 {
				t.Errorf("%s at %d pixels: names without a value: %q", hash, width, bare)
			}
		}
	}
}

// The page of a task without output shows no empty screen, and the page of a task that is
// gone shows no heading for its output. Output that is written later is shown.
func TestChromeNoOutput(t *testing.T) {
	out := &growing{}
	p := start(t, full, func(_ *rig, v *Views) { v.Runs = out }).open(chrome(t))
	p.login(Viewer)
	p.at("#/jobs/s-1/9")
	p.reads("is gone")
	p.waits()
	if value[bool](p, `document.querySelector('main').innerText.includes('Output') || document.querySelector('.output').checkVisibility()`) {
		t.Error("the page of a task that is gone has a place for its output")
	}
	p.at("#/jobs/s-1/3")
	p.reads("There is no output.")
	if value[bool](p, `document.querySelector('.output').checkVisibility()`) {
		t.Error("the page shows an empty output")
	}
	out.write(100_000, "0123456789\n")
	out.write(8, "the end\n")
	p.until(`document.querySelector('.output').checkVisibility() && document.querySelector('.output').innerText.includes('the end')`)
	// the page has scrolled to the end of the output
	p.until(`(n => n.scrollTop > 0 && n.scrollTop + n.clientHeight > n.scrollHeight - 2)(document.querySelector('.output'))`)
}

// lateRuns is growing whose task appears only after there is set.
type lateRuns struct {
	*growing
	there atomic.Bool
}

func (f *lateRuns) Jobs() []control.Job {
	if !f.there.Load() {
		return []control.Job{}
	}
	return f.growing.Jobs()
}

// If a task appears after its page has said that it is gone, the page shows it with its
// output.
func TestChromeBackAgain(t *testing.T) {
	out := &lateRuns{growing: &growing{}}
	out.write(8, "the end\n")
	g := start(t, full, func(_ *rig, v *Views) { v.Runs = out })
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/jobs/s-1/3")
	p.reads("is gone")
	out.there.Store(true)
	g.Look()
	p.until(`document.querySelector('.output').checkVisibility() && document.querySelector('.output').innerText.includes('the end')`)
}

// A part of the output that arrives late is not added if the person has meanwhile requested
// another part.
func TestChromeLatePart(t *testing.T) {
	out := &growing{}
	out.write(1<<20, "0123456789\n")
	p := start(t, full, func(_ *rig, v *Views) { v.Runs = out }).open(chrome(t))
	p.login(Viewer)
	p.at("#/jobs/s-1/3")
	p.until(`document.querySelector('.lines-out').childElementCount > 100`)
	p.eval(`window.fetch = (real => async (url, init) => {
		if (!window.late && String(url).includes('/output?')) await new Promise(f => { window.late = f })
		return real(url, init)
	})(window.fetch)`)
	p.until(`window.late`)
	out.write(9, "too late\n")
	p.click("Earlier")
	p.until(`!document.querySelector('[aria-busy]') && document.querySelector('.output').scrollTop === 0`)
	before := value[string](p, `document.querySelector('.lines-out').textContent`)
	p.eval(`window.late()`)
	p.waits()
	if after := value[string](p, `document.querySelector('.lines-out').textContent`); after != before || strings.Contains(after, "too late") {
		t.Errorf("%d characters became %d", len(before), len(after))
	}
}

// A dialog is closed when the page that opened it is left.
func TestChromeDialogGoes(t *testing.T) {
	p := start(t, full).open(chrome(t))
	p.login(Operator)
	p.at("#/sessions")
	p.click("End the session s-1")
	p.until(`document.querySelector('dialog[open]')`)
	p.at("#/boxes")
	p.until(`!document.querySelector('dialog')`)
}
