package approval

import (
	"strings"
	"testing"

	"belljar.dev/policies"
)

// A yes to a plan is a yes to the commands that the plan names, and to no others.
func TestPlanCommands(t *testing.T) {
	d := opened(t, "")
	plan := d.wants("", func(f *policies.Facts) { f.Tool, f.Args = "PlanMode", map[string]any{"plan": "# one\ntwo"} })
	plan.Decision.Rule, plan.Commands = "plan-mode", []string{"git push origin *", "mail *"}
	plan.Decision.Policy = d.wants("git push x").Decision.Policy
	a, _, err := d.Ask(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Join(a.Shown.Lines(), "\n"); !strings.Contains(lines, "grants:  git push origin *\n") || !strings.Contains(lines, "with:    two") {
		t.Errorf("a person is shown\n%s", lines)
	}
	asked := func(r Request) State {
		t.Helper()
		got, _, err := d.Ask(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return got.State
	}
	if s := asked(d.wants("git push origin 0")); s != Pending {
		t.Errorf("before the yes: %s", s)
	}
	if _, err := d.Answer(t.Context(), a.ID, Reply{Yes: true, By: "me"}); err != nil {
		t.Fatal(err)
	}
	if ok, err := d.Use(t.Context(), a.ID, plan); err != nil || !ok {
		t.Fatalf("use: %v, %v", ok, err)
	}
	for command, want := range map[string]State{
		"git push origin main":                   Used,
		"git push origin a && git push origin b": Used,
		"git push other main":                    Pending,
		"git push origin $X":                     Pending,
		"git push origin main > /workspace/x":    Pending,
		"mail me":                                Pending, // the rule for mail allows a yes for one call only
	} {
		r := d.wants(command)
		if got := asked(r); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
		if ok, err := d.Use(t.Context(), a.ID, r); err != nil || ok != (want == Used) {
			t.Errorf("%s: used %v, %v", command, ok, err)
		}
	}
	for name, change := range map[string]func(*policies.Facts){
		"session": func(f *policies.Facts) { f.Session = "another" },
		"tenant":  func(f *policies.Facts) { f.Tenant = "another" },
		"env":     func(f *policies.Facts) { f.Env = []string{"PATH"} },
		"stdin":   func(f *policies.Facts) { f.Args["stdin"] = "x" },
		"git": func(f *policies.Facts) {
			f.Scene = &policies.Scene{Dir: "/workspace", Files: []policies.SceneFile{{Path: "/workspace/bin/git", As: "git"}}}
		},
	} {
		if got := asked(d.wants("git push origin "+name, change)); got != Pending {
			t.Errorf("another %s: %s, want pending", name, got)
		}
	}
	other := d.wants("git push origin policy")
	other.Decision.Policy = "another"
	if got := asked(other); got != Pending {
		t.Errorf("another policy: %s, want pending", got)
	}
	if _, err := d.Revoke(t.Context(), a.ID, "me", "command line"); err != nil {
		t.Error(err)
	}
	if got := asked(d.wants("git push origin late")); got != Pending {
		t.Errorf("after it was revoked: %s, want pending", got)
	}
}

func TestCheckCommands(t *testing.T) {
	for pattern, want := range map[string]string{
		"git push *":             "",
		"make test":              "",
		"python3 build.py":       "",
		"* x":                    "first word",
		"":                       "first word",
		"g*t push":               "first word",
		"bash *":                 "every word",
		"make *":                 "every word",
		"./run *":                "every word",
		"sh":                     "words",
		"git\x1b[2J push":        "printable",
		strings.Repeat("a", 300): "at most 200",
	} {
		err := CheckCommands([]string{pattern})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", pattern, err, want)
		}
	}
	if err := CheckCommands(make([]string, maxCommands+1)); err == nil {
		t.Error("too many patterns were taken")
	}
}
