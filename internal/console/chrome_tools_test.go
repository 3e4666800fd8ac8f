package console

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// dialog waits for the dialog that asks for confirmation, and confirms.
func (p *tab) dialog(command string) {
	p.t.Helper()
	p.until(`document.querySelector('dialog[open]') && document.activeElement.textContent === 'Cancel'`)
	if command != "" && !value[bool](p, `document.querySelector('dialog').innerText.includes(`+quote(command)+`)`) {
		p.t.Errorf("the dialog does not show %q", command)
	}
	p.sureOf(`dialog .actions .danger`)
	p.until(`!document.querySelector('dialog')`)
}

// An operator ends boxes and sessions, after a dialog that shows the command line. A press
// immediately after the dialog appears is not taken as an answer: WC18, WC25.
func TestChromeEnds(t *testing.T) {
	ends := &runs{}
	g := start(t, full, func(_ *rig, v *Views) { v.Runs = ends })
	browser := chrome(t)
	p := g.open(browser)
	p.login(Operator)
	p.at("#/boxes")
	p.until(theControl("End the box s-1"))
	// both clicks are made immediately after each other
	p.eval(theControl("End the box s-1") + `.click(); document.querySelector('dialog .actions .danger').click()`)
	if value[bool](p, `!document.querySelector('dialog[open]')`) {
		t.Error("a press as the dialog came up was taken for an answer")
	}
	p.dialog("belljar session end s-1")
	p.reads("The box has ended.")
	p.at("#/sessions")
	p.click("End the session s-1")
	p.set("Note for the agent", "enough for today")
	p.dialog("belljar session end s-1")
	p.reads("The session has ended.")
	if want := []string{"s-1 by ann (uid 7)", "s-1 by ann (uid 7): enough for today"}; !slices.Equal(ends.ended, want) {
		t.Errorf("ended: %q, want %q", ends.ended, want)
	}
	viewer := g.open(browser)
	viewer.login(Approver)
	for _, hash := range []string{"#/boxes", "#/sessions", "#/jobs"} {
		viewer.at(hash)
		viewer.until(`document.querySelector('tbody tr')`)
		if value[bool](viewer, `!!document.querySelector('main .danger')`) {
			t.Errorf("%s: an approver has a button to end something", hash)
		}
	}
}

// An operator applies or discards all changes of a set. If the set has changed in the
// meantime, nothing is done, and the page reads the set again: WC19, WC-A20.
func TestChromeDiscard(t *testing.T) {
	base, dir := t.TempDir(), filepath.Join(t.TempDir(), "sets")
	changedSet(t, dir, base, map[string]string{"one.txt": "1\n", "two.txt": "2\n"})
	g := start(t, full, func(_ *rig, v *Views) { v.SetsDir = dir })
	p := g.open(chrome(t))
	p.mayFail("409")
	p.login(Operator)
	p.at("#/workspaces")
	p.click("s-one")
	p.until(`document.querySelectorAll('.files li').length === 2`)
	changedSet(t, dir, base, map[string]string{"three.txt": "3\n"})
	p.click("Discard all")
	p.dialog("belljar workspace discard s-one")
	p.reads("It has changed since you read it. Nothing was done.")
	if len(g.decided) > 0 {
		t.Fatalf("decided: %+v", g.decided)
	}
	p.click("Read again")
	p.until(`document.querySelectorAll('.files li').length === 3`)
	p.click("Discard all")
	p.dialog("")
	p.until(`window.told === '#/workspaces'`)
	p.reads("No box has changes that wait beside its workspace.")
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.decided) != 1 || g.decided[0].Event != "discarded" || g.decided[0].By != "ann (uid 7)" {
		t.Errorf("decided: %+v", g.decided)
	}
	if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
		t.Errorf("the workspace has %v, %v", left, err)
	}
}

// The policy explains a call from a form and a call from the log, and is compared with
// another policy: WC20.
func TestChromePolicy(t *testing.T) {
	_, now := parsed(t, "ls **")
	proposed, _ := parsed(t, "rm **")
	dir := logged(t, 5)
	g := start(t, full, func(_ *rig, v *Views) { v.Policy, v.AuditDir = held{now}, dir })
	p := g.open(chrome(t))
	p.mayFail("400")
	p.login(Viewer)
	p.at("#/policy")
	p.set("Arguments (JSON)", `{"command": "ls /`)
	p.click("Explain")
	p.reads("The arguments are not JSON")
	p.set("Arguments (JSON)", `{"command": "ls /"}`)
	p.click("Explain")
	p.until(`document.querySelector('.notice')?.innerText.includes('it is not ours') && document.querySelector('.notice .tag.no')`)
	p.set("Proposed policy", "version: 7")
	p.click("Compare")
	p.reads("This is not a policy:")
	p.set("Proposed policy", proposed)
	p.click("Compare")
	p.reads("5 calls of 5 would be decided differently.")

	p.at("#/audit?decision=allow")
	p.until(`document.querySelectorAll('tbody tr').length === 4`)
	p.eval(`document.querySelector('tbody a').click()`)
	p.click("What the policy decides about this call now")
	p.until(`window.told.startsWith('#/policy?record=') && document.querySelector('.notice .tag.no') && document.querySelector('.notice').innerText.includes('then allowed')`)
	if got := value[string](p, theControl("Arguments (JSON)")+`.value`); got != "{\n  \"command\": \"ls '<script>'\"\n}" {
		t.Errorf("the form has the arguments %q", got)
	}
}

// New records are shown when they are written, and records are found by each of the
// filters: WC17.
func TestChromeAudit(t *testing.T) {
	dir := logged(t, 5)
	g := start(t, func(_ *rig, v *Views) { v.AuditDir = dir })
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/audit")
	p.until(`document.querySelectorAll('tbody tr').length > 4`)
	before := value[int](p, `document.querySelectorAll('tbody tr').length`)
	l, err := audit.Open(audit.Config{Dir: dir, Audit: policies.DefaultAudit(policies.AuditRequest)})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(audit.Decision{CallID: "c-new", Tenant: "new", Session: "s-2", Tool: "Write", Verdict: "deny", Rules: []audit.Rule{{ID: "other", Verdict: "deny"}}, Facts: audit.Facts{Upstream: "files"}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	g.Look()
	p.until(fmt.Sprintf(`document.querySelectorAll('tbody tr').length > %d && document.querySelector('tbody').innerText.includes('Write')`, before))
	for name, text := range map[string]string{"Text": "c-new", "Tool": "Write", "Tenant": "new", "Session": "s-2", "Rule": "other", "Upstream": "files"} {
		p.set(name, text)
		p.until(`(rows => rows.length === 1 && rows[0].innerText.includes('Write'))([...document.querySelectorAll('tbody tr')])`)
		p.set(name, "nothing has it")
		p.reads("No record matches.")
		p.set(name, "")
		p.until(`document.querySelectorAll('tbody tr').length > 5`)
	}
	p.reads("The log is as it was written")
}

// If a log was changed, the page says so and where, next to the list and next to each
// record, and still shows the records: WC-A26.
func TestChromeBrokenLog(t *testing.T) {
	dir := logged(t, 20)
	changeLog(t, dir)
	g := start(t, func(_ *rig, v *Views) { v.AuditDir = dir })
	is := g.verdictOf(g.login(Viewer))
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/audit")
	said := fmt.Sprintf("The log was changed at record %d.", is.Seq)
	broken := `[...document.querySelectorAll('main .error')].some(n => n.checkVisibility() && n.querySelector('.tag.no') && [` + quote(said) + `, ` + quote(is.Why) + `].every(text => n.textContent.includes(text)))`
	p.until(broken + ` && document.querySelectorAll('tbody tr').length >= 20`)
	p.eval(`document.querySelector('tbody a').click()`)
	p.until(`window.told.startsWith('#/audit/') && document.querySelector('.page .facts') && ` + broken)
}

// A recording is shown as it was at any time, and played at any speed: WC17.
func TestChromePlayer(t *testing.T) {
	dir := recorded(t)
	g := start(t, func(_ *rig, v *Views) { v.AuditDir = dir })
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/audit?kind=outcome")
	p.until(`document.querySelectorAll('tbody a').length === 1`)
	p.eval(`document.querySelector('tbody a').click()`)
	p.click("Play the recording")
	const shown = `document.querySelector('.player .output').innerText.includes('all tests pass')`
	p.until(`document.querySelector('.player') && !` + shown)
	p.set("Moment", "1000000")
	p.until(shown)
	p.set("Moment", "0")
	p.until(`!` + shown)
	p.set("Speed", "16")
	p.click("Play")
	p.until(shown + ` && ` + theControl("Play"))
	if value[bool](p, `document.querySelector('main').innerText.includes('incomplete')`) {
		t.Error("a recording that has all is called incomplete")
	}
}

// If a recording is incomplete, the page says why, and how much is missing.
func TestChromeCutRecording(t *testing.T) {
	browser := chrome(t)
	for lost, want := range map[int64]string{5 << 20: "5.0 MiB of the output are missing at its end.", 0: "How much of the output is missing is not known."} {
		dir := recorded(t, func(is *audit.Recorded) { is.Cut, is.Lost = "it would be larger than 16 MiB", lost })
		g := start(t, func(_ *rig, v *Views) { v.AuditDir = dir })
		p := g.open(browser)
		p.login(Viewer)
		p.at("#/audit?kind=outcome")
		p.until(`document.querySelectorAll('tbody a').length === 1`)
		p.eval(`document.querySelector('tbody a').click()`)
		p.click("Play the recording")
		p.until(`document.querySelector('.player .flag')`)
		p.reads("The recording is incomplete: it would be larger than 16 MiB. " + want)
	}
}

// An operator tests an engine, and the result is shown next to it: WC21.
func TestChromeEngine(t *testing.T) {
	g := start(t, full)
	p := g.open(chrome(t))
	p.login(Operator)
	p.at("#/search")
	p.click("Ask wikipedia")
	p.dialog("belljar search doctor --live wikipedia")
	p.until(`(text => ['OK', '7 results'].every(part => text.includes(part)))(document.querySelector('td .notice')?.innerText || '')`)
}

// working is a kit with saved work of agents and a browser.
type working struct {
	kit
	shown []byte
}

func (working) Work(context.Context, Scope) (Work, error) {
	return Work{
		Todos:     []Todo{{ID: 1, Tenant: "a", Place: "/w", Title: "Release it", State: "pending", Steps: []TodoStep{{Text: "build", Done: true}, {Text: "tag"}}}},
		Plans:     []SavedPlan{{Tenant: "a", Place: "/w", ID: "release.md", Title: "The release", Saved: time.Now()}},
		Callbacks: []ArmedCallback{{ID: 1, Tenant: "a", Message: "look at the build", Next: time.Now().Add(time.Hour), Left: 2}}, More: 3,
	}, nil
}

func (working) Seats() []BrowserSeat {
	return []BrowserSeat{{ID: "b-1", Tenant: "a", Profile: "pages", State: "live", Tabs: 2, Memory: 9 << 20}, {ID: "b-2", State: "parked"}}
}

func (w *working) Shot(_ context.Context, id string) ([]byte, error) {
	if id != "b-1" {
		return nil, fault(http.StatusNotFound, "no browser %s runs", id)
	}
	return w.shown, nil
}

// The todos and plans that agents keep between sessions can be read: WC24.
func TestChromeWork(t *testing.T) {
	g := start(t, full, func(_ *rig, v *Views) { v.Tools = &working{} })
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/work")
	for _, text := range []string{"Release it", "1 of 2 steps done", "tag", "The release", "release.md", "look at the build", "2 times more", "3 more are not shown."} {
		p.reads(text)
	}
	if value[int](p, `document.querySelectorAll('.steps li.done').length`) != 1 {
		t.Error("the step that is done is not marked")
	}
}

// The browser of an agent is shown as a picture, which does not react to clicks. An answer
// that is not a picture of the browser is not shown: WC22, WC-A24.
func TestChromeShot(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 640, 400))
	for i := range picture.Pix {
		picture.Pix[i] = uint8(i)
	}
	picture.Set(0, 0, color.Black)
	var taken bytes.Buffer
	if err := jpeg.Encode(&taken, picture, nil); err != nil {
		t.Fatal(err)
	}
	kit := &working{shown: taken.Bytes()}
	g := start(t, full, func(_ *rig, v *Views) { v.Tools = kit })
	p := g.open(chrome(t))
	p.mayFail("502")
	p.login(Viewer)
	p.at("#/browser")
	p.until(`document.querySelectorAll('tbody tr').length >= 2`)
	if value[bool](p, `!!`+theControl("Show what the browser b-2 shows")) {
		t.Error("a browser that does not run can be shown")
	}
	p.click("Show what the browser b-1 shows")
	p.until(`(node => node?.complete && node.naturalWidth === 640 && node.naturalHeight === 400)(document.querySelector('.agent img'))`)
	if got := value[string](p, `(node => [node.src.split(':')[0], node.alt, !!node.closest('a, button'), !!node.onclick].join('|'))(document.querySelector('.agent img'))`); got != "blob|What the browser b-1 shows|false|false" {
		t.Errorf("the picture is %q", got)
	}
	kit.shown = []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="window.evil=1"/>`)
	p.click("Show what the browser b-1 shows")
	p.reads("the picture of the browser is not shown")
	if value[bool](p, `'evil' in window`) {
		t.Error("a picture ran")
	}
}
