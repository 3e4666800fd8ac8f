package tools

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"belljar.dev/browser/act"
	"belljar.dev/internal/golden"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

var _ = addCase("Browser", toolCase{
	hints:   "Destructive OpenWorld",
	refuses: []string{`{}`, `{"steps":[]}`, `{"steps":{"do":"back"}}`, `{"steps":[{"do":"clik","ref":1}]}`, `{"steps":[{"do":"click"}]}`, `{"steps":[{"do":"click","ref":1,"xy":[1,2]}]}`, `{"steps":[{"do":"back","ref":1}]}`, `{"steps":[{"do":"open","url":"file:///etc/passwd"}]}`, `{"steps":[{"do":"save","download":"d1","path":"a.pdf"}]}`, `{"steps":[{"do":"press","text":"Ctrl-a"}]}`, `{"steps":[{"do":"click","ref":1}]}`, `{"steps":[{"do":"back"}],"then":"all"}`, `{"do":"back"}`},
	unseen:  reasons{"it has a meaning on the page or in the browser alone; the act says what would happen": {"tab", "steps[].text", "steps[].download", "steps[].button"}},
})

var _ = addCase("BrowserLook", toolCase{
	hints:   "ReadOnly OpenWorld",
	refuses: []string{`{}`, `{"at":"screen"}`, `{"scope":"half"}`, `{"in":"4"}`, `{"max_chars":100}`, `{"url":"https://a.example/"}`},
	unseen:  reasons{choosesShown: {"find", "tab"}},
})

// callID matches the ids of calls in a text.
var callID = regexp.MustCompile(`\bc-[0-9A-Za-z]{6,}\b`)

// surfing is a policy that gives sessions a browser.
const surfing = `version: 1
secrets: {pw: {env: PW}}
defaults: {decision: deny, profile: work}
profiles:
  work: {}
  web: {browser: {walls: sandboxed, act: true, secrets: [{secret: pw, origin: "https://shop.example", field: password}]}}
rules:
  - {id: look, match: {tool: BrowserLook}, decision: allow, profile: web}
  - {id: surf, match: {act: [navigate, follow, press, type, point, submit, secret, confirm, eval]}, decision: allow, profile: web}
  - {id: pay, match: {act: submit, url: "https://pay.example/**"}, decision: ask}
  - {id: bank, match: {act: [navigate, follow], url: "https://bank.example/**"}, decision: deny}
`

// page1 is a test double of Chrome: a page whose controls have facts.
type page1 struct {
	mu       sync.Mutex
	facts    map[int]act.Facts // facts of the controls by ref
	outcomes map[int]act.Outcome
	seen     map[string]bool
	prepared int
	looks    int
	swap     func(p *page1) // called before the second and each later read of facts
	done     []string
	opts     act.Options
	closed   bool
	failing  error
}

func (p *page1) Look(_ context.Context, q act.LookRequest) (*act.Look, error) {
	p.mu.Lock()
	p.looks++
	p.mu.Unlock()
	if q.At == act.AtPicture {
		return &act.Look{Tab: "t1", Picture: []byte("jpeg"), Width: 10, Height: 20}, nil
	}
	if q.At == act.AtText {
		return &act.Look{Tab: "t1", URL: "https://shop.example/", HTML: "<main><h1>Shop</h1><p>hunter2 is the word of this long text, and more words follow it.</p></main>", Cut: true}, nil
	}
	return &act.Look{Tab: "t1", Text: fmt.Sprintf("<<%s of t1>>", q.At)}, nil
}

func (p *page1) Prepare(_ context.Context, tab string, s act.Step) (*act.Prepared, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.prepared++; p.prepared > 1 && p.swap != nil {
		p.swap(p)
	}
	if s.Do == act.DoOpen {
		return &act.Prepared{Tab: tab, Facts: act.Facts{Kind: act.KindNavigate, On: "about:blank", To: s.URL, Method: "GET"}, Seen: p.seen[s.URL]}, nil
	}
	f, ok := p.facts[s.Ref]
	if !ok {
		return nil, &act.Refusal{Reason: act.ReasonStale, Message: fmt.Sprintf("[%d] is gone", s.Ref), Next: "look again"}
	}
	f.Secret, f.Path = s.Secret, s.Path
	return &act.Prepared{Tab: tab, Facts: f}, nil
}

func (p *page1) Do(ctx context.Context, was *act.Prepared, s act.Step) (*act.Outcome, error) {
	if now, err := p.Prepare(ctx, "", s); err != nil {
		return nil, err
	} else if now.Facts != was.Facts {
		return nil, &act.Refusal{Reason: act.ReasonChanged, Message: "the page changed what the step would do, between the decision and the act", Next: "look again"}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failing != nil {
		return nil, p.failing
	}
	p.done = append(p.done, fmt.Sprintf("%s %d%s", s.Do, s.Ref, s.URL))
	o, ok := p.outcomes[s.Ref]
	if !ok {
		o = act.Outcome{Line: fmt.Sprintf("%s done with hunter2", s.Do)}
	}
	o.Tab = "t1"
	return &o, nil
}

func (p *page1) Mask(text string) string     { return strings.ReplaceAll(text, "hunter2", "[secret pw]") }
func (p *page1) SecretsHere(string) []string { return []string{"pw"} }

func (p *page1) Show(context.Context) (*act.Look, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failing != nil {
		return nil, p.failing
	}
	return &act.Look{URL: fmt.Sprintf("https://shop.example/%d", len(p.done)), Picture: []byte("jpeg")}, nil
}

// reel1 keeps what is recorded.
type reel1 struct {
	steps  []string
	closed int
}

func (r *reel1) Step(what, did string, shows *act.Look, why error) {
	line := what + ": " + did
	if shows != nil {
		line += " at " + shows.URL
	}
	if why != nil {
		line += " without a picture: " + why.Error()
	}
	r.steps = append(r.steps, line)
}

func (r *reel1) Close() error {
	r.closed++
	return nil
}

func (p *page1) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}

// surfer is a server with a page1 for each session.
type surfer struct {
	*mcp.Server
	made    []*page1
	failing error  // error of opening a browser; nil if it succeeds
	reel    *reel1 // reel of the next call; nil records none
}

func newSurfer(t *testing.T, policy string, change ...func(*mcp.Config)) *surfer {
	t.Helper()
	p, err := policies.Parse("policy.yaml", []byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	s, cfg := &surfer{}, mcp.Config{Gate: p, Name: "test", Version: "1"}
	for _, f := range change {
		f(&cfg)
	}
	if s.Server, err = mcp.New(cfg); err != nil {
		t.Fatal(err)
	}
	Add(s.Server, Backends{Browsers: &Browsers{
		Acts: policies.PossibleActs(p),
		Reel: func(mcp.Call) Reel {
			if s.reel == nil {
				return nil
			}
			return s.reel
		},
		Open: func(_ context.Context, _ policies.Grant, o act.Options) (Chrome, error) {
			if s.failing != nil {
				return nil, s.failing
			}
			page := &page1{opts: o, seen: map[string]bool{"https://shop.example/?q=1": true}, outcomes: map[int]act.Outcome{}, facts: map[int]act.Facts{
				1: {Kind: act.KindPress, On: "https://shop.example/", Shown: `button "Add"`},
				2: {Kind: act.KindSubmit, On: "https://shop.example/", To: "https://shop.example/order", Method: "POST", Shown: `button "Order"`},
				3: {Kind: act.KindSubmit, On: "https://shop.example/", To: "https://pay.example/charge", Method: "POST", Shown: `button "Pay"`},
				4: {Kind: act.KindFollow, On: "https://shop.example/", To: "https://bank.example/", Method: "GET", Shown: `link "Bank"`},
				5: {Kind: act.KindSecret, On: "https://shop.example/", Field: "password", Shown: `text "Password"`},
			}}
			s.made = append(s.made, page)
			return page, nil
		},
	}})
	return s
}

// session opens a session with an open page.
func (s *surfer) session(t *testing.T) (*mcp.Session, *page1) {
	t.Helper()
	session, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	s.text(t, session, policies.ActTool, `{"steps":[{"do":"open","url":"https://shop.example/"}],"then":"nothing"}`)
	page := s.made[len(s.made)-1]
	page.done, page.prepared = nil, 0
	return session, page
}

// text returns the text of an answer, with the kinds of its other blocks.
func (s *surfer) text(t *testing.T, session *mcp.Session, tool, args string) string {
	t.Helper()
	res, err := s.Call(t.Context(), session, tool, []byte(args))
	if err != nil {
		return "error: " + err.Error()
	}
	var all []string
	for _, c := range res.Content {
		if len(c.Data) > 0 {
			all = append(all, c.MIME)
		} else {
			all = append(all, c.Text)
		}
	}
	return strings.Join(all, "\n")
}

// Each step is decided about before it is done. The first step that is not allowed ends the
// call (BR15).
func TestBrowserSteps(t *testing.T) {
	var out strings.Builder
	for _, tt := range []struct {
		name, args string
		change     func(*page1)
		want       []string
	}{
		{"one", `{"steps":[{"do":"click","ref":1}]}`, nil, []string{"click 1"}},
		{"three", `{"steps":[{"do":"click","ref":1},{"do":"click","ref":2},{"do":"click","ref":1}],"then":"page"}`, nil, []string{"click 1", "click 2", "click 1"}},
		{"a picture after it", `{"steps":[{"do":"click","ref":1}],"then":"picture"}`, nil, []string{"click 1"}},
		{"nothing after it", `{"steps":[{"do":"click","ref":1}],"then":"nothing"}`, nil, []string{"click 1"}},
		{"denied", `{"steps":[{"do":"click","ref":4}]}`, nil, nil},
		{"denied in the middle", `{"steps":[{"do":"click","ref":1},{"do":"click","ref":4},{"do":"click","ref":1}]}`, nil, []string{"click 1"}},
		{"asked, and nobody is there", `{"steps":[{"do":"click","ref":1},{"do":"click","ref":3},{"do":"click","ref":1}]}`, nil, []string{"click 1"}},
		{"gone", `{"steps":[{"do":"click","ref":9}]}`, nil, nil},
		{"gone in the middle", `{"steps":[{"do":"click","ref":1},{"do":"click","ref":9},{"do":"click","ref":1}]}`, nil, []string{"click 1"}},
		{"fails", `{"steps":[{"do":"click","ref":1}]}`, func(p *page1) {
			p.failing = &act.Refusal{Reason: act.ReasonNotReady, Message: `[1] is covered by [2] dialog "hunter2"`, Next: "close it first"}
		}, nil},
		{"another document", `{"steps":[{"do":"click","ref":2},{"do":"click","ref":1}]}`, func(p *page1) {
			p.outcomes[2] = act.Outcome{Line: "clicked", Stop: "another document is there; look at it"}
		}, []string{"click 2"}},
		{"a dialog", `{"steps":[{"do":"click","ref":1},{"do":"click","ref":2}]}`, func(p *page1) {
			p.outcomes[1] = act.Outcome{Line: "clicked", Stop: "a dialog waits", Dialog: &act.Dialog{Kind: "confirm", Text: "Sure?"}}
		}, []string{"click 1"}},
		{"what opens and comes down", `{"steps":[{"do":"click","ref":1}]}`, func(p *page1) {
			p.outcomes[1] = act.Outcome{Line: "clicked", Opened: []string{"t2"}, Downloads: []string{`d1 "a.csv" from https://shop.example/a.csv`}}
		}, []string{"click 1"}},
		{"a value", `{"steps":[{"do":"click","ref":1}]}`, func(p *page1) { p.outcomes[1] = act.Outcome{Line: "evaluated", Value: `"hunter2"`} }, []string{"click 1"}},
		{"a secret", `{"steps":[{"do":"fill","ref":5,"secret":"pw"}]}`, nil, []string{"fill 5"}},
		{"an address that was not shown", `{"steps":[{"do":"open","url":"https://shop.example/?q=2"}]}`, nil, nil},
		{"an address that was shown", `{"steps":[{"do":"open","url":"https://shop.example/?q=1"}],"then":"nothing"}`, nil, []string{"open 0https://shop.example/?q=1"}},
		{"an address that is denied", `{"steps":[{"do":"open","url":"https://bank.example/"}]}`, nil, nil},
	} {
		s := newSurfer(t, surfing)
		session, page := s.session(t)
		if tt.change != nil {
			tt.change(page)
		}
		got := s.text(t, session, policies.ActTool, tt.args)
		if !slices.Equal(page.done, tt.want) {
			t.Errorf("%s: %q was done, want %q", tt.name, page.done, tt.want)
		}
		if strings.Contains(got, "hunter2") {
			t.Errorf("%s: the answer has the secret: %s", tt.name, got)
		}
		fmt.Fprintf(&out, "## %s\n%s\n\n", tt.name, callID.ReplaceAllString(got, "c-1"))
	}
	golden.Equal(t, "browser.golden", out.String())
}

// Each step that was begun is recorded with what the browser shows after it, without
// secrets. A step that the policy has refused is only in the audit log (BR41).
func TestBrowserReel(t *testing.T) {
	for name, tt := range map[string]struct {
		args   string
		change func(*page1)
		want   []string
	}{
		"two": {`{"steps":[{"do":"click","ref":1},{"do":"click","ref":2}]}`, nil, []string{
			`press on https://shop.example at button "Add": click done with [secret pw] at https://shop.example/1`,
			`submit on https://shop.example, POST to https://shop.example/order at button "Order": click done with [secret pw] at https://shop.example/2`,
		}},
		"denied in the middle": {`{"steps":[{"do":"click","ref":1},{"do":"click","ref":4}]}`, nil, []string{`press on https://shop.example at button "Add": click done with [secret pw] at https://shop.example/1`}},
		"denied":               {`{"steps":[{"do":"click","ref":4}]}`, nil, nil},
		"fails": {`{"steps":[{"do":"click","ref":1}]}`, func(p *page1) {
			p.failing = &act.Refusal{Reason: act.ReasonNotReady, Message: "a dialog says hunter2", Next: "close it"}
		}, []string{`press on https://shop.example at button "Add": a dialog says [secret pw]; nothing was done; close it without a picture: a dialog says [secret pw]; nothing was done; close it`}},
	} {
		s := newSurfer(t, surfing)
		session, page := s.session(t)
		if tt.change != nil {
			tt.change(page)
		}
		s.reel = &reel1{}
		s.text(t, session, policies.ActTool, tt.args)
		if !slices.Equal(s.reel.steps, tt.want) || s.reel.closed > 1 || len(tt.want) > 0 && s.reel.closed == 0 {
			t.Errorf("%s: %q was recorded and closed %d times, want %q", name, s.reel.steps, s.reel.closed, tt.want)
		}
	}
}

// An act is not done if any of its facts has changed since the decision about it (BR24).
func TestBrowserReadsFactsAgain(t *testing.T) {
	changes := map[string]func(f *act.Facts){
		"kind":    func(f *act.Facts) { f.Kind = act.KindSubmit; f.To, f.Method = f.On, "POST" },
		"on":      func(f *act.Facts) { f.On += "other" },
		"to":      func(f *act.Facts) { f.To += "other" },
		"method":  func(f *act.Facts) { f.Method = "GET" },
		"field":   func(f *act.Facts) { f.Field = "text" },
		"control": func(f *act.Facts) { f.Shown = `button "Other"` },
	}
	for what, change := range changes {
		for ref := range 3 {
			s := newSurfer(t, surfing)
			session, page := s.session(t)
			page.swap = func(p *page1) {
				f := p.facts[ref+1]
				change(&f)
				p.facts[ref+1] = f
			}
			was := page.facts[ref+1]
			is := was
			change(&is)
			got := s.text(t, session, policies.ActTool, fmt.Sprintf(`{"steps":[{"do":"click","ref":%d},{"do":"click","ref":1}]}`, ref+1))
			if ref+1 == 3 {
				continue // the policy asks about this act, and nobody can be asked
			}
			if is != was && (len(page.done) > 0 || !strings.Contains(got, "the page has changed since the policy decided about this step")) {
				t.Errorf("%s of %d: %q was done; %s", what, ref+1, page.done, got)
			}
		}
	}
}

// A browser belongs to one session: the first call that the policy allows opens it, only
// its own session can look at it, and it is closed with the session. A tenant has at most
// as many browsers as its policy says (BR17, BR20).
func TestBrowserOfASession(t *testing.T) {
	s := newSurfer(t, surfing)
	first, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for tool, args := range map[string]string{policies.LookTool: `{}`, policies.ActTool: `{"steps":[{"do":"click","ref":1}]}`} {
		if got := s.text(t, first, tool, args); !strings.Contains(got, "has no browser yet") || len(s.made) > 0 {
			t.Errorf("%s without a browser: %s", tool, got)
		}
	}
	if got := s.text(t, first, policies.ActTool, `{"steps":[{"do":"open","url":"https://bank.example/"}]}`); !strings.HasPrefix(got, "DENIED") || len(s.made) > 0 {
		t.Errorf("a denied call has opened a browser: %s", got)
	}
	s.text(t, first, policies.ActTool, `{"steps":[{"do":"open","url":"https://shop.example/"}]}`)
	second, page2 := s.session(t)
	if len(s.made) != 2 || s.made[0] == page2 {
		t.Fatalf("two sessions have %d browsers", len(s.made))
	}
	third, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := s.text(t, third, policies.ActTool, `{"steps":[{"do":"open","url":"https://shop.example/"}]}`); !strings.Contains(got, "totals.browsers") || len(s.made) != 2 {
		t.Errorf("a third browser: %s", got)
	}
	first.Close()
	if !s.made[0].closed || page2.closed {
		t.Errorf("after the first session: closed %v and %v", s.made[0].closed, page2.closed)
	}
	if got := s.text(t, third, policies.ActTool, `{"steps":[{"do":"open","url":"https://shop.example/"}],"then":"nothing"}`); len(s.made) != 3 {
		t.Errorf("no browser is free after one has ended: %s", got)
	}
	second.Close()
	third.Close()
	for i, p := range s.made {
		if !p.closed {
			t.Errorf("browser %d is open", i)
		}
	}
}

// Documents are judged by the grant of the step that runs, or, if none runs, by that of the
// last step (BR25).
func TestBrowserJudgesDocuments(t *testing.T) {
	s := newSurfer(t, surfing)
	_, page := s.session(t)
	judge := page.opts.Judge
	for _, tt := range []struct {
		n    act.Navigation
		want bool
	}{
		{act.Navigation{URL: "https://any.example/", Method: "GET", From: "https://shop.example/"}, true},
		{act.Navigation{URL: "https://bank.example/", Method: "GET", From: "https://shop.example/"}, false},
		{act.Navigation{URL: "https://pay.example/charge", Method: "POST", From: "https://shop.example/"}, false},
		{act.Navigation{URL: "https://shop.example/order", Method: "POST", From: "https://shop.example/"}, true},
		{act.Navigation{URL: "file:///etc/passwd", Method: "GET"}, false},
		{act.Navigation{}, false},
	} {
		if err := judge(t.Context(), tt.n); (err == nil) != tt.want {
			t.Errorf("%+v: got %v, want allowed %v", tt.n, err, tt.want)
		}
	}
	if (&browserSeat{}).judge(t.Context(), act.Navigation{URL: "https://any.example/", Method: "GET"}) == nil {
		t.Error("a browser without a grant loads documents")
	}
	o := page.opts
	if len(o.Secrets) != 1 || o.Secrets[0].Name != "pw" || o.Secrets[0].Origin != "https://shop.example" || o.Secrets[0].Insecure || !o.Eval || !o.OneSite || o.Uploads != policies.DefaultUploads || o.Downloads != policies.DefaultDownloads {
		t.Errorf("got the options %+v", o)
	}
}

// swapped is a gate whose policy can be replaced.
type swapped struct {
	now atomic.Pointer[policies.Policy]
}

func (g *swapped) Decide(f policies.Facts) policies.Decision { return g.now.Load().Decide(f) }

// Documents that a page requests after the last step, and the rest of a call, are judged by
// the policy that is then in force (BR-A40).
func TestBrowserJudgesByTheLaterPolicy(t *testing.T) {
	parse := func(text string) *policies.Policy {
		p, err := policies.Parse("policy.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	gate := &swapped{}
	gate.now.Store(parse(surfing))
	s := newSurfer(t, surfing, func(cfg *mcp.Config) { cfg.Gate = gate })
	session, page := s.session(t)
	later := parse(strings.Replace(surfing, "rules:\n", "rules:\n  - {id: closed, match: {act: [follow, submit], url: \"https://shop.example/**\"}, decision: deny}\n", 1))
	doc := act.Navigation{URL: "https://shop.example/next", Method: "GET", From: "https://shop.example/"}
	if err := page.opts.Judge(t.Context(), doc); err != nil {
		t.Fatal(err)
	}
	gate.now.Store(later)
	if err := page.opts.Judge(t.Context(), doc); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("a document between two calls: %v", err)
	}
	gate.now.Store(parse(surfing))
	page.outcomes[1] = act.Outcome{Line: "clicked"}
	page.swap = func(*page1) { gate.now.Store(later) }
	got := s.text(t, session, policies.ActTool, `{"steps":[{"do":"click","ref":1},{"do":"click","ref":2}]}`)
	if !slices.Equal(page.done, []string{"click 1"}) || !strings.Contains(got, "closed") {
		t.Errorf("%q was done: %s", page.done, got)
	}
}

// A session that fails to open a browser many times keeps no data about the attempts.
func TestFailedBrowsersAreForgotten(t *testing.T) {
	s := newSurfer(t, surfing)
	s.failing = &act.Refusal{Reason: act.ReasonFull, Message: "all browsers are in use", Next: "wait"}
	session, err := s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	fail := func(n int) {
		for range n {
			if got := s.text(t, session, policies.ActTool, `{"steps":[{"do":"open","url":"https://shop.example/"}]}`); !strings.Contains(got, "in use") {
				t.Fatal(got)
			}
		}
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	fail(500)
	before := heap()
	const n = 5000
	fail(n)
	if grown := heap() - before; grown > n*100 {
		t.Errorf("%d failures keep %d bytes each", n, grown/n)
	}
}

// TestBrowserLook checks what a look shows.
func TestBrowserLook(t *testing.T) {
	s := newSurfer(t, surfing)
	session, _ := s.session(t)
	for args, want := range map[string]string{
		`{}`:                              "<< of t1>>\n[secrets that fill can use here: pw]",
		`{"at":"console"}`:                "<<console of t1>>",
		`{"at":"picture"}`:                "[picture of tab t1, 10x20; use a point of it as xy]\nimage/jpeg",
		`{"at":"text"}`:                   "[secret pw] is the word",
		`{"at":"text","max_chars":5}`:     "[continue with offset 5 of",
		`{"at":"text","max_chars":6000}`:  "[the document is longer than what is read of it",
		`{"at":"text","offset":99999999}`: "untrusted-content",
	} {
		if got := s.text(t, session, policies.LookTool, args); !strings.Contains(got, want) || strings.Contains(got, "hunter2") {
			t.Errorf("%s: got %q, want %q in it", args, got, want)
		}
	}
}

// If no profile lets a browser act, or no rule allows an act, the tools are not listed, and
// calls of them by name are denied (BR1).
func TestBrowserToolsAreOff(t *testing.T) {
	for name, policy := range map[string]string{
		"no profile": strings.Replace(surfing, "act: true, secrets: [{secret: pw, origin: \"https://shop.example\", field: password}]", "act: false", 1),
		"no rule":    surfing[:strings.Index(surfing, "rules:")],
	} {
		p, err := policies.Parse("policy.yaml", []byte(policy))
		if err != nil {
			t.Fatal(err)
		}
		s := newSurfer(t, policy)
		session, err := s.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { session.Close() })
		for tool, args := range map[string]string{policies.LookTool: `{}`, policies.ActTool: `{"steps":[{"do":"open","url":"https://shop.example/"}]}`} {
			if !p.HiddenFrom(policies.Facts{Tool: tool}) {
				t.Errorf("%s: %s is listed", name, tool)
			}
			if got := s.text(t, session, tool, args); !strings.HasPrefix(got, "DENIED by policy") {
				t.Errorf("%s: %s: %s", name, tool, got)
			}
		}
		if len(s.made) > 0 {
			t.Errorf("%s: a browser was opened", name)
		}
	}
}
