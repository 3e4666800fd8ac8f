package egress

import (
	"bytes"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

// git runs git without any configuration of this machine.
func git(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "no_proxy=", "NO_PROXY=",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestGitGoesThrough clones and pushes over HTTP, through the proxy and through a
// redirected connection: large bodies in both directions, chunked bodies, compressed
// bodies, and a client that asks before it sends a body.
func TestGitGoesThrough(t *testing.T) {
	testenv.Need(t, testenv.Git)
	dir := t.TempDir()
	bare, work := filepath.Join(dir, "p.git"), filepath.Join(dir, "work")
	git(t, "init", "-q", "--bare", bare)
	git(t, "-C", bare, "config", "http.receivepack", "true")
	backend := filepath.Join(strings.TrimSpace(git(t, "--exec-path")), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skipf("git has no http-backend: %v", err)
	}
	// The door listens where the client connects, the server on the same port
	// of another loopback address: a redirect changes no port.
	there, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skipf("there is no 127.0.0.2: %v", err)
	}
	handler := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"}, Stderr: io.Discard}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// CGI has no chunked bodies.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		handler.ServeHTTP(w, r)
	}))
	server.Listener.Close()
	server.Listener = there
	server.Start()
	t.Cleanup(server.Close)
	port := port(there.Addr())
	s := serve(t, port, func(cfg *Config) { cfg.Resolver = &answers{known: map[string][]string{site: {"127.0.0.2"}}} })
	url := "http://" + at(site, port) + "/p.git"
	proxy := []string{"-c", "http.proxy=http://" + s.proxy.Addr().String(), "-c", "http.postBuffer=65536"}

	git(t, append(proxy, "clone", "-q", url, work)...)
	big := make([]byte, 3<<20)
	rand.Read(big)
	if err := os.WriteFile(filepath.Join(work, "big"), big, 0o600); err != nil {
		t.Fatal(err)
	}
	git(t, "-C", work, "add", "big")
	git(t, "-C", work, "commit", "-q", "-m", "big")
	git(t, append(proxy, "-C", work, "push", "-q", url, "HEAD:refs/heads/main")...)

	redirected := listenAt(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port))
	addr, ok := s.d.names.give(host(t, site))
	if !ok {
		t.Fatal("no address")
	}
	done := make(chan error, 1)
	go func() {
		done <- s.d.ServeTransparent(redirected, func(net.Conn) (netip.AddrPort, error) { return netip.AddrPortFrom(addr, port), nil })
	}()
	again := filepath.Join(dir, "again")
	git(t, "-c", "http.curloptResolve="+at(site, port)+":127.0.0.1", "clone", "-q", "-b", "main", url, again)
	if got, err := os.ReadFile(filepath.Join(again, "big")); err != nil || !bytes.Equal(got, big) {
		t.Errorf("got %d bytes, %v; want what was pushed", len(got), err)
	}
	s.await(t, func(r Record) bool {
		return r.Allowed && r.Path == "/p.git/git-receive-pack" && r.Sent > int64(len(big))
	})
	s.d.Close()
	if err := <-done; err != nil {
		t.Errorf("serve: got %v; want nil", err)
	}
}

func listenAt(t testing.TB, addr netip.AddrPort) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", addr.String())
	if err != nil {
		t.Skipf("the port is taken: %v", err)
	}
	return l
}
