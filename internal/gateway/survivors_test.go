package gateway

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/mcptest/upstreams"
	"belljar.dev/internal/testenv"
)

// livesEnv is the environment variable with the number of hostile servers that
// TestSurvivors starts. By default it starts one of each kind.
const livesEnv = "BELLJAR_TEST_LIVES"

// together is the number of hostile servers that run at the same time, in addition to one
// that behaves well.
const together = 6

// While hostile servers run, servers that behave well still answer. One second after the
// hostile servers were taken out of the configuration, none of their processes, boxes and
// mounts is left. TestMain also checks what is left on the host: cgroups, descriptors and
// goroutines.
func TestSurvivors(t *testing.T) {
	mark := testenv.Seconds()
	all := upstreams.Misbehaving(mark)
	kinds := slices.Sorted(maps.Keys(all))
	lives := len(kinds)
	if text := os.Getenv(livesEnv); text != "" {
		var err error
		if lives, err = strconv.Atoi(text); err != nil || lives < 1 {
			t.Fatalf("%s is %q, want a number from 1 on", livesEnv, text)
		}
	}
	g := gate(t, "", "", nil)
	p := strings.ReplaceAll(gatedPolicy, "wait: 20s", "wait: 1s")
	p = strings.ReplaceAll(p, "defaults: {profile", "defaults: {timeout: {handshake: 2s, call: 1s}, profile")
	g.useText(p, `servers: {good: {timeout: {handshake: 30s, call: 30s}}}`, "")
	good := upstreams.Server{Tools: []upstreams.Tool{upstreams.Echo}}
	mounts := len(mounted(t))
	left := 0
	for n := 0; n < lives; n += together {
		servers := map[string]upstreams.Server{"good": good}
		var names []string
		for i := n; i < min(n+together, lives); i++ {
			name := kinds[i%len(kinds)]
			servers[name] = all[name]
			names = append(names, name)
		}
		g.write(servers)
		if err := g.Reload(); err != nil {
			t.Fatal(err)
		}
		g.list()
		if !testenv.Until(20*time.Second, func() bool { return strings.Contains(g.names(), "mcp_good_echo") }) {
			t.Fatalf("the server that behaves is not offered beside %q", names)
		}
		answers := []<-chan message{}
		for tool := range strings.FieldsSeq(g.names()) {
			if strings.HasPrefix(tool, "mcp_") && len(answers) < 16 {
				answers = append(answers, g.begin("tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"x":1}}`, tool)))
			}
		}
		g.wants("mcp_good_echo", `{"x":1}`, false, `{"x":1}`)
		for _, a := range answers {
			<-a // each answer has its own text
		}
		g.write(nil)
		if err := g.Reload(); err != nil {
			t.Fatal(err)
		}
		if !testenv.Until(testenv.Patience(t)*time.Second, func() bool {
			left = testenv.Sleeping(t, mark)
			return left == 0 && len(g.boxes.Boxes()) == 0 && len(mounted(t)) <= mounts
		}) {
			t.Fatalf("a second after %q were taken away: %d processes, %d boxes, %d mounts more are left", names, left, len(g.boxes.Boxes()), len(mounted(t))-mounts)
		}
	}
	t.Logf("%d lives of %d kinds of servers: nothing is left", lives, len(kinds))
}

// mounted returns the mounts of this process.
func mounted(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}
