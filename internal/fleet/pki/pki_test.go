package pki

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An authority and its certificates are made once: no file is overwritten, and only the
// owner can read a key.
func TestIssue(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Issue(dir, Node{Name: "w1", DNS: "w1.worker.belljar", Life: time.Hour}, time.Now()); err == nil {
		t.Error("a certificate without an authority")
	}
	if err := Init(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, CAFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := Init(dir, time.Now()); err == nil {
		t.Error("an authority is made twice")
	}
	if after, _ := os.ReadFile(filepath.Join(dir, CAFile)); string(after) != string(before) {
		t.Error("the authority was overwritten")
	}
	cert, key, err := Issue(dir, Node{Name: "f", Hosts: []string{"f.example", "10.0.0.1"}, Life: 100 * 365 * 24 * time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Issue(dir, Node{Name: "f", Hosts: []string{"f.example"}, Life: time.Hour}, time.Now()); err == nil {
		t.Error("a certificate was overwritten")
	}
	for name, want := range map[string]os.FileMode{cert: 0o644, key: 0o600, filepath.Join(dir, caKeyFile): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&^want != 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, caKeyFile), mustRead(t, key), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Issue(dir, Node{Name: "g", Hosts: []string{"g.example"}, Life: time.Hour}, time.Now()); err == nil {
		t.Error("a key of another certificate signs")
	}
}

func mustRead(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
