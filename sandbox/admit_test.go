package sandbox

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox/cgroup"
	"belljar.dev/sandbox/limit"
)

// A grant with any one zero limit is refused, and the refusal names that limit: zero never
// means "unlimited". No policy can make such a grant, so the test writes into it. Every
// field of Limits is tried, also fields that are added later.
func TestAdmitWantsEveryLimit(t *testing.T) {
	s := newWorkspace(&Supervisor{ground: ground{groups: &cgroup.Tree{}}}, "")
	for _, name := range policytest.LimitNames() {
		g := policytest.GrantProfile(t, "limits: {memory: 1GiB}")
		if err := s.admit(g); err != nil {
			t.Fatalf("a grant with all its limits: %v", err)
		}
		limits := reflect.ValueOf(&g).Elem().FieldByName("limits")
		one := limits.FieldByName(name)
		reflect.NewAt(one.Type(), unsafe.Pointer(one.UnsafeAddr())).Elem().SetZero()
		err := s.admit(g)
		var refusal *limit.Refusal
		key := strings.ReplaceAll(strings.ToLower(name), "_", "")
		if !errors.As(err, &refusal) || !strings.Contains(strings.ReplaceAll(refusal.Message, "_", ""), `no limit "`+key+`" above zero`) {
			t.Errorf("a grant without %s: got %v, want a refusal that names it", name, err)
		}
	}
	var refusal *limit.Refusal
	if err := s.admit(policies.Grant{}); !errors.As(err, &refusal) {
		t.Errorf("the zero grant: got %v, want a refusal", err)
	}
}

// A tenant has as many boxes, and as much on disk, as its own quota says. The boxes of
// other tenants do not count.
func TestRoomOfATenant(t *testing.T) {
	const policy = `version: 1
defaults: {decision: allow, profile: kept}
profiles:
  kept: {fs: {system: true, storage: disk}, limits: {tmp: 1GiB}}
  light: {fs: {system: true}}
tenants:
  few: {limit: {boxes: 2}, may_request: [light]}
  small: {limit: {disk: 2GiB}, may_request: [light]}
  usual: {may_request: [light]}
`
	grant := func(tenant, profile string) policies.Grant {
		return policytest.GrantFor(t, policy, policies.Facts{Tenant: tenant, Tool: "Bash", Command: "true", Profile: profile})
	}
	p, err := policies.Parse("policy.yaml", []byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	servers := p.Upstreams()
	for _, tt := range []struct {
		tenant, profile string
		open            int
		want            string
	}{
		{"few", "kept", 1, ""},
		{"few", "kept", 2, "quota boxes: 2"},
		{"small", "kept", 1, ""},
		{"small", "kept", 2, "quota disk"},
		{"small", "light", 2, ""},
		{"usual", "kept", 7, ""},
		{"usual", "light", 8, "quota boxes: 8"},
	} {
		r := register{boxes: map[string]*Box{}}
		for i := range 20 { // boxes of another tenant
			r.boxes[strconv.Itoa(i)] = &Box{grant: grant(policies.LocalTenant, "kept")}
		}
		for i := range tt.open {
			r.boxes["own"+strconv.Itoa(i)] = &Box{grant: grant(tt.tenant, "kept")}
		}
		for i := range 20 { // boxes of the tenant's servers, of which only the disk counts
			g, err := servers.Grant(tt.tenant, policies.UpstreamBox{Server: strconv.Itoa(i), Trusted: true})
			if err != nil {
				t.Fatal(err)
			}
			r.boxes["server"+strconv.Itoa(i)] = &Box{grant: g}
			if err := r.room(g); err != nil {
				t.Errorf("a box of a server of %s: %v", tt.tenant, err)
			}
		}
		err := r.room(grant(tt.tenant, tt.profile))
		if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || !errors.Is(err, limit.ErrTooMany)) {
			t.Errorf("%s with %d boxes, and one more of %s: %v, want %q", tt.tenant, tt.open, tt.profile, err, tt.want)
		}
	}
}
