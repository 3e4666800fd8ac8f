package tools

import (
	"strings"
	"testing"

	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

func TestHint(t *testing.T) {
	g := policytest.GrantWith(t, "pids: 99, tmp: 64MiB")
	failed := sandbox.Result{Status: sandbox.Exited, Code: 1}
	for said, want := range map[string]string{
		"curl: (6) Could not resolve host: x.example\n":                  `profile "test" has no network`,
		"touch: cannot touch '/usr/x': Read-only file system\n":          "/workspace, /tmp and /home/agent be written",
		"dd: error writing '/tmp/x': No space left on device\n":          "at most 64 MiB",
		"bash: fork: retry: Resource temporarily unavailable\n":          "at most 99 processes",
		"npm error code EAI_AGAIN getaddrinfo EAI_AGAIN npm.example:443": "no network",
		"make: *** [all] Error 1\n":                                      "",
	} {
		got := hint(g, failed, said)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q gives the hint %q, want one with %q", said, got, want)
		}
	}
	if got := hint(g, sandbox.Result{Status: sandbox.Exited}, "Read-only file system"); got != "" {
		t.Errorf("a command that went well gets the hint %q", got)
	}
}
