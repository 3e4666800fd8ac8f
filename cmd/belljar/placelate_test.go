package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

// TestLateCallsInPlaces checks a call whose body arrives after the policy has taken its
// place away from the tenant: the call does not run in that place, and a stream of the
// place ends. Other tenants still have the place.
func TestLateCallsInPlaces(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	dir := t.TempDir()
	policy, first, second := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
	write := func(ofA string) {
		put(t, policy, fmt.Sprintf(`version: 1
profiles: {p: {fs: {system: true, workspace: rw}}}
defaults: {decision: allow, profile: p}
tenants: {a: {token: "${env:TOKEN_A}", workspace: %s}, b: {token: "${env:TOKEN_B}", workspace: %s}}
`, ofA, first))
	}
	for _, name := range []string{first, second, filepath.Join(dir, "home")} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	w := serveWeb(t, []string{"XDG_STATE_HOME=" + t.TempDir(), "TOKEN_A=" + digest("aaaa"), "TOKEN_B=" + digest("bbbb")},
		"--workspace", filepath.Join(dir, "home"), "--policy", policy, "--state", t.TempDir())

	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"touch /workspace/NAME"},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	// begin sends a call without its body, and returns when the server has accepted the
	// call and waits for its body.
	begin := func(token, name string) (end func() *http.Response) {
		conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(w.url, "http://"), "/mcp"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		text := strings.Replace(body, "NAME", name, 1)
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
			"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: Bash\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", token, len(text))
		answers := bufio.NewReader(conn)
		if line, err := answers.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatalf("it answered %q, %v", line, err)
		}
		if _, err := answers.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		return func() *http.Response {
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			res, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { res.Body.Close() })
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Fatal(err)
			}
			return res
		}
	}
	stream := w.stream(w.session("aaaa"))
	defer stream.Close()
	late, others := begin("aaaa", "late"), begin("bbbb", "others")
	write(second)
	w.wait("the policy was read again and is in force from now on")
	if res := late(); res.StatusCode == http.StatusOK {
		t.Errorf("a call that came late: %s", res.Status)
	}
	if res := others(); res.StatusCode != http.StatusOK {
		t.Errorf("a call of the tenant that stays: %s", res.Status)
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		t.Errorf("the stream of the place ends with %v", err)
	}
	for name, want := range map[string]bool{"late": false, "others": true} {
		if _, err := os.Stat(filepath.Join(first, name)); (err == nil) != want {
			t.Errorf("%s is in the place: %t, want %t", name, err == nil, want)
		}
	}
}
