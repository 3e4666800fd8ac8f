package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies/audit"
)

// TestFleetAudit checks the audit log of a worker whose disk an attacker controls: the log
// is cut, or replaced together with its key. Then its own files are in order, but two other
// workers contradict them.
func TestFleetAudit(t *testing.T) {
	g := newGrid(t)
	f := g.front("front")
	one := g.worker("w1", f)
	if a := ask(t.Context(), f.url+"/mcp", "one", "1", "echo mine >file"); a.failed || a.status != 200 {
		t.Fatalf("%+v", a)
	}
	g.worker("w2", f)
	g.worker("w3", f)
	log := func(worker string) string { return g.path(worker + "/state/audit") }
	verify := func(status int, args ...string) string {
		t.Helper()
		cmd := g.command(append([]string{"audit", "verify"}, args...)...)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != status {
			t.Errorf("verify %q: status %d, want %d:\n%s", args, cmd.ProcessState.ExitCode(), status, out)
		}
		return string(out)
	}
	says := func(out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s\nwant %q", out, w)
			}
		}
	}
	// witnessed waits until both other workers have a checkpoint of w1 that signs its
	// calls. The record after the checkpoint only says that w1 has stopped.
	witnessed := func() {
		t.Helper()
		var last uint64
		if err := audit.Read(t.Context(), log("w1"), audit.Filter{Calls: true}, func(e audit.Entry) error {
			last = e.Seq
			return nil
		}); err != nil || last == 0 {
			t.Fatalf("call %d, %v", last, err)
		}
		for _, by := range []string{"w2", "w3"} {
			if !testenv.Until(20*time.Second*testenv.Patience(t), func() (ok bool) {
				_ = audit.Witnessed(t.Context(), log(by), "w1", func(w audit.Witness) error {
					c, err := w.Open()
					ok = ok || err == nil && c.Seq >= last
					return nil
				})
				return ok
			}) {
				t.Fatalf("%s does not have a checkpoint of w1 that signs record %d:\n%s", by, last, g.log("front"))
			}
		}
	}
	one.end()
	witnessed()
	says(verify(3, "--fleet", "--state", g.path("front")), "UNKNOWN  w1: its log was not read: it is not linked", "ok       w2: ", "ok       w3: ", "\n2 of 3 logs were read; not those of w1\n")
	both := []string{"--witness", log("w2"), "--witness", log("w3")}
	says(verify(0, append(both, "--log", log("w1"))...), "by w2, w3")
	for _, field := range []string{`"node":"w1"`, `"place":"a"`} {
		if text, err := os.ReadFile(filepath.Join(log("w1"), "audit.jsonl")); err != nil || !strings.Contains(string(text), field) {
			t.Errorf("no record has %s: %v", field, err)
		}
	}

	// The log is cut after a checkpoint that was once the newest: only the witnesses can
	// show that.
	short := g.path("short")
	if err := os.CopyFS(short, os.DirFS(log("w1"))); err != nil {
		t.Fatal(err)
	}
	cut(t, short)
	says(verify(0, "--log", short), "as it was written")
	says(verify(1, append(both, "--log", short)...), "the records after it were removed", "the log of workers w2, w3 has a checkpoint of ")

	one = g.worker("w1", f)
	says(verify(0, "--fleet", "--state", g.path("front")), "ok       w1: ", "as the log of w2, w3 has it")
	one.end()
	witnessed()
	if err := os.RemoveAll(log("w1")); err != nil {
		t.Fatal(err)
	}
	g.worker("w1", f)
	says(verify(0, "--log", log("w1")), "as it was written")
	says(verify(1, "--fleet", "--state", g.path("front")), "WRONG    w1: ", "the log was replaced: the log of workers w2, w3 has a checkpoint of ", "ok       w2: ", "ok       w3: ")
	says(verify(2, "--fleet", "--key", "file"), "--fleet allows only")
	says(verify(1, "--log", log("w2"), "--witness", short), "none of these logs has a checkpoint of worker w2")
}

// cut removes the end of a log after its first checkpoint, which becomes the newest one.
func cut(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "audit.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Collect(strings.Lines(string(text)))
	at := slices.IndexFunc(all, func(l string) bool { return strings.Contains(l, `"kind":"checkpoint"`) })
	if at < 0 || at == len(all)-1 {
		t.Fatalf("the first checkpoint of %d records is %d", len(all), at)
	}
	_, quoted, _ := strings.Cut(strings.TrimSpace(all[at]), `"note":`)
	checkpoint, err := strconv.Unquote(strings.TrimSuffix(quoted, "}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{path: strings.Join(all[:at+1], ""), filepath.Join(dir, "audit.checkpoint"): checkpoint} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
