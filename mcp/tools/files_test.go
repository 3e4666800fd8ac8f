package tools

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/mcp"
	"belljar.dev/policies"
)

// client connects a client of the sdk to the bench, in a session of its own.
func (b *bench) client(options *sdk.ClientOptions) *sdk.ClientSession {
	b.t.Helper()
	return connected(b.t, b.server, options)
}

func read(t *testing.T, c *sdk.ClientSession, uri string) (text, mime string, err error) {
	t.Helper()
	r, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
	if err != nil {
		return "", "", err
	}
	if len(r.Contents) != 1 {
		t.Fatalf("read %s: got %d contents, want 1", uri, len(r.Contents))
	}
	got := r.Contents[0]
	if got.Blob != nil {
		return string(got.Blob), got.MIMEType, nil
	}
	return got.Text, got.MIMEType, nil
}

// X1: A path with .. is refused, and no link leads out of the workspace; C23: a path out of
// the workspace is refused.
func TestFileResources(t *testing.T) {
	b := boxes(t, `
version: 1
defaults: {decision: allow, profile: p}
profiles: {p: {fs: {system: true, workspace: rw}}}
rules:
  - {id: no-keys, match: {tool: Bash, command: "cat ** /workspace/key*"}, decision: deny, reason: It is a key.}
`)
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(b.workspace, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a.md", "# a\n")
	write("dir/it's $HOME `x`.txt", "odd")
	write("dir/[1].json", "{}")
	write("bytes", "\xff\x00")
	write("key.pem", "secret")
	for name, to := range map[string]string{"out": "/etc/passwd", "up": "../", "in": "a.md", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(b.workspace, name)); err != nil {
			t.Fatal(err)
		}
	}
	c := b.client(nil)
	for _, tt := range []struct{ uri, text, mime string }{
		{"file:///workspace/a.md", "# a\n", "text/markdown"},
		{"file:///workspace/in", "# a\n", "text/plain"},
		{"file:///workspace/dir/it's%20$HOME%20%60x%60.txt", "odd", "text/plain"},
		{"file:///workspace/dir/%5B1%5D.json", "{}", "application/json"},
		{"file:///workspace/bytes", "\xff\x00", "application/octet-stream"},
		{"file:///workspace/", "a.md\nbytes\ndir/\nin\nkey.pem\nloop\nout\nup/\n", "text/plain"},
		{"file:///workspace/dir/", "[1].json\nit's $HOME `x`.txt\n", "text/plain"},
	} {
		text, mime, err := read(t, c, tt.uri)
		if err != nil || text != tt.text || mime != tt.mime {
			t.Errorf("%s: got %q, %s, %v; want %q, %s", tt.uri, text, mime, err, tt.text, tt.mime)
		}
	}
	for uri, want := range map[string]string{
		"file:///workspace/none":              `"none" does not exist in the workspace, or is a link that leads out of it`,
		"file:///workspace/out":               `"out" does not exist in the workspace, or is a link that leads out of it`,
		"file:///workspace/up/etc/passwd":     "or is a link that leads out of it",
		"file:///workspace/loop":              "or is a link that leads out of it",
		"file:///workspace/../etc/passwd":     "leave out ., .. and double slashes",
		"file:///workspace/%2e%2e/etc/passwd": "leave out ., .. and double slashes",
		"file:///workspace/dir%2F..%2F..%2Fx": "leave out ., .. and double slashes",
		"file:///workspace//etc/passwd":       "leave out ., .. and double slashes",
		"file:///workspace/a%00b":             "contains characters that no file name here has",
		"file:///etc/passwd":                  "esource not found",
		"file://host/workspace/a.md":          "esource not found",
		"file:///workspace/key.pem":           "DENIED by policy rule no-keys",
		"file:///workspace/dir/../key.pem":    "leave out ., .. and double slashes",
		"file:///workspace/a.md?offset=7":     "is not a file of the workspace",
	} {
		if text, _, err := read(t, c, uri); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %q, %v; want %q", uri, text, err, want)
		}
	}
	for query, want := range map[string]string{"[1]": "file:///workspace/dir/%5B1%5D.json", "*": "", "BYTE": "file:///workspace/bytes"} {
		if got := found(t, c, query); got != want {
			t.Errorf("search for %s: got %s, want %s", query, got, want)
		}
	}
}

// The search of a large workspace stops at a bound, and finds no file whose name was cut
// there.
func TestASearchFindsWholeNames(t *testing.T) {
	b := boxes(t, "")
	b.run(`for i in {1..400}; do : > "needle-$i-$(printf 'x%.0s' {1..200})-end"; done`)
	sh := b.shells.all(b.session)[0]
	found, err := (&files{b.shells}).find(t.Context(), mcp.Call{Session: b.session, Grant: sh.granted()}, "needle")
	if err != nil || len(found) < 200 || len(found) >= 400 {
		t.Fatalf("found %d files, %v; want some of 400", len(found), err)
	}
	for _, e := range found {
		if !strings.HasSuffix(e.Name, "-end") {
			t.Errorf("found %s, which does not exist", e.Name)
		}
	}
}

// TestFilePathsAreCompleted checks that completions follow the policy, stay beneath the
// workspace, and are bounded.
func TestFilePathsAreCompleted(t *testing.T) {
	b := boxes(t, `
version: 1
defaults: {decision: allow, profile: p}
profiles: {p: {fs: {system: true, workspace: rw}}}
rules:
  - {id: no-keys, match: {tool: Bash, command: "ls ** /workspace/keys*"}, decision: deny, reason: It is a key.}
  - {id: ask, match: {tool: Bash, command: "ls ** /workspace/asked*"}, decision: ask, reason: Somebody is to know.}
`)
	b.run(`mkdir -p src/deep keys asked many odd; touch src/main.go src/main_test.go src/deep/x .hidden "odd/it's" 'odd/a?b' $'odd/\xff' keys/k asked/a README
ln -s /etc out; ln -s . round; cd many && seq -f f%g 1200 | xargs touch`)
	c := b.client(nil)
	complete := func(typed string) ([]string, bool) {
		t.Helper()
		got, err := c.Complete(t.Context(), &sdk.CompleteParams{
			Ref:      &sdk.CompleteReference{Type: "ref/resource", URI: "file:///workspace/{+path}"},
			Argument: sdk.CompleteParamsArgument{Name: "path", Value: typed},
		})
		if err != nil {
			t.Fatalf("complete %q: %v", typed, err)
		}
		return got.Completion.Values, got.Completion.HasMore
	}
	for typed, want := range map[string]string{
		"": "README asked/ keys/ many/ odd/ out/ round/ src/", "sr": "src/", "src/ma": "src/main.go src/main_test.go", "src/deep/": "src/deep/x",
		".": ".hidden", ".h": ".hidden", "odd/": "odd/it's", "odd/it'": "odd/it's", "round/src/d": "round/src/deep/",
		"none": "", "none/": "", "out/": "", "out/pass": "", "../": "", "src/../": "", "/etc/": "", "//": "", "*": "", "keys/": "", "asked/": "", "a\x00": "", "$(id)": "",
	} {
		if got, more := complete(typed); strings.Join(got, " ") != want || more {
			t.Errorf("complete %q: got %q, %v; want %q", typed, got, more, want)
		}
	}
	if got, more := complete("many/"); len(got) != 100 || !more {
		t.Errorf("complete many/: got %d values, more %v; want 100 of many", len(got), more)
	}
}

type (
	findParams struct {
		sdk.ParamsBase
		Query string `json:"query"`
	}
	foundResult struct {
		sdk.ResultBase
		Resources []struct {
			URI string `json:"uri"`
		} `json:"resources"`
	}
)

// found returns the URIs in the result of resources/search (C19).
func found(t *testing.T, c *sdk.ClientSession, query string) string {
	t.Helper()
	r, err := sdk.CallCustomMethod[*findParams, *foundResult](t.Context(), c, "resources/search", &findParams{Query: query})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range r.Resources {
		all = append(all, e.URI)
	}
	return strings.Join(all, " ")
}

func TestJobResources(t *testing.T) {
	b := boxes(t, "")
	b.run("mkfifo pipe")
	news := make(chan string, 64)
	c, subscriber := following(t, b.server, &sdk.ClientOptions{ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { news <- r.Params.URI }})
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "BackgroundBash", Arguments: map[string]any{
		"command": "echo up; read -r line < pipe; echo $line", "description": "waits", "delay_ms": 0,
	}})
	if err != nil || res.IsError {
		t.Fatalf("%v %+v", err, res)
	}
	// subscribing to a URI that never changes is not an error
	for _, uri := range []string{"job://1", "file:///workspace/pipe"} {
		subscriber.Subscribe(t, c, uri)
	}
	listed, err := c.ListResources(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range listed.Resources {
		names = append(names, r.Name+" "+r.URI)
	}
	matches(t, "list", strings.Join(names, ", "), `\Aworkspace file:///workspace/, task 1 job://1, output of task 1 output://\w+\z`)
	for _, ref := range []*sdk.CompleteReference{{Type: "ref/resource", URI: "job://{task_id}"}, {Type: "ref/prompt", Name: "follow-task"}} {
		got, err := c.Complete(t.Context(), &sdk.CompleteParams{Ref: ref, Argument: sdk.CompleteParamsArgument{Name: "task_id", Value: ""}})
		if err != nil || len(got.Completion.Values) != 1 || got.Completion.Values[0] != "1" {
			t.Errorf("complete %+v: got %+v, %v; want 1", ref, got, err)
		}
	}
	b.run("echo end > pipe")
	record := func() (r jobRecord) {
		t.Helper()
		text, _, err := read(t, c, "job://1")
		if err == nil {
			err = json.Unmarshal([]byte(text), &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for r := record(); r.Status == "running"; r = record() {
		if uri := <-news; uri != "job://1" {
			t.Errorf("news of %s", uri)
		}
	}
	if r := record(); r.Output != "up\nend\n" || r.Description != "waits" || r.ExitCode == nil || r.UnreadBytes == 0 {
		t.Errorf("the job: %+v", r)
	}
	for _, uri := range []string{"job://2", "job://x", "job://"} {
		if _, _, err := read(t, c, uri); err == nil {
			t.Errorf("%s was read", uri)
		}
	}
	prompt, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "review-changes", Arguments: map[string]string{"since": "v1'; rm -rf /"}})
	if err != nil {
		t.Fatal(err)
	}
	text, ok := prompt.Messages[0].Content.(*sdk.TextContent)
	if !ok || !strings.Contains(text.Text, "git diff 'v1'\\''; rm -rf /'...") {
		t.Errorf("the prompt: %+v", prompt.Messages[0].Content)
	}
}

// If a client does not wait, it gets a task, and the command continues.
func TestBashOutlivesPatience(t *testing.T) {
	b := boxes(t, "")
	b.run("mkfifo pipe")
	grant := policies.Default().Decide(policies.Facts{Tool: "Bash", Command: "true", Tenant: "local"}).Grant
	call := mcp.Call{Session: b.session, Tool: "Bash", Grant: grant, Patience: 100 * time.Millisecond, Progress: func(float64, float64, string) {}}
	wait := int64(60_000)
	res, err := b.shells.bash(t.Context(), call, bashInput{Command: "echo begun; read -r line < pipe; echo $line", Timeout: &wait})
	if err != nil {
		t.Fatal(err)
	}
	matches(t, "text", words(res), `\Abegun\n\[still running after 100ms; it continues as background task 1, for at most 1m0s in all: ReadBgOutput`)
	if out := structure[bashOutput](t, res); out.TimedOut || out.TaskID != 1 || out.Status != "running" {
		t.Errorf("got %+v", out)
	}
	b.run("echo end > pipe")
	rest := structure[readOutput](t, b.call("ReadBgOutput", map[string]any{"task_id": 1, "wait_ms": 10_000, "filter": "^end"}))
	if rest.Output != "end\n" {
		t.Errorf("its rest: got %+v, want end", rest)
	}
	b.session.Close() // Close waits until the ends of tasks are reported
	if len(b.ended) != 1 || (<-b.ended).ID != 1 {
		t.Errorf("%d jobs are said to have ended, want task 1", len(b.ended)+1)
	}
}
