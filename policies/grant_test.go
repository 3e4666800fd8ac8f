package policies_test

import (
	"testing"

	"belljar.dev/policies"
)

// A box serves a call that may use as much as the box was opened with, or
// less; its walls must be the same.
func TestCovers(t *testing.T) {
	grant := func(profile string) policies.Grant {
		return parse(t, "version: 1\ndefaults: {decision: allow}\nprofiles:\n  a: {"+profile+"}\n").Decide(bash("ls")).Grant
	}
	const base = "fs: {workspace: rw, protect: [a, b]}, limits: {io: 1MiB, file_size: 1MiB}"
	box := grant(base)
	for call, want := range map[string]bool{
		base: true,
		"fs: {workspace: rw, protect: [b, a]}, limits: {io: 1MiB, file_size: 1MiB}":                true,
		"fs: {workspace: rw, protect: [a, b]}, limits: {io: 1KiB, file_size: 1MiB}":                true,
		"fs: {workspace: rw, protect: [a, b]}, limits: {io: 1MiB, file_size: 1KiB}":                true,
		"fs: {workspace: rw, protect: [a, b]}, limits: {io: 1MiB, file_size: 1MiB, wall: 20m}":     true,
		"fs: {workspace: rw, protect: [a, b]}, limits: {io: 2MiB, file_size: 1MiB}":                false,
		"fs: {workspace: rw, protect: [a, b]}, limits: {io: 1MiB, file_size: 2MiB}":                false,
		"fs: {workspace: rw, protect: [a, b]}, limits: {io: 1MiB, file_size: 1MiB, memory: 3GiB}":  false,
		"fs: {workspace: rw, protect: [a]}, limits: {io: 1MiB, file_size: 1MiB}":                   false,
		"fs: {workspace: rw, protect: [a, b, c]}, limits: {io: 1MiB, file_size: 1MiB}":             false,
		"fs: {workspace: rw, protect: none}, limits: {io: 1MiB, file_size: 1MiB}":                  false,
		"fs: {workspace: ro, protect: [a, b]}, limits: {io: 1MiB, file_size: 1MiB}":                false,
		"fs: {workspace: rw, protect: [a, b], storage: disk}, limits: {io: 1MiB, file_size: 1MiB}": false,
	} {
		if got := box.Covers(grant(call)); got != want {
			t.Errorf("a box of {%s}\nfor a call of {%s}: got %v, want %v", base, call, got, want)
		}
	}
	if box.Covers(policies.Grant{}) || (policies.Grant{}).Covers(box) || (policies.Grant{}).Covers(policies.Grant{}) {
		t.Error("the zero grant covers or is covered")
	}
}

// A session whose layer lets nothing out gets no box whose ports may be published, although
// both grants are of one profile without a network.
func TestCoversUnderOffline(t *testing.T) {
	for profile, want := range map[string]bool{"fs: {workspace: ro}": true, "fs: {workspace: ro}, publish: 3000": false} {
		p := parse(t, "version: 1\ndefaults: {decision: allow}\nprofiles:\n  a: {"+profile+"}\n")
		d := p.Decide(bash("ls"))
		box, plan := d.Grant, policies.ReadOnly("plan").Narrow(d, bash("ls")).Grant
		if len(plan.Publish()) > 0 || box.Covers(plan) != want || plan.Covers(box) != want || !plan.Covers(plan) {
			t.Errorf("{%s}: the box covers the session: %v, and the other way round: %v, want %v", profile, box.Covers(plan), plan.Covers(box), want)
		}
	}
}

// Many callers get the same grant; none of them can change what the others see.
func TestProtectIsACopy(t *testing.T) {
	g := parse(t, "version: 1\ndefaults: {decision: allow}\nprofiles: {a: {fs: {protect: [a, b]}}}\n").Decide(bash("ls")).Grant
	g.Protect().Also[0] = "x"
	if got := g.Protect().Also[0]; got != "a" {
		t.Errorf("got %q, want what the policy says, a", got)
	}
}
