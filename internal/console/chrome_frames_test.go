package console

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/control"
	"belljar.dev/mcp/tools"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// pleaStart is the text at the beginning of each plea.
const pleaStart = "belljar support: "

// plea is a text that an agent writes for the person who reads it.
const plea = pleaStart + "please approve"

// pleas is a script that counts the visible texts that contain pleaStart: In are those in a
// labelled frame, Bare the others. It skips lists, tables and names, which are short and
// have no frame.
const pleas = `(() => {
	const walk = document.createTreeWalker(document.querySelector('dialog[open]') || document.querySelector('main'), NodeFilter.SHOW_TEXT), got = {In: 0, Bare: 0}
	while (walk.nextNode()) {
		const node = walk.currentNode.parentElement
		if (!walk.currentNode.data.includes('` + pleaStart + `') || !node.checkVisibility() || node.closest('ul.list, table, .facts, .card > h2')) continue
		const label = node.closest('.agent')?.querySelector('.agent-label')
		if (label?.checkVisibility() && /agent|upstream|page of the web|program|log/.test(label.innerText)) got.In++
		else got.Bare++
	}
	return got
})()`

// A text that an agent wrote is shown in a frame that says so: WC-A33.
func TestChromeFrames(t *testing.T) {
	g := start(t, hostile)
	p := g.open(chrome(t))
	p.login(Operator)
	framed := 0
	everyPage(p, func(hash string) {
		got := value[struct{ In, Bare int }](p, pleas)
		framed += got.In
		if got.Bare > 0 {
			t.Errorf("%s: %d texts like %q stand outside of a frame", hash, got.Bare, plea)
		}
	})
	if framed < 10 {
		t.Errorf("%d texts are in frames", framed)
	}
}

// framed checks that a plea is visible, and only in frames.
func (p *tab) framed(what string) {
	p.t.Helper()
	p.until(`(got => got.In + got.Bare > 0)(` + pleas + `)`)
	if got := value[struct{ In, Bare int }](p, pleas); got.In == 0 || got.Bare > 0 {
		p.t.Errorf("%s: %d texts like %q stand in a frame, and %d do not", what, got.In, plea, got.Bare)
	}
}

// pleadingRuns has a task whose description and output are pleas.
type pleadingRuns struct{ *runs }

func (pleadingRuns) Jobs() []control.Job {
	return []control.Job{{JobInfo: tools.JobInfo{ID: 3, Session: "s-1", Tool: "Bash", Command: "echo '" + plea + "'", Description: plea}}}
}

// pleadingKit has todos, plans and callbacks that are pleas.
type pleadingKit struct{ working }

func (*pleadingKit) Work(context.Context, Scope) (Work, error) {
	return Work{
		Todos: []Todo{{ID: 1, Title: plea, Steps: []TodoStep{{Text: plea}}}}, Plans: []SavedPlan{{ID: "release.md", Title: plea}},
		Callbacks: []ArmedCallback{{ID: 1, Message: plea}},
	}, nil
}

// pleadingUpstream is an upstream whose standard error is a plea.
type pleadingUpstream struct{ others }

func (*pleadingUpstream) All() []control.Upstreams {
	return []control.Upstreams{{Place: "/w", All: []control.Upstream{{Name: "files", State: "failed", Stderr: []string{plea}}}, Faults: []string{plea}}}
}

// pleadingLog returns the directory of an audit log with a call that contains a plea, and
// with the recording of another call that contains one.
func pleadingLog(t *testing.T) (dir string) {
	t.Helper()
	dir = recorded(t)
	l, err := audit.Open(audit.Config{Dir: dir, Audit: policies.DefaultAudit(policies.AuditFull)})
	if err != nil {
		t.Fatal(err)
	}
	command := "echo '" + plea + "'"
	if err := l.Append(audit.Decision{
		CallID: "c-2", Tenant: "a", Session: "s-1", Tool: "Bash", Verdict: "allow", Rules: []audit.Rule{{ID: "shell", Verdict: "allow"}},
		Args: map[string]any{"command": command}, Facts: audit.Facts{Command: command},
	}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Each place that shows text of an agent has such a frame, also places that must first be
// opened: WC-A33.
func TestChromeEachFrame(t *testing.T) {
	_, now := parsed(t, "ls **")
	proposed, _ := parsed(t, "echo **")
	g := start(t, full, func(_ *rig, v *Views) {
		v.Runs, v.Tools = pleadingRuns{&runs{output: []byte(plea + "\n")}}, &pleadingKit{working{shown: drawn(t, 40, 30, "png")}}
		v.Upstreams, v.Policy = &pleadingUpstream{}, held{now}
		v.AuditDir, v.SetsDir = pleadingLog(t), filepath.Join(t.TempDir(), "sets")
		changedSet(t, v.SetsDir, t.TempDir(), map[string]string{"notes.txt": plea + "\n"})
	})
	asked := g.ask("echo '" + plea + "'")
	large, err := g.wrote(numbered(1000) + plea)
	if err != nil {
		t.Fatal(err)
	}
	p := g.open(chrome(t))
	p.login(Operator)

	p.at("#/inbox/approval/" + asked.ID)
	p.framed("a call")
	p.at("#/inbox/approval/" + large.ID)
	p.click("All arguments")
	p.framed("all arguments of a call")

	p.at("#/jobs/s-1/3")
	p.until(`document.querySelector('.output')?.textContent.includes('support')`)
	p.framed("a task and its output")
	p.at("#/jobs")
	p.click("Stop task 3")
	p.framed("the question whether a task is stopped")
	p.click("Cancel")

	p.at("#/work")
	p.framed("todos, plans and callbacks")

	p.at("#/audit?q=c-2")
	p.until(`document.querySelectorAll('tbody a').length === 1`)
	p.eval(`document.querySelector('tbody a').click()`)
	p.framed("a record")
	p.at("#/audit?kind=outcome")
	p.until(`document.querySelectorAll('tbody a').length === 1`)
	p.eval(`document.querySelector('tbody a').click()`)
	p.click("Play the recording")
	p.set("Moment", "1000000")
	p.framed("a recording")

	p.at("#/policy")
	p.set("Proposed policy", proposed)
	p.click("Compare")
	p.framed("a call that another policy would decide otherwise")

	p.at("#/upstreams")
	p.click("What it wrote to standard error")
	p.framed("what a server wrote")

	p.at("#/workspaces")
	p.click("s-one")
	p.until(`document.querySelector('.files button')`)
	p.eval(`document.querySelector('.files button').click()`)
	p.framed("a file")

	p.at("#/browser")
	p.click("Show what the browser b-1 shows")
	p.until(`document.querySelector('main img')`)
	if label := value[string](p, `document.querySelector('main img').closest('.agent')?.querySelector('.agent-label').innerText || ''`); !strings.Contains(label, "page of the web") {
		t.Errorf("a picture of a browser stands in the frame %q", label)
	}
}
