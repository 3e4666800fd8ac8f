package sandbox_test

import (
	"slices"
	"testing"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/escape"
)

// escapePolicy is a profile with limits so low that going beyond each of them
// costs little outside.
const escapePolicy = `version: 1
defaults: {decision: allow, profile: small}
profiles:
  small:
    fs: {system: true, workspace: rw}
    net: {mode: none}
    limits: {memory: 256MiB, pids: 128, cpu: 1, tmp: 128MiB, tmp_files: 2000, open_files: 256, wall: 1m}
  slow:
    fs: {system: true, workspace: rw}
    net: {mode: none}
    limits: {memory: 256MiB, pids: 128, cpu: 0.25, tmp: 128MiB, wall: 1m}
  door:
    fs: {system: true, workspace: rw}
    net: {mode: proxy, allow: [allowed.example]}
    limits: {memory: 256MiB, pids: 128, tmp: 128MiB, wall: 1m}
`

// TestEscape tries every probe in both worlds: outside it must get through, because it
// shows nothing otherwise, and in a box it must not. For an ordinary user it leaves out the
// probes that only root can carry out.
func TestEscape(t *testing.T) {
	testEscape(t, "small", false, func(escape.Probe) bool { return true })
}

// TestEscapeAfterParking repeats TestEscape in boxes that were parked and built again. It
// leaves out the limits, because the cgroups stay, and the runs outside, where nothing is
// parked.
func TestEscapeAfterParking(t *testing.T) {
	if !parks() {
		return // no box is built a second time
	}
	testEscape(t, "small", true, func(p escape.Probe) bool { return p.Category != escape.Resources })
}

// TestEscapeByDoor tries the network probes in boxes that have a way out.
func TestEscapeByDoor(t *testing.T) {
	testEscape(t, "door", false, func(p escape.Probe) bool { return p.Category == escape.Network })
}

func testEscape(t *testing.T, profile string, parked bool, wanted func(escape.Probe) bool) {
	t.Helper()
	testenv.Need(t, testenv.UserNamespaces, testenv.Bash)
	dir := t.TempDir()
	if err := escape.NewWorkspace(dir); err != nil {
		t.Fatal(err)
	}
	s, err := sandbox.New(sandbox.Config{Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	grant := func(tenant, profile string) policies.Grant {
		return policytest.GrantFor(t, escapePolicy, policies.Facts{Tenant: tenant, Tool: "Bash", Command: "true", Profile: profile})
	}
	suite, err := escape.Open(t.Context(), escape.Config{
		Supervisor: s, Workspace: dir,
		Attacker: grant("attacker", profile), Neighbour: grant("neighbour", profile), Slow: grant("attacker", "slow"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := suite.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	for _, p := range suite.Probes() {
		if !wanted(p) {
			continue
		}
		t.Run(p.ID, func(t *testing.T) {
			if !parked {
				outside := suite.Outside(t.Context(), p)
				if outside.Err != nil || !outside.Through {
					t.Errorf("%s: outside it does not get through either, so it shows nothing: %s %v", p.Name, outside.Detail, outside.Err)
				}
				t.Logf("%s\noutside: %s", p.Name, outside.Detail)
			} else {
				n := 0
				for _, b := range s.Boxes() {
					if !busy(b) {
						park(t, b)
						n++
					}
				}
				if n == 0 {
					t.Fatal("no box could be parked")
				}
			}
			inside := suite.Inside(t.Context(), p)
			if !p.Held(inside) {
				t.Errorf("%s: inside got through %v, want %v: %s %v", p.Name, inside.Through, p.Works, inside.Detail, inside.Err)
			}
			t.Logf("%s\n inside: %s", p.Name, inside.Detail)
		})
	}
}

// busy reports whether a job runs in a box.
func busy(b *sandbox.Box) bool {
	return slices.ContainsFunc(b.Jobs(), func(j *sandbox.Job) bool { return j.Status() == sandbox.Running })
}
