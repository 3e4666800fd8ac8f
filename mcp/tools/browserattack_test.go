package tools

import (
	"slices"
	"strings"
	"testing"

	"belljar.dev/browser/act"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// An approval is for what was shown to the person: if the page has changed before the
// approval is used, nothing is done, and the agent gets the reason (BR-A41).
func TestAYesIsForWhatWasShown(t *testing.T) {
	change := func(f func(*act.Facts)) func(*page1) {
		return func(p *page1) {
			facts := p.facts[3]
			f(&facts)
			p.facts[3] = facts
		}
	}
	for name, tt := range map[string]struct {
		use  func(*page1)
		told string // text for the agent; empty if the step is done
	}{
		"as it was":       {func(*page1) {}, ""},
		"another address": {change(func(f *act.Facts) { f.To = "https://pay.example/more" }), "the page has changed since the policy decided about this step"},
		"another method":  {change(func(f *act.Facts) { f.Method = "GET" }), "the page has changed since the policy decided about this step"},
		"another page":    {change(func(f *act.Facts) { f.On = "https://evil.example/" }), "the page has changed since the policy decided about this step"},
		"another button":  {change(func(f *act.Facts) { f.Shown = `button "Pay twice"` }), "the page has changed since the policy decided about this step"},
		"another field":   {change(func(f *act.Facts) { f.Sends = ` sends "Amount" "9999"` }), "the page has changed since the policy decided about this step"},
		"gone":            {func(p *page1) { delete(p.facts, 3) }, "[3] is gone"},
		"another browser": {func(p *page1) {
			p.failing = &act.Refusal{Reason: act.ReasonChanged, Message: "the browser was started anew", Next: "look again"}
		}, "the browser was started anew"},
	} {
		person := &consents{use: func() {}}
		s := newSurfer(t, surfing, func(cfg *mcp.Config) { cfg.Approver = person })
		session, page := s.session(t)
		person.use = func() {
			page.mu.Lock()
			defer page.mu.Unlock()
			tt.use(page)
		}
		got := s.text(t, session, policies.ActTool, `{"steps":[{"do":"click","ref":3},{"do":"click","ref":1}],"then":"nothing"}`)
		if len(person.asked) != 1 || person.asked[0].Scene == nil {
			t.Errorf("%s: the person was asked %+v", name, person.asked)
		}
		want := []string{"click 3", "click 1"}
		if tt.told != "" {
			want = nil
		}
		if !slices.Equal(page.done, want) || !strings.Contains(got, tt.told) {
			t.Errorf("%s: %q was done; %s", name, page.done, got)
		}
	}
}

// A page may talk an agent into sending words to another site. These words reach neither an
// address that no page has shown, nor a field or a form that no rule allows (BR-A34).
func TestNoWordsGoElsewhere(t *testing.T) {
	policy := strings.Replace(surfing, "match: {act: [navigate, follow, press, type, point, submit, secret, confirm, eval]}", "match: {act: [navigate, follow, press, type, submit], url: \"https://shop.example/**\"}", 1)
	policy = strings.Replace(policy, "rules:\n", "rules:\n  - {id: write, match: {act: type, on: \"https://shop.example/**\"}, decision: allow, profile: web}\n", 1)
	for step, done := range map[string]string{
		`{"do":"open","url":"https://shop.example/?d=the+words"}`:     "",
		`{"do":"open","url":"https://shop.example/#the-words"}`:       "",
		`{"do":"open","url":"https://shop.example/?q=1&d=the+words"}`: "",
		`{"do":"open","url":"https://the-words.shop.example/"}`:       "",
		`{"do":"open","url":"https://the-words.evil.example/"}`:       "",
		`{"do":"open","url":"https://shop.example:the-words/"}`:       "",
		`{"do":"open","url":"https://the-words@shop.example/"}`:       "",
		`{"do":"open","url":"https://evil.example/the-words"}`:        "",
		// a page has shown this address
		`{"do":"open","url":"https://shop.example/?q=1"}`: "open 0https://shop.example/?q=1",
		// a field of another site
		`{"do":"fill","ref":6,"text":"the words"}`: "",
		`{"do":"fill","ref":7,"text":"the words"}`: "fill 7",
		`{"do":"press","ref":8,"text":"Enter"}`:    "", // sends a form to another site
		`{"do":"press","ref":9,"text":"Enter"}`:    "press 9",
	} {
		s := newSurfer(t, policy)
		session, page := s.session(t)
		page.facts[6] = act.Facts{Kind: act.KindType, On: "https://evil.example/", Field: "text", Shown: `text "Search"`}
		page.facts[7] = act.Facts{Kind: act.KindType, On: "https://shop.example/", Field: "text", Shown: `text "Search"`}
		page.facts[8] = act.Facts{Kind: act.KindSubmit, On: "https://shop.example/", To: "https://evil.example/", Method: "GET", Shown: `text "Search"`}
		page.facts[9] = act.Facts{Kind: act.KindSubmit, On: "https://shop.example/", To: "https://shop.example/find", Method: "GET", Shown: `text "Search"`}
		got := s.text(t, session, policies.ActTool, `{"steps":[`+step+`],"then":"nothing"}`)
		if strings.Join(page.done, "; ") != done {
			t.Errorf("%s: %q was done; %s", step, page.done, got)
		}
	}
}

// A session reaches only its own browser, whatever tab, download or part of a look of
// another session it names (BR-A39).
func TestBrowsersOfOthersAreUnknown(t *testing.T) {
	s := newSurfer(t, surfing)
	_, theirs := s.session(t)
	mine, own := s.session(t)
	theirs.prepared, own.prepared = 0, 0
	for i, step := range []string{`{"do":"switch","text":"t2"}`, `{"do":"close","text":"t2"}`, `{"do":"click","ref":1}`, `{"do":"save","download":"d1","path":"/workspace/x"}`} {
		_ = s.text(t, mine, policies.ActTool, `{"tab":"t2","steps":[`+step+`],"then":"nothing"}`)
		if theirs.prepared != 0 || len(theirs.done) != 0 || own.prepared == 0 {
			t.Errorf("step %d: the other browser read %d steps and did %q, and its own read %d", i, theirs.prepared, theirs.done, own.prepared)
		}
	}
	for _, q := range []string{`{"tab":"t2"}`, `{"offset":500}`, `{"at":"downloads"}`, `{"at":"picture"}`} {
		_ = s.text(t, mine, policies.LookTool, q)
	}
	if theirs.looks != 0 || own.looks != 4 {
		t.Errorf("the other browser was looked at %d times, and its own %d times", theirs.looks, own.looks)
	}
}
