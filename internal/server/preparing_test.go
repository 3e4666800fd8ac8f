package server

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/config"
	"belljar.dev/internal/front"
	"belljar.dev/internal/testenv"
)

// A server whose boxes cannot be made serves clients only until it knows this. Its error is
// the one of a command that fails immediately.
func TestServerWithoutBoxesEnds(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	open := func(service *Service) (*Server, error) {
		return Open(t.Context(), Config{
			Command: "serve", Workspace: t.TempDir(), State: t.TempDir(), Log: slog.New(slog.DiscardHandler), Tools: &Tools{}, Service: service,
		})
	}
	const want = "open the sandbox: "
	for name, serve := range map[string]func(s *Server) error{
		"stdio": func(s *Server) error {
			in, client := io.Pipe() // the client sends nothing, and keeps the pipe open
			defer client.Close()
			return s.ServeStdio(t.Context(), in, io.Discard)
		},
		"http": func(s *Server) error {
			return s.ServeHTTP(t.Context(), func(string) {})
		},
	} {
		service := &Service{}
		if name == "http" {
			service.HTTP = &front.Config{Addr: "127.0.0.1:0"}
		}
		s, err := open(service)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.sandbox.Close(); err != nil { // from now on no box can be made
			t.Fatal(err)
		}
		if err := serve(s); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "belljar doctor") {
			t.Errorf("%s: got %v, want %s...", name, err, want)
		}
		s.Close()
	}
	s, err := open(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if len(s.sandbox.Limits()) == 0 {
		t.Error("the control: boxes cannot be made here")
	}
	// If only a workspace is missing, the host lacks nothing that doctor could name.
	p := newPlace(s, filepath.Join(t.TempDir(), "gone"), s.Policy)
	defer p.close()
	if err := p.open(t.Context()); err == nil || !strings.Contains(err.Error(), "open workspace") || strings.Contains(err.Error(), "belljar doctor") {
		t.Errorf("a place without its workspace: got %v", err)
	}
}

// A damaged key of the audit log ends a server whose policy asks for the log. If the log is
// required, the server ends before the first answer. If the policy does not ask for the
// log, the server logs a warning.
func TestServerWithDamagedAuditKey(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	const want = "contains no key"
	for audited, opens := range map[string]bool{"": true, "audit: {level: meta}\n": true, "audit: {required: true}\n": false} {
		state, policy := t.TempDir(), filepath.Join(t.TempDir(), "p.yaml")
		put(t, policy, "version: 1\nprofiles: {box: {fs: {system: true, workspace: rw}}}\n"+audited)
		var said bytes.Buffer
		open := func() (*Server, error) {
			return Open(t.Context(), Config{
				Command: "serve", Workspace: t.TempDir(), State: state, Policy: policy, Log: slog.New(slog.NewTextHandler(&said, nil)), Tools: &Tools{}, Service: &Service{},
			})
		}
		s, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if err := prepare(s); err != nil {
			t.Errorf("%q: the whole key: %v", audited, err)
		}
		s.Close()
		path := filepath.Join(config.AuditDir(state), "audit.key")
		key, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if at := &key[len(key)-10]; *at == 'A' { // a character within the seed
			*at = 'B'
		} else {
			*at = 'A'
		}
		if err := os.WriteFile(path, key, 0o600); err != nil {
			t.Fatal(err)
		}
		said.Reset()
		s, err = open()
		if (err == nil) != opens || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: Open: got %v", audited, err)
		}
		if err != nil {
			continue
		}
		err = prepare(s)
		s.Close()
		if audited == "" {
			if err != nil || !strings.Contains(said.String(), "the audit log cannot be signed") {
				t.Errorf("unasked: got %v, and the log has\n%s", err, said.String())
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", audited, err, want)
		}
	}
}
