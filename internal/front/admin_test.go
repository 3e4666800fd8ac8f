package front

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// The admin listener has no login, so it accepts only addresses of this machine.
func TestAdminAddresses(t *testing.T) {
	for addr, want := range map[string]string{
		"0.0.0.0:0":          "has no login",
		":0":                 "has no login",
		"192.0.2.1:0":        "has no login",
		"belljar.example:1":  "want an address of this machine",
		"127.0.0.1":          "want HOST:PORT",
		"unix:relative.sock": "want an absolute path",
	} {
		a, err := OpenAdmin(t.Context(), addr, nil, slog.New(slog.DiscardHandler))
		if err == nil {
			a.Close()
		}
		if _, ok := errors.AsType[*ConfigError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a mistake of the configuration: %s", addr, err, want)
		}
	}
}

// Only its own user can use a socket. A socket that a killed server has left is replaced. A
// socket on which a process listens, and any other file, is not replaced.
func TestAdminSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAdmin(t.Context(), "unix:"+path, nil, slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("the socket of another server was taken")
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	a, err := OpenAdmin(t.Context(), "unix:"+path, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has the mode %v, %v", info.Mode(), err)
	}
	if a.Addr() != "unix:"+path {
		t.Errorf("it is at %s", a.Addr())
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := a.Serve(ctx, http.NotFoundHandler()); err != nil {
			t.Error(err)
		}
	})
	dial := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	for method, want := range map[string]int{http.MethodGet: http.StatusNotFound, http.MethodPost: http.StatusMethodNotAllowed} {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := (&http.Client{Transport: dial}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%s: %s", method, res.Status)
		}
	}
	cancel()
	serving.Wait()
	if err := os.WriteFile(path, []byte("a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAdmin(t.Context(), "unix:"+path, nil, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a file was replaced")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "a file" {
		t.Errorf("it is %q, %v", text, err)
	}
}
