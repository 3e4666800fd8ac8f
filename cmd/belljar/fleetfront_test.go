package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/control"
)

// TestFrontThatIsNone checks what the commands about a fleet report if the only server in
// the state directory was killed, or is not a front.
func TestFrontThatIsNone(t *testing.T) {
	killed := t.TempDir()
	if err := os.MkdirAll(control.Dir(killed), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(control.Dir(killed), "1073741825.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	policy := filepath.Join(killed, "policy.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := controlled(t, nil)
	for _, line := range []string{"fleet forget acme", "audit verify --fleet", "fleet policy get", "fleet policy put " + policy, "place list"} {
		for state, want := range map[string]string{killed: noFront, other: "is not a front, or does not answer: 404 Not Found; name that of a front with --state"} {
			code, out, errs := ran(append(strings.Fields(line), "--state", state)...)
			if code != exitFailed || !strings.Contains(errs, want) {
				t.Errorf("%s: status %d, %q, %q; want %q", line, code, out, errs, want)
			}
		}
	}
}
