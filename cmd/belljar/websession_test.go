package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

// Clients that do not begin another session lose nothing when the server is killed or
// stopped: the first call of each is answered by the next server, which says once that the
// box is a new one.
func TestSessionsOutliveTheServer(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	const sessions = 12 // a tenant has 16 boxes
	bash := func(id int, command string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"Bash","arguments":{"command":%q}}}`, id, command)
	}
	k := newPlace(t)
	s := k.start(t, wire{http: true})
	var all []map[string]string
	w := &web{t: t, url: s.url}
	for range sessions {
		all = append(all, w.session(""))
	}
	if res, text := w.post(all[0], bash(1, "echo kept >kept; echo gone >/tmp/gone")); res.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", res.Status, text)
	}
	for _, end := range []func(){s.kill, func() { s.stop() }} {
		end()
		s = k.start(t, wire{http: true})
		w := &web{t: t, url: s.url}
		for i, session := range all {
			_, text := w.post(session, bash(2, "cat kept; ls /tmp"))
			if !strings.Contains(text, `kept\n`) || strings.Contains(text, `gone\n`) || strings.Count(text, "its box is a new one") != 1 {
				t.Errorf("session %d, its first call: %s", i, text)
			}
			if _, text = w.post(session, bash(3, "true")); !strings.Contains(text, "exit=0") || strings.Contains(text, "its box is a new one") {
				t.Errorf("session %d, its second call: %s", i, text)
			}
		}
	}
	ended := all[0]
	if out, err := k.run(t, "session", "end", ended["Mcp-Session-Id"]); err != nil {
		t.Fatalf("session end: %v\n%s", err, out)
	}
	s.kill()
	s = k.start(t, wire{http: true})
	w = &web{t: t, url: s.url}
	if res, text := w.post(ended, bash(4, "true")); res.StatusCode != http.StatusNotFound {
		t.Errorf("a session that was ended: %s %s", res.Status, text)
	}
	if res, text := w.post(all[1], bash(4, "true")); res.StatusCode != http.StatusOK {
		t.Errorf("another one: %s %s", res.Status, text)
	}
}
