package tools

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/browser/act"
	"belljar.dev/browser/browsertest"
	"belljar.dev/browser/fetch"
	"belljar.dev/browser/fetch/fetchtest"
	"belljar.dev/browser/reader"
	"belljar.dev/internal/callback"
	"belljar.dev/internal/golden"
	"belljar.dev/internal/job"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/plan"
	"belljar.dev/internal/skills"
	"belljar.dev/internal/store"
	"belljar.dev/internal/todo"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
	"belljar.dev/search"
	"belljar.dev/search/engine"
	"belljar.dev/search/searchtest"
)

const wholePolicy = `
version: 1
defaults: {decision: allow, profile: p}
profiles: {p: {fs: {system: true, workspace: rw}, net: {mode: proxy, allow: ["*.example"]}, browser: {walls: sandboxed, act: true}}}
`

// badInputs contains arguments that a tool refuses, by tool.
var badInputs = make(map[string][]string)

// badInput adds arguments that a tool refuses. The test file of a tool calls it from a
// variable of the package.
func badInput(tool string, args ...string) struct{} { //nolint:unparam // a variable needs a value
	badInputs[tool] = append(badInputs[tool], args...)
	return struct{}{}
}

// whole has the servers of two tenants, each with all tools, over one state directory.
type whole struct {
	t             *testing.T
	own, foreign  *mcp.Server
	first, second *mcp.Session // sessions of the server own
	stranger      *mcp.Session // session of the server foreign
}

func newWhole(t *testing.T) *whole {
	t.Helper()
	bench := boxes(t, "") // checks the test's needs, and makes the workspace
	policy, err := policies.Parse("p.yaml", []byte(wholePolicy))
	if err != nil {
		t.Fatal(err)
	}
	sup, err := sandbox.New(sandbox.Config{Workspace: bench.workspace, State: filepath.Join(t.TempDir(), "state")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sup.Close() })
	clock := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	kept := store.New(filepath.Join(t.TempDir(), "st"))
	t.Cleanup(func() { kept.Close() })
	books := store.Config{Store: kept, Place: "/p", Self: "1", Now: clock}
	mocks, err := searchtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mocks.Close() })
	known, err := engine.Load("")
	if err != nil {
		t.Fatal(err)
	}
	fan, err := search.New(search.Config{Engines: func() *engine.Set { return known }, Door: mocks.Door(nil)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fan.Close() })
	pages := fetch.New(fetch.Config{Door: fetchtest.New(t).Door})
	t.Cleanup(func() { pages.Close() })
	read, err := reader.New(reader.Config{Fetch: pages, Browser: &browsertest.Fake{}})
	if err != nil {
		t.Fatal(err)
	}
	jobs := job.New(job.Config{Config: store.Config{Store: kept, Place: bench.workspace, Self: "1"}, Dir: filepath.Join(t.TempDir(), "jobs")})
	plans, callbacks := plan.New(plan.Config{Config: books}), callback.New(callback.Config{Config: books})
	w := &whole{t: t}
	for _, tenant := range []string{"own", "foreign"} {
		server, err := mcp.New(mcp.Config{Gate: policy, Tenant: tenant})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Shutdown(t.Context()) })
		Add(server, Backends{
			Sandbox: sup.Home(), Jobs: jobs, Search: fan, Reader: read, Log: slog.New(slog.DiscardHandler),
			Todos: todo.New(books), Plans: plans, Questions: &desk{Desk: question.New(books)}, Callbacks: callbacks,
			Browsers: &Browsers{Acts: policies.ActKinds(), Open: func(context.Context, policies.Grant, act.Options) (Chrome, error) { return &page1{}, nil }},
			Skills:   skills.New(skills.Config{Sources: []skills.Source{{Name: "workspace", Dir: ".claude/skills", Beneath: bench.workspace}}}),
		})
		if tenant == "own" {
			w.own, w.first, w.second = server, w.open(server), w.open(server)
		} else {
			w.foreign, w.stranger = server, w.open(server)
		}
	}
	w.furnish(bench.workspace)
	return w
}

func (w *whole) open(server *mcp.Server) *mcp.Session {
	w.t.Helper()
	s, err := server.Open(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	return s
}

// furnish makes data in the first session that the calls could destroy.
func (w *whole) furnish(workspace string) {
	w.t.Helper()
	outside := w.t.TempDir()
	for name, text := range map[string]string{
		workspace + "/.claude/skills/good/SKILL.md":   "---\nname: good\ndescription: Is good.\n---\nBe good.\n",
		workspace + "/.claude/skills/open/SKILL.md":   "---\nname: open\n",
		workspace + "/.claude/skills/nobody/SKILL.md": "Nothing stands before this.\n",
		workspace + "/.claude/skills/nodesc/SKILL.md": "---\nname: nodesc\n---\nx\n",
		workspace + "/text.png":                       "This is no image.\n",
		outside + "/SKILL.md":                         "---\nname: leak\ndescription: A secret.\n---\nA secret.\n",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"leads-out": outside, "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(workspace, ".claude/skills", link)); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, c := range []struct{ tool, args string }{
		{"TaskManager", `{"action":"create","text":"Release"}`},
		{"TaskManager", `{"action":"add","text":"Tag"}`},
		{"SetCallback", `{"message":"look","delay_seconds":60}`},
		{"PlanMode", `{"action":"enter","goal":"Release","plan_file":"r.md"}`},
		{"BackgroundBash", `{"command":"exec sleep 4250"}`},
	} {
		if r := w.call(w.own, w.first, c.tool, c.args); r.IsError {
			w.t.Fatalf("%s %s: %s", c.tool, c.args, words(r))
		}
	}
}

func (w *whole) call(server *mcp.Server, s *mcp.Session, tool, args string) *mcp.Result {
	w.t.Helper()
	r, err := server.Call(w.t.Context(), s, tool, []byte(args))
	if err != nil {
		w.t.Fatalf("%s %s: %v", tool, args, err)
	}
	enough(w.t, tool, r)
	return r
}

// kept returns all that the first session keeps, as text.
func (w *whole) kept() string {
	var b strings.Builder
	for _, c := range []struct{ tool, args string }{
		{"TaskManager", `{"action":"list"}`},
		{"SetCallback", `{"action":"list"}`},
		{"PlanMode", `{"action":"status"}`},
		{"ListBgTasks", `{}`},
		{"SearchSkills", `{}`},
	} {
		b.WriteString(words(w.call(w.own, w.first, c.tool, c.args)) + "\n")
	}
	return regexp.MustCompile(`running, [0-9.a-z]+,|Duration: .*`).ReplaceAllString(b.String(), "")
}

var callIDs = regexp.MustCompile(`c-[A-Z2-7]{8}`)

// TestBadInput checks the answer of each tool to invalid input: what was wrong, that
// nothing was done, and what to do instead. No data is lost. The session is in plan mode,
// so that it has more to lose. G2: if nobody can be asked, a question ends immediately.
func TestBadInput(t *testing.T) {
	w := newWhole(t)
	before := w.kept()
	var b strings.Builder
	say := func(server *mcp.Server, s *mcp.Session, tool, args string) {
		t.Helper()
		r := w.call(server, s, tool, args)
		mark := ""
		if r.IsError {
			mark = "   (error)"
		} else if tool != "AskUserQuestion" {
			t.Errorf("%s %s: was taken: %s", tool, args, words(r))
		}
		fmt.Fprintf(&b, "> %s %.120s%s\n%s\n\n", tool, args, mark, callIDs.ReplaceAllString(words(r), "c-XXXXXXXX"))
	}
	long := strings.Repeat("x", 3000)
	of := toolkitTools(t) // the tools of the toolkit have tests of their own
	untried := slices.DeleteFunc(policies.KnownTools(), func(name string) bool { return slices.Contains(of, name) })
	for _, tool := range []struct {
		name string
		args []string
	}{
		{"AskUserQuestion", []string{`{}`, `{"questions_json":{"questions":[]}}`, `{"questions_json":"no"}`, `{"questions_json":"{\"questions\":[]}"}`, `{"questions_json":"[{\"text\":\"Which?\",\"options\":[\"A\",\"B\"]}]"}`}},
		{"BackgroundBash", []string{`{}`, `{"command":" "}`, `{"command":"sleep 1 &"}`, `{"command":"true","timeout_ms":0}`, `{"command":"true","delay_ms":10001}`, `{"command":"true","cwd":"/none"}`, `{"command":"true","env":{"A=B":"x"}}`, `{"command":"true","notify":"x"}`}},
		{"Bash", []string{`{}`, `{"command":""}`, `{"command":7}`, `{"command":"true","timeout":0}`, `{"command":"true","max_output_bytes":1000000}`, `{"command":"true","on_timeout":"wait"}`, `{"command":"true","cwd":"/none"}`, `{"command":"a\u0000b"}`, `{"command":"true","comand":"x"}`, `{"command":"true","command":"false"}`, `[]`}},
		{"Browser", []string{`{}`, `{"steps":[]}`, `{"steps":{"do":"back"}}`, `{"steps":[{"do":"clik","ref":1}]}`, `{"steps":[{"do":"click"}]}`, `{"steps":[{"do":"click","ref":1,"xy":[1,2]}]}`, `{"steps":[{"do":"back","ref":1}]}`, `{"steps":[{"do":"open","url":"file:///etc/passwd"}]}`, `{"steps":[{"do":"save","download":"d1","path":"a.pdf"}]}`, `{"steps":[{"do":"press","text":"Ctrl-a"}]}`, `{"steps":[{"do":"click","ref":1}]}`, `{"steps":[{"do":"back"}],"then":"all"}`, `{"do":"back"}`}},
		{"BrowserLook", []string{`{}`, `{"at":"screen"}`, `{"scope":"half"}`, `{"in":"4"}`, `{"max_chars":100}`, `{"url":"https://a.example/"}`}},
		{"InvokeSkill", []string{`{}`, `{"skill_name":"none"}`, `{"skill_name":"open"}`, `{"skill_name":"nobody"}`, `{"skill_name":"nodesc"}`, `{"skill_name":"leads-out"}`, `{"skill_name":"loop"}`, `{"skill_name":"../good"}`, `{"skill_name":"user:good"}`}},
		{"KillBgTask", []string{`{}`, `{"task_id":9}`, `{"task_id":-1}`, `{"task_id":"1"}`, `{"task_id":1.5}`, `{"task_id":1,"grace_ms":99999}`}},
		{"ListBgTasks", []string{`{"status":"running"}`, `"x"`}},
		{"PlanMode", []string{`{}`, `{"action":"begin"}`, `{"action":"enter"}`, `{"action":"exit","plan":"x","plan_file":"../../x"}`, `{"action":"exit","plan_file":"none.md"}`, `{"action":"exit","plan":7}`}},
		{"ReadBgOutput", []string{`{}`, `{"task_id":9}`, `{"id":"ap-none"}`, `{"task_id":1,"id":"ap-none"}`, `{"task_id":1,"wait_ms":60001}`, `{"task_id":1,"filter":"("}`, `{"task_id":1,"tail_lines":-1}`, `{"task_id":1,"offset":-1}`}},
		{"ReadDocs", []string{`{}`, `{"url":""}`, `{"url":"example.org"}`, `{"url":"file:///etc/passwd"}`, `{"url":"http://a.example/","format":"pdf"}`, `{"url":"http://a.example/","wait_ms":60001}`, `{"url":"http://a.example/","offset":-1}`, `{"url":"http://a.example/","render":"maybe"}`, `{"url":"http://a.example/"}`}},
		{"ReadImage", []string{`{}`, `{"file_path":""}`, `{"file_path":"plot.png"}`, `{"file_path":"/workspace/none.png"}`, `{"file_path":"/workspace/text.png"}`, `{"file_path":"/workspace"}`, `{"file_path":"/workspace/text.png","region":"1,2,3"}`, `{"file_path":"/workspace/text.png","max_pixels":0}`}},
		{"SearchSkills", []string{`{"pattern":"(","flags":"-E"}`, `{"pattern":"x","flags":"-v"}`, `{"query":"x"}`}},
		{"SetCallback", []string{`{"action":"unset"}`, `{"message":"x"}`, `{"delay_seconds":60}`, `{"message":"x","delay_seconds":3601}`, `{"message":"` + long + `","delay_seconds":60}`, `{"message":"x","delay_seconds":60,"callback_id":0}`, `{"message":"x","delay_seconds":60,"callback_id":8}`, `{"message":"x","delay_seconds":60,"repeat_count":0}`, `{"action":"cancel","callback_id":7}`, `{"action":"wait","wait_ms":-1}`}},
		{"TaskManager", []string{`{}`, `{"action":"finish"}`, `{"action":"create"}`, `{"action":"create","text":"` + long + `"}`, `{"action":"add","text":""}`, `{"action":"add","text":"x","task_id":9}`, `{"action":"complete","step_id":9}`, `{"action":"complete","task_id":0}`, `{"action":"complete","status":"done"}`, `{"action":"switch"}`, `{"action":"switch","task_id":9}`, `{"action":"list","task":1}`}},
		{"WebSearch", []string{`{}`, `{"query":""}`, `{"query":"x","max_results":51}`, `{"query":"x","engines":["gogle"]}`, `{"query":"x","category":"images"}`, `{"query":"x","time_range":"decade"}`, `{"query":"x","allowed_domains":["a b"]}`, `{"query":"x","page":11}`, `{"query":"x","limit":5}`, `{"query":"x"}`}},
	} {
		badInput(tool.name, tool.args...)
	}
	for _, tool := range slices.Sorted(maps.Keys(badInputs)) {
		untried = slices.DeleteFunc(untried, func(name string) bool { return name == tool })
		for _, args := range badInputs[tool] {
			say(w.own, w.first, tool, args)
		}
	}
	if len(untried) > 0 {
		t.Errorf("no bad input is tried of %q", untried)
	}
	b.WriteString("--- ids of another session ---\n\n")
	say(w.own, w.second, "ReadBgOutput", `{"task_id":1}`)
	say(w.own, w.second, "KillBgTask", `{"task_id":1}`)
	say(w.own, w.second, "PlanMode", `{"action":"exit"}`)
	b.WriteString("--- without plan mode ---\n\n")
	say(w.own, w.second, "ReadDocs", `{"url":"http://a.test/"}`)
	say(w.own, w.second, "WebSearch", `{"query":"x"}`)
	b.WriteString("--- ids of another tenant ---\n\n")
	say(w.foreign, w.stranger, "ReadBgOutput", `{"task_id":1}`)
	say(w.foreign, w.stranger, "TaskManager", `{"action":"switch","task_id":1}`)
	say(w.foreign, w.stranger, "TaskManager", `{"action":"complete","step_id":1}`)
	say(w.foreign, w.stranger, "SetCallback", `{"action":"cancel","callback_id":0}`)
	b.WriteString("--- the 9th callback ---\n\n")
	for range 8 {
		w.call(w.foreign, w.stranger, "SetCallback", `{"message":"x","delay_seconds":60}`)
	}
	say(w.foreign, w.stranger, "SetCallback", `{"message":"x","delay_seconds":60}`)
	golden.Equal(t, "badinput.golden", b.String())
	if after := w.kept(); after != before {
		t.Errorf("something was lost: got\n%s\nwant\n%s", after, before)
	}
}
