package policies_test

import (
	"errors"
	"testing"

	"belljar.dev/policies"
)

// Whatever text a layer has, it is read or refused with faults, and a layer that is read
// only narrows.
func FuzzLayer(f *testing.F) {
	for _, text := range below {
		f.Add(text, "git push && make")
	}
	f.Add("version: 1\ndefaults: {decision: deny}\nnarrow: {read_only: true, limits: {wall: 1s}}\n", "$X")
	upper := loaded(f, "/srv/app")
	f.Fuzz(func(t *testing.T, text, command string) {
		l, err := policies.ParseLayer(policies.LayerProject, "layer.yaml", []byte(text), upper)
		if e := (*policies.ParseError)(nil); err != nil {
			if !errors.As(err, &e) || len(e.Faults) == 0 {
				t.Fatalf("got %v, want faults", err)
			}
			return
		}
		for _, profile := range []string{"", "dev"} {
			facts := policies.Facts{Tool: "Bash", Command: command, Profile: profile}
			before, after := upper.Decide(facts), upper.With(l).Decide(facts)
			if after.Verdict > before.Verdict || wider(after.Offers(), before.Offers()) != "" {
				t.Errorf("%q raises %v to %v, or gives %s besides:\n%s", command, before.Verdict, after.Verdict, wider(after.Offers(), before.Offers()), text)
			}
		}
	})
}

// BenchmarkDecideLayers measures a decision under three layers.
func BenchmarkDecideLayers(b *testing.B) {
	p := loaded(b, "/srv/app")
	f := policies.Facts{Tenant: "team-a", Tool: "Bash", Command: "cd /workspace && git log --oneline | head -5 && make test"}
	b.ReportAllocs()
	for b.Loop() {
		p.Decide(f)
	}
}
