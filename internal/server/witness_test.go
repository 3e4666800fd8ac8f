package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/control"
	"belljar.dev/internal/fleet"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/audit"
)

// signedLog returns the checkpoints of a log with calls records, one checkpoint for each
// record.
func signedLog(t *testing.T, calls int) (all []fleet.Signed) {
	t.Helper()
	l, err := audit.Open(audit.Config{
		Dir: filepath.Join(t.TempDir(), "audit"), Audit: policies.DefaultAudit(policies.AuditRequest), Node: "w", Log: slog.New(slog.DiscardHandler),
		Signed: func(s audit.Signed) { all = append(all, fleet.Signed(s)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	for range calls {
		if err := l.Write(t.Context(), audit.Session{Event: "start", Tenant: "t", Session: "s"}); err != nil {
			t.Fatal(err)
		}
		if err := l.Sign(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// witnessLedger opens the audit log of a worker.
func witnessLedger(t *testing.T, state string, log *testenv.Log) *ledger {
	t.Helper()
	p := policies.Default()
	g := &gate{}
	g.now.Store(p)
	cfg := &Config{Command: "work", Service: &Service{Link: &Link{Name: "w9"}}}
	l, err := auditLog(t.Context(), policies.DefaultAudit(policies.AuditRequest), Place{State: state, Policy: p, Log: slog.New(slog.NewTextHandler(log, nil))}, nil, g, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A restarted worker knows which checkpoints of others its log has: a contradicting
// checkpoint is reported, and the same one is not written a second time.
func TestWitnessAfterRestart(t *testing.T) {
	state, log, all := t.TempDir(), new(testenv.Log), signedLog(t, 3)
	count := func() (n int) {
		if err := audit.Witnessed(t.Context(), filepath.Join(state, "audit"), "w1", func(audit.Witness) error {
			n++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	keep := func(s fleet.Signed) {
		t.Helper()
		l := witnessLedger(t, state, log)
		if err := l.forFleet().Keep(t.Context(), "w1", s); err != nil {
			t.Error(err)
		}
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}
	keep(all[1])
	keep(all[1])
	if n := count(); n != 1 || strings.Contains(log.String(), "was changed") {
		t.Errorf("%d records of one checkpoint, %s", n, log)
	}
	keep(signedLog(t, 1)[0])
	if n := count(); n != 2 || !strings.Contains(log.String(), "the key of its log has changed") {
		t.Errorf("after a log that was replaced: %d records, %s", n, log)
	}
}

// A witness has a checkpoint of another worker's log that is signed with a key which no
// front knows for this log. That is a dispute that names the witness. It is not proof, even
// if nothing else is known and no key of the log is known.
func TestOneWitnessIsNoProof(t *testing.T) {
	l := witnessLedger(t, t.TempDir(), new(testenv.Log))
	if err := errors.Join(l.log.Write(t.Context(), audit.Session{Event: "start", Tenant: "t", Session: "s"}), l.log.Sign(t.Context())); err != nil {
		t.Fatal(err)
	}
	lie := signedLog(t, 3)[2]
	for name, keys := range map[string][]string{"no key is known": nil, "its key is known": {l.forFleet().Newest().Key}} {
		text, err := l.forFleet().Verify(t.Context(), []fleet.Sighting{{By: "w5", Worker: "w9", Signed: lie}}, keys)
		if err != nil {
			t.Fatal(err)
		}
		var r control.AuditReport
		if err := json.Unmarshal(text, &r); err != nil || r.Fault != "" || len(r.Disputes) != 1 || !strings.Contains(r.Disputes[0], "1 of 1 witnesses: the log of worker w5 has") {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
	// If the worker itself has given this key to the front, the checkpoint is proof.
	text, err := l.forFleet().Verify(t.Context(), []fleet.Sighting{{By: "w5", Worker: "w9", Signed: lie}}, []string{lie.Key})
	if err != nil || !strings.Contains(string(text), "the log was replaced: the log of worker w5 has") {
		t.Errorf("a key that is known: %s, %v", text, err)
	}
	if err := l.close(); err != nil {
		t.Error(err)
	}
}

// A checkpoint that could not be written to the log is not remembered: the front sends it
// again, and it has no witness until it is in the log.
func TestWitnessWithoutALog(t *testing.T) {
	l, of := witnessLedger(t, t.TempDir(), new(testenv.Log)), signedLog(t, 1)[0]
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.forFleet().Keep(t.Context(), "w1", of); err == nil {
			t.Error("a checkpoint is kept by a log that is closed")
		}
	}
}

// If there are too many workers, only the one that has sent nothing for the longest time is
// forgotten.
func TestWitnessForgetsOne(t *testing.T) {
	var w witness
	for i := range maxWitnessed {
		w.note(fmt.Sprint("w", i), kept{signed: audit.Signed{Key: "k", Checkpoint: "1"}})
	}
	w.note("w0", kept{signed: audit.Signed{Key: "k", Checkpoint: "2"}, at: audit.Checkpoint{Seq: 1}})
	w.note("more", kept{signed: audit.Signed{Key: "k"}})
	if _, known := w.others["w1"]; known || len(w.others) != maxWitnessed {
		t.Errorf("%d workers are known, the one of long ago: %v", len(w.others), known)
	}
	if _, wrong := w.judge("w0", kept{signed: audit.Signed{Key: "another"}}); wrong == "" {
		t.Error("the newest one is not known any more")
	}
}
