package shell

import "testing"

func TestRuns(t *testing.T) {
	for name, want := range map[string]bool{
		"bash": true, "/bin/sh": true, "zsh": true, "python3.12": true, "node": true, "perl": true, "awk": true, "env": true, "sudo": true,
		"timeout": true, "xargs": true, "find": true, "ssh": true, "eval": true, "source": true, "ld-linux-x86-64.so.2": true, "vim": true,
		"git": false, "/usr/bin/git": false, "sed": false, "ls": false, "npm": false, "printf": false, "[": false, "": false,
	} {
		if got := Runs(name); got != want {
			t.Errorf("Runs(%q) = %v, want %v", name, got, want)
		}
	}
}
