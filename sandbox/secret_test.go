package sandbox_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

const secretPolicy = `version: 1
defaults: {decision: allow, profile: dev}
secrets:
  token: {env: UNUSED}
profiles:
  dev:
    fs: {system: true, workspace: rw}
    net:
      mode: proxy
      tls: intercept
      allow: [api.example]
      secrets: [{secret: token, host: api.example, paths: ["/repos/**"], header: Authorization, value: "Bearer ${secret:token}"}]
`

// disguise turns a value into one that a search for the value does not find, and back: the
// program that searches must not contain the value.
func disguise(value []byte) []byte {
	out := bytes.Clone(value)
	for i := range out {
		out[i] ^= 0x5a
	}
	return out
}

// disguised returns where a text contains the value whose disguised form is value, or -1.
func disguised(text, value []byte) int {
	for i := 0; i+len(value) <= len(text); i++ {
		n := 0
		for n < len(value) && text[i+n]^0x5a == value[n] {
			n++
		}
		if n == len(value) {
			return i
		}
	}
	return -1
}

// searches names the act that looks for a value in everything that a program in the box can
// read. It gets through if it finds the value. The Token of its place is the value,
// disguised, and Fake is what it must find, to show that it can.
const searches = "a search for a value"

func search(p *place) (string, error) {
	value, err := base64.StdEncoding.DecodeString(p.Token)
	if err != nil || len(value) == 0 {
		return "", fmt.Errorf("no value: %w", err)
	}
	var found, seen []string
	look := func(name string, text []byte) {
		seen = append(seen, name)
		if disguised(text, value) >= 0 {
			found = append(found, name)
		}
	}
	memories := 0
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		for _, name := range []string{"environ", "cmdline", "auxv", "maps", "mountinfo", "status"} {
			if text, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				look(filepath.Join(dir, name), text)
			}
		}
		if memory(dir, look) {
			memories++
		}
	}
	for _, root := range []string{"/etc", "/tmp", "/run", "/home", "/root", "/var/tmp", "/dev/shm", "/workspace", "/proc/net", "/proc/sys/kernel"} {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || d.Name() == bypassName {
				return nil
			}
			f, err := os.Open(path)
			if err != nil {
				return nil
			}
			defer f.Close()
			text, _ := io.ReadAll(io.LimitReader(f, 64<<20))
			look(path, text)
			return nil
		})
	}
	if len(found) > 0 {
		return strings.Join(found, " "), nil
	}
	return "", fmt.Errorf("not in %d places, %d of them memories", len(seen), memories)
}

// memory looks at all memory of a process that can be read and written.
func memory(dir string, look func(string, []byte)) bool {
	maps, err := os.ReadFile(filepath.Join(dir, "maps"))
	if err != nil || len(maps) == 0 {
		return false
	}
	mem, err := os.Open(filepath.Join(dir, "mem"))
	if err != nil {
		return false
	}
	defer mem.Close()
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		var rights string
		if n, _ := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); n != 3 || rights[:2] != "rw" || to-from > 64<<20 {
			continue
		}
		text := make([]byte, to-from)
		n, _ := mem.ReadAt(text, int64(from))
		look(filepath.Join(dir, "mem"), text[:n])
	}
	return true
}

// A program in a box uses a secret, in the clear and in TLS. The secret is found nowhere
// except at the server.
func TestSecretStaysOut(t *testing.T) {
	if !inNetwork(t) {
		return
	}
	testenv.Need(t, testenv.Curl)
	n := newInternet(t)
	value := "s3cr3t+" + rand.Text() + "/=" + rand.Text()
	var logged testenv.Log
	var kept records
	state := t.TempDir()
	s, dir := worldOf(t, sandbox.Config{
		Resolver: n.names, State: state, Egress: kept.add, Spool: t.TempDir(),
		Log: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Secret: func(_ context.Context, name string) (string, error) {
			if name != "token" {
				return "", errors.New("no such secret")
			}
			return value + "\n", nil
		},
	})
	s.SetRoots(n.roots)
	addProber(t, dir)
	box, err := s.Open(t.Context(), "dev", policytest.GrantFor(t, secretPolicy, policies.Facts{Tenant: "test", Tool: "Bash", Command: "true"}))
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for _, scheme := range []string{"http", "https"} {
		// The server repeats what it received, also in the answer's headers, and curl shows
		// everything that it saw.
		r, out := shell(t, box, fmt.Sprintf("cd /tmp && curl -sSv -D headers -o body --trace-ascii trace %s://api.example/repos/x?again=1; cat headers body trace", scheme))
		fmt.Fprintf(&shown, "%s\n%+v\n", out, r)
		if !strings.Contains(out, n.token) || !strings.Contains(out, "Authorization: Bearer ***") {
			t.Errorf("%s: the server's answer is %s", scheme, out)
		}
		if !n.wasTold("Authorization: Bearer " + value) {
			t.Errorf("%s: the server did not get the secret: %q", scheme, n.heard)
		}
		// A request to a path that the secret is not for gets no secret, and what the box
		// sends in its place is not taken for it.
		before := n.count(value)
		shell(t, box, fmt.Sprintf("curl -sS %s://api.example/other", scheme))
		if n.count(value) != before {
			t.Errorf("%s: a request that the secret is not for has it", scheme)
		}
	}
	// A program that died in the middle of a request, with a core dump if this host makes
	// one in the box.
	r, out := shell(t, box, "cd /tmp; ulimit -c unlimited; curl -sS -o part --limit-rate 1k https://api.example/repos/big & until [ -s part ]; do :; done; kill -SEGV $!; wait $!; echo $?")
	fmt.Fprintf(&shown, "%s\n%+v\n", out, r)
	// A program that still makes requests while everything is searched.
	const busy = "while :; do curl -sS --limit-rate 1k -o /tmp/now https://api.example/repos/x; done"
	for name, form := range map[string][]byte{
		"as it is": []byte(value), "in base64": []byte(base64.StdEncoding.EncodeToString([]byte("Bearer " + value))), "in a URL": []byte(url.QueryEscape(value)),
	} {
		o, r := searchBeside(t, box, busy, "/tmp/now", form)
		if o.Through {
			t.Errorf("%s the secret is in the box: %s", name, o.Detail)
		}
		t.Logf("%s: %s", name, o.Detail)
		for where, text := range map[string]string{
			"results": shown.String(), "log": logged.String(), "records": fmt.Sprintf("%+v", kept.of("dev")), "result of the search": fmt.Sprintf("%+v", r),
		} {
			if strings.Contains(text, string(form)) {
				t.Errorf("%s the secret is in the %s: %.2000s", name, where, text)
			}
		}
		for _, root := range []string{state, dir, s.Spool()} {
			if path := holds(t, root, form); path != "" {
				t.Errorf("%s the secret is in %s", name, path)
			}
		}
	}
	// The search finds what exists.
	marker := "marker-" + rand.Text()
	o, _ := searchBeside(t, box, "MARKER="+marker+" sh -c 'echo $MARKER >/tmp/marker; sleep 60'", "/tmp/marker", []byte(marker))
	if !o.Through || !strings.Contains(o.Detail, "/tmp/marker") || !strings.Contains(o.Detail, "/environ") || !strings.Contains(o.Detail, "/mem") {
		t.Errorf("the search finds only %+v of what is there", o)
	}
}

// searchBeside looks for a value in the box, in the same command as a script that continues
// meanwhile and has begun when the file begun exists. (If each command has a pid namespace,
// commands see nothing of each other.)
func searchBeside(t *testing.T, box *sandbox.Box, script, begun string, value []byte) (outcome, sandbox.Result) {
	t.Helper()
	script = fmt.Sprintf("rm -f %[1]s; { %[2]s; } >/dev/null 2>&1 & until [ -s %[1]s ]; do :; done; exec /workspace/%[3]s '%[4]s'", begun, script, bypassName, searches)
	b := &bypass{name: searches}
	return b.run(t, box, sandbox.Cmd{Shell: script}, &place{Token: base64.StdEncoding.EncodeToString(disguise(value))})
}

// A secret that is not available is an error that says no more than its name.
func TestSecretThatCannotBeHad(t *testing.T) {
	if !inNetwork(t) {
		return
	}
	testenv.Need(t, testenv.Curl)
	n := newInternet(t)
	var logged testenv.Log
	var kept records
	s, _ := worldOf(t, sandbox.Config{
		Resolver: n.names, Egress: kept.add, Log: slog.New(slog.NewTextHandler(&logged, nil)),
		Secret: func(context.Context, string) (string, error) { return "", errors.New("vault said: hunter2-hunter2") },
	})
	s.SetRoots(n.roots)
	box, err := s.Open(t.Context(), "dev", policytest.GrantFor(t, secretPolicy, policies.Facts{Tenant: "test", Tool: "Bash", Command: "true"}))
	if err != nil {
		t.Fatal(err)
	}
	r, out := shell(t, box, "curl -sS https://api.example/repos/x")
	all := fmt.Sprintf("%s %+v %+v", out, r.Blocked, kept.of("dev"))
	if !strings.Contains(all, "secret token: its value cannot be read") || strings.Contains(out, n.token) {
		t.Errorf("got %s", all)
	}
	if strings.Contains(all, "hunter2") {
		t.Errorf("the cause is told to the box: %s", all)
	}
}

// wasTold reports whether a server received a request that contains the text.
func (n *internet) wasTold(text string) bool { return n.count(text) > 0 }

func (n *internet) count(text string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, h := range n.heard {
		count += strings.Count(h, text)
	}
	return count
}

// holds returns the first file below a directory that contains the text.
func holds(t *testing.T, root string, text []byte) (found string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || found != "" || d.Name() == bypassName {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, text) {
			found = path
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return found
}
