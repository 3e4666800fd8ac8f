package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"belljar.dev/internal/control"
	"belljar.dev/internal/testenv"
)

// TestBrowserPs checks that the browsers of a server are listed while they run, and that
// other boxes are not.
func TestBrowserPs(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash, testenv.Chromium)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<!doctype html><title>t</title><p>A page.")
	}))
	defer site.Close()
	p := newPlace(t)
	p.policy = p.file(t, "policy.yaml", fmt.Sprintf(`version: 1
defaults: {decision: allow, profile: pages}
profiles:
  pages:
    fs: {system: true, workspace: rw}
    browser: sandboxed
    net: {mode: proxy, allow_private: [%q]}
`, strings.TrimPrefix(site.URL, "http://")))
	s := p.start(t, wires[0])
	c := s.connect(t, wires[0], nil)
	if got := c.all(t, "Bash", map[string]any{"command": "echo in a box"}); !strings.Contains(got, "in a box") {
		t.Fatal(got)
	}
	if got := c.all(t, "ReadDocs", map[string]any{"url": site.URL, "wait_ms": 1}); !strings.Contains(got, "rendered: chrome") {
		t.Fatal(got)
	}
	text, err := p.run(t, "browser", "ps", "--json")
	var list []control.Box
	if err != nil || json.Unmarshal([]byte(text), &list) != nil || len(list) != 1 {
		t.Fatalf("%v: %s; want one browser", err, text)
	}
	b := list[0]
	if b.Server != s.cmd.Process.Pid || !b.Browser || b.ID == "" || b.Tenant != "local" || b.Profile != "pages" || b.Memory < 10<<20 {
		t.Errorf("got %+v", b)
	}
	text, err = p.run(t, "browser", "ps")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if want := fmt.Sprintf("%d %s pages local pages", b.Server, b.ID); err != nil || len(lines) != 2 || !strings.HasPrefix(strings.Join(strings.Fields(lines[1]), " "), want) || !strings.HasSuffix(lines[1], " MiB") {
		t.Errorf("%v: got\n%s\nwant a line that begins %q", err, text, want)
	}
	s.stop()
	if text, err = p.run(t, "browser", "ps", "--json"); err != nil || strings.TrimSpace(text) != "[]" {
		t.Errorf("after the server: %v: %s", err, text)
	}
}
