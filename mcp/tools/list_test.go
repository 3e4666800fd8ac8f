package tools

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/internal/job"
	"belljar.dev/mcp"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// allowAll is a policy that hides no tool.
type allowAll struct{}

func (allowAll) Decide(policies.Facts) policies.Decision {
	return policies.Decision{Verdict: policies.Allow}
}

// listedTool is a tool in the answer to tools/list, with unchanged schemas.
type listedTool struct {
	Name, Title, Description  string
	InputSchema, OutputSchema json.RawMessage
}

// TestListIsShort bounds what a model has to read about the tools, counted on the wire: the
// characters of the schemas, and the bytes of the whole answer with names, descriptions and
// annotations. It also checks that each parameter has a description. Output schemas are
// only for clients that ask for structured results.
func TestListIsShort(t *testing.T) {
	c := listClient(t)
	for _, tt := range []struct {
		params          string
		structured      bool
		most, mostBytes int // largest average for each tool: every client pays for all tools
	}{
		{`{}`, false, 575, 1_075},
		{`{"_meta":{"belljar.dev/structured":true}}`, true, 860, 1_430},
	} {
		answer := c.ask(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":`+tt.params+`}`)
		var got struct {
			Result struct{ Tools []listedTool }
		}
		if err := json.Unmarshal([]byte(answer), &got); err != nil {
			t.Fatal(err)
		}
		in, out, said := 0, 0, 0
		for _, tool := range got.Result.Tools {
			in, out, said = in+len(tool.InputSchema), out+len(tool.OutputSchema), said+len(tool.Description)
			tool.check(t, tt.structured)
		}
		t.Logf("%d tools: %d characters of input schemas, %d of output schemas, %d of descriptions; %d bytes in all", len(got.Result.Tools), in, out, said, len(answer))
		all, known := len(got.Result.Tools), len(policies.KnownTools())-len(apart(t))
		if all != known {
			t.Errorf("got %d tools, and package policies knows %d besides those of the toolkit and the browser: -update for TestPoliciesKnowTheTools tells it of a new tool", all, known)
		}
		if in+out > tt.most*all || len(answer) > tt.mostBytes*all {
			t.Errorf("got %d characters of schemas in %d bytes, want at most %d in %d for %d tools: shorten the descriptions", in+out, len(answer), tt.most*all, tt.mostBytes*all, all)
		}
	}
}

// check fails for a tool without a text for people or for models.
func (tool listedTool) check(t *testing.T, structured bool) {
	t.Helper()
	var schema struct {
		Properties map[string]struct{ Type, Description string }
	}
	if err := json.Unmarshal(tool.InputSchema, &schema); err != nil {
		t.Fatal(err)
	}
	for name, p := range schema.Properties {
		if p.Type == "" || p.Description == "" {
			t.Errorf("%s: %s has the type %q and the description %q", tool.Name, name, p.Type, p.Description)
		}
	}
	if tool.Title == "" || tool.Description == "" {
		t.Errorf("%s: has the title %q and the description %q, want both", tool.Name, tool.Title, tool.Description)
	}
	switch has := len(tool.OutputSchema) > 0; {
	case structured && !has:
		t.Errorf("%s: has no output schema: set Output of its mcp.Tool to the type of its structured result", tool.Name)
	case has && !structured:
		t.Errorf("%s: has an output schema, which the client did not ask for", tool.Name)
	}
}

// apart returns the tools that a server lists only if it is told to.
func apart(t *testing.T) []string {
	t.Helper()
	return append(toolkitTools(t), policies.ActTool, policies.LookTool)
}

// allTools returns a server with all tools, which have no backends.
func allTools(t *testing.T) *mcp.Server {
	t.Helper()
	server, err := mcp.New(mcp.Config{Gate: allowAll{}})
	if err != nil {
		t.Fatal(err)
	}
	Add(server, Backends{Toolkit: true, Browsers: &Browsers{Acts: policies.ActKinds()}})
	return server
}

// Clients call a tool that changes nothing without asking a person, and may warn of one that
// destroys data. So the case of each tool has its hints once more: a hint that the
// definition of a tool leaves out is false (BR3).
func TestHints(t *testing.T) {
	of := toolkitTools(t)
	for _, tool := range allTools(t).Tools() {
		var got []string
		for _, hint := range []struct {
			name string
			set  bool
		}{{"ReadOnly", tool.ReadOnly}, {"Destructive", tool.Destructive}, {"Idempotent", tool.Idempotent}, {"OpenWorld", tool.OpenWorld}} {
			if hint.set {
				got = append(got, hint.name)
			}
		}
		name := tool.Name
		if slices.Contains(of, name) {
			name = "toolkit"
		}
		if got, want := cmp.Or(strings.Join(got, " "), "none"), toolCases[name].hints; got != want {
			t.Errorf("%s: got the hints %q, and its case wants %q", tool.Name, got, want)
		}
	}
}

// make conformance drives each tool with a client of the TypeScript SDK, and takes longer
// than tests may. Its script has the calls of the cases, and calls of its own that need
// something in the session. This test checks only that it has a call of each tool that works.
func TestTheConformanceScriptCallsEachTool(t *testing.T) {
	const file = "../../scripts/tools.mjs"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	others := apart(t)
	for _, tool := range allTools(t).Tools() {
		call := fmt.Sprintf("await this.works(%q, ", tool.Name)
		if toolCases[tool.Name].works == "" && !slices.Contains(others, tool.Name) && !strings.Contains(string(text), call) {
			t.Errorf("no call of %s works in %s: give its case arguments that work, or the script a line with %s...)", tool.Name, file, call)
		}
	}
}

// TestResultsAreDocumented checks docs/results.md, which describes all members of
// structured results, including those that the output schemas of tools/list leave out.
func TestResultsAreDocumented(t *testing.T) {
	const file = "../../docs/results.md"
	var b strings.Builder
	b.WriteString(resultsHead)
	for _, tool := range allTools(t).Tools() {
		if tool.Name == policies.ActTool || tool.Name == policies.LookTool {
			if tool.ResultSchema != nil {
				t.Errorf("%s has a structured result, which docs/results.md does not describe", tool.Name)
			}
			continue
		}
		var schema resultSchema
		if err := json.Unmarshal(tool.ResultSchema, &schema); err != nil {
			t.Errorf("%s has no schema of results: set Output of its mcp.Tool to the type of its structured result (%v)", tool.Name, err)
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| member | type | what it is |\n|---|---|---|\n", tool.Name)
		schema.write(&b, "")
	}
	golden.File(t, file, b.String())
}

const resultsHead = `# What results contain

A result is text, and images if the tool returns any. The text alone is enough: its
last line has the status as pairs, and a note in place of output that was cut off says
where to read that output. A program that wants members asks for
` + "`structuredContent`" + `, which is then sent in addition to the text;
[protocol.md](protocol.md#structured-results) says how. Otherwise it is not sent, since
some clients show their model nothing else if it is present.

The output schemas of tools/list, which such a program gets too, name the members and
their types. They leave out optional strings and nested members; this page lists
all of them. A question mark marks an optional member. The result of a call that was
not run has only ` + "`refusal`" + `, whose members are listed under [Bash](#bash), and the result
of a failed call may have only its text.

A test makes this page from the source.
`

// resultSchema contains the parts of a schema that readers need.
type resultSchema struct {
	Type        any // a list if it may be null, and nil if it may be anything
	Description string
	Properties  map[string]resultSchema
	Items       *resultSchema
	Required    []string
}

// UnmarshalJSON reads a schema. The schema true stands for any value.
func (s *resultSchema) UnmarshalJSON(text []byte) error {
	if string(text) == "true" {
		*s = resultSchema{Type: "any"}
		return nil
	}
	type plain resultSchema
	return json.Unmarshal(text, (*plain)(s))
}

// write writes a line for each member. The name of a member below another one begins with
// that member's name.
func (s resultSchema) write(b *strings.Builder, below string) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		kind, one := p.Type.(string)
		if !one {
			kind = "array"
		}
		mark := "?"
		if slices.Contains(s.Required, name) {
			mark = ""
		}
		fmt.Fprintf(b, "| `%s%s`%s | %s | %s |\n", below, name, mark, kind, p.Description)
		p.write(b, below+name+".")
		if p.Items != nil {
			p.Items.write(b, below+name+"[].")
		}
	}
}

// client is a client that talks to a server over pipes.
type client struct {
	in  io.Writer
	out *bufio.Reader
}

// listClient returns a client of a server whose tools have no backends.
func listClient(t testing.TB) *client {
	t.Helper()
	server, err := mcp.New(mcp.Config{Gate: allowAll{}, Limits: mcp.Limits{Burst: 1e9, Rate: 1e9}})
	if err != nil {
		t.Fatal(err)
	}
	Add(server, Backends{})
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- server.ServeStdio(t.Context(), inR, outW) }()
	t.Cleanup(func() {
		inW.Close()
		<-served
	})
	c := &client{inW, bufio.NewReaderSize(outR, 1<<20)}
	c.ask(t, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}`)
	return c
}

// ask returns the answer to a request.
func (c *client) ask(t testing.TB, line string) string {
	t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := c.out.ReadString('\n')
	if err != nil || strings.Contains(answer, `"error":`) {
		t.Fatalf("%.200s: %v", answer, err)
	}
	return answer
}

// BenchmarkToolsList measures a client that lists the tools, over pipes.
func BenchmarkToolsList(b *testing.B) {
	c := listClient(b)
	size := 0
	for b.Loop() {
		size = len(c.ask(b, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	}
	b.ReportMetric(float64(size), "bytes")
}

// A session ends while its tasks write faster than their output can be kept. Exactly the
// output that was kept before the end can be read.
func TestASessionEndsWhileItsTasksWrite(t *testing.T) {
	b := boxes(t, "")
	for range 8 {
		b.call("BackgroundBash", map[string]any{"command": "yes", "delay_ms": 0})
	}
	b.run("yes | head -c 10000000 > /dev/null")
	next := b.open()
	b.session.Close()
	tasks := structure[listOutput](t, b.callIn(next, "ListBgTasks", nil)).Tasks
	if len(tasks) != 8 {
		t.Fatalf("got %d tasks, want 8", len(tasks))
	}
	for _, e := range tasks {
		r := structure[readOutput](t, b.callIn(next, "ReadBgOutput", map[string]any{"task_id": e.TaskID, "tail_lines": 1}))
		if e.Status != "lost" || strings.Trim(r.Output, "y\n") != "" || r.NextOffset != e.OutputBytes || r.UnreadBytes != 0 {
			t.Errorf("%+v: read %q to %d, %d are left", e, r.Output, r.NextOffset, r.UnreadBytes)
		}
	}
}

// A result that names tasks names the latest tasks.
func TestManyTasksAreNotNamed(t *testing.T) {
	b := boxes(t, "")
	for range idsShown + 5 {
		if _, err := b.shells.tasks.begin(t.Context(), b.session, job.Job{Tool: "Bash", Command: "true"}); err != nil {
			t.Fatal(err)
		}
	}
	got := words(b.call("KillBgTask", map[string]any{"task_id": 99}))
	want := "task_id: task 99 does not exist. ListBgTasks shows all 25 tasks; the last of this session are: 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25."
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A task whose box is closed before its job is watched is not listed as running.
func TestATaskWithoutABox(t *testing.T) {
	b := boxes(t, "")
	b.call("BackgroundBash", map[string]any{"command": "sleep 1000"})
	sh := b.shells.all(b.session)[0]
	cmd := sh.jobs[1].cmd
	sh.closeBox()
	kept, err := b.shells.tasks.begin(t.Context(), b.session, record("Bash", cmd, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sh.watch(t.Context(), b.session, kept, cmd); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("got %v, want %v", err, sandbox.ErrClosed)
	}
	for _, e := range structure[listOutput](t, b.call("ListBgTasks", nil)).Tasks {
		if e.Status != "lost" {
			t.Errorf("task %d is %s, want lost", e.TaskID, e.Status)
		}
	}
}
