package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"belljar.dev/internal/hooks"

	"belljar.dev/internal/golden"
)

// teller is a hook that writes its input into a file of its own, and notes if its standard
// input, arguments and variables differ.
const teller = `in=$(cat)
[ "$in" = "$4" ] && [ "$in" = "$HOOK_JSON" ] && [ "$1" = "$HOOK_EVENT" ] && [ "$2" = "$HOOK_SESSION" ] && [ "$3" = "$HOOK_TIME" ] && [ $# = 4 ] || in="not the same: $in"
printf '%s\n' "$in" >"LOG/$$.new"
mv "LOG/$$.new" "LOG/$1-$$"
`

// Parts of an event that differ from run to run.
var (
	eventTimes   = regexp.MustCompile(`"time":"[^"]*"`)
	eventTook    = regexp.MustCompile(`"duration_ms":[0-9]+|duration_ms=[0-9]+`)
	eventCalls   = regexp.MustCompile(`\bc-[A-Za-z0-9]+`)
	eventAsked   = regexp.MustCompile(`\bap-[a-z0-9]+`)
	eventSession = regexp.MustCompile(`"session":"([^"]*)"`)
)

// eventsIn returns what the tellers wrote, sorted, with one spelling for what differs. All
// events must be of one session.
func eventsIn(t *testing.T, log string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(log, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	sessions := make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(text) {
			t.Errorf("an event is %s", text)
		}
		line := string(text)
		sessions[eventSession.FindString(line)] = true
		line = eventTimes.ReplaceAllString(line, `"time":"TIME"`)
		line = eventTook.ReplaceAllStringFunc(line, func(s string) string { return strings.TrimRight(s, "0123456789") + "N" })
		line = eventCalls.ReplaceAllString(line, "CALL")
		line = eventAsked.ReplaceAllString(line, "ASKED")
		line = who.ReplaceAllString(line, "USER")
		line = eventSession.ReplaceAllString(line, `"session":"SESSION"`)
		all = append(all, line)
	}
	if len(sessions) != 1 {
		t.Errorf("the events are of the sessions %v, want one", sessions)
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// tellers puts hooks that write down every event into a folder, and returns where they
// write. The hooks of tool_use are waited for, so that they run even if another hook
// refuses the call.
func tellers(t *testing.T, p *place, folder string) (log string) {
	t.Helper()
	log = filepath.Join(p.dir, "log")
	if err := os.Mkdir(log, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, event := range hooks.Events() {
		p.file(t, filepath.Join(folder, event[0], "sync-00-tell.sh"), strings.ReplaceAll(teller, "LOG", log))
	}
	return log
}

const hookPolicy = `version: 1
defaults: {decision: allow, profile: offline, ask: {timeout: 5m, return_after: 1s}}
profiles: {offline: {fs: {system: true, workspace: rw}}}
rules:
  - {id: publish, match: {tool: Bash, command: "echo publish **"}, decision: ask, reason: Publishing needs a person.}
  - {id: no-rm, match: {tool: Bash, command: "rm **"}, decision: deny, reason: It removes things.}
`

// TestEachEventComesOnce checks that each event comes exactly once, with the documented
// data, whichever protocol the client uses. The golden file is the documentation's example
// of each event.
func TestEachEventComesOnce(t *testing.T) {
	onEachWire(t, func(t *testing.T, w wire) {
		p := newPlace(t)
		p.policy = p.file(t, "policy.yaml", hookPolicy)
		log := tellers(t, p, "mine")
		p.file(t, "mine/tool_use/sync-10-no-touch.sh", "case $(cat) in *touch*) echo 'nobody touches anything here' >&2; exit 2 ;; esac\n")
		p.flags = p.outside(t)
		s := p.start(t, w)
		began := make(chan struct{}, 64)
		c := s.connect(t, w, &sdk.ClientOptions{ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { began <- struct{}{} }})

		if got := c.all(t, "Bash", map[string]any{"command": "echo hi"}); !strings.HasPrefix(got, "hi\n") {
			t.Errorf("a call that no hook refuses is answered %q", got)
		}
		if got := c.all(t, "Bash", map[string]any{"command": "touch x"}); !strings.HasPrefix(got, "DENIED by policy rule hook:sync-10-no-touch.sh. Nothing was run.\nWhy: nobody touches anything here\n") {
			t.Errorf("a call that a hook refuses is answered %q", got)
		}
		// A call that the policy denies reaches no hook.
		if got := c.all(t, "Bash", map[string]any{"command": "rm -r x"}); !strings.HasPrefix(got, "DENIED by policy rule no-rm ") {
			t.Errorf("a call that the policy denies is answered %q", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error, 1)
		go func() {
			params := &sdk.CallToolParams{Name: "Bash", Arguments: map[string]any{"command": "echo up; sleep 100"}}
			params.SetProgressToken("p")
			_, err := c.CallTool(ctx, params)
			stopped <- err
		}()
		<-began
		cancel()
		if err := <-stopped; err == nil {
			t.Error("a call that was cancelled has an answer")
		}
		c.all(t, "BackgroundBash", map[string]any{"command": "exit 3", "delay_ms": 10000})
		c.all(t, "SetCallback", map[string]any{"message": "look", "delay_seconds": 1, "repeat_count": 1})
		if got := c.all(t, "SetCallback", map[string]any{"action": "wait"}); !strings.HasPrefix(got, "[callback 0] look") {
			t.Errorf("the callback is %q", got)
		}
		asked := c.all(t, "Bash", map[string]any{"command": "echo publish it"})
		id := eventAsked.FindString(asked)
		if out, err := p.run(t, "approve", "yes", id); err != nil {
			t.Fatalf("%s\n%s%v", asked, out, err)
		}
		if got := c.all(t, "Bash", map[string]any{"command": "echo publish it"}); !strings.HasPrefix(got, "publish it\n") {
			t.Errorf("the call that was approved is answered %q", got)
		}
		c.Close()
		s.stop() // stop waits for hooks

		got := eventsIn(t, log)
		if w.era == "2026-07-28" {
			// Clients of this era name themselves in each request, and sessions have no
			// client.
			got = strings.Replace(got, `"client":"","client_version":""`, `"client":"test","client_version":"1"`, 1)
		}
		golden.Equal(t, "hookevents.golden", got)
	})
}
