package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/callback"
	"belljar.dev/internal/golden"
	"belljar.dev/internal/skills"
	"belljar.dev/internal/store"
	"belljar.dev/mcp"
	"belljar.dev/policies"
)

var _ = addCase("SetCallback", toolCase{
	hints: "none",
	works: `{"action":"list"}`, says: "No active callbacks.",
	refuses: []string{`{"action":"unset"}`, `{"message":"x"}`, `{"delay_seconds":60}`, `{"message":"x","delay_seconds":3601}`, `{"message":"` + strings.Repeat("x", 3000) + `","delay_seconds":60}`, `{"message":"x","delay_seconds":60,"callback_id":0}`, `{"message":"x","delay_seconds":60,"callback_id":8}`, `{"message":"x","delay_seconds":60,"repeat_count":0}`, `{"action":"cancel","callback_id":7}`, `{"action":"wait","wait_ms":-1}`},
	unseen:  reasons{fewWords: {"action"}, isKept: {"message"}},
})

var _ = addCase("InvokeSkill", toolCase{
	hints: "ReadOnly Idempotent",
	works: `{"skill_name":"greet","arguments":"the owl"}`, says: "Say hello to the owl.",
	refuses: []string{`{}`, `{"skill_name":"none"}`, `{"skill_name":"open"}`, `{"skill_name":"nobody"}`, `{"skill_name":"nodesc"}`, `{"skill_name":"leads-out"}`, `{"skill_name":"loop"}`, `{"skill_name":"../good"}`, `{"skill_name":"user:good"}`},
	unseen:  reasons{ofSkills: {"arguments", "skill_name"}},
})

var _ = addCase("SearchSkills", toolCase{
	hints: "ReadOnly Idempotent",
	works: `{"pattern":"GREETS","flags":"-i"}`, says: "greet",
	refuses: []string{`{"pattern":"(","flags":"-E"}`, `{"pattern":"x","flags":"-v"}`, `{"query":"x"}`},
	unseen:  reasons{fewWords: {"flags"}, ofSkills: {"pattern"}},
})

// beside adds the messages of an Aside to results.
type beside struct{ aside *Aside }

func (b beside) Before(_ context.Context, c mcp.Call, _ policies.Facts) *policies.Refusal {
	b.aside.Began(c)
	return nil
}

func (b beside) After(ctx context.Context, c mcp.Call, _ policies.Facts, o mcp.Outcome) mcp.Beside {
	return b.aside.Ended(ctx, c, o.Err == nil)
}

// later is a server with callbacks and skills. Its clock moves only when the test moves it.
type later struct {
	server *mcp.Server
	book   *callback.Book
	clock  time.Time
	ended  chan struct{} // gets a value when a session has ended
}

func newLater(t *testing.T, state, folder string) *later {
	t.Helper()
	l := &later{clock: time.Now(), ended: make(chan struct{}, 16)}
	kept := store.New(state)
	t.Cleanup(func() { kept.Close() })
	l.book = callback.New(callback.Config{
		Config:  store.Config{Store: kept, Place: "/p", Now: func() time.Time { return l.clock }},
		Changed: func(tenant string) { CallbacksChanged(l.server, tenant) },
	})
	catalog := skills.New(skills.Config{Sources: []skills.Source{{
		Name: "user", Dir: folder, Required: filepath.Join(folder, "required_skills.txt"), Trusted: true,
	}}})
	aside := NewAside(l.book, catalog, nil)
	var err error
	if l.server, err = mcp.New(mcp.Config{Gate: policies.Default(), Around: beside{aside}, Moments: mcp.Moments{OnSessionEnd: func(*mcp.Session) { l.ended <- struct{}{} }}}); err != nil {
		t.Fatal(err)
	}
	Add(l.server, Backends{Callbacks: l.book, Skills: catalog, Aside: aside})
	t.Cleanup(func() { l.server.Shutdown(context.Background()) })
	return l
}

// say returns the texts of a call's result.
func say(t *testing.T, c *sdk.ClientSession, tool string, args map[string]any) string {
	t.Helper()
	res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	var texts []string
	for _, content := range res.Content {
		if text, ok := content.(*sdk.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n| ")
}

// TestCallbacksOfAClient checks that a fired callback is delivered once, in the next
// result, that the resource contains it, and that it survives a restart. L7: 1 to 3600 s.
// L9: 8 slots, 2048 characters, 20 times.
func TestCallbacksOfAClient(t *testing.T) {
	state, folder := filepath.Join(t.TempDir(), "st"), t.TempDir()
	l := newLater(t, state, folder)
	c := clientOf(t, l.server, nil)
	var b strings.Builder
	for _, args := range []map[string]any{
		{"action": "list"},
		{"message": "look", "delay_seconds": 60},
		{"action": "set", "message": "again", "delay_seconds": 1, "repeat_count": -1, "callback_id": 5},
		{"action": "list"},
		{"message": "x", "delay_seconds": 0},
		{"message": "x", "delay_seconds": 3601},
		{"message": "x", "delay_seconds": 60, "repeat_count": 0},
		{"message": strings.Repeat("x", 3000), "delay_seconds": 60},
		{"message": "x", "delay_seconds": 60, "callback_id": 5},
		{"message": "x", "delay_seconds": 60, "callback_id": 8},
		{"message": "x"},
		{"action": "unset"},
		{"action": "cancel", "callback_id": 1},
		{"action": "wait", "wait_ms": 0},
		{"action": "wait", "wait_ms": 600001},
	} {
		raw, _ := json.Marshal(args)
		fmt.Fprintf(&b, "> %.80s\n%s\n", raw, say(t, c, "SetCallback", args))
	}
	l.clock = l.clock.Add(2 * time.Second)
	fmt.Fprintf(&b, "> two seconds later\n%s\n", say(t, c, "SearchSkills", map[string]any{"pattern": "nothing"}))
	fmt.Fprintf(&b, "> at once\n%s\n", say(t, c, "SearchSkills", map[string]any{"pattern": "nothing"}))
	for range 6 {
		say(t, c, "SetCallback", map[string]any{"message": "x", "delay_seconds": 3600})
	}
	fmt.Fprintf(&b, "> the 9th\n%s\n", say(t, c, "SetCallback", map[string]any{"message": "x", "delay_seconds": 60}))
	golden.Equal(t, "callbacks.golden", b.String())

	again := newLater(t, state, folder)
	got, err := clientOf(t, again.server, nil).ReadResource(t.Context(), &sdk.ReadResourceParams{URI: callbackURI})
	if err != nil {
		t.Fatal(err)
	}
	var kept struct{ Pending, Told, Active []struct{ Message string } }
	if err := json.Unmarshal([]byte(got.Contents[0].Text), &kept); err != nil || len(kept.Active) != 8 || len(kept.Told) != 1 || kept.Told[0].Message != "again" || len(kept.Pending) != 0 {
		t.Errorf("after a restart: got %s, %v", got.Contents[0].Text, err)
	}
}

// TestCallbackWhoseResultIsLost checks that a callback is delivered again until a call
// shows that the result with the callback arrived: to the next session, and after a
// restart.
func TestCallbackWhoseResultIsLost(t *testing.T) {
	state := filepath.Join(t.TempDir(), "st")
	list := map[string]any{"action": "list"}
	told := func(c *sdk.ClientSession) bool {
		t.Helper()
		return strings.Contains(say(t, c, "SetCallback", list), "[callback 0] look")
	}
	l := newLater(t, state, t.TempDir())
	c := clientOf(t, l.server, nil)
	say(t, c, "SetCallback", map[string]any{"message": "look", "delay_seconds": 60, "repeat_count": 1})
	l.clock = l.clock.Add(time.Hour)
	if !told(c) {
		t.Fatal("the callback does not stand behind the next result")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	<-l.ended
	for _, where := range []string{"in the next session", "after a restart"} {
		if where == "after a restart" {
			if err := l.server.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			l = newLater(t, state, t.TempDir())
		}
		if c = clientOf(t, l.server, nil); !told(c) {
			t.Errorf("%s: the callback is not told again, though no call followed that result", where)
		}
		if where == "in the next session" {
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if told(c) {
		t.Error("the callback is told again, though a call followed the result with it")
	}
	if fired, err := l.book.Fired(t.Context(), "local"); err != nil || len(fired) != 1 || fired[0].Told.IsZero() {
		t.Errorf("got %v, %v, want the callback as told", fired, err)
	}
}

// TestCallbackIsTold checks that a client that subscribed to the resource is notified when
// a callback fires.
func TestCallbackIsTold(t *testing.T) {
	l := newLater(t, "", t.TempDir())
	told := make(chan string, 16)
	c, subscriber := following(t, l.server, &sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { told <- r.Params.URI },
	})
	subscriber.Subscribe(t, c, callbackURI)
	for _, step := range []func(){
		func() { say(t, c, "SetCallback", map[string]any{"message": "look", "delay_seconds": 5}) },
		func() {
			l.clock = l.clock.Add(10 * time.Second)
			if err := l.book.Tick(t.Context(), func(string) bool { return true }); err != nil {
				t.Fatal(err)
			}
		},
	} {
		step()
		if uri := <-told; uri != callbackURI {
			t.Errorf("told of %s, want %s", uri, callbackURI)
		}
	}
}

// TestSkillsOfAClient checks that skills are tools, prompts and resources, that the list in
// the description follows the folders, and that a session is reminded once.
func TestSkillsOfAClient(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("deploy/SKILL.md", "---\nname: deploy\ndescription: Deploys.\n---\nDeploy to $ARGUMENTS.\n")
	put("deploy/notes.txt", "notes")
	put("required_skills.txt", "deploy\n")
	l := newLater(t, "", dir)
	c := clientOf(t, l.server, nil)
	var b strings.Builder
	describe := func() {
		for _, tool := range l.server.Tools() { // a client keeps its list for a while
			if tool.Name == invokeSkill {
				b.WriteString("> description\n" + tool.Description + "\n")
			}
		}
	}
	call := func(tool string, args map[string]any) {
		raw, _ := json.Marshal(args)
		fmt.Fprintf(&b, "> %s %s\n%s\n", tool, raw, say(t, c, tool, args))
	}
	describe()
	call("SearchSkills", map[string]any{"pattern": "DEPLOY", "flags": "-i"})
	call("SearchSkills", map[string]any{"pattern": "(", "flags": "-E"})
	call("InvokeSkill", map[string]any{"skill_name": "deploy", "arguments": "staging"})
	call("InvokeSkill", map[string]any{"skill_name": "deplox"})
	put("review/SKILL.md", "---\nname: review\ndescription: Reviews.\n---\nx\n")
	put("broken/SKILL.md", "---\nname: broken\n")
	call("InvokeSkill", map[string]any{"skill_name": "broken"})
	describe()
	prompt, err := c.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "deploy", Arguments: map[string]string{"arguments": "prod"}})
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := prompt.Messages[0].Content.(*sdk.TextContent); ok {
		b.WriteString("> prompt\n" + text.Text + "\n")
	}
	for _, uri := range []string{"skill://deploy/SKILL.md", "skill://deploy/notes.txt", "skill://deploy/../x", "skill://nobody/SKILL.md"} {
		got, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
		if err != nil {
			fmt.Fprintf(&b, "> %s\n%v\n", uri, err)
			continue
		}
		fmt.Fprintf(&b, "> %s\n%s %q\n", uri, got.Contents[0].MIMEType, got.Contents[0].Text)
	}
	golden.Equal(t, "skills.golden", b.String())
}
