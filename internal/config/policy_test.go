package config

import (
	"os"
	"path/filepath"
	"testing"

	"belljar.dev/policies"
)

// The files of a project apply to the given workspace. Without a workspace they apply to
// the current directory, even if the policy is in it.
func TestCheckPolicyTakesTheLayersOfTheWorkspace(t *testing.T) {
	dir := RealPath(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"app", "app/deep", "other", "elsewhere"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("app.yaml", "version: 1\ndefaults: {decision: deny}\n")
	write("other.yaml", "version: 1\ndefaults: {decision: ask}\n")
	const head = "version: 1\nprofiles: {box: {fs: {system: true}}}\ndefaults: {decision: allow}\nprojects:\n"
	write("some.yaml", head+"  "+dir+"/app: [./app.yaml]\n  "+dir+"/other: [./other.yaml]\n")
	write("every.yaml", head+"  /: [./other.yaml]\n")
	write("none.yaml", "version: 1\nprofiles: {box: {fs: {system: true}}}\ndefaults: {decision: allow}\n")

	for _, test := range []struct {
		policy, cwd, workspace string
		want                   policies.Verdict
	}{
		{"some", "app", "", policies.Deny},
		{"some", "app/deep", "", policies.Deny},
		{"some", "other", "", policies.Ask},
		{"some", "elsewhere", "", policies.Allow},
		{"some", ".", "", policies.Deny}, // this path contains the two other directories and the policy
		{"some", "app", "other", policies.Ask},
		{"some", "elsewhere", "app", policies.Deny},
		{"some", "app", "elsewhere", policies.Allow},
		{"every", "app", "", policies.Ask},
		{"every", "elsewhere", "", policies.Ask},
		{"every", ".", "app", policies.Ask},
		{"none", "app", "", policies.Allow},
	} {
		t.Run(test.policy+" "+test.cwd+" "+test.workspace, func(t *testing.T) {
			t.Chdir(filepath.Join(dir, test.cwd))
			workspace := test.workspace
			if workspace != "" {
				workspace = filepath.Join(dir, workspace)
			}
			p, err := CheckPolicy(filepath.Join(dir, test.policy+".yaml"), workspace)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Decide(policies.Facts{Tool: "Bash", Command: "make"}).Verdict; got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
