package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/golden"
	"belljar.dev/internal/people/approval"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/plan"
	"belljar.dev/internal/store"
	"belljar.dev/internal/todo"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

var _ = addCase("AskUserQuestion", toolCase{
	hints:   "none",
	refuses: []string{`{}`, `{"questions_json":{"questions":[]}}`, `{"questions_json":"no"}`, `{"questions_json":"{\"questions\":[]}"}`, `{"questions_json":"[{\"text\":\"Which?\",\"options\":[\"A\",\"B\"]}]"}`},
	unseen:  reasons{peopleRead: {"questions_json"}},
})

var _ = addCase("PlanMode", toolCase{
	hints: "none",
	works: `{"action":"status"}`, says: "Plan mode: INACTIVE",
	refuses: []string{`{}`, `{"action":"begin"}`, `{"action":"enter"}`, `{"action":"exit","plan":"x","plan_file":"../../x"}`, `{"action":"exit","plan_file":"none.md"}`, `{"action":"exit","plan":7}`},
	unseen:  reasons{fewWords: {"action"}, isKept: {"goal", "plan", "plan_file"}, "a person approves it; each command that it approves is judged when it comes": {"commands[]"}},
})

var _ = addCase("TaskManager", toolCase{
	hints: "none",
	works: `{"action":"list"}`, says: "No tasks. create makes one.",
	refuses: []string{`{}`, `{"action":"finish"}`, `{"action":"create"}`, `{"action":"create","text":"` + strings.Repeat("x", 3000) + `"}`, `{"action":"add","text":""}`, `{"action":"add","text":"x","task_id":9}`, `{"action":"complete","step_id":9}`, `{"action":"complete","task_id":0}`, `{"action":"complete","status":"done"}`, `{"action":"switch"}`, `{"action":"switch","task_id":9}`, `{"action":"list","task":1}`},
	unseen:  reasons{fewWords: {"action", "status"}, isKept: {"query", "text"}},
})

// desk contains waiting questions. The test sets the ways in which people can be asked.
type desk struct {
	*question.Desk
	ways    []string
	may     bool
	channel policies.Channel
}

func (d *desk) Channel() policies.Channel { return d.channel }

func (d *desk) Command(id string) string {
	if slices.Contains(d.ways, "command line") {
		return "belljar ask answer " + id
	}
	return ""
}

func (d *desk) Ways(string) ([]string, bool) { return d.ways, d.may }

// nod is an Approver whose person gives the same answer to every question.
type nod struct {
	state, note string
	asked       []mcp.Question
}

func (*nod) Ways(string) ([]string, bool) { return []string{"command line"}, true }

func (n *nod) Ask(_ context.Context, q mcp.Question) (mcp.Approval, error) {
	n.asked = append(n.asked, q)
	return mcp.Approval{ID: "ap-1", State: n.state, Rule: q.Decision.Rule, Note: n.note, By: "me", Left: 10 * time.Minute, Command: "belljar approve yes ap-1"}, nil
}

func (n *nod) Wait(context.Context, string, time.Duration) (mcp.Approval, error) {
	return mcp.Approval{ID: "ap-1", State: n.state, Rule: "plan-mode", Note: n.note, Left: 10 * time.Minute, Command: "belljar approve yes ap-1"}, nil
}
func (*nod) Use(context.Context, mcp.Question, string) (bool, error) { return true, nil }
func (*nod) Answer(context.Context, string, mcp.ClientAnswer) error  { return nil }

// flow is a server with todos, plans and questions over one state.
type flow struct {
	t       *testing.T
	desk    *desk
	person  *nod
	clock   time.Time
	session *mcp.Session
	server  *mcp.Server
	shells  *shells
}

func newFlow(t *testing.T, person *nod) *flow {
	t.Helper()
	f := &flow{t: t, person: person, clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	now := func() time.Time { return f.clock }
	kept := store.New(filepath.Join(t.TempDir(), "st"))
	t.Cleanup(func() { kept.Close() })
	books := store.Config{Store: kept, Place: "/p", Self: "1", Now: now}
	f.desk = &desk{Desk: question.New(store.Config{Store: kept, Place: "/p"}), may: true, channel: policies.ChannelElicit}
	cfg := mcp.Config{Gate: policies.Default()}
	if person != nil {
		cfg.Approver = person
	}
	var err error
	if f.server, err = mcp.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.server.Shutdown(context.Background()) })
	b := Backends{Log: slog.New(slog.DiscardHandler), Todos: todo.New(books), Plans: plan.New(plan.Config{Config: books}), Questions: f.desk, CheckCommands: approval.CheckCommands}
	f.shells = &shells{backends: b, open: make(map[string][]*shell)}
	addTodos(f.server, &todos{backends: b})
	addPlans(f.server, &plans{backends: b, shells: f.shells, now: now})
	addAsk(f.server, &asks{backends: b, wait: time.Millisecond})
	if f.session, err = f.server.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.session.Close)
	return f
}

// say makes a call, and returns the text and the structure of its answer.
func (f *flow) say(tool, args string) string {
	f.t.Helper()
	res, err := f.server.Call(f.t.Context(), f.session, tool, []byte(args))
	if err != nil {
		f.t.Fatalf("%s %s: %v", tool, args, err)
	}
	enough(f.t, tool, res)
	text := fmt.Sprintf("> %s %s\n%s\n", tool, args, res.Content[0].Text)
	if res.IsError {
		text = strings.Replace(text, "\n", "   (error)\n", 1)
	}
	if res.Structured != nil {
		raw, err := json.Marshal(res.Structured)
		if err != nil {
			f.t.Fatal(err)
		}
		text += string(raw) + "\n"
	}
	return ids.ReplaceAllString(text, "q-xxxxxxxx") + "\n"
}

var ids = regexp.MustCompile(`q-[a-z0-9]{8}`)

// C12: The argument query is accepted, and not required.
func TestTaskManagerTexts(t *testing.T) {
	f := newFlow(t, nil)
	var b strings.Builder
	for _, args := range []string{
		`{"action":"list"}`,
		`{"action":"add","text":"x"}`,
		`{"action":"create","query":"Ship the release"}`,
		`{"action":"add","text":"Write the notes"}`,
		`{"action":"add","text":"Tag","query":""}`,
		`{"action":"create","text":"Second"}`,
		`{"action":"complete","step_id":1}`,
		`{"action":"complete","step_id":2,"task_id":2}`,
		`{"action":"complete","step_id":2,"status":"in_progress"}`,
		`{"action":"add","text":"More","task_id":1}`,
		`{"action":"complete","step_id":3,"status":"in_progress"}`,
		`{"action":"complete","step_id":3,"status":"blocked"}`,
		`{"action":"switch","task_id":1}`,
		`{"action":"list"}`,
		`{"action":"pending","query":"tag"}`,
		`{"action":"list","query":"nothing such"}`,
		`{"action":"complete"}`,
		`{"action":"pending"}`,
		`{"action":"switch","task_id":1}`,
		`{"action":"add","text":"late","task_id":1}`,
		`{"action":"complete","task_id":1,"status":"pending"}`,
		// Actions that are refused.
		`{"action":"dance"}`,
		`{"action":"create"}`,
		`{"action":"create","text":" \n "}`,
		`{"action":"switch"}`,
		`{"action":"switch","task_id":77}`,
		`{"action":"switch","task_id":-1}`,
		`{"action":"complete","step_id":77}`,
		`{"action":"complete","step_id":0}`,
		`{"action":"complete","task_id":1,"status":"perhaps"}`,
		`{"action":"add","text":"` + strings.Repeat("x", todo.MaxText+1) + `","task_id":1}`,
		`{"action":"list","colour":"red"}`,
		`{}`,
	} {
		said := f.say("TaskManager", args)
		b.WriteString(strings.ReplaceAll(said, strings.Repeat("x", todo.MaxText+1), "x..."))
	}
	golden.Equal(t, "taskmanager.golden", b.String())
}

func TestPlanModeTexts(t *testing.T) {
	f := newFlow(t, nil)
	var b strings.Builder
	say := func(args string) { b.WriteString(f.say("PlanMode", args)) }
	say(`{"action":"status"}`)
	say(`{"action":"exit"}`)
	say(`{"action":"reset"}`)
	say(`{"action":"enter","goal":"x","plan_file":"../../etc/passwd"}`)
	say(`{"action":"enter","goal":"Move the database","plan_file":"move.md"}`)
	say(`{"action":"enter","goal":"again"}`)
	if got := f.session.Narrowed(); got != planLayer {
		t.Errorf("the session is narrowed by %q, want %q", got, planLayer)
	}
	f.clock = f.clock.Add(4*time.Minute + 32*time.Second)
	say(`{"action":"status"}`)
	say(`{"action":"json"}`)
	say(`{"action":"exit","plan_file":"/abs.md","plan":"x"}`)
	say(`{"action":"exit","plan_file":"none.md"}`)
	say(`{"action":"exit","plan":"x","commands":["bash *"]}`)
	say(`{"action":"dance"}`)
	say(`{"action":"exit","plan":"# Plan\n1. copy"}`)
	if got := f.session.Narrowed(); got != "" {
		t.Errorf("after exit the session is narrowed by %q", got)
	}
	say(`{"action":"json"}`)
	say(`{"action":"enter"}`)
	say(`{"action":"reset"}`)

	b.WriteString("--- a person is asked ---\n\n")
	f = newFlow(t, &nod{state: mcp.ApprovalDeclined, note: "leave the database alone"})
	say(`{"action":"enter","goal":"Move"}`)
	say(`{"action":"exit","plan":"# Plan"}`)
	say(`{"action":"reset"}`)
	f.person.state, f.person.note = mcp.ApprovalPending, ""
	say(`{"action":"exit","plan":"# Plan"}`)
	f.person.state = mcp.ApprovalExpired
	say(`{"action":"exit","plan":"# Plan"}`)
	if got := f.session.Narrowed(); got != planLayer {
		t.Errorf("without a yes the session is narrowed by %q, want %q", got, planLayer)
	}
	f.person.state, f.person.note = mcp.ApprovalApproved, "be quick"
	say(`{"action":"exit","plan":"# Plan","commands":["git push origin *"]}`)
	golden.Equal(t, "planmode.golden", b.String())
	last := f.person.asked[len(f.person.asked)-1]
	if last.Decision.Verdict != policies.Ask || last.Facts.Args["plan"] != "# Plan" || len(last.Commands) != 1 || last.Decision.Policy == "" {
		t.Errorf("the person was asked %+v", last)
	}
}

// C13: AskUserQuestion is always listed, and its result says if nobody was asked.
func TestAskUserQuestionTexts(t *testing.T) {
	f := newFlow(t, nil)
	var b strings.Builder
	ask := func(questions string) {
		args, err := json.Marshal(map[string]string{"questions_json": questions})
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(f.say("AskUserQuestion", string(args)))
	}
	const both = `{"questions":[{"text":"Which?","options":["A","B (Recommended)"]},{"id":"who","question":"Who?"},{"question":"Many?","multiSelect":true,"options":[{"label":"x","description":"d"},{"label":"y"}]}]}`
	ask(both)
	f.desk.ways = []string{"command line"}
	for _, bad := range []string{
		``, `{`, `{"questions":[]}`, `{"questions":"x"}`, `[{"options":["A"]}]`, `[{"text":"?","options":[]}]`, `[{"text":"?","options":["A","A"]}]`,
		`[{"text":"?","options":[{}]}]`, `[{"text":"?","options":[1]}]`, `[{"text":"?","type":"essay"}]`, `[{"text":"?","id":"a b"}]`, `[{"id":"a","text":"?"},{"id":"a","text":"?"}]`,
		`{"questions":[{"text":"?"}],"afkTimeoutMs":1}`, `[` + strings.Repeat(`{"text":"?"},`, 10) + `{"text":"?"}]`,
	} {
		ask(bad)
	}
	waiting := func() string {
		all, err := f.desk.List(t.Context(), false)
		if err != nil || len(all) != 1 {
			t.Fatalf("%d questions wait, %v", len(all), err)
		}
		return all[0].ID
	}
	answer := func(r question.Reply) {
		if _, err := f.desk.Answer(t.Context(), waiting(), r); err != nil {
			t.Fatal(err)
		}
	}
	ask(both)
	answer(question.Reply{State: question.Accepted, By: "me", Note: "hurry", Words: map[string][]string{"q1": {"b (recommended)"}, "q3": {"1", "2", "z"}}})
	ask(both)
	for _, state := range []question.State{question.Declined, question.Dismissed} {
		ask(`[{"text":"` + string(state) + `?"}]`)
		answer(question.Reply{State: state, By: "me"})
		ask(`[{"text":"` + string(state) + `?"}]`)
	}
	f.desk.may = false
	ask(`[{"text":"nobody may answer?"}]`)
	f.desk.may, f.desk.channel = true, policies.ChannelDefault
	ask(`[{"text":"the agent decides?","options":["A (Recommended)","B"]}]`)
	f.desk.channel = policies.ChannelConsole
	ask(`[{"text":"at the console?"}]`)
	f.desk.ways = nil
	ask(`[{"text":"no console is open?"}]`)
	golden.Equal(t, "askuserquestion.golden", b.String())
}

// In plan mode a session's commands can write nothing to the workspace. Commands that ran
// before continue.
func TestPlanModeIsReadOnly(t *testing.T) {
	b := boxes(t, "")
	f := newFlow(t, nil)
	addPlans(b.server, &plans{backends: f.shells.backends, shells: b.shells, now: time.Now})
	if r := b.call("Bash", map[string]any{"command": "echo before > /workspace/a; cd /tmp; echo kept > mine"}); r.IsError {
		t.Fatal(r.Content[0].Text)
	}
	b.call("PlanMode", map[string]any{"action": "enter"})
	r := b.call("Bash", map[string]any{"command": "cat /workspace/a; echo after > /workspace/a; touch /workspace/b; ls /workspace"})
	if text := r.Content[0].Text; !strings.Contains(text, "before") || strings.Count(text, "Read-only file system") != 2 {
		t.Errorf("while it plans: %s", text)
	}
	b.call("PlanMode", map[string]any{"action": "exit"})
	r = b.call("Bash", map[string]any{"command": "cat mine; echo after > /workspace/a; cat /workspace/a"})
	if text := r.Content[0].Text; !strings.HasPrefix(text, "kept\nafter\n") {
		t.Errorf("afterwards: %s", text)
	}
	for _, sh := range b.shells.open[b.session.ID()+planSuffix] {
		if _, open := sh.current(); open {
			t.Error("the box of planning is still open")
		}
	}
}

func BenchmarkTaskManager(b *testing.B) {
	kept := store.New(filepath.Join(b.TempDir(), "st"))
	defer kept.Close()
	server, err := mcp.New(mcp.Config{Gate: policies.Default()})
	if err != nil {
		b.Fatal(err)
	}
	addTodos(server, &todos{backends: Backends{Log: slog.New(slog.DiscardHandler), Todos: todo.New(store.Config{Store: kept, Place: "/p"})}})
	session, err := server.Open(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	took := make([]time.Duration, 0, b.N)
	for i := 0; b.Loop(); i++ {
		args := `{"action":"add","text":"a step of some length, as agents write them"}`
		if i%100 == 0 {
			args = `{"action":"create","text":"a task"}`
		}
		start := time.Now()
		if r, err := server.Call(b.Context(), session, "TaskManager", []byte(args)); err != nil || r.IsError {
			b.Fatal(r, err)
		}
		took = append(took, time.Since(start))
	}
	b.ReportMetric(float64(median(took).Microseconds()), "p50-µs")
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
