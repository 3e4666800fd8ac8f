package tools

import (
	"strings"
	"syscall"
	"testing"

	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

func TestHint(t *testing.T) {
	g := policytest.GrantWith(t, "pids: 99, tmp: 64MiB, file_size: 7MiB")
	online := policytest.GrantProfile(t, "fs: {workspace: rw}\nnet: {mode: proxy, allow: [a.example]}")
	onDisk := policytest.GrantProfile(t, "fs: {workspace: rw, storage: disk}\nlimits: {tmp: 64MiB}")
	failed := sandbox.Result{Status: sandbox.Exited, Code: 1}
	for said, want := range map[string]string{
		"curl: (6) Could not resolve host: x.example\n":                             `profile "test" has no network`,
		"touch: cannot touch '/usr/x': Read-only file system\n":                     "tools would run), /tmp and /home/agent, and",
		"error: could not write config file .git/config: Device or resource busy\n": "git -c NAME=VALUE",
		"dd: error writing '/tmp/x': No space left on device\n":                     "at most 64 MiB",
		"cp: error writing '/workspace/x': Disk quota exceeded\n":                   "owner of /workspace is used up",
		"bash: line 1: 7 File size limit exceeded head -c 1G > x\n":                 "at most 7 MiB in profile",
		"write x: file too large\n":                                                 "at most 7 MiB in profile",
		"bash: fork: retry: Resource temporarily unavailable\n":                     "at most 99 processes",
		"npm error code EAI_AGAIN getaddrinfo EAI_AGAIN npm.example:443":            "no network",
		"Err:1 https://deb.example InRelease\n  Could not resolve 'deb.example'\n":  "no network",
		"make: *** [all] Error 1\n":                                                 "",
	} {
		got := hint(g, failed, said)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q gives the hint %q, want one with %q", said, got, want)
		}
	}
	if got := hint(onDisk, failed, "dd: error writing '/tmp/x': Disk quota exceeded\n"); !strings.Contains(got, "at most 64 MiB and 200000 files, by a quota") {
		t.Errorf("a full quota of the box gives the hint %q", got)
	}
	if got := hint(online, failed, "curl: (6) Could not resolve host: x.example\n"); got != "" {
		t.Errorf("a box with a network gets the hint %q", got)
	}
	// A program that does not ignore the signal dies of it without a message.
	silent := sandbox.Result{Status: sandbox.Exited, Code: 128 + int(syscall.SIGXFSZ)}
	if got := hint(g, silent, ""); !strings.Contains(got, "at most 7 MiB") {
		t.Errorf("a program that died of its file's size gets the hint %q", got)
	}
	if got := hint(g, sandbox.Result{Status: sandbox.Exited}, "Read-only file system"); got != "" {
		t.Errorf("a command that went well gets the hint %q", got)
	}
}
