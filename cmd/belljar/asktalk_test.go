package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/internal/golden"
	"belljar.dev/internal/people/question"
	"belljar.dev/internal/testenv"
)

// chat contains what an agent asks, and what a person types and reads at belljar ask.
type chat struct {
	*place
	text strings.Builder
	ids  []string
}

// say runs `belljar ask` with typed as its input, and adds both to the text of the chat.
func (k *chat) say(t *testing.T, typed string, args ...string) {
	t.Helper()
	cmd := k.command(t.Context(), append(append([]string{"ask"}, args...), "--state", k.state)...)
	cmd.Stdin = strings.NewReader(typed)
	out, err := cmd.CombinedOutput()
	fmt.Fprintf(&k.text, "$ belljar ask %s\n%s", config.Quote(args), out)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		k.text.WriteByte('\n')
	}
	var status *exec.ExitError
	switch {
	case errors.As(err, &status):
		fmt.Fprintf(&k.text, "[exit %d]\n", status.ExitCode())
	case err != nil:
		t.Fatal(err)
	}
	k.text.WriteByte('\n')
}

// asked waits until n questions wait, and returns their ids, the newest first.
func (k *chat) asked(t *testing.T, n int) []string {
	t.Helper()
	for {
		out, err := k.run(t, "ask", "list", "--json")
		var all []question.Asked
		if err == nil {
			err = json.Unmarshal([]byte(out), &all)
		}
		if err != nil {
			t.Fatalf("%s%v", out, err)
		}
		if len(all) < n {
			continue
		}
		var ids []string
		for _, one := range all {
			ids = append(ids, one.ID)
		}
		return ids
	}
}

// asks makes the agent ask, and returns the id of the question and a channel that delivers
// its answer once.
func (k *chat) asks(t *testing.T, c client, waiting int, questions string) (id string, answer <-chan *sdk.CallToolResult) {
	t.Helper()
	fmt.Fprintf(&k.text, "# the agent: %s\n\n", questions)
	before := k.asked(t, waiting)
	got := make(chan *sdk.CallToolResult, 1)
	go func() {
		r, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "AskUserQuestion", Arguments: map[string]any{"questions_json": questions}})
		if err != nil {
			t.Error(err)
			r = &sdk.CallToolResult{}
		}
		got <- r
	}()
	for _, id = range k.asked(t, waiting+1) {
		if !slices.Contains(before, id) {
			k.ids = append(k.ids, id)
			return id, got
		}
	}
	t.Fatal("the question is not listed")
	return "", nil
}

// hears adds the answer that the agent gets to the text of the chat.
func (k *chat) hears(answer <-chan *sdk.CallToolResult) {
	fmt.Fprintf(&k.text, "# the agent hears:\n%s\n\n", strings.Join(textsOf(<-answer), "\n"))
}

func (k *chat) plain() string {
	text := k.text.String()
	for i, id := range k.ids {
		text = strings.ReplaceAll(text, id, fmt.Sprintf("q-%d", i+1))
	}
	text = strings.ReplaceAll(text, k.dir, "/srv")
	text = who.ReplaceAllString(text, "USER")
	text = askLong.ReplaceAllString(text, "xxx")
	text = askGaps.ReplaceAllString(text, "$1  ")
	return spoken.ReplaceAllString(text, "N $1")
}

// askGaps matches the columns of a list, whose width depends on names, and askLong
// matches a text that is too long.
var (
	askGaps = regexp.MustCompile(`(\S) {3,}`)
	askLong = regexp.MustCompile(`x{100,}`)
)

const fourQuestions = `[{"text":"Which database?","options":[{"label":"SQLite (Recommended)","description":"one file"},{"label":"Postgres","preview":"host=db\nport=5432"}]},` +
	`{"text":"Which checks?","multiSelect":true,"options":["unit","race","lint"]},{"text":"Now?","type":"yesno"},{"id":"name","text":"What is it called?\u001b[2J\u202e"}]`

// TestAskTalk checks the texts that a person reads at belljar ask.
func TestAskTalk(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Parallel()
	k := &chat{place: newPlace(t)}
	k.say(t, "", "list")
	s := k.start(t, wires[0])
	c := s.connect(t, wires[0], nil)
	k.say(t, "", "list")
	k.say(t, "", "answer")

	one, heard := k.asks(t, c, 0, fourQuestions)
	k.say(t, "", "list")
	k.say(t, "", "answer", one, "1", "2")
	k.say(t, "", "answer", one, "1", "--decline")
	k.say(t, "", "answer", one, "1", "1,2", "perhaps", "x")
	k.say(t, "", "answer", one, "1", "one thing,another", "no", "x")
	k.say(t, "", "answer", one, strings.Repeat("x", 2001), "", "", "")
	k.say(t, "", "answer", one, "", "", "", "")
	k.say(t, "", "answer", one)
	k.say(t, "2\n", "answer", one)
	k.say(t, "2\n1, lint, and more\nperhaps\ny\n\n", "answer", one, "--note", "in a hurry")
	k.hears(heard)
	k.say(t, "", "answer", one, "1", "2", "yes", "x")
	k.say(t, "", "answer", one)

	two, heard := k.asks(t, c, 0, `[{"text":"Shall I?","options":["A","B"]}]`)
	k.say(t, "", "answer", two, "--decline", "--note", "see the ticket")
	k.hears(heard)
	k.say(t, "", "answer", two, "A")

	_, heardThree := k.asks(t, c, 0, `[{"text":"The third?"}]`)
	_, heardFour := k.asks(t, c, 1, `[{"text":"The fourth?"}]`)
	k.say(t, "three\n!\n", "answer")
	k.hears(heardFour)
	k.hears(heardThree)

	five, heard := k.asks(t, c, 0, `{"questions":[{"text":"In time?"}],"afkTimeoutMs":5000}`)
	k.hears(heard)
	k.say(t, "", "answer", five, "too late")
	k.say(t, "", "answer", "q-none", "x")
	k.say(t, "", "list", "--all")
	s.stop()
	k.say(t, "", "answer", one)

	golden.Equal(t, "ask.golden", k.plain())
}

const askOne = `[{"text":"Which?","options":["A","B"]}]`

// TestAskOfSeveralServers checks two servers of one state directory, and a server of
// another directory: an answer reaches the call that waits at whichever server of its
// directory it is given, and a directory does not know the questions of another.
func TestAskOfSeveralServers(t *testing.T) {
	onEachWire(t, func(t *testing.T, w wire) {
		k, other := &chat{place: newPlace(t)}, &chat{place: newPlace(t)}
		second := *k.place
		second.ws = filepath.Join(second.dir, "ws2")
		if err := os.Mkdir(second.ws, 0o755); err != nil {
			t.Fatal(err)
		}
		c1 := k.start(t, w).connect(t, w, nil)
		c2 := second.start(t, w).connect(t, w, nil)
		c3 := other.start(t, w).connect(t, w, nil)
		one, heardOne := k.asks(t, c1, 0, askOne)
		two, heardTwo := k.asks(t, c2, 1, askOne)
		three, heardThree := other.asks(t, c3, 0, askOne)
		for _, tt := range []struct{ state, id, want string }{
			{k.state, three, "does not exist"},
			{k.state, two, two + ": answered."},
			{k.state, one, one + ": answered."},
			{other.state, one, "does not exist"},
			{other.state, three, three + ": answered."},
		} {
			out, _ := k.command(t.Context(), "ask", "answer", tt.id, "B", "--state", tt.state).CombinedOutput()
			if !strings.Contains(string(out), tt.want) {
				t.Errorf("answer %s of %s: %s, want %q", tt.id, tt.state, out, tt.want)
			}
		}
		for i, heard := range []<-chan *sdk.CallToolResult{heardOne, heardTwo, heardThree} {
			if got := strings.Join(textsOf(<-heard), "\n"); !strings.Contains(got, "Which?\n  -> B") {
				t.Errorf("agent %d hears %q", i+1, got)
			}
		}
	})
}

// TestThePolicySaysWhoIsAsked checks C13: the ask of the policy says how far questions go,
// also after it was changed while the server runs. With console, no client is asked, which
// could answer in a person's place.
func TestThePolicySaysWhoIsAsked(t *testing.T) {
	onEachWire(t, func(t *testing.T, w wire) {
		k := &chat{place: newPlace(t)}
		policy := func(ask string) {
			k.policy = k.file(t, "policy.yaml", "version: 1\nask: "+ask+"\ndefaults: {decision: allow}\nprofiles: {p: {fs: {system: true, workspace: rw}}}\n")
		}
		policy("deny")
		k.flags = []string{"--watch=false", "--trust-client"} // the client below answers fast
		s := k.start(t, w)
		forms := make(chan string, 8)
		c := s.connect(t, w, &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			forms <- r.Params.Message
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"q1": "A"}}, nil
		}})
		for _, tt := range []struct {
			ask, want string
			forms     int
		}{
			{"deny", "DENIED by policy rule no-questions ", 0},
			{"default", "not asked: the policy lets agents decide by themselves.", 0},
			{"console", "Answered by ", 0},
			{"elicit", "Answered by the client test", 1},
		} {
			policy(tt.ask)
			s.reload(t, k.place)
			var got string
			if tt.ask == "console" {
				id, heard := k.asks(t, c, 0, askOne)
				if out, err := k.run(t, "ask", "answer", id, "B"); err != nil {
					t.Fatalf("%s%v", out, err)
				}
				got = strings.Join(textsOf(<-heard), "\n")
			} else {
				// This is another question than that of the console: the server may not
				// know yet that the answer to that one has arrived.
				another := strings.Replace(askOne, "Which?", "Which one?", 1)
				got = c.all(t, "AskUserQuestion", map[string]any{"questions_json": another})
			}
			if !strings.HasPrefix(got, tt.want) || len(forms) != tt.forms {
				t.Errorf("ask: %s: %q after %d forms, want %q after %d", tt.ask, got, len(forms), tt.want, tt.forms)
			}
		}
		tools, err := c.ListTools(t.Context(), nil)
		if err != nil || !slices.ContainsFunc(tools.Tools, func(tool *sdk.Tool) bool { return tool.Name == "AskUserQuestion" }) {
			t.Errorf("the tool is not listed: %v", err)
		}
	})
}

// TestAnAgentCannotAnswerItself checks that an agent cannot answer its own question,
// whatever part of the server it reaches.
func TestAnAgentCannotAnswerItself(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash, testenv.Python)
	w := wires[2] // so that another session can try while the question waits
	k := &chat{place: newPlace(t)}
	s := k.start(t, w)
	id, heard := k.asks(t, s.connect(t, w, nil), 0, askOne)
	socket := filepath.Join(control.Dir(k.state), fmt.Sprint(s.cmd.Process.Pid)+".sock")
	err := errors.Join(os.Link(socket, filepath.Join(k.ws, "hard.sock")), os.Symlink(socket, filepath.Join(k.ws, "link")), os.Chmod(socket, 0o777))
	if err != nil {
		t.Fatal(err)
	}
	body := `{"words":{"q1":["A"]}}`
	script := strings.NewReplacer("/approvals/%s/answer", "/questions/%s/answer", `b'{"yes":true}'`, "b'"+body+"'").Replace(attack)
	if script == attack || !strings.Contains(script, "/questions/%s/answer") {
		t.Fatal("the attack is not the one on approvals with another request")
	}
	k.file(t, "ws/attack.py", script)
	self, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(filepath.Join(k.ws, "belljar"), self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	agent := s.connect(t, w, nil)
	said := agent.all(t, "Bash", map[string]any{"command": fmt.Sprintf("python3 /workspace/attack.py %s %s /workspace/hard.sock", id, socket)})
	t.Log(said)
	if !strings.Contains(said, "\ntried\n") || !strings.Contains(said, "403 Forbidden") || strings.Contains(said, "200 OK") || strings.Contains(said, `"state":"accept"`) {
		t.Errorf("the attack: %s", said)
	}
	own := agent.all(t, "Bash", map[string]any{"command": fmt.Sprintf("cd /workspace && ./belljar ask answer %s A --state %s; mkdir -p /tmp/st/servers && ln -s /workspace/hard.sock /tmp/st/servers/1.sock && ./belljar ask answer %s A --state /tmp/st; true", id, k.state, id)})
	t.Log(own)
	if strings.Contains(own, "answered") {
		t.Errorf("the command answered from inside a box: %s", own)
	}
	select {
	case r := <-heard:
		t.Errorf("after the attack the call is answered: %q", textsOf(r))
	default:
	}
	if out, err := k.run(t, "ask", "answer", id, "B"); err != nil || !strings.Contains(out, "answered") {
		t.Errorf("the owner cannot answer any more: %s%v", out, err)
	}
	if got := strings.Join(textsOf(<-heard), "\n"); !strings.Contains(got, "-> B") {
		t.Errorf("the agent hears %q", got)
	}
}
