package server

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"belljar.dev/internal/fleet"
)

// A policy of a fleet takes effect if it is newer than the one before and has no fault.
// Every other policy is refused, and the one before stays in force, also after a restart.
func TestPolicyOfTheFleet(t *testing.T) {
	const text = "version: 1\nprofiles: {p: {fs: {system: true}}}\ntenants: {a: {places: [site]}}\nrules:\n  - {id: RULE, match: {tool: \"*\"}, decision: allow}\n"
	of := func(rule string) string { return strings.Replace(text, "RULE", rule, 1) }
	file := filepath.Join(t.TempDir(), "policy.yaml")
	put(t, file, of("own"))
	r := reloaderOf(t, file, io.Discard)
	state := t.TempDir()
	var err error
	if r.fleet, _, err = openFleetPolicies(state, file); err != nil {
		t.Fatal(err)
	}
	r.places.layout.Load().routes = true // so that the policy only names its places
	holds := func() string {
		open := r.gate.now.Load()
		return open.Hash()
	}
	took := func(n uint64, text string) string {
		t.Helper()
		before := holds()
		err := r.take(t.Context(), handed{Policy: fleet.Policy{Number: n, Text: text}})
		var refusal *fleet.Refusal
		switch {
		case err == nil:
			return "taken"
		case !errors.As(err, &refusal):
			t.Errorf("policy %d: %v, which is not a refusal", n, err)
		case holds() != before:
			t.Errorf("policy %d is refused, and holds", n)
		}
		return err.Error()
	}
	for _, c := range []struct {
		number     uint64
		text, want string
	}{
		{3, of("three"), "taken"},
		{3, of("three"), "taken"}, // again, because the first answer was lost
		{2, of("two"), "policy 3, which is newer, is in force here"},
		{3, of("other"), "another policy with the number 3"},
		{4, strings.Replace(of("four"), "allow", "maybe", 1), "policy 4:5:"},
		{4, strings.Replace(of("four"), "tenants: {a: {places: [site]}}\n", "", 1), "tenants"},
		{4, of("four") + strings.Repeat("#", fleet.MaxPolicy), "at most"},
		{4, of("four") + "projects: {/srv: [/etc/belljar/more.yaml]}\n", "files of projects"},
		{4, strings.Replace(of("four"), "places: [site]", "places: [site], rules: [/etc/belljar/more.yaml]", 1), "policy 4:3:"},
		{4, of("four"), "taken"},
	} {
		if got := took(c.number, c.text); !strings.Contains(got, c.want) {
			t.Errorf("policy %d: %s, want %q", c.number, got, c.want)
		}
	}
	if err := r.check(t.Context(), of("five")); err != nil {
		t.Errorf("a good policy: %v", err)
	}
	if err := r.check(t.Context(), "version: 2\n"); err == nil {
		t.Error("one with a fault is good")
	}
	var names []string
	entries, _ := os.ReadDir(filepath.Join(state, fleetPolicyDir))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	again, used, err := openFleetPolicies(state, file)
	if err != nil || again.number.Load() != 4 || used != filepath.Join(state, fleetPolicyDir, "4.yaml") || strings.Join(names, " ") != "4.yaml" {
		t.Errorf("after a start policy %d holds, of %s, among %q: %v", again.number.Load(), used, names, err)
	}
	kept, err := again.current()
	if err != nil || kept.Number != 4 || kept.Text != of("four") {
		t.Errorf("it is policy %d, %q: %v", kept.Number, kept.Text, err)
	}
}

// A front, which has no places, applies its policy again when the file changes.
func TestFrontReadsItsPolicyAgain(t *testing.T) {
	const text = "version: 1\nprofiles: {p: {fs: {system: true}}}\ntenants: {one: {places: [site]}, NAME: {places: [site]}}\n"
	file := filepath.Join(t.TempDir(), "policy.yaml")
	put(t, file, strings.Replace(text, "NAME", "two", 1))
	l, err := (&site{routes: true}).read(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	r := &reloader{
		gate: &gate{}, file: file, places: newPlaces(nil, l), status: &policyStatus{}, changed: func(*layout) { changed++ }, log: slog.New(slog.DiscardHandler),
	}
	r.gate.now.Store(l.policy())
	r.reload(t.Context()) // the file is unchanged
	if changed != 0 {
		t.Error("a policy that is as it was counts as another one")
	}
	put(t, file, strings.Replace(text, "NAME", "three", 1))
	r.reload(t.Context())
	if got := strings.Join(r.gate.now.Load().Tenants(), " "); got != "one three" || changed != 1 || r.places.layout.Load().names("two", "site") {
		t.Errorf("the front knows the tenants %s, and was told %d times", got, changed)
	}
}

// A process that is killed while it takes a policy leaves either a draft, which does not
// count as a policy, or the complete policy.
func TestDraftsOfPolicies(t *testing.T) {
	state := t.TempDir()
	f, _, err := openFleetPolicies(state, "own.yaml")
	if err != nil {
		t.Fatal(err)
	}
	draft, err := f.draft("version: 1")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0.yaml", "07.yaml", "-1.yaml", "7.yml", "99999999999999999999.yaml"} {
		put(t, filepath.Join(state, fleetPolicyDir, name), "version: 1")
	}
	if again, used, err := openFleetPolicies(state, "own.yaml"); err != nil || again.number.Load() != 0 || used != "own.yaml" {
		t.Errorf("a draft holds: %d, %s, %v", again.number.Load(), used, err)
	}
	if err := f.keep(draft, 7); err != nil {
		t.Fatal(err)
	}
	if again, used, err := openFleetPolicies(state, "own.yaml"); err != nil || again.number.Load() != 7 || filepath.Base(used) != "7.yaml" {
		t.Errorf("policy %d holds, of %s: %v", again.number.Load(), used, err)
	}
}
