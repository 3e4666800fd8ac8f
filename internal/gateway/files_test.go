package gateway

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/policies"
)

// place returns a place without a server, in which agents can write the workspace.
func place(t *testing.T, from string) *site {
	t.Helper()
	p, err := policies.Parse("policy.yaml", []byte("version: 1\nprofiles: {a: {}}\nupstreams: {from: ["+from+"]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Workspace: filepath.Join(t.TempDir(), "work"), Policy: func() *policies.Policy { return p }, Log: slog.New(slog.DiscardHandler)}
	if err := os.Mkdir(cfg.Workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg.Trusted = func(file string) bool { return !strings.HasPrefix(file+"/", cfg.Workspace+"/") }
	return newSite(cfg)
}

// A directory of the workspace that an agent has replaced leads to no file of the operator,
// and does not block a read.
func TestDirectoriesOfAgents(t *testing.T) {
	g := place(t, `"${workspaceFolder}/.client/sub/mcp.json"`)
	const entry = `{"mcpServers": {"s": {"command": "x"}}}`
	home := filepath.Join(filepath.Dir(g.cfg.Workspace), "home")
	for _, dir := range []string{filepath.Join(home, "sub"), filepath.Join(g.cfg.Workspace, "own", "sub")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "mcp.json"), []byte(entry), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := filepath.Join(g.cfg.Workspace, ".client")
	for _, tt := range []struct {
		what string
		put  func() error
		read bool
	}{
		{"a link in the workspace", func() error { return os.Symlink("own", at) }, true},
		{"an absolute link", func() error { return os.Symlink(home, at) }, false},
		{"a relative link", func() error { return os.Symlink("../home", at) }, false},
		{"a link inside", func() error {
			if err := os.Mkdir(at, 0o700); err != nil {
				return err
			}
			return os.Symlink("../../home/sub", filepath.Join(at, "sub"))
		}, false},
		{"a pipe", func() error {
			if err := os.Mkdir(at, 0o700); err != nil {
				return err
			}
			mkfifo(t, filepath.Join(at, "sub"))
			return nil
		}, false},
	} {
		if err := tt.put(); err != nil {
			t.Fatal(err)
		}
		type found struct {
			entries, faults int
			err             error
		}
		done := make(chan found, 1)
		go func() {
			entries, faults, err := g.readFiles()
			done <- found{len(entries), len(faults), err}
		}()
		select {
		case got := <-done:
			if got.err != nil || (got.entries > 0) != tt.read || (got.faults == 0) != tt.read {
				t.Errorf("%s: got %+v", tt.what, got)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the reader waits", tt.what)
		}
		if err := os.RemoveAll(at); err != nil {
			t.Fatal(err)
		}
	}
}
