package audit

import (
	"path/filepath"
	"testing"
	"time"

	"belljar.dev/policies"
)

// The past verdict of a call that a person approved is ask.
func TestPastOfAnApproval(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	log, err := Open(Config{Dir: dir, Audit: policies.DefaultAudit(policies.AuditRequest)})
	if err != nil {
		t.Fatal(err)
	}
	answered := Answer{ID: "ap-1", State: "approved", By: "me", Via: "command line", Scope: "once", Waited: 2 * time.Second}
	rules := func(verdict string) []Rule { return []Rule{{ID: "publish", Verdict: verdict}} }
	for _, d := range []Decision{
		{CallID: "c-1", Verdict: "allow", Rules: rules("ask"), Profile: "offline", Approval: answered},
		{CallID: "c-2", Verdict: "deny", Rules: rules("ask"), Approval: Answer{ID: "ap-2", State: "declined"}},
		{CallID: "c-3", Verdict: "allow", Rules: rules("allow"), Profile: "offline"},
		{CallID: "c-4", Verdict: "deny", Rules: rules("deny"), Approval: answered}, // denied after the approval
	} {
		if err := log.Append(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	want := map[string]policies.Verdict{"c-1": policies.Ask, "c-2": policies.Ask, "c-3": policies.Allow, "c-4": policies.Deny}
	seen := 0
	err = ReadPast(t.Context(), dir, func(p Past) error {
		seen++
		if p.Verdict != want[p.CallID] || (p.Verdict == policies.Ask) != (p.Profile == "") && p.CallID != "c-4" {
			t.Errorf("%s: the past verdict is %v in %q, want %v", p.CallID, p.Verdict, p.Profile, want[p.CallID])
		}
		return nil
	})
	if err != nil || seen != len(want) {
		t.Errorf("read %d decisions, %v, want %d", seen, err, len(want))
	}
}
