package server

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar.dev/internal/config"
	"belljar.dev/internal/testenv"
)

// Each fault is reported with its effect: either no calls are answered, or calls are
// answered without one thing. A fault that has ended is no longer reported.
func TestFaults(t *testing.T) {
	e := newEstate(t)
	policy := estatePolicy + e.tenants("auth: {issuers: [{url: \"https://127.0.0.1:1\", addresses: 127.0.0.0/8, tenant: a}]}\n")
	put(t, e.policy, policy)
	e.serve(e.config())
	r := &readiness{server: e.Server}
	look := func() (status int, answer Readiness) {
		t.Helper()
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		return w.Code, answer
	}
	has := func(all []Fault, what, why string) bool {
		for _, f := range all {
			if f.What == what {
				return strings.Contains(f.Why, why) && !f.Since.IsZero() && time.Since(f.Since) < time.Hour
			}
		}
		return false
	}
	draining, state := "it stops", e.config().State
	// exchange replaces the current file of the audit log with a directory, and at the next
	// call puts it back.
	current := filepath.Join(config.AuditDir(state), "audit.jsonl")
	exchange := func() {
		t.Helper()
		if err := os.Mkdir(current+".away", 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
		if err := unix.Renameat2(unix.AT_FDCWD, current, unix.AT_FDCWD, current+".away", unix.RENAME_EXCHANGE); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		what, why string
		fatal     bool
		breaks    func() error
		mends     func() error
	}{
		{"keys", "those of issuer https://127.0.0.1:1", false, func() error { return nil }, func() error {
			put(t, e.policy, estatePolicy+e.tenants(""))
			e.Reload()
			return nil
		}},
		{
			"policy", "the previous policy stays in force", false,
			func() error { put(t, e.policy, "version: 1\nprofiles: nothing\n"); e.Reload(); return nil },
			func() error { put(t, e.policy, estatePolicy+e.tenants("")+"# again\n"); e.Reload(); return nil },
		},
		{
			"audit", "could not be written since", false,
			func() error {
				exchange()
				e.call("a", "/mcp", "TaskManager", map[string]any{"action": "list"})
				return nil
			},
			func() error {
				exchange()
				e.call("a", "/mcp", "TaskManager", map[string]any{"action": "list"})
				return nil
			},
		},
		{
			"draining", draining, true,
			func() error { r.draining.Store(&draining); return nil },
			func() error { r.draining.Store(nil); return nil },
		},
		{
			"state", "this user cannot write", true,
			func() error {
				if err := os.Rename(state, state+".away"); err != nil {
					return err
				}
				return os.WriteFile(state, nil, 0o600)
			},
			func() error {
				if err := os.Remove(state); err != nil {
					return err
				}
				return os.Rename(state+".away", state)
			},
		},
		{
			"sandbox", "", true,
			func() error { e.sandbox.Close(); return nil },
			nil,
		},
	} {
		if tt.what == "sandbox" && e.sandbox.Cgroup() == "" {
			continue // without a control group, a missing sandbox is not noticed
		}
		if err := tt.breaks(); err != nil {
			t.Fatal(err)
		}
		var status int
		var answer Readiness
		if !testenv.Until(20*time.Second, func() bool {
			status, answer = look()
			return has(map[bool][]Fault{true: answer.Faults, false: answer.Degraded}[tt.fatal], tt.what, tt.why)
		}) {
			t.Errorf("%s: it says %d %+v", tt.what, status, answer)
		}
		if answer.Ready == tt.fatal || (status == 503) != tt.fatal {
			t.Errorf("%s: %d, ready %t", tt.what, status, answer.Ready)
		}
		if tt.mends == nil {
			continue
		}
		if err := tt.mends(); err != nil {
			t.Fatal(err)
		}
		if !testenv.Until(20*time.Second, func() bool {
			status, answer = look()
			return !has(answer.Faults, tt.what, "") && !has(answer.Degraded, tt.what, "")
		}) {
			t.Errorf("%s, which is right again: it says %+v", tt.what, answer)
		}
		if status != 200 || !answer.Ready {
			t.Errorf("%s, which is right again: %d %+v", tt.what, status, answer)
		}
	}
	if why := roomFault("/proc"); !strings.Contains(why, "0 MiB are free") {
		t.Errorf("a disk without room: %q", why)
	}
}
