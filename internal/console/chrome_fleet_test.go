package console

import (
	"context"
	"strings"
	"testing"

	"belljar.dev/internal/people/approval"
)

// fleetPages are the pages of a front, each with an expression that is true when the page
// is shown.
var fleetPages = map[string]string{
	"#/workers": `document.querySelector('tbody tr')`, "#/inbox": `document.querySelector('.list li')`, "#/history": `document.querySelector('tbody tr')`,
	"#/boxes": `document.querySelector('tbody tr')`, "#/jobs": `document.querySelector('tbody tr')`, "#/jobs/s-1/3?worker=w2": `document.querySelector('.output .lines-out div') && document.querySelector('.facts')`,
	"#/sessions": `document.querySelector('tbody tr')`, "#/audit": `document.querySelector('tbody tr')`, "#/policy": `document.querySelector('.source div')`,
}

// everyFleetPage calls f for each page of a front.
func everyFleetPage(p *tab, f func(hash string)) {
	p.t.Helper()
	for hash, shown := range fleetPages {
		p.at(hash)
		p.until(shown)
		f(hash)
	}
}

// A person at a front reads a question from a worker, answers it, and sees which worker is
// missing.
func TestChromeFleet(t *testing.T) {
	g, f, workers := linked(t)
	first, second := workers["w1"].ask("make one"), workers["w2"].ask("make two")
	p := g.open(chrome(t))
	p.login(Operator)
	p.at("#/inbox")
	p.until(`document.querySelectorAll('.list li').length === 2 && document.querySelector('.badge').textContent === '2'`)
	p.eval(`[...document.querySelectorAll('.list a')].find(a => a.textContent.includes('make two')).click()`)
	p.until(`window.told.includes('worker=w2') && document.querySelector('.detail .facts') && document.querySelector('.detail .agent').innerText.includes('make two')`)
	if text := value[string](p, `document.querySelector('.detail .facts').innerText`); !strings.Contains(text, "w2") {
		t.Errorf("the question does not name its worker: %s", text)
	}
	p.sure("Allow once")
	p.until(`document.querySelectorAll('.list li').length === 1`)
	if a, err := workers["w2"].approvals.Get(t.Context(), second.ID); err != nil || a.State != approval.Approved || a.By != "ann (uid 7)" {
		t.Errorf("after the yes: %+v, %v", a, err)
	}
	if a, err := workers["w1"].approvals.Get(t.Context(), first.ID); err != nil || a.State != approval.Pending {
		t.Errorf("the other one: %+v, %v", a, err)
	}
	p.at("#/jobs/s-1/3?worker=w2")
	p.until(`document.querySelector('.output').innerText.includes('out of w2')`)
	p.at("#/audit")
	p.until(`['w1', 'w2'].every(w => [...document.querySelectorAll('tbody tr')].some(r => r.innerText.includes(w)))`)
	p.eval(`[...document.querySelectorAll('tbody tr')].find(r => r.innerText.includes('w2')).querySelector('a').click()`)
	p.until(`window.told.includes('worker=w2') && document.querySelector('.page .facts')`)
	f.mu.Lock()
	f.away = []string{"w2"}
	f.mu.Unlock()
	p.at("#/boxes")
	p.until(`document.querySelectorAll('tbody tr').length === 1 && document.querySelector('main').innerText.includes('missing here')`)
	if text := value[string](p, `document.querySelector('main .status .flag').innerText`); !strings.HasSuffix(text, ": w2") {
		t.Errorf("the page says: %s", text)
	}
}

// Data from workers are plain text on every page of a front, can be read, and fit the
// window: WC6, WC25, WC27.
func TestChromeFleetPages(t *testing.T) {
	g, _, workers := linked(t, hostile)
	for _, w := range workers {
		if _, err := w.approvals.Answer(context.WithoutCancel(t.Context()), w.ask("x").ID, approval.Reply{By: "bob", Via: Via, Note: evil[0]}); err != nil {
			t.Fatal(err)
		}
	}
	p := g.open(chrome(t))
	p.login(Operator)
	for _, theme := range []string{"light", "dark"} {
		p.theme(theme)
		p.size(map[string]int64{"light": 1280, "dark": 320}[theme], 800)
		everyFleetPage(p, func(hash string) {
			p.plain(hash)
			p.readable(hash + ", " + theme)
			p.accessible(hash)
			p.fine()
		})
	}
}
