package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/config"
	"belljar.dev/internal/control"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// TestDoctorTellsOfLostRecords checks that doctor finds out from a running server which
// records it could not write, and from the log which records were lost before.
func TestDoctorTellsOfLostRecords(t *testing.T) {
	state := t.TempDir()
	p, err := policies.Parse("p.yaml", []byte("version: 1\nprofiles: {a: {}}\naudit: {level: meta}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c := auditCheck(t.Context(), p, state); !c.OK || !strings.HasSuffix(c.Detail, "not begun yet") {
		t.Errorf("before the first server: %+v", c)
	}
	log := slog.New(slog.DiscardHandler)
	a, _ := p.Audit()
	dir := config.AuditDir(state)
	l, err := audit.Open(audit.Config{Dir: dir, Audit: a, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(w http.ResponseWriter, _ *http.Request) {
		control.Respond(w, http.StatusOK, control.Audit{Dir: dir, Health: l.Health()})
	}
	server, err := control.Listen(t.Context(), state, http.HandlerFunc(answer), log)
	if err != nil {
		t.Fatal(err)
	}
	if c := auditCheck(t.Context(), p, state); !c.OK || strings.Contains(c.Degraded, "lost") {
		t.Errorf("a server that writes: %+v", c)
	}
	// A directory replaces the current file, and the file then replaces the directory. Each
	// is done in one step: between two steps, the log would create a new file and state its
	// losses there.
	current := filepath.Join(dir, "audit.jsonl")
	exchange := func() {
		t.Helper()
		if err := unix.Renameat2(unix.AT_FDCWD, current, unix.AT_FDCWD, current+".away", unix.RENAME_EXCHANGE); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(current+".away", 0o700); err != nil {
		t.Fatal(err)
	}
	exchange()
	if err := l.Write(t.Context(), audit.Session{Event: "start"}); err == nil {
		t.Error("a directory was written to")
	}
	if c := auditCheck(t.Context(), p, state); !strings.Contains(c.Degraded, "cannot write it and has lost 1 records") {
		t.Errorf("while it cannot be written: %+v", c)
	}
	exchange()
	if err := l.Write(t.Context(), audit.Session{Event: "start"}); err != nil {
		t.Fatal(err)
	}
	if c := auditCheck(t.Context(), p, state); strings.Contains(c.Degraded, "server") || !strings.Contains(c.Degraded, "it states that 1 records were lost since") {
		t.Errorf("once it can be written: %+v", c)
	}
	server.Close(t.Context())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	none, err := policies.Parse("p.yaml", []byte("version: 1\nprofiles: {a: {}}\naudit: {level: none}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c := auditCheck(context.WithoutCancel(t.Context()), none, state); !c.OK || c.Detail != "the policy turns it off" {
		t.Errorf("no log: %+v", c)
	}
}
