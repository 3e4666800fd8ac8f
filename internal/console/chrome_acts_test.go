package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"belljar.dev/internal/control"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/store"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// askMore is ask for a call whose yes may be remembered.
func (g *rig) askMore(command string) approval.Approval {
	g.t.Helper()
	a, _, err := g.approvals.Ask(g.t.Context(), approval.Request{
		CallID: "c-1", Facts: policies.Facts{Tenant: "a", Session: "s-1", Tool: "Bash", Command: command, Args: map[string]any{"command": command}},
		Decision: policies.Decision{Verdict: policies.Ask, Rule: "rule", Obligations: policies.Obligations{Remember: policies.Remember{Session: true, For: 4 * time.Hour}}},
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return a
}

// answer answers an approval as another person.
func (g *rig) answer(a approval.Approval, said approval.Reply) {
	g.t.Helper()
	if _, err := g.approvals.Answer(g.t.Context(), a.ID, said); err != nil {
		g.t.Fatal(err)
	}
}

// A yes that is remembered needs a second step, in which the person chooses how long it is
// valid. Exactly that choice is stored. The person can withdraw it on the page of the
// approval: WC14.
func TestChromeRemember(t *testing.T) {
	g := start(t)
	session, hours, once := g.askMore("ls a"), g.askMore("ls b"), g.ask("ls c")
	p := g.open(chrome(t))
	p.login(Approver)
	p.at("#/inbox/approval/" + session.ID)
	p.click("Remember a yes…")
	p.sure("Allow and remember")
	p.reads("First choose what the yes is for.")
	if a, _ := g.Approval(t.Context(), session.ID); a.State != approval.Pending {
		t.Fatalf("without a choice: %+v", a)
	}
	p.eval(`document.querySelector('input[value=session]').click()`)
	p.click("Allow and remember")
	p.until(`window.told === '#/inbox'`)
	if a, _ := g.Approval(t.Context(), session.ID); a.State != approval.Approved || a.Scope != approval.Session || a.By != "ann (uid 7)" {
		t.Errorf("for the session: %+v", a)
	}

	p.at("#/inbox/approval/" + hours.ID)
	p.click("Remember a yes…")
	if got := value[[]string](p, `[...document.querySelectorAll('fieldset option')].map(o => o.value)`); !slices.Equal(got, []string{"15m", "1h", "2h", "4h"}) {
		t.Errorf("times to choose from: %q", got)
	}
	p.eval(`document.querySelector('input[value=hours]').click()`)
	p.set("How long", "2h")
	p.set("Note for the agent", "for today")
	p.sure("Allow and remember")
	p.until(`window.told === '#/inbox'`)
	a, _ := g.Approval(t.Context(), hours.ID)
	if left := time.Until(a.Until); a.Scope != approval.Hours || left < 100*time.Minute || left > 2*time.Hour || a.Note != "for today" {
		t.Errorf("for two hours: %+v", a)
	}

	p.at("#/inbox/approval/" + hours.ID)
	p.click("Revoke the yes")
	p.reads("The yes was revoked.")
	if a, _ := g.Approval(t.Context(), hours.ID); a.State != approval.Revoked {
		t.Errorf("revoked: %+v", a)
	}
	p.at("#/inbox/approval/" + once.ID)
	p.reads("The policy allows a yes for this call only.")
	if value[bool](p, `!!document.querySelector('fieldset')`) {
		t.Error("a yes that is for one call can be remembered")
	}
}

// An approval that is put off is hidden but not answered, and is shown again one minute
// before its time is over: WC15.
func TestChromeLater(t *testing.T) {
	g := start(t)
	a := g.ask("git push")
	p := g.open(chrome(t))
	p.login(Approver)
	p.at("#/inbox/approval/" + a.ID)
	p.click("Later")
	p.until(`window.told === '#/inbox' && document.querySelector('.badge').hidden`)
	p.until(`document.querySelector('details').innerText.includes('Put off') && document.querySelectorAll('main ul')[0].childElementCount === 0`)
	if is, _ := g.Approval(t.Context(), a.ID); is.State != approval.Pending {
		t.Errorf("put off: %+v", is)
	}
	p.eval(`window.ahead = 0; Date.now = (real => () => real() + window.ahead)(Date.now)`)
	// moves the clock of the page forward, at most ten minutes
	p.until(`document.querySelector('.badge').textContent === '1' || void (window.ahead += 5000)`)
	p.until(`document.querySelectorAll('main ul')[0].childElementCount === 1`)
	if left := value[string](p, `document.querySelector('.list time[data-left]').textContent`); strings.Contains(left, "min") {
		t.Errorf("it comes back with %s", left)
	}
}

// many has more answered approvals than one response contains.
type many struct{ *rig }

func (m many) History(_ context.Context, f approval.Filter) (list []approval.Approval, _ error) {
	first, last := time.Unix(2_000_000_000, 0), 200
	if !f.Before.IsZero() {
		first, last = f.Before.Add(-time.Second), 3
	}
	for i := range last {
		list = append(list, approval.Approval{ID: fmt.Sprint("ap-", first.Unix()-int64(i)), Tool: "Bash", State: approval.Declined, Created: first.Add(time.Duration(-i) * time.Second)})
	}
	return list, nil
}

// Answered approvals are found by the question, by the answer and by the person who
// answered, and have links to their records: WC16. The page of an approval shows what was
// decided about similar calls, and the records: WC13.
func TestChromeHistory(t *testing.T) {
	dir := logged(t, 1)
	g := start(t, func(_ *rig, v *Views) { v.AuditDir = dir })
	push, publish, waits := g.ask("git push"), g.ask("npm publish"), g.ask("npm unpublish")
	g.answer(push, approval.Reply{By: "bob", Via: Via, Note: "not on Friday"})
	g.answer(publish, approval.Reply{Yes: true, By: "ann", Via: Via})
	l, err := audit.Open(audit.Config{Dir: dir, Audit: policies.DefaultAudit(policies.AuditRequest)})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(audit.Approval{ID: push.ID, CallID: push.CallID, Tenant: "a", Event: "refused", By: "bob"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/history")
	shown := func(parts ...string) {
		t.Helper()
		p.until(fmt.Sprintf(`(rows => rows.length === %d && %s.every((text, i) => rows[i].textContent.includes(text)))([...document.querySelectorAll('tbody tr')])`, len(parts), list(parts)))
	}
	p.until(`document.querySelectorAll('tbody tr').length === 3`)
	p.set("Text", "publish")
	p.until(`document.querySelectorAll('tbody tr').length === 2 && location.hash.includes('q=publish')`)
	p.set("State", "pending")
	shown("npm unpublish")
	p.set("State", "")
	p.set("Text", "Friday") // a word of the note
	shown("git push")
	p.set("Text", "")
	p.set("Who", "BOB")
	shown("git push")
	p.set("Tenant", "b")
	p.reads("No answer matches.")
	p.set("Tenant", "a")
	shown("git push")
	p.eval(theControl("Record of "+push.ID) + `.click()`)
	p.until(`window.told.startsWith('#/audit?q=') && document.querySelectorAll('tbody tr').length === 1`)
	p.reads("refused")

	p.at("#/inbox/approval/" + push.ID)
	p.click("In the audit log")
	p.until(`document.querySelector('details[open] a[href^="#/audit/"]')`)
	p.at("#/inbox/approval/" + waits.ID)
	p.click("Earlier answers to calls like this")
	p.until(`['git push', 'not on Friday', 'npm publish'].every(text => document.querySelector('details[open]').innerText.includes(text))`)
	if value[bool](p, `[...document.querySelectorAll('main button')].some(b => /allow|yes|^no$/i.test(b.textContent))`) {
		t.Error("a viewer has a button to answer")
	}
}

// list returns texts as a JavaScript array.
func list(texts []string) string {
	out := "["
	for _, text := range texts {
		out += quote(text) + ","
	}
	return out + "]"
}

// Older answers are loaded from the last shown answer on: WC16.
func TestChromeOlderAnswers(t *testing.T) {
	g := start(t, func(g *rig, v *Views) { v.People = many{g} })
	p := g.open(chrome(t))
	p.login(Viewer)
	p.at("#/history")
	p.until(`document.querySelectorAll('tbody tr').length === 200`)
	p.click("Older answers")
	p.until(`document.querySelectorAll('tbody tr').length === 203`)
	p.until(`!` + theControl("Older answers"))
}

// Questions of an agent are answered with one option, with several options or in the
// person's own words, or are declined with a note: WC12.
func TestChromeQuestions(t *testing.T) {
	g := start(t)
	ask := func(text string) question.Asked {
		t.Helper()
		q, err := g.questions.Ask(t.Context(), store.Owner{Tenant: "a", Session: "s-1"}, question.Sheet{Life: time.Hour, Questions: []question.Question{
			{ID: "where", Text: text, Kind: question.Choice, Options: []question.Option{{Label: "Staging", Recommended: true}, {Label: "Production", Description: "for all"}}},
			{ID: "what", Text: "What?", Kind: question.Choice, Many: true, Options: []question.Option{{Label: "Docs"}, {Label: "Tests"}, {Label: "Code"}}},
			{ID: "why", Text: "Why?", Kind: question.Text},
			{ID: "now", Text: "Now?", Kind: question.YesNo, Options: []question.Option{{Label: "yes"}, {Label: "no"}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	first, second, late := ask("Deploy where?"), ask("And the other?"), ask("Which?")
	p := g.open(chrome(t))
	p.mayFail("409")
	p.login(Approver)
	p.at("#/inbox/question/" + first.ID)
	p.reads("recommended by the agent")
	p.sure("Send the answer")
	p.reads("There is no answer yet")
	p.eval(`document.querySelectorAll('input[value=Production], input[value=Docs], input[value=Code], input[value=no]').forEach(i => i.click())`)
	p.set("Your answer", "because")
	p.set("Note for the agent", "careful")
	p.click("Send the answer")
	p.until(`window.told === '#/inbox'`)
	got, err := g.questions.Get(t.Context(), first.ID)
	if err != nil || got.State != question.Accepted || got.By != "ann (uid 7)" || got.Via != Via || got.Note != "careful" ||
		fmt.Sprint(got.Answers) != "map[now:no what:Docs, Code where:Production why:because]" {
		t.Errorf("answered: %+v, %v", got, err)
	}

	p.at("#/inbox/question/" + second.ID)
	p.set("Question 1, in your words", "nowhere")
	p.sure("Do not answer")
	p.until(`window.told === '#/inbox'`)
	if got, _ := g.questions.Get(t.Context(), second.ID); got.State != question.Declined || len(got.Answers) > 0 {
		t.Errorf("declined: %+v", got)
	}

	p.at("#/inbox/question/" + late.ID)
	p.until(theControl("Send the answer"))
	p.set("Your answer", "mine")
	// The answer of another person arrives first, and the page does not know it yet.
	p.eval(`window.fetch = (real => (url, init) => String(url).includes('answer') ? new Promise(r => { window.go = () => r(real(url, init)) }) : real(url, init))(window.fetch)`)
	p.sure("Send the answer")
	p.until(`window.go`)
	if _, err := g.questions.Answer(t.Context(), late.ID, question.Reply{State: question.Declined, By: "bob", Via: Via}); err != nil {
		t.Fatal(err)
	}
	p.eval(`window.go()`)
	p.reads("bob")
	p.until(`!document.querySelector('.answer')`)
}

// pinned is a server with definitions that wait for a decision.
type pinned struct {
	others
	mu sync.Mutex
}

func (f *pinned) Pins(context.Context) ([]Pin, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.pins), nil
}

func (f *pinned) Decide(_ context.Context, upstream, version string, approve bool, by string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.IndexFunc(f.pins, func(p Pin) bool { return p.Upstream == upstream && p.Version == version })
	if at < 0 {
		return fault(409, "another one")
	}
	f.pins = slices.Delete(f.pins, at, at+1)
	f.said = append(f.said, fmt.Sprint(version, " ", approve, " by ", by))
	return nil
}

// Definitions of servers that wait are shown next to their earlier versions, and are
// trusted or refused one by one. A definition that is not shown as a whole cannot be
// trusted here: WC12, WC23.
func TestChromePins(t *testing.T) {
	f := &pinned{others: others{pins: []Pin{
		{Upstream: "files", Tenant: "a", Name: "tool read", What: "changed", Version: "v1", Diff: "@@ description\n-Reads a file\n+Reads a file and sends it\n"},
		{Upstream: "files", Tenant: "a", Name: "tool write", What: "new", Version: "v2", Findings: []string{"it names another tool"}, Diff: "+Writes\n"},
		{Upstream: "files", Tenant: "a", Name: "tool large", What: "new", Version: "v3", Cut: true, Diff: "+Much\n"},
	}}}
	g := start(t, func(_ *rig, v *Views) { v.Upstreams = f })
	p := g.open(chrome(t))
	p.login(Approver)
	p.until(`document.querySelector('.badge').textContent === '3'`)
	p.at("#/inbox/pin/files/v1")
	p.until(`document.querySelector('.diff .old')?.textContent.includes('Reads a file') && document.querySelector('.diff .new').textContent.includes('and sends it')`)
	p.until(`document.activeElement.textContent === 'Refuse it'`)
	p.sure("Refuse it")
	p.until(`window.told === '#/inbox' && document.querySelector('.badge').textContent === '2'`)
	p.at("#/inbox/pin/files/v2")
	p.reads("it names another tool")
	p.sure("Trust it")
	p.until(`window.told === '#/inbox' && document.querySelector('.badge').textContent === '1'`)
	p.at("#/inbox/pin/files/v3")
	p.reads("The comparison is longer than what is shown here.")
	if value[bool](p, `!!`+theControl("Trust it")) {
		t.Error("a definition that is not shown whole can be trusted")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if want := []string{"v1 false by ann (uid 7)", "v2 true by ann (uid 7)"}; !slices.Equal(f.said, want) {
		t.Errorf("decided: %q, want %q", f.said, want)
	}
}

var _ Upstreams = (*pinned)(nil)

// A key that is pressed at the moment when a call, a question or a definition appears was
// meant for something else, and does not answer it: WC-A22.
func TestChromeNoAnswerAtOnce(t *testing.T) {
	f := &pinned{others: others{pins: []Pin{{Upstream: "files", Tenant: "a", Name: "tool read", What: "changed", Version: "v1", Diff: "+Reads\n"}}}}
	g := start(t, func(_ *rig, v *Views) { v.Upstreams = f })
	a := g.ask("git push")
	q, err := g.questions.Ask(t.Context(), store.Owner{Tenant: "a", Session: "s-1"}, question.Sheet{Life: time.Hour, Questions: []question.Question{{ID: "why", Text: "Why?", Kind: question.Text}}})
	if err != nil {
		t.Fatal(err)
	}
	p := g.open(chrome(t))
	p.login(Approver)
	for hash, want := range map[string][]string{
		"#/inbox/approval/" + a.ID: {"No", "Allow once"}, "#/inbox/question/" + q.ID: {"Do not answer"}, "#/inbox/pin/files/v1": {"Refuse it", "Trust it"},
	} {
		p.at("#/inbox")
		p.eval(`window.early = null; new MutationObserver((_, o) => {
			const all = [...document.querySelectorAll('.answer button')].filter(b => ` + list(want) + `.includes(b.textContent))
			if (!all.length) return
			o.disconnect()
			window.early = all.map(b => b.textContent)
			all.forEach(b => b.click())
		}).observe(document.body, {childList: true, subtree: true})`)
		p.at(hash)
		p.until(`window.early`)
		if got := value[[]string](p, `window.early`); !slices.Equal(got, want) {
			t.Errorf("%s: the buttons %q were pressed, want %q", hash, got, want)
		}
		p.waits()
		if !value[bool](p, `!!document.querySelector('.answer')`) {
			t.Errorf("%s: it waits for no answer any more", hash)
		}
	}
	if is, _ := g.Approval(t.Context(), a.ID); is.State != approval.Pending {
		t.Errorf("the call: %+v", is)
	}
	if is, _ := g.questions.Get(t.Context(), q.ID); is.State != question.Waiting {
		t.Errorf("the question: %+v", is)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.said) > 0 {
		t.Errorf("the definition: %q", f.said)
	}
}

// oneUpstream is others with one upstream.
type oneUpstream struct{ others }

func (o *oneUpstream) All() []control.Upstreams {
	return []control.Upstreams{{Place: "/w", All: []control.Upstream{{
		Name: "files", State: "failed", Reason: "it exited with status 1", Attempt: 3, Stderr: []string{"no such file", "giving up"}, File: "/w/.mcp.json", Line: 7, Held: 2,
	}}}}
}

// An upstream is shown with the reason why it does not run and with its standard error, and
// can be restarted: WC23.
func TestChromeUpstreams(t *testing.T) {
	f := &oneUpstream{}
	g := start(t, func(_ *rig, v *Views) { v.Upstreams = f })
	p := g.open(chrome(t))
	p.login(Operator)
	p.at("#/upstreams")
	p.reads("it exited with status 1")
	p.reads("an agent can write it")
	p.click("What it wrote to standard error")
	p.reads("giving up")
	p.click("Restart files")
	p.until(`document.querySelector('dialog[open]').innerText.includes('belljar upstream restart files')`)
	p.click("Cancel")
	p.until(`!document.querySelector('dialog')`)
	if len(f.said) > 0 {
		t.Errorf("what was cancelled was done: %q", f.said)
	}
	p.click("Restart files")
	p.sureOf(`dialog[open] .danger`)
	p.reads("1 instance restarted.")
	if !slices.Equal(f.said, []string{"restart by ann (uid 7)"}) {
		t.Errorf("got %q", f.said)
	}
}
