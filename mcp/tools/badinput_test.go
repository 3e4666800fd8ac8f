package tools

import (
	"context"
	"encoding/json"
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

// toolCase contains what the tests of all tools need to know of one tool.
type toolCase struct {
	hints       string   // hints that the tool must have, or none
	works, says string   // arguments that work in a new session, and a part of the answer
	refuses     []string // arguments that the tool refuses
	unseen      reasons  // string arguments that no fact shows
}

// reasons contains arguments by the reason why no rule has to see them.
type reasons map[string][]string

// Reasons for arguments of several tools.
const (
	fewWords     = "the tool takes a few words, and refuses all others"
	peopleRead   = "people read it, and no program does"
	isKept       = "belljar keeps it, or finds by it what it keeps, for the same tenant"
	choosesShown = "it chooses among what the call shows in any case"
	ofSkills     = "the skills are those of the operator's directories; this is the name of one, or what is put into its text"
)

// toolCases contains the case of each tool, by its name. All tools of the toolkit have the
// case "toolkit", and tests of their own.
var toolCases = make(map[string]toolCase)

// addCase adds the case of a tool. The test file of the tool calls it from a variable of the
// package.
func addCase(tool string, c toolCase) struct{} { //nolint:unparam // a variable needs a value
	if _, twice := toolCases[tool]; twice {
		panic(tool + " has two cases")
	}
	toolCases[tool] = c
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
		workspace + "/.claude/skills/greet/SKILL.md":  "---\nname: greet\ndescription: Greets somebody.\n---\nSay hello to $ARGUMENTS.\n",
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
// so that it has more to lose. G2: if nobody can be asked, a question ends immediately. The
// session of the other tenant has nothing yet, and makes the calls that work.
func TestBadInput(t *testing.T) {
	w := newWhole(t)
	before := w.kept()
	var b strings.Builder
	say := func(server *mcp.Server, s *mcp.Session, tool, args string) string {
		t.Helper()
		r := w.call(server, s, tool, args)
		mark := ""
		if r.IsError {
			mark = "   (error)"
		} else if tool != "AskUserQuestion" {
			t.Errorf("%s %s: was taken: %s", tool, args, words(r))
		}
		fmt.Fprintf(&b, "> %s %.120s%s\n%s\n\n", tool, args, mark, callIDs.ReplaceAllString(words(r), "c-XXXXXXXX"))
		return words(r)
	}
	of := toolkitTools(t)
	for _, tool := range policies.KnownTools() {
		if len(toolCases[tool].refuses) == 0 && !slices.Contains(of, tool) {
			t.Errorf("no bad input is tried of %s: call addCase in its test file", tool)
		}
	}
	var calls []string // for scripts/tools.mjs
	for _, tool := range slices.Sorted(maps.Keys(toolCases)) {
		c := toolCases[tool]
		for i, args := range c.refuses {
			if answer := say(w.own, w.first, tool, args); i == 0 {
				line, err := json.Marshal(map[string]string{"tool": tool, "refuses": args, "answer": answer, "works": c.works, "says": c.says})
				if err != nil {
					t.Fatal(err)
				}
				calls = append(calls, string(line))
			}
		}
		if c.works == "" {
			continue
		}
		if r := w.call(w.foreign, w.stranger, tool, c.works); r.IsError || !strings.Contains(words(r), c.says) {
			t.Errorf("%s %s: got %s, want a result with %q", tool, c.works, words(r), c.says)
		}
	}
	golden.File(t, "../../scripts/testdata/tools.json", "[\n"+strings.Join(calls, ",\n")+"\n]\n")
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
