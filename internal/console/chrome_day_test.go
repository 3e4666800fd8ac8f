package console

import (
	"os"
	"path/filepath"
	"testing"

	"belljar.dev/internal/people/approval"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// recorded returns the directory of an audit log with one call that has a recording.
func recorded(t *testing.T, change ...func(*audit.Recorded)) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "audit")
	l, err := audit.Open(audit.Config{Dir: dir, Audit: policies.DefaultAudit(policies.AuditFull)})
	if err != nil {
		t.Fatal(err)
	}
	cast, err := l.Cast("c-1", audit.Screen{Width: 80, Height: 24})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cast.Write([]byte("\x1b[32mall tests pass\x1b[0m\r\n" + plea + "\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := cast.Close(); err != nil {
		t.Fatal(err)
	}
	is, ok := cast.Recorded()
	if !ok {
		t.Fatal("the recording goes on")
	}
	for _, f := range change {
		f(&is)
	}
	for _, r := range []audit.Record{
		audit.Decision{CallID: "c-1", Tenant: "a", Session: "s-1", Tool: "Bash", Verdict: "allow", Rules: []audit.Rule{{ID: "shell", Verdict: "allow"}}, Args: map[string]any{"command": "make test"}},
		audit.Outcome{CallID: "c-1", Tenant: "a", Session: "s-1", Tool: "Bash", Cast: &is},
	} {
		if err := l.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A person without a mouse can do a day's work: log in, be asked, refuse with a note, allow
// once, look at a box, stop a task, apply two of three changed files, find a record and
// replay it: WC14, WC25, WC-A22.
func TestChromeDayByKeyboard(t *testing.T) {
	base, ends := t.TempDir(), &runs{output: []byte("\x1b[31mred\x1b[0m\n")}
	g := start(t, full, func(g *rig, v *Views) {
		v.Runs, v.AuditDir, v.SetsDir = ends, recorded(t), filepath.Join(t.TempDir(), "sets")
		changedSet(t, v.SetsDir, base, map[string]string{"one.txt": "1\n", "two.txt": "2\n", "three.txt": "3\n"})
	})
	refused := g.ask("git push --force")
	p := g.open(chrome(t))
	p.login(Operator)

	p.tabTo(`node.getAttribute('href') === '#/inbox'`)
	p.follow("#/inbox")
	p.tabTo(`node.closest('.list')&&node.hash?.includes('` + refused.ID + `')`)
	// "No" gets the focus first, and is pressed at that moment. The key was meant for
	// something else.
	p.eval(`addEventListener('focusin', function press(e) { if (e.target.textContent === 'No') { removeEventListener('focusin', press); e.target.click(); window.early = true } })`)
	p.follow("#/inbox/approval/" + refused.ID)
	p.until(`window.early && document.activeElement.textContent === 'No'`)
	if a, _ := g.Approval(t.Context(), refused.ID); a.State != approval.Pending {
		t.Fatalf("a key that was pressed as the question came up answered it: %+v", a)
	}
	allowed := g.ask("npm publish") // arrives while the person reads, and does not take the focus
	p.until(`document.querySelector('.badge').textContent === '2'`)
	p.until(`document.activeElement.textContent === 'No' && document.title.startsWith('(2)')`)
	p.backTo(`node.dataset.focus === 'note'`)
	p.write("not before the release")
	p.tabTo(named("No"))
	p.until(`performance.now() > 2000`) // keys are ignored only in the first moments of a page
	p.until(`(window.pressed ||= performance.now()) + 700 < performance.now()`)
	p.press("Enter")
	p.until(`window.told === '#/inbox'`)
	if a, _ := g.Approval(t.Context(), refused.ID); a.State != approval.Declined || a.Note != "not before the release" || a.By != "ann (uid 7)" || a.Via != Via {
		t.Fatalf("refused: got %+v", a)
	}

	p.tabTo(`node.closest('.list')&&node.hash?.includes('` + allowed.ID + `')`)
	p.follow("#/inbox/approval/" + allowed.ID)
	p.until(`document.activeElement.textContent === 'No'`)
	p.tabTo(named("Allow once"))
	p.waits()
	p.press("Enter")
	p.until(`window.told === '#/inbox'`)
	if a, _ := g.Approval(t.Context(), allowed.ID); a.State != approval.Approved || a.Scope != approval.Once {
		t.Fatalf("allowed: got %+v", a)
	}

	p.backTo(`node.getAttribute('href') === '#/boxes'`)
	p.follow("#/boxes")
	p.until(`document.querySelector('tbody tr')`)
	p.backTo(`node.getAttribute('href') === '#/jobs'`)
	p.follow("#/jobs")
	p.until(`document.querySelector('tbody tr')`)
	p.tabTo(named("Stop task 3"))
	p.press("Enter")
	p.until(`document.querySelector('dialog[open]') && document.activeElement.textContent === 'Cancel'`)
	p.tabTo(named("Stop it"))
	p.waits()
	p.press("Enter")
	p.until(`!document.querySelector('dialog') && document.body.innerText.includes('The task was stopped.')`)
	if len(ends.ended) != 1 || ends.ended[0] != "task by ann (uid 7)" {
		t.Errorf("ended: %q", ends.ended)
	}

	p.backTo(`node.getAttribute('href') === '#/workspaces'`)
	p.follow("#/workspaces")
	p.until(`document.querySelector('tbody a')`)
	p.tabTo(`node.closest('tbody a')`)
	p.follow("#/workspaces/")
	p.until(`document.querySelectorAll('.files li').length === 3`)
	for _, name := range []string{"one.txt", "two.txt"} {
		p.tabTo(named("Take " + name))
		p.press(" ")
	}
	p.backTo(named("Apply 2 chosen"))
	p.press("Enter")
	p.until(`document.querySelector('dialog[open]')`)
	p.tabTo(named("Apply"))
	p.waits()
	p.press("Enter")
	p.until(`document.body.innerText.includes('2 changes applied.')`)
	for name, want := range map[string]bool{"one.txt": true, "two.txt": true, "three.txt": false} {
		if _, err := os.Stat(filepath.Join(base, name)); (err == nil) != want {
			t.Errorf("%s was applied: %v, want %v", name, err == nil, want)
		}
	}

	p.backTo(`node.getAttribute('href') === '#/audit'`)
	p.follow("#/audit")
	p.until(`document.querySelector('tbody tr')`)
	p.tabTo(`node.type === 'search'`)
	p.write("c-1")
	p.until(`location.hash.includes('q=c-1') && [...document.querySelectorAll('tbody tr')].length === 2`)
	p.tabTo(`node.closest('tbody a')`)
	p.follow("#/audit/")
	p.until(`[...document.querySelectorAll('button')].some(node => ` + named("Play the recording") + `)`)
	p.tabTo(named("Play the recording"))
	p.press("Enter")
	p.until(`document.activeElement.textContent === 'Play'`)
	p.press("Enter")
	p.until(`document.querySelector('.player .fg2')?.textContent === 'all tests pass'`)
	p.fine()
}

// A key that is pressed while a person writes the note belongs to the note, and does not
// answer: WC-A22.
func TestChromeTypingAnswersNothing(t *testing.T) {
	g := start(t)
	a := g.ask("git push --force")
	p := g.open(chrome(t))
	p.login(Approver)
	p.at("#/inbox/approval/" + a.ID)
	p.until(theControl("Allow once"))
	p.waits()
	p.tabTo(`node.dataset.focus === 'note'`)
	p.eval(`(note => {
		note.value = 'not yet'
		note.dispatchEvent(new Event('input'))
		for (const name of ['No', 'Allow once']) [...document.querySelectorAll('.answer button')].find(b => b.textContent === name).click()
	})(document.activeElement)`)
	p.waits()
	if is, _ := g.Approval(t.Context(), a.ID); is.State != approval.Pending {
		t.Fatalf("a press while the note was written answered: %+v", is)
	}
	p.click("Allow once")
	p.until(`window.told === '#/inbox'`)
	if is, _ := g.Approval(t.Context(), a.ID); is.State != approval.Approved || is.Note != "not yet" {
		t.Errorf("after the yes: %+v", is)
	}
}

// A call that was meanwhile answered by another person is shown as answered. Several calls
// can be refused at the same time but never allowed: WC14, WC-A18, WC-A19.
func TestChromeAnswersOfOthers(t *testing.T) {
	g := start(t)
	a := g.ask("git push")
	p := g.open(chrome(t))
	p.mayFail("409")
	p.login(Approver)
	p.at("#/inbox/approval/" + a.ID)
	p.until(`document.querySelector('.answer')`)
	p.eval(`window.fetch = (real => (url, init) => String(url).includes('answer') ? new Promise(r => { window.go = () => r(real(url, init)) }) : real(url, init))(window.fetch)`)
	p.waits()
	p.eval(`[...document.querySelectorAll('.answer button')].find(b => b.textContent === 'Allow once').click()`)
	p.until(`window.go`)
	if _, err := g.Approve(t.Context(), a.ID, approval.Reply{By: "bob", Via: Via, Note: "mine"}); err != nil {
		t.Fatal(err)
	}
	p.eval(`window.go()`)
	p.until(`document.querySelector('.error')?.textContent.includes('answered elsewhere') && document.body.innerText.includes('bob')`)
	if is, _ := g.Approval(t.Context(), a.ID); is.State != approval.Declined {
		t.Errorf("got %+v", is)
	}

	one, two := g.ask("npm publish"), g.ask("npm unpublish")
	p.visit(g.URL())
	p.until(`document.querySelector('.state.live')`)
	p.at("#/inbox")
	p.until(`document.querySelectorAll('.list input').length === 2`)
	p.eval(`document.querySelectorAll('.list input').forEach(i => i.click())`)
	if found := value[bool](p, `[...document.querySelectorAll('.pane button')].some(b => /allow|yes/i.test(b.textContent))`); found {
		t.Error("several calls can be allowed at once")
	}
	p.eval(`document.querySelector('.pane .danger').click()`)
	p.sureOf(`dialog[open] .danger`)
	p.until(`document.querySelectorAll('.list input').length === 0`)
	for _, id := range []string{one.ID, two.ID} {
		if is, _ := g.Approval(t.Context(), id); is.State != approval.Declined {
			t.Errorf("got %+v", is)
		}
	}
}
