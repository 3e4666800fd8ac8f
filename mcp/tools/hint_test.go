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
		"touch: cannot touch '/usr/x': Read-only file system\n":                     "tools would run), /tmp, /dev/shm and /home/agent; most other places",
		"error: could not write config file .git/config: Device or resource busy\n": "git -c NAME=VALUE",
		"dd: error writing '/tmp/x': No space left on device\n":                     "at most 64 MiB",
		"cp: error writing '/workspace/x': Disk quota exceeded\n":                   "owner of /workspace is used up",
		"bash: line 1: 7 File size limit exceeded head -c 1G > x\n":                 "at most 7 MiB in profile",
		"write x: file too large\n":                                                 "at most 7 MiB in profile",
		"bash: fork: retry: Resource temporarily unavailable\n":                     `at most 99 processes and threads may run at the same time in the box of profile "test"`,
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
	for profile, want := range map[string]string{
		"fs: {workspace: rw}":                              "write to /workspace (except settings that a person's tools would run), /tmp, /dev/shm and /home/agent; most",
		"fs: {workspace: rw, protect: none}":               "write to /workspace, /tmp, /dev/shm and /home/agent; most",
		"fs: {workspace: overlay}":                         "write to /workspace, /tmp, /dev/shm and /home/agent; most",
		"fs: {workspace: ro}":                              "write to /tmp, /dev/shm and /home/agent; most",
		"fs: {write: [\"/data:/mnt/data\"], read: [/srv]}": "write to /mnt/data, /tmp, /dev/shm and /home/agent; most",
	} {
		g := policytest.GrantProfile(t, profile)
		if got := hint(g, failed, "touch: cannot touch '/usr/x': Read-only file system\n"); !strings.Contains(got, want) {
			t.Errorf("%s gives the hint %q, want one with %q", profile, got, want)
		}
		busy := strings.Contains(profile, "workspace: rw}")
		if got := hint(g, failed, "rm: cannot remove '/tmp': Device or resource busy\n"); (got != "") != busy {
			t.Errorf("%s gives the hint %q about a busy file; want one: %v", profile, got, busy)
		}
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
