package server

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/front"
	"belljar.dev/internal/testenv"
)

// If a late step of Open fails, Open closes what the steps before it have opened, in the
// order of Close: the log of what was done is closed last. TestMain checks that nothing
// else is left behind.
func TestOpenThatFailsLeavesNothing(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	for want, change := range map[string]func(*Config){
		"no variable": func(c *Config) {
			c.Service.Webhook = &Webhook{URL: "https://hook.example/", Secret: "env:BELLJAR_NONE"}
		},
		"no such folder":                func(c *Config) { c.Hooks = &Hooks{Folders: []string{"/no/such/folder"}} },
		"a box can write there":         func(c *Config) { c.Callbacks = &Callbacks{Inbox: filepath.Join(c.Workspace, "inbox")} },
		"":                              func(*Config) {},
		"name each hook that runs outs": func(c *Config) { c.Hooks = &Hooks{Trusted: []string{"/x"}} },
	} {
		var log bytes.Buffer
		t.Setenv("XDG_CONFIG_HOME", t.TempDir())
		state := t.TempDir()
		cfg := Config{
			Command: "serve", Workspace: t.TempDir(), State: state, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Tools: &Tools{}, Hooks: &Hooks{}, Callbacks: &Callbacks{}, Service: &Service{},
		}
		change(&cfg)
		s, err := Open(t.Context(), cfg)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || s != nil || !strings.Contains(err.Error(), want)):
			t.Fatalf("got %v, want %q", err, want)
		case err == nil:
			s.Close()
			s.Close()
		}
		if n := strings.Count(log.String(), "the server has stopped"); n != 1 {
			t.Errorf("%q: the log says %d times that the server has stopped: %s", want, n, log.String())
		}
		if left, err := filepath.Glob(filepath.Join(state, "servers", "*.sock")); err != nil || len(left) > 0 {
			t.Errorf("%q: left are %q, %v", want, left, err)
		}
		text, err := os.ReadFile(filepath.Join(state, "audit", "audit.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		start, stop := bytes.Index(text, []byte(`"event":"start"`)), bytes.Index(text, []byte(`"event":"stop"`))
		if start < 0 || stop < start {
			t.Errorf("%q: the audit log has no start and then a stop: %s", want, text)
		}
	}
}

// In overlay workspaces, boxes also write into the state directory. A token is therefore
// not read from there, neither at the start nor at a reload.
func TestTokenInTheStateIsRefused(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	state, policy := t.TempDir(), filepath.Join(t.TempDir(), "policy.yaml")
	token := filepath.Join(state, "token")
	for name, text := range map[string]string{
		token:  strings.Repeat("0", 64) + "\n",
		policy: "version: 1\nprofiles: {p: {}}\ndefaults: {profile: p}\ntenants: {a: {token: \"${file:" + token + "}\"}}\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), Config{
		Command: "serve", Workspace: t.TempDir(), State: state, Policy: policy, Log: slog.New(slog.DiscardHandler),
		Tools: &Tools{}, Service: &Service{HTTP: &front.Config{Addr: "127.0.0.1:0"}},
	})
	if err == nil {
		s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "token of tenant a") || !strings.Contains(err.Error(), state) {
		t.Errorf("got %v, want that the token lies where a box can write", err)
	}
}
