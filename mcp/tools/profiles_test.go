package tools

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
)

// probe reports on the box in which it runs, and notes in /tmp of the box that it has run.
const probe = `#!/bin/bash
cd /tmp
( exec 3<>/dev/tcp/host.belljar.internal/PORT && printf 'GET / HTTP/1.0\r\nHost: host.belljar.internal:PORT\r\n\r\n' >&3 && grep -q REACHED <&3 ) 2>/dev/null && echo reached
( : >/workspace/written ) 2>/dev/null && echo wrote
cat /workspace/shared /tmp/ran 2>/dev/null
echo "in $1" >>/tmp/ran
`

// manyProfiles grants a command the profile that its argument names.
const manyProfiles = `version: 1
defaults: {decision: allow, profile: offline}
profiles:
  offline: {fs: {system: true, workspace: rw}}
  online: {fs: {system: true, workspace: rw}, net: {mode: proxy, allow_private: ["host.belljar.internal:PORT"]}}
  other: {fs: {system: true, workspace: rw}, net: {mode: proxy, allow: [nowhere.example]}}
  reader: {fs: {system: true, workspace: ro}}
rules:
  - {id: online, match: {tool: "*Bash", command: "/workspace/probe online"}, decision: allow, profile: online}
  - {id: other, match: {tool: "*Bash", command: "/workspace/probe other"}, decision: allow, profile: other}
  - {id: reader, match: {tool: "*Bash", command: "/workspace/probe reader"}, decision: allow, profile: reader}
`

// profileBench returns a bench with a policy, and starts a server that the profile online
// reaches.
func profileBench(t *testing.T, policy string) *bench {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "REACHED") }))
	t.Cleanup(web.Close)
	_, port, err := net.SplitHostPort(web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b := boxes(t, strings.ReplaceAll(policy, "PORT", port))
	for name, text := range map[string]string{"probe": strings.ReplaceAll(probe, "PORT", port), "shared": "shared\n"} {
		if err := os.WriteFile(filepath.Join(b.workspace, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The box's user may have another id than the test's.
	if err := os.Chmod(b.workspace, 0o777); err != nil {
		t.Fatal(err)
	}
	return b
}

// Whatever profiles a session's calls are granted, and in whatever order, each call runs in
// a box of its own profile. It reaches and writes only what that profile allows, and finds
// in /tmp what earlier calls of the same profile left, but nothing of other profiles.
func TestProfilesHaveBoxes(t *testing.T) {
	n, r := testenv.Cases(t, 40)
	b := profileBench(t, manyProfiles)
	profiles := []string{"offline", "online", "other", "reader"}
	session, before, first := b.session, map[string]int{}, ""
	for i := range n {
		if i%25 == 24 {
			session.Close()
			session, before, first = b.open(), map[string]int{}, ""
			for len(b.ended) > 0 { // the channel has room for a few jobs only
				<-b.ended
			}
		}
		profile := profiles[r.IntN(len(profiles))]
		tool := "Bash"
		if r.IntN(4) == 0 {
			tool = "BackgroundBash"
		}
		args := map[string]any{"command": "/workspace/probe " + profile}
		if tool == "BackgroundBash" {
			args["delay_ms"] = 10_000
		}
		res := b.callIn(session, tool, args)
		text := res.Content[0].Text
		want := []string{"shared"}
		if profile == "online" {
			want = append(want, "reached")
		}
		if profile != "reader" {
			want = append(want, "wrote")
		}
		for range before[profile] {
			want = append(want, "in "+profile)
		}
		var got []string
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line == "shared" || line == "reached" || line == "wrote" || strings.HasPrefix(line, "in ") {
				got = append(got, line)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("call %d, of profile %s: got %q, want %q:\n%s", i, profile, got, want, text)
		}
		if told := strings.Contains(text, "so this call has a box of its own"); told != (first != "" && before[profile] == 0) {
			t.Errorf("call %d, of profile %s: told of another box: %v:\n%s", i, profile, told, text)
		}
		if first == "" {
			first = profile
		}
		before[profile]++
	}
}

// Each box has its own working directory, and all calls of the session see its background
// tasks.
func TestProfilesShareJobs(t *testing.T) {
	b := profileBench(t, manyProfiles)
	online := map[string]any{"command": "/workspace/probe online"}
	b.call("Bash", online)
	b.call("Bash", map[string]any{"command": "cd /var"})
	if r := b.call("Bash", online); !strings.Contains(r.Content[0].Text, "cwd=/workspace]") {
		t.Errorf("the directory of the other box: %s", r.Content[0].Text)
	}
	if r := b.call("BackgroundBash", map[string]any{"command": "/workspace/probe online"}); r.IsError {
		t.Fatal(r.Content[0].Text)
	}
	<-b.ended
	if r := b.call("ListBgTasks", nil); !strings.Contains(r.Content[0].Text, "/workspace/probe online") {
		t.Errorf("the tasks: %s", r.Content[0].Text)
	}
	if r := b.call("Bash", map[string]any{"command": "pwd"}); !strings.HasPrefix(r.Content[0].Text, "/var\n") {
		t.Errorf("the directory: %s", r.Content[0].Text)
	}
}

// If a session cannot have a further box, the refusal says what its agent can do.
func TestNoFurtherBox(t *testing.T) {
	const oneOverlay = "A session with an overlay workspace has only one box"
	one := func(profile string) string { // only this profile has an overlay
		const fs = ": {fs: {system: true, workspace: "
		return strings.Replace(manyProfiles, profile+fs+"rw", profile+fs+"overlay", 1)
	}
	overlay := strings.ReplaceAll(manyProfiles, "workspace: rw", "workspace: overlay")
	more := manyProfiles + "  - {id: more, match: {tool: Bash, command: \"/workspace/probe more\"}, decision: allow, profile: more}\n"
	more = strings.Replace(more, "rules:", "  more: {fs: {system: true, workspace: none}}\nrules:", 1)
	for name, tt := range map[string]struct {
		policy string
		calls  []string
		want   string
	}{
		"overlay":       {overlay, []string{"offline", "online"}, oneOverlay},
		"overlay first": {one("offline"), []string{"offline", "online"}, oneOverlay},
		"overlay later": {one("online"), []string{"offline", "online"}, oneOverlay},
		"many":          {more, []string{"offline", "online", "other", "reader", "more"}, "a session has at most 4 boxes"},
	} {
		t.Run(name, func(t *testing.T) {
			b := profileBench(t, tt.policy)
			var r *mcp.Result
			for i, profile := range tt.calls {
				r = b.call("Bash", map[string]any{"command": "/workspace/probe " + profile})
				if last := i == len(tt.calls)-1; r.IsError != last {
					t.Fatalf("%s: %s", profile, r.Content[0].Text)
				}
			}
			text := r.Content[0].Text
			if !strings.Contains(text, tt.want) || !strings.Contains(text, nothingRan) || !strings.Contains(text, "ask the person you work for") {
				t.Errorf("%s", text)
			}
		})
	}
}
