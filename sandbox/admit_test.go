package sandbox

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/limit"
)

// A grant in which any one limit is zero is refused, by that limit's name: zero
// never means "unlimited". No policy can make such a grant, so the test writes
// into it. Every field of Limits is tried, those that will be added too.
func TestAdmitWantsEveryLimit(t *testing.T) {
	s := newWorkspace(&Supervisor{ground: ground{groups: &cgroup.Tree{}}}, "")
	for f := range reflect.TypeFor[policies.Limits]().Fields() {
		g := policytest.GrantProfile(t, "limits: {memory: 1GiB}")
		if err := s.admit(g); err != nil {
			t.Fatalf("a grant with all its limits: %v", err)
		}
		limits := reflect.ValueOf(&g).Elem().FieldByName("limits")
		one := limits.FieldByName(f.Name)
		reflect.NewAt(one.Type(), unsafe.Pointer(one.UnsafeAddr())).Elem().SetZero()
		err := s.admit(g)
		var refusal *limit.Refusal
		key := strings.ReplaceAll(strings.ToLower(f.Name), "_", "")
		if !errors.As(err, &refusal) || !strings.Contains(strings.ReplaceAll(refusal.Message, "_", ""), `no limit "`+key+`" above zero`) {
			t.Errorf("a grant without %s: got %v, want a refusal that names it", f.Name, err)
		}
	}
	var refusal *limit.Refusal
	if err := s.admit(policies.Grant{}); !errors.As(err, &refusal) {
		t.Errorf("the zero grant: got %v, want a refusal", err)
	}
}
