package claims

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Only one process can open a journal. The journal is written again before it becomes long,
// and is refused if it is damaged.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claims")
	j, err := OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if !j.Empty() {
		t.Error("a new journal is not empty")
	}
	if _, err := OpenJournal(path); err == nil {
		t.Error("two processes have one journal")
	}
	j.lines = slack + 2
	if owner, err := j.Swap(t.Context(), "a", Claim{}, Claim{Worker: "w1"}); err != nil || owner.Worker != "w1" {
		t.Errorf("claim: %v, %v", owner, err)
	}
	if j.lines != 1 {
		t.Errorf("%d lines are left of a long journal with one place", j.lines)
	}
	if owner, err := j.Swap(t.Context(), "b", Claim{}, Claim{Worker: "w2"}); err != nil || owner.Worker != "w2" {
		t.Errorf("claim after that: %v, %v", owner, err)
	}
	if _, err := OpenJournal(path); err == nil {
		t.Error("two processes have one journal that was written anew")
	}
	j.Close()
	j.Close()
	if _, err := j.Swap(context.Background(), "c", Claim{}, Claim{Worker: "w1"}); err == nil {
		t.Error("a closed journal takes a claim")
	}
	if j, err = OpenJournal(path); err != nil {
		t.Fatal(err)
	}
	if all := j.All(); len(all) != 2 || all["b"].Worker != "w2" || j.Empty() {
		t.Errorf("read again: %v", all)
	}
	j.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, damage := range []string{"{}\n", "x\n", strings.Repeat("x", maxLine+1) + "\n"} {
		if err := os.WriteFile(path, append([]byte(damage), text...), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenJournal(path); err == nil {
			t.Errorf("%.20q is believed", damage)
		}
	}
}
