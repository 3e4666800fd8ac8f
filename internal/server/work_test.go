package server

import (
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/fleet"
	"belljar.dev/internal/testenv"
	"belljar.dev/mcp"
)

// A worker makes the places that its own policy names, and serves each place only for its
// tenant, whatever a front requests.
func TestLinkedPlaces(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir, policy := filepath.Join(t.TempDir(), "w1"), filepath.Join(t.TempDir(), "p.yaml")
	put(t, policy, "version: 1\ndefaults: {decision: allow, profile: offline}\nprofiles: {offline: {fs: {system: true, workspace: rw}}}\ntenants: {a: {places: [site]}, b: {}}\n")
	open := func() *Server {
		t.Helper()
		s, err := Open(t.Context(), Config{
			Command: "work", Policy: policy, Log: slog.New(slog.DiscardHandler), Tools: &Tools{},
			Service: &Service{Link: &Link{Name: "w1", Places: dir}},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.places.moved = func() {}
		return s
	}
	s := open()
	if _, err := Open(t.Context(), Config{
		Command: "work", Policy: policy, Log: slog.New(slog.DiscardHandler), Tools: &Tools{}, Service: &Service{Link: &Link{Name: "w1", Places: dir}},
	}); err == nil || !strings.Contains(err.Error(), "another worker has this directory") {
		t.Errorf("two workers with one directory: %v", err)
	}
	for _, id := range []string{"", "c", "a/other", "b/site", "a/", "a/site/", "a//site", "../a", "a/..", "a/@", "A", "a/site/../../b"} {
		if err := s.places.claim(t.Context(), id); !errors.Is(err, fleet.ErrNoPlace) {
			t.Errorf("claim %q: %v", id, err)
		}
	}
	for _, id := range []string{"a", "a/site", "b", "a"} {
		if err := s.places.claim(t.Context(), id); err != nil {
			t.Errorf("claim %q: %v", id, err)
		}
	}
	for range 20 { // always in the same order, since every front is notified of another order
		if ids := s.places.ids(); !slices.Equal(ids, []string{"a", "a/site", "b"}) {
			t.Errorf("places: %q", ids)
		}
	}
	ask := func(place, caller string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set(fleet.PlaceHeader, place)
		r.Header.Set(fleet.CallerHeader, caller)
		w := httptest.NewRecorder()
		s.places.linked(s.home).ServeHTTP(w, r)
		text, _ := io.ReadAll(w.Body)
		return w.Code, string(text)
	}
	a := passportOf(mcp.Identity{Tenant: "a", Principal: "p"})
	for _, tt := range []struct {
		place, caller string
		want          int
	}{
		{"a", a, 200},
		{"a/site", a, 200},
		{"b", a, 404},
		{"", a, 404},
		{"a/../b", a, 404},
		{"a/other", a, 404},
		{"c", passportOf(mcp.Identity{Tenant: "c"}), 404},
		{"a", "", 403},
		{"a", "x", 403},
		{"a", base64.RawURLEncoding.EncodeToString([]byte("{}")), 403},
		{"a", base64.RawURLEncoding.EncodeToString([]byte(`{"tenant":7}`)), 403},
	} {
		if got, text := ask(tt.place, tt.caller); got != tt.want {
			t.Errorf("place %q, caller %q: %d %s, want %d", tt.place, tt.caller, got, text, tt.want)
		}
	}
	// Each place has its own state, with the key of the states of its calls.
	keys := make(map[string]bool)
	for _, of := range []string{"a/@", "a/site", "b/@"} {
		key, err := os.ReadFile(filepath.Join(dir, "places", of, "state", "requests.key"))
		if err != nil || keys[string(key)] {
			t.Errorf("the key of %s: %v, another one's: %v", of, err, keys[string(key)])
		}
		keys[string(key)] = true
	}
	if err := s.places.shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	s.Close()
	if s = open(); len(s.places.ids()) != 3 {
		t.Errorf("after a restart: %q", s.places.ids())
	}
	s.Close()
	put(t, policy, "version: 1\ndefaults: {decision: allow, profile: offline}\nprofiles: {offline: {fs: {system: true, workspace: rw}}}\ntenants: {b: {}}\n")
	if s = open(); !slices.Equal(s.places.ids(), []string{"b"}) {
		t.Errorf("without a tenant: %q", s.places.ids())
	}
	s.Close()
}

// The name of a worker is written completely or not at all: a full disk does not leave a
// directory that no worker can open. The limit on the size of files applies to a whole
// process, so the test uses another process for it.
func TestWorkerNameIsWhole(t *testing.T) {
	const full = "BELLJAR_TEST_FULL_DISK"
	if dir := os.Getenv(full); dir != "" {
		signal.Ignore(unix.SIGXFSZ)
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{}); err != nil {
			t.Fatal(err)
		}
		if _, err := openWorkdir(dir, "w1"); !errors.Is(err, unix.EFBIG) {
			t.Fatalf("with a full disk: %v", err)
		}
		return
	}
	dir := t.TempDir()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWorkerNameIsWhole$")
	c.Env = append(os.Environ(), full+"="+dir)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	e, err := openWorkdir(dir, "w1")
	if err != nil {
		t.Fatalf("when the disk has room again: %v", err)
	}
	e.close()
	if left, _ := filepath.Glob(filepath.Join(dir, ".belljar-*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if _, err := openWorkdir(dir, "w2"); err == nil || !strings.Contains(err.Error(), `the worker "w1"`) {
		t.Errorf("another name: %v", err)
	}
}
