package server

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"belljar.dev/internal/front"
	"belljar.dev/internal/testenv"
)

// A server whose boxes cannot be made answers no client for longer than it takes to
// know that, and its error is that of a command which fails at once.
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
			in, client := io.Pipe() // a client that says nothing, and does not go
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
		if err := s.sandbox.Close(); err != nil { // no box can be made from now on
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
}
