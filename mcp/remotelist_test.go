package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"belljar.dev/mcp"
	"belljar.dev/mcp/openai"
	"belljar.dev/policies"
)

func defined(name, definition string) mcp.Remote {
	r := farEcho(name)
	r.Definition = json.RawMessage(definition)
	return r
}

// A definition that clients cannot read is refused with its reason. The other tools stay in
// the list: common clients drop the whole list for one wrong entry.
func TestRemoteDefinitionsAreRefusedAlone(t *testing.T) {
	const object = `"inputSchema":{"type":"object"}`
	for definition, want := range map[string]string{
		``: "cannot be read", `[]`: "is not an object", `{"a":1,"a":2}`: "twice in one object", `{`: "cannot be read",
		`{}`: "inputSchema is not", `{"inputSchema":{}}`: "inputSchema is not", `{"inputSchema":true}`: "inputSchema of its definition is true",
		`{"inputSchema":{"type":"array"}}`:                                                           "inputSchema is not",
		`{"inputSchema":{"type":"object","properties":[]}}`:                                          "inputSchema is not",
		`{"inputSchema":{"type":"object","properties":{"a":true}}}`:                                  "inputSchema is not",
		`{"inputSchema":{"type":"object","required":[1]}}`:                                           "inputSchema is not",
		`{"inputSchema":{"type":"object","required":"a"}}`:                                           "inputSchema is not",
		`{"description":7,` + object + `}`:                                                           "description of its definition is the number 7",
		`{"title":{},` + object + `}`:                                                                "title of its definition is an object",
		`{"icons":{},` + object + `}`:                                                                "icons of its definition",
		`{"annotations":[],` + object + `}`:                                                          "annotations of its definition",
		`{"annotations":{"readOnlyHint":"yes"},` + object + `}`:                                      "readOnlyHint of its annotations",
		`{"_meta":1,` + object + `}`:                                                                 "_meta of its definition",
		`{"outputSchema":7,` + object + `}`:                                                          "outputSchema of its definition",
		"{\"title\":\"\xff\"," + object + `}`:                                                        "not UTF-8",
		`{"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `,` + object + `}`:         "nested too deeply",
		`{"description":"` + strings.Repeat("x", 5<<20) + `",` + object + `}`:                        "more than 262144",
		`{"title":null,"description":null,"outputSchema":null,"annotations":null,` + object + `}`:    "",
		`{"x":{"$ref":"http://169.254.169.254/"},"inputSchema":{"type":"object","$ref":"http://x"}}`: "",
	} {
		ty := newToy(t)
		refused := ty.SetRemotes("far", mcp.Remotes{Tools: []mcp.Remote{defined("mcp_far_bad", definition), farEcho(far)}})
		if (want == "") != (len(refused) == 0) || want != "" && !strings.Contains(refused[0].Error(), want) {
			t.Errorf("%.200s: refused %v, want %q", definition, refused, want)
		}
		c := ty.connect(t)
		c.greet(revLegacy)
		a := c.answerTo(req("1", "tools/list"))
		listed := a.tools(t)
		if listed[far] == nil || (listed["mcp_far_bad"] != nil) != (want == "") || strings.Contains(a.raw, `:null`) {
			t.Errorf("%.200s: the list is %.2000s", definition, a.raw)
		}
	}
	ty := newToy(t)
	none := farEcho("mcp_far_none")
	none.Run = nil
	if refused := ty.SetRemotes("far", mcp.Remotes{Tools: []mcp.Remote{none}}); len(refused) != 1 {
		t.Errorf("a tool that nothing runs: %v", refused)
	}
}

// If an upstream has too many tools, the first of them are listed and the rest are refused.
func TestRemoteToolsAreBounded(t *testing.T) {
	ty := newToy(t)
	var many, heavy []mcp.Remote
	for i := range 10_000 {
		many = append(many, farEcho(fmt.Sprintf("mcp_many_%04d", i)))
	}
	for i := range 50 {
		heavy = append(heavy, defined(fmt.Sprintf("mcp_heavy_%02d", i), `{"description":"`+strings.Repeat("x", 200<<10)+`","inputSchema":{"type":"object"}}`))
	}
	if refused := ty.SetRemotes("many", mcp.Remotes{Tools: many}); len(refused) != 1 || !strings.Contains(refused[0].Error(), "it has 10000, and only the first 1000 are offered") {
		t.Errorf("refused: %.500v", refused)
	}
	if refused := ty.SetRemotes("heavy", mcp.Remotes{Tools: heavy}); len(refused) != 30 || !strings.Contains(refused[0].Error(), "more than 4194304 bytes together") {
		t.Errorf("refused %d: %.500v", len(refused), refused)
	}
	c := ty.connect(t)
	c.greet(revLegacy)
	// The list has several pages, and contains each tool once.
	var all []string
	cursor, pages := "", 0
	list := c.asks(func(cursor string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":%q}}`, cursor)
	})
	for {
		a := list(cursor)
		if len(a.raw) > 5<<20 {
			t.Errorf("a page of %d bytes", len(a.raw))
		}
		var page struct {
			Tools      []struct{ Name string }
			NextCursor string
		}
		unmarshal(t, a.Result, &page)
		for _, tool := range page.Tools {
			all = append(all, tool.Name)
		}
		if pages, cursor = pages+1, page.NextCursor; cursor == "" || pages > 10 {
			break
		}
	}
	if own := len(ty.Tools()); len(all) != own+1000+20 || !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) || pages < 2 {
		t.Errorf("%d tools on %d pages, in order: %v", len(all), pages, slices.IsSorted(all))
	}
	if a := list("%"); a.short() != "1: -32602" {
		t.Errorf("a cursor of nobody: %s", a.raw)
	}
}

// A schema whose type is not object is listed only in the modern era, and so are its
// results.
func TestRemoteListsInTheLegacyEra(t *testing.T) {
	ty := newToy(t)
	r := defined(far, `{"inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}`)
	r.Run = func(context.Context, mcp.Call, json.RawMessage) (*mcp.Result, error) {
		return mcp.RawResult("far", json.RawMessage(`{"content":[{"type":"text","text":"[1]"}],"structuredContent":[1]}`))
	}
	ty.set(t, "far", mcp.Remotes{Tools: []mcp.Remote{r}})
	old, young := ty.connect(t), ty.connect(t)
	old.greet(revLegacy)
	for _, tt := range []struct {
		c          *client
		list, call string
		whole      bool
	}{
		{old, req("1", "tools/list"), call("2", far, `{}`), false},
		{young, modern("1", "tools/list", ``), modernTool(far, `{}`, ""), true},
	} {
		if listed := tt.c.answerTo(tt.list).tools(t)[far]; (listed["outputSchema"] != nil) != tt.whole {
			t.Errorf("whole %v: listed %v", tt.whole, listed)
		}
		if a := tt.c.answerTo(tt.call); strings.Contains(a.raw, `"structuredContent":[1]`) != tt.whole || a.text() != "[1]" {
			t.Errorf("whole %v: answered %s", tt.whole, a.raw)
		}
	}
}

// Clients are notified of a list that has changed, and not of one that has not. The list
// contains the upstreams' notes, and how long the list is valid.
func TestRemoteListChanges(t *testing.T) {
	ty := newToy(t)
	c, young := ty.connect(t), ty.connect(t)
	c.greet(revLegacy)
	young.send(modern(`"l"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true},`))
	if a := young.next(); a.Method != "notifications/subscriptions/acknowledged" {
		t.Fatalf("not acknowledged: %s", a.raw)
	}
	ty.set(t, "far", mcp.Remotes{Tools: []mcp.Remote{farEcho(far)}, Note: "2 tools are held", Fresh: 20 * time.Second})
	ty.set(t, "slow", mcp.Remotes{Note: strings.Repeat("é", 1001), Fresh: time.Hour})
	for range 1000 {
		ty.set(t, "far", mcp.Remotes{Tools: []mcp.Remote{farEcho(far)}, Note: "2 tools are held", Fresh: 20 * time.Second})
	}
	if a := c.next(); a.Method != "notifications/tools/list_changed" {
		t.Errorf("got %s", a.raw)
	}
	if a := young.next(); a.Method != "notifications/tools/list_changed" || !strings.Contains(a.raw, `"io.modelcontextprotocol/subscriptionId":"l"`) {
		t.Errorf("got %s", a.raw)
	}
	for name, a := range map[string]answer{"legacy": c.answerTo(req("1", "tools/list")), "modern": young.answerTo(modern("1", "tools/list", ``))} {
		var list struct {
			Meta  map[string]json.RawMessage `json:"_meta"`
			TTLMs int
		}
		unmarshal(t, a.Result, &list)
		if got, want := string(list.Meta["belljar.dev/upstreams"]), `{"far":"2 tools are held","slow":"`+strings.Repeat("é", 1000)+`"}`; got != want || list.TTLMs != 20_000 {
			t.Errorf("%s: %d, %s", name, list.TTLMs, got)
		}
	}
	ty.set(t, "far", mcp.Remotes{})
	ty.set(t, "slow", mcp.Remotes{})
	if a := c.next(); a.Method != "notifications/tools/list_changed" {
		t.Errorf("got %s", a.raw)
	}
	if a := c.answerTo(req("2", "tools/list")); a.short() != "2: ok" || strings.Contains(a.raw, "belljar.dev/upstreams") || !strings.Contains(a.raw, `"ttlMs":300000`) || a.tools(t)[far] != nil {
		t.Errorf("without upstreams: %s", a.raw)
	}
}

// The tools of a tenant's upstreams belong to that tenant: other tenants neither list nor
// call them, and no error message shows them. Two tenants may have tools of the same name.
func TestRemotesOfTenants(t *testing.T) {
	o, with := newOffice(t, `tenants: {a: {}, b: {}}
rules: [{id: no, match: {tool: mcp_far_hidden}, decision: deny}]
`)
	s := newSite(t, with)
	says := func(name, text string) mcp.Remote {
		r := farEcho(name)
		r.Facts = nil
		r.Definition = json.RawMessage(`{"description":"` + text + `","inputSchema":{"type":"object"}}`)
		r.Aliases = []string{"short"}
		r.Run = func(context.Context, mcp.Call, json.RawMessage) (*mcp.Result, error) {
			return mcp.Text("%s", text), nil
		}
		return r
	}
	s.set(t, "far", mcp.Remotes{Tenant: "a", Note: "of a", Tools: []mcp.Remote{says(far, "of a"), says("mcp_far_secret", "of a")}})
	s.set(t, "far", mcp.Remotes{Tenant: "b", Tools: []mcp.Remote{says(far, "of b"), says("mcp_far_hidden", "of b")}})
	s.set(t, "far", mcp.Remotes{Tools: []mcp.Remote{says("mcp_far_nobody", "of the process")}})
	for tenant, other := range map[string]string{"a": "of b", "b": "of a"} {
		auth := []string{"Authorization", "Bearer token-" + tenant}
		list := s.do("POST", modern("1", "tools/list", ""), append(modernHeaders("tools/list", ""), auth...)...)
		if tools := list.last().tools(t); tools[far] == nil || strings.Contains(list.raw, other) || tools["mcp_far_hidden"] != nil || tools["mcp_far_nobody"] != nil || (tools["mcp_far_secret"] != nil) != (tenant == "a") {
			t.Errorf("%s lists %s", tenant, list.raw)
		}
		ask := func(tool string) reply {
			return s.do("POST", modernTool(tool, `{}`, ""), append(modernHeaders("tools/call", tool), auth...)...)
		}
		if r := ask(far); r.last().text() != "of "+tenant {
			t.Errorf("%s calls %s", tenant, r.raw)
		}
		if r := ask("mcp_far_secret"); (r.status == 200) != (tenant == "a") || tenant == "b" && !strings.Contains(r.raw, "unknown tool") {
			t.Errorf("%s calls what a has: %d %s", tenant, r.status, r.raw)
		}
		if r := ask("mcp_far_secre"); strings.Contains(r.raw, "mcp_far_secret") != (tenant == "a") || strings.Contains(r.raw, "mcp_far_hidden") {
			t.Errorf("%s is wrong, and learns %s", tenant, r.raw)
		}
	}
	// A session without a tenant of its own has the tenant of the process. A tool that the
	// policy begins to hide is announced to its client as well.
	c := s.connect(t)
	c.greet(revLegacy)
	o.set(t, "tenants: {a: {}, b: {}, local: {}}\nrules: [{id: no, match: {tool: mcp_far_nobody}, decision: deny}]\n")
	s.Reloaded()
	if a := c.next(); a.Method != "notifications/tools/list_changed" {
		t.Errorf("got %s", a.raw)
	}
}

// A token that may not use a tool of an upstream neither lists nor calls it.
func TestRemotesAndScopes(t *testing.T) {
	_, with := newOffice(t, twoScopes)
	s := newSite(t, with)
	s.set(t, "far", mcp.Remotes{Tenant: "a", Tools: []mcp.Remote{farEcho(far)}})
	for token, may := range map[string]bool{"token-a@read": false, "token-a@all": true} {
		auth := []string{"Authorization", "Bearer " + token}
		list := s.do("POST", modern("1", "tools/list", ""), append(modernHeaders("tools/list", ""), auth...)...)
		called := s.do("POST", modernTool(far, `{"text":"hi"}`, ""), append(modernHeaders("tools/call", far), auth...)...)
		if (list.last().tools(t)[far] != nil) != may || (called.status == 200 && called.last().text() == "hi") != may {
			t.Errorf("%s: listed and called %v: %s\n%s", token, may, list.raw, called.raw)
		}
	}
}

// A limit of an upstream holds for all its tools together, and for no others.
func TestRemoteLimit(t *testing.T) {
	ty := newToy(t)
	running, free := make(chan struct{}), make(chan struct{})
	slow := farEcho("mcp_far_slow")
	slow.Run = func(context.Context, mcp.Call, json.RawMessage) (*mcp.Result, error) {
		running <- struct{}{}
		<-free
		return mcp.Text("done"), nil
	}
	ty.set(t, "far", mcp.Remotes{Tools: []mcp.Remote{farEcho(far), slow}, Limit: policies.RateLimit{Calls: 3, Per: time.Hour, Concurrent: 1}})
	ty.set(t, "near", mcp.Remotes{Tools: []mcp.Remote{farEcho("mcp_near_echo")}})
	s, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	say := func(tool string) string {
		r, err := ty.Call(t.Context(), s, tool, json.RawMessage(`{"text":"hi"}`))
		if err != nil {
			t.Fatal(err)
		}
		return r.Content[0].Text
	}
	first := make(chan string)
	go func() { first <- say("mcp_far_slow") }()
	<-running
	if got := say(far); !strings.Contains(got, "DENIED by policy rule upstream:far") || !strings.Contains(got, "lets 1 of your calls run at the same time") {
		t.Errorf("two at once: %s", got)
	}
	close(free)
	for i, want := range []string{"hi", "hi", "DENIED by policy rule upstream:far"} {
		if i == 0 {
			if got := <-first; got != "done" {
				t.Errorf("the first: %s", got)
			}
		}
		if got := say(far); !strings.HasPrefix(got, want) {
			t.Errorf("call %d: got %s, want %s", i+2, got, want)
		}
	}
	if got := say("mcp_near_echo"); got != "hi" {
		t.Errorf("of another upstream: %s", got)
	}
}

// If the safety of an upstream is off, its tools run without approvals and hooks, and the
// log says so. A call that the policy denies stays denied, and redactions and limits stay.
func TestRemoteUnguarded(t *testing.T) {
	p, err := policies.Parse("policy.yaml", []byte(wayPolicy))
	if err != nil {
		t.Fatal(err)
	}
	log, hooks := &reasons{}, &warden{}
	ty := newToy(t, func(c *mcp.Config) {
		c.Gate, c.Audit, c.Around, c.Approver = p, log, hooks, &fickle{}
		c.Redact = func(text string, _ []policies.Redaction) string {
			return strings.ReplaceAll(text, "secret@example.com", "[redacted]")
		}
	})
	ty.set(t, "far", mcp.Remotes{Unguarded: true, Tools: []mcp.Remote{farEcho(far)}})
	s, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const off = "The safety of upstream far is off: no approvals and no hooks"
	for text, want := range map[string][2]string{
		"hi":                      {"hi", "allow all " + off + "."},
		"no":                      {"no", "allow all " + off + "."}, // the hook would refuse it if the safety were on
		"publish it":              {"publish it", "allow publish " + off + "; rule publish requires a person's approval, and nobody was asked."},
		"forbidden fruit":         {"DENIED by policy rule never", "deny never It is forbidden."},
		"mail secret@example.com": {"mail [redacted]", "allow all " + off + "."},
	} {
		r, err := ty.Call(t.Context(), s, far, json.RawMessage(`{"text":"`+text+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Content[0].Text; !strings.HasPrefix(got, want[0]) || len(r.Content) != 1 {
			t.Errorf("%s: got %+v, want %s alone", text, r.Content, want[0])
		}
		if !strings.HasPrefix(log.last, want[1]) && text != "mail secret@example.com" {
			t.Errorf("%s: the log has %q, want %q", text, log.last, want[1])
		}
	}
	if len(hooks.seen) > 0 {
		t.Errorf("hooks ran: %v", hooks.seen)
	}
}

// reasons is an Audit that keeps the last decision.
type reasons struct {
	last  string
	facts policies.Facts
}

func (r *reasons) Decided(_ context.Context, d mcp.Decided) error {
	r.last = fmt.Sprintf("%s %s %s", d.Decision.Verdict, d.Decision.Rule, d.Decision.Reason)
	r.facts = d.Facts
	return nil
}

func (r *reasons) Finished(mcp.Finished) {}

// The policy sees which upstream has the tool, the tool's name at the upstream, and what
// the upstream claims about it. Texts that browsers read as URLs are URLs of the call.
func TestRemoteFacts(t *testing.T) {
	p, err := policies.Parse("policy.yaml", []byte(`version: 1
profiles: {p: {}}
rules:
  - {id: all, match: {tool: "*"}, decision: allow}
  - {id: evil, match: {host: "*.evil.example"}, decision: deny}
  - {id: private, match: {url: "https://ok.example/private/**"}, decision: deny}
  - {id: writers, match: {upstream: far, annotations: {readOnlyHint: false}}, decision: deny}
`))
	if err != nil {
		t.Fatal(err)
	}
	log := &reasons{}
	ty := newToy(t, func(c *mcp.Config) { c.Gate, c.Audit = p, log })
	navigate := defined("mcp_playwright_browser_navigate", farDefinition)
	navigate.Facts, navigate.Aliases = nil, []string{"mcp:playwright.browser_navigate"}
	writes := defined("mcp_far_write", `{"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"idempotentHint":true}}`)
	mapped := farEcho("mcp_near_mapped")
	mapped.Facts = func(args map[string]any) policies.Facts {
		host, _ := args["to"].(string)
		return policies.Facts{Hosts: []string{host}, Upstream: "another", Tool: "echo"}
	}
	ty.set(t, "playwright", mcp.Remotes{Tools: []mcp.Remote{navigate}})
	ty.set(t, "far", mcp.Remotes{Tools: []mcp.Remote{writes}})
	ty.set(t, "near", mcp.Remotes{Tools: []mcp.Remote{mapped}})
	s, err := ty.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	decided := func(tool, args string) string {
		if _, err := ty.Call(t.Context(), s, tool, json.RawMessage(args)); err != nil {
			t.Fatal(err)
		}
		verdict, rest, _ := strings.Cut(log.last, " ")
		rule, _, _ := strings.Cut(rest, " ")
		return verdict + " " + rule
	}
	for url, want := range map[string]string{
		`https://ok.example/`: "allow all", `https://x.evil.example/`: "deny evil", `HTTPS://X.EVIL.EXAMPLE`: "deny evil", `http:x.evil.example`: "deny evil",
		`https:\\x.evil.example\a`: "deny evil", `https:////x.evil.example`: "deny evil", `  https://x.evil.example/ `: "deny evil", "ht\ntps://x.ev\til.example": "deny evil",
		`https://ok.example/private/x`: "deny private", `https://ok.example/a b/../private`: "not allowed", `https://ok.example\private\x`: "deny private",
		`https://u@x.evil.example/`: "deny unreadable", `https://ok.example/?next=https://x.evil.example`: "allow all",
		`https: see there`: "allow all", `ok.example`: "allow all", `https://`: "allow all", `httpsx://x.evil.example`: "allow all", `https://ok.example says it`: "allow all",
		`x https://x.evil.example`: "allow all",
	} {
		args, err := json.Marshal(map[string]any{"n": 1, "steps": []any{true, map[string]any{"to": url}}})
		if err != nil {
			t.Fatal(err)
		}
		got := decided("mcp:playwright.browser_navigate", string(args))
		if stopped := !strings.HasPrefix(got, "allow"); got != want && (want != "not allowed" || !stopped) {
			t.Errorf("%q: %s of %v, want %s", url, got, log.facts.URLs, want)
		}
	}
	if f := log.facts; f.Tool != "mcp_playwright_browser_navigate" || f.Upstream != "playwright" || fmt.Sprint(f.Annotations) != "map[readOnlyHint:true]" || f.Args["n"] != float64(1) {
		t.Errorf("the facts are %+v", f)
	}
	if got := decided("mcp_far_write", `{}`); got != "deny writers" || fmt.Sprint(log.facts.Annotations) != "map[idempotentHint:true readOnlyHint:false]" {
		t.Errorf("a tool that says it writes: %s, %v", got, log.facts.Annotations)
	}
	if got := decided("mcp_near_mapped", `{"to":"x.evil.example"}`); got != "deny evil" || log.facts.Upstream != "near" || log.facts.Tool != "mcp_near_mapped" {
		t.Errorf("facts of its own: %s, %+v", got, log.facts)
	}
	if got := decided("mcp_near_mapped", `{"to":"ok.example"}`); got != "allow all" {
		t.Errorf("facts of its own: %s", got)
	}
	if got := decided("mcp_far_write", `[]`); got != "deny arguments" || log.facts.Upstream != "far" {
		t.Errorf("arguments that cannot be read: %s, %+v", got, log.facts)
	}
}

// The arguments reach the upstream as the client wrote them, also large numbers, and the
// upstream's call gets the session and the tenant.
func TestRemoteArguments(t *testing.T) {
	ty := newToy(t)
	var got string
	var called mcp.Call
	r := farEcho(far)
	r.Run = func(_ context.Context, c mcp.Call, args json.RawMessage) (*mcp.Result, error) {
		got, called = string(args), c
		return nil, nil
	}
	ty.set(t, "far", mcp.Remotes{Tools: []mcp.Remote{r}})
	c := ty.connect(t)
	c.greet(revLegacy)
	for sent, want := range map[string]string{
		`"arguments":{"n":9007199254740993, "f":1.50,"unknown":[null]},`: `{"n":9007199254740993, "f":1.50,"unknown":[null]}`,
		`"arguments":null,`: `{}`, ``: `{}`,
	} {
		if a := c.answerTo(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + sent + `"name":"` + far + `"}}`); string(a.Result) != `{"content":[]}` || got != want || called.Tool != far || called.Upstream != "far" || called.Session == nil {
			t.Errorf("%s: got %s for %s, and answered %s", sent, got, called.Tool, a.raw)
		}
	}
}

// Cancelling a call cancels the call at the upstream, and the upstream's progress reaches
// the client.
func TestRemoteCancelAndProgress(t *testing.T) {
	ty := newToy(t)
	over := make(chan error, 1)
	r := farEcho(far)
	r.Run = func(ctx context.Context, c mcp.Call, _ json.RawMessage) (*mcp.Result, error) {
		c.Progress(1, 2, "half")
		<-ctx.Done()
		over <- context.Cause(ctx)
		return nil, ctx.Err()
	}
	ty.set(t, "far", mcp.Remotes{Tools: []mcp.Remote{r}})
	c := ty.connect(t)
	c.greet(revLegacy)
	c.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"` + far + `","arguments":{},"_meta":{"progressToken":"p"}}}`)
	a := c.next()
	for a.Method == "notifications/tools/list_changed" {
		a = c.next()
	}
	if a.Method != "notifications/progress" || !strings.Contains(a.raw, `"progressToken":"p","progress":1,"total":2,"message":"half"`) {
		t.Errorf("got %s", a.raw)
	}
	// Removing a tool does not disturb a call of it that runs.
	ty.set(t, "far", mcp.Remotes{})
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	if err := <-over; err == nil {
		t.Error("it is not cancelled")
	}
}

// A host shows the tools of upstreams to models as functions, and their results as texts.
func TestRemotesAsFunctions(t *testing.T) {
	ty := newToy(t)
	r := defined("mcp_playwright_navigate", wholeDefinition)
	r.Run = func(context.Context, mcp.Call, json.RawMessage) (*mcp.Result, error) {
		return mcp.RawResult("playwright", json.RawMessage(wholeResult))
	}
	ty.set(t, "playwright", mcp.Remotes{Tools: []mcp.Remote{r}})
	c := ty.connect(t)
	c.greet(revLegacy)
	var list struct{ Tools []openai.Tool }
	unmarshal(t, c.answerTo(req("1", "tools/list")).Result, &list)
	a, err := openai.New(list.Tools)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(a.Functions(), func(f openai.Function) bool { return f.Name == "mcp_playwright_navigate" })
	if i < 0 || fmt.Sprint(a.Functions()[i].Required) != "[url]" || !strings.Contains(string(a.Functions()[i].Parameters), `"x-mcp-header"`) {
		t.Fatalf("the functions are %+v", a.Functions())
	}
	tool, args, err := a.Call(openai.Call{Name: "mcp_playwright_navigate", Arguments: `{"url":"https://example.com"}`})
	if err != nil {
		t.Fatal(err)
	}
	out, err := openai.FromResult(c.answerTo(call("2", tool, string(args))).Result)
	want := "plain\nnoted \x1b[31m\n[image image/png, 9 bytes]\n[audio audio/wav, 6 bytes]\n[resource file:///x x]\n<y>\n[resource file:///z , 3 bytes]\n[future , 0 bytes]"
	if err != nil || out.Success || out.Output != want {
		t.Errorf("got %v, %q, %v", out.Success, out.Output, err)
	}
}

// discreetToy returns a toy whose policy denies the calls of far that match the condition
// denied, and redacts secrets in the results of the others. The ledger gets its audit log.
func discreetToy(t *testing.T, denied string) (*toy, *ledger) {
	t.Helper()
	p, err := policies.Parse("policy.yaml", []byte(`version: 1
profiles: {p: {}}
rules:
  - {id: all, match: {tool: "*"}, decision: allow, obligations: {redact: [emails]}}
  - {id: no, match: {upstream: far}, when: "`+denied+`", decision: deny, instead: Nothing.}
`))
	if err != nil {
		t.Fatal(err)
	}
	log := &ledger{}
	return newToy(t, func(c *mcp.Config) {
		c.Gate, c.Audit = p, log
		c.Redact = func(text string, _ []policies.Redaction) string { return strings.ReplaceAll(text, "secret", "[gone]") }
	}), log
}

// A prompt of an upstream is listed whole under its name at this server. The policy decides
// its use like a call, and the use is recorded and redacted like one.
func TestRemotePrompts(t *testing.T) {
	ty, log := discreetToy(t, "args.name == 'mcp_far_secrets'")
	const definition = `{"name":"review","title":"T","icons":[{"src":"x"}],"arguments":[{"name":"code","required":true,"x":1}],"_meta":{"a":[1]},"x-unknown":null}`
	ty.AddPrompts(mcp.PromptSource{
		List: func(context.Context, *mcp.Session) ([]mcp.Prompt, error) {
			arguments := []mcp.Argument{{Name: "code", Required: true}}
			return []mcp.Prompt{
				{Name: "mcp_far_review", Arguments: arguments, Definition: json.RawMessage(definition)},
				{Name: "mcp_far_secrets", Definition: json.RawMessage(`{"name":"secrets"}`)},
				{Name: "mcp_far_bad", Definition: json.RawMessage(`{"name":"a","name":"b"}`)},
				{Name: "mcp_far_bad2", Definition: json.RawMessage(`{"name":"a","arguments":[{"name":7}]}`)},
				{Name: "mcp_far_bad3", Definition: json.RawMessage(`{"name":"a","arguments":["x"]}`)},
				{Name: "mcp_far_bad4", Definition: json.RawMessage(`{"name":"a","description":{}}`)},
			}, nil
		},
		Facts: func(*mcp.Session, string, map[string]string) policies.Facts {
			return policies.Facts{Tool: "mcp_far_prompts", Upstream: "far"}
		},
		GetGranted: func(_ context.Context, c mcp.Call, name string, args map[string]string) ([]mcp.Message, error) {
			if c.Upstream != "far" || name == "mcp_far_secrets" {
				t.Errorf("%s of %q is used", name, c.Upstream)
			}
			if args["code"] == "fail" {
				return nil, &mcp.RemoteError{Code: 7, Message: "no secret here"}
			}
			return []mcp.Message{
				{Role: "assistant", Content: mcp.Content{Text: "a secret " + args["code"]}},
				{Content: mcp.Content{Raw: json.RawMessage(`{"type":"resource","resource":{"uri":"file:///x","text":"secret","_meta":{"b":1}}}`)}},
			}, nil
		},
	})
	old, young := ty.connect(t), ty.connect(t)
	old.greet(revLegacy)
	var want map[string]any
	unmarshal(t, []byte(strings.Replace(definition, `"name":"review"`, `"name":"mcp_far_review"`, 1)), &want)
	ask := map[*client]func(method, params string) answer{
		old: func(method, params string) answer {
			return old.answerTo(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + strings.TrimSuffix(params, ",") + `}}`)
		},
		young: func(method, params string) answer { return young.answerTo(modern("1", method, params)) },
	}
	for c, ask := range ask {
		var list struct{ Prompts []map[string]any }
		a := ask("prompts/list", "")
		unmarshal(t, a.Result, &list)
		if len(list.Prompts) != 2 || list.Prompts[0]["name"] != "mcp_far_review" {
			t.Fatalf("listed: %s", a.raw)
		}
		if diff := cmp.Diff(want, list.Prompts[0]); diff != "" {
			t.Errorf("the upstream's (-) and what is listed (+):\n%s", diff)
		}
		if modern := strings.Contains(a.raw, `"resultType":"complete"`); modern != (c == young) || !strings.Contains(a.raw, `"ttlMs":300000`) {
			t.Errorf("the list is %s", a.raw)
		}
		log.lines = nil
		a = ask("prompts/get", `"name":"mcp_far_review","arguments":{"code":"x"},`)
		const messages = `"messages":[{"content":{"type":"text","text":"a [gone] x"},"role":"assistant"},{"content":{"resource":{"_meta":{"b":1},"text":"[gone]","uri":"file:///x"},"type":"resource"},"role":"user"}]`
		if !strings.Contains(a.raw, messages) {
			t.Errorf("got %s", a.raw)
		}
		if got := strings.Join(log.lines, ", "); got != `decided mcp_far_prompts allow all "" args=2, finished mcp_far_prompts failed=false` {
			t.Errorf("the log has %s", got)
		}
		if a = ask("prompts/get", `"name":"mcp_far_review","arguments":{"code":"fail"},`); a.Error == nil || !strings.Contains(a.Error.Message, "no [gone] here") {
			t.Errorf("an error of an upstream is not redacted: %s", a.raw)
		}
		a = ask("prompts/get", `"name":"mcp_far_secrets",`)
		if a.Error == nil || !strings.Contains(a.Error.Message, "DENIED by policy rule no") {
			t.Errorf("a prompt that the policy denies: %s", a.raw)
		}
	}
}

// Resources of an upstream are listed, found and read whole, under their URIs at this
// server. The policy decides each read, which is recorded and redacted like a call. If one
// upstream fails, the resources of the others stay.
func TestRemoteResources(t *testing.T) {
	ty, log := discreetToy(t, "args.uri.endsWith('denied')")
	const definition = `{"uri":"file:///x","name":"x","title":"X","icons":[],"annotations":{"priority":0.50},"size":5,"mimeType":null,"_meta":{"a":1},"x-unknown":[null]}`
	const template = `{"uriTemplate":"mcp+far://file/{+path}","name":"files","x-unknown":1}`
	results := map[string]string{
		"mcp+far://file//x": `{"contents":[{"uri":"mcp+far://file//x","text":"a secret","mimeType":"text/plain","_meta":{"b":"secret"}},{"uri":"mcp+far://file//y","blob":"secretAA","x":1}],"_meta":{"c":"secret","belljar.dev/upstream":"bank"}}`,
		"mcp+far://empty":   `{"contents":[]}`,
		"mcp+far://bad":     `{"contents":[7]}`,
		"mcp+far://odd":     `{"contents":["a secret"]}`,
		"mcp+far://twice":   `{"contents":[{"uri":"a","uri":"b"}]}`,
		"mcp+far://huge":    `{"contents":[{"uri":"x","text":"` + strings.Repeat("x", 10<<20) + `"}]}`,
	}
	mcp.AddRemoteResources(ty.Server, mcp.RemoteResources{
		Scheme: "mcp+",
		List: func(context.Context, *mcp.Session) ([]mcp.Entry, error) {
			all := []mcp.Entry{{URI: "mcp+far://file//x", Name: "x", Title: "needle", Definition: json.RawMessage(definition)}}
			for i, bad := range []string{`{"uri":1,"uri":2}`, `{"uri":"x"}`, `{"uri":1,"name":"x"}`, `{"uri":"x","name":{}}`, `{"uri":"x","name":"x","size":"5"}`, `{"uri":"x","name":"x","description":5}`, `{"uri":"x","name":"x","annotations":[]}`, `{"uri":"x","name":"x","icons":{}}`} {
				all = append(all, mcp.Entry{URI: fmt.Sprint("mcp+far://broken", i), Name: "needle", Definition: json.RawMessage(bad)})
			}
			return all, nil
		},
		Templates: func(context.Context, *mcp.Session) ([]json.RawMessage, error) {
			all := []json.RawMessage{json.RawMessage(template)}
			for _, bad := range []string{`{`, `7`, `[]`, `null`, `{}`, `{"uriTemplate":"x"}`, `{"name":"x"}`, `{"uriTemplate":7,"name":"x"}`, `{"uriTemplate":"x","name":7}`, `{"uriTemplate":"x","name":null}`, `{"uriTemplate":"x","name":"x","title":[]}`} {
				all = append(all, json.RawMessage(bad))
			}
			all = append(all, json.RawMessage(`{"uriTemplate":"x","name":"`+strings.Repeat("x", 256<<10)+`"}`))
			return all, nil
		},
		Facts: func(_ *mcp.Session, uri string) (policies.Facts, error) {
			if !strings.HasPrefix(strings.ToLower(uri), "mcp+far:") {
				return policies.Facts{}, mcp.ErrNotFound
			}
			return policies.Facts{Tool: "mcp_far_resources", Upstream: "far"}, nil
		},
		Read: func(_ context.Context, c mcp.Call, uri string) (json.RawMessage, error) {
			if strings.HasSuffix(uri, "denied") || c.Upstream != "far" {
				t.Errorf("%s of %q is read", uri, c.Upstream)
			}
			switch {
			case strings.HasSuffix(uri, "fails"):
				return nil, &mcp.RemoteError{Code: 7, Message: "no secret here"}
			case strings.HasSuffix(uri, "long"):
				return nil, &mcp.RemoteError{Code: 7, Message: strings.Repeat("x", 1<<20)}
			}
			if results[uri] == "" {
				return nil, mcp.ErrNotFound
			}
			return json.RawMessage(results[uri]), nil
		},
	})
	broken := func(context.Context, *mcp.Session) ([]mcp.Entry, error) { return nil, errors.New("gone") }
	mcp.AddRemoteResources(ty.Server, mcp.RemoteResources{
		Scheme: "other+", List: broken,
		Templates: func(context.Context, *mcp.Session) ([]json.RawMessage, error) { return nil, errors.New("gone") },
		Facts:     func(*mcp.Session, string) (policies.Facts, error) { return policies.Facts{}, errors.New("gone") },
		Read:      func(context.Context, mcp.Call, string) (json.RawMessage, error) { return nil, errors.New("gone") },
	})
	old, young := ty.connect(t), ty.connect(t)
	old.greet(revLegacy)
	for era, ask := range map[string]func(method, params string) answer{
		"legacy": func(method, params string) answer {
			return old.answerTo(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + strings.TrimSuffix(params, ",") + `}}`)
		},
		"modern": func(method, params string) answer { return young.answerTo(modern("1", method, params)) },
	} {
		var want, wantTemplate map[string]any
		unmarshal(t, []byte(strings.Replace(strings.Replace(definition, "file:///x", "mcp+far://file//x", 1), `"mimeType":null,`, "", 1)), &want)
		unmarshal(t, []byte(template), &wantTemplate)
		for method, params := range map[string]string{"resources/list": "", "resources/search": `"query":"NEEDLE",`} {
			var list struct{ Resources []map[string]any }
			a := ask(method, params)
			unmarshal(t, a.Result, &list)
			if diff := cmp.Diff([]map[string]any{want}, list.Resources); diff != "" {
				t.Errorf("%s, %s: the upstream's (-) and what is listed (+):\n%s", era, method, diff)
			}
		}
		var templates struct{ ResourceTemplates []map[string]any }
		unmarshal(t, ask("resources/templates/list", "").Result, &templates)
		if n := len(templates.ResourceTemplates); n != 2 || templates.ResourceTemplates[0]["name"] != "note" || !cmp.Equal(wantTemplate, templates.ResourceTemplates[1]) {
			t.Errorf("%s: the templates are %v", era, templates)
		}
		log.lines = nil
		a := ask("resources/read", `"uri":"mcp+far://file//x",`)
		for _, part := range []string{
			`"contents":[{"_meta":{"b":"[gone]"},"mimeType":"text/plain","text":"a [gone]","uri":"mcp+far://file//x"},{"blob":"secretAA","uri":"mcp+far://file//y","x":1}]`,
			`"c":"[gone]"`, `"belljar.dev/upstream":"far"`,
		} {
			if !strings.Contains(a.raw, part) {
				t.Errorf("%s: got %s, want %s in it", era, a.raw, part)
			}
		}
		if strings.Contains(a.raw, `"resultType":"complete"`) != (era == "modern") {
			t.Errorf("%s: got %s", era, a.raw)
		}
		if got := strings.Join(log.lines, ", "); got != `decided mcp_far_resources allow all "" args=1, finished mcp_far_resources failed=false` {
			t.Errorf("the log has %s", got)
		}
		for uri, want := range map[string]string{
			"mcp+far://empty": `"contents":[]`, "MCP+far://denied": "DENIED by policy rule no", "mcp+far://none": "resource not found", "mcp+near://x": "resource not found",
			"mcp+far://fails": "no [gone] here", "mcp+far://odd": `one item of its contents is the string \"a [gone]\"`,
			"mcp+far://bad": "one item of its contents is the number 7", "mcp+far://twice": "twice in one object", "mcp+far://huge": "the limit is 10485760", "other+x://y": "gone", "note://7": `"text":"seven"`,
		} {
			if a := ask("resources/read", `"uri":"`+uri+`",`); !strings.Contains(a.raw, want) {
				t.Errorf("%s: %s: got %.300s, want %s", era, uri, a.raw, want)
			}
		}
		if a := ask("resources/read", `"uri":"mcp+far://long",`); a.Error == nil || len(a.raw) > 20<<10 {
			t.Errorf("%s: the error of an upstream has %d bytes: %.100s", era, len(a.raw), a.raw)
		}
	}
}

// usualDefinition has the size of a common definition.
var usualDefinition = `{"name":"navigate","title":"Navigate","description":"` + strings.Repeat("Goes to a page and waits. ", 8) + `","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{` +
	`"url":{"type":"string","description":"The URL to navigate to"},"timeout":{"type":"integer","minimum":0,"description":"How long to wait, in milliseconds"}},"required":["url"],"additionalProperties":false},"annotations":{"title":"Navigate","readOnlyHint":false,"openWorldHint":true}}`

// BenchmarkListOfUpstreams measures a list of 20 upstreams with 20 tools each, and for
// comparison a list of the server's own tools.
func BenchmarkListOfUpstreams(b *testing.B) {
	for _, upstreams := range []int{0, 20} {
		b.Run(fmt.Sprintf("upstreams=%d", upstreams), func(b *testing.B) {
			ty := newToy(b, impatient)
			for u := range upstreams {
				var all []mcp.Remote
				for i := range 20 {
					all = append(all, defined(fmt.Sprintf("mcp_up%02d_tool%02d", u, i), usualDefinition))
				}
				ty.set(b, fmt.Sprintf("up%02d", u), mcp.Remotes{Tools: all})
			}
			c := ty.connect(b)
			c.greet(revLegacy)
			list := c.answerTo(req("1", "tools/list"))
			if listed := list.tools(b); len(listed) != len(ty.Tools())+upstreams*20 {
				b.Fatalf("%d tools are listed", len(listed))
			}
			size := len(list.raw)
			b.ReportAllocs()
			before := cpu(b)
			b.ResetTimer()
			for range b.N {
				c.send(req("1", "tools/list"))
				for len(<-c.line) < size { // a notification
				}
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-us/op")
		})
	}
}

// The templates of all upstreams are in one page, and have a bound together.
func TestTemplatesOfUpstreamsAreBounded(t *testing.T) {
	ty := newToy(t, impatient)
	large := json.RawMessage(`{"uriTemplate":"mcp+far://x","name":"` + strings.Repeat("x", 200<<10) + `"}`)
	mcp.AddRemoteResources(ty.Server, mcp.RemoteResources{
		Scheme: "mcp+",
		List:   func(context.Context, *mcp.Session) ([]mcp.Entry, error) { return nil, nil },
		Templates: func(context.Context, *mcp.Session) ([]json.RawMessage, error) {
			return slices.Repeat([]json.RawMessage{large}, 100), nil
		},
		Facts: func(*mcp.Session, string) (policies.Facts, error) { return policies.Facts{}, mcp.ErrNotFound },
		Read:  func(context.Context, mcp.Call, string) (json.RawMessage, error) { return nil, mcp.ErrNotFound },
	})
	c := ty.connect(t)
	c.greet(revLegacy)
	if n := len(c.answerTo(req("1", "resources/templates/list")).raw); n < 1<<20 || n > 5<<20 {
		t.Errorf("the list has %d bytes, want some, and at most about 4 MiB", n)
	}
}
