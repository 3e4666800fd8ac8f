package shell

import (
	"slices"
	"testing"
)

func TestClassOf(t *testing.T) {
	for name, want := range map[string]Class{
		"bash": Shell, "/bin/sh": Shell, "zsh": Shell, "python3.12": Interpreter, "node": Interpreter, "gawk": Interpreter,
		"env": Wrapper, "/usr/bin/sudo": Wrapper, "timeout": Wrapper, "xargs": Wrapper, "ssh": Runner, "eval": Runner, "vim": Runner,
		"git": Plain, "sed": Plain, "find": Plain, "ls": Plain, "printf": Plain, "": Plain,
	} {
		if got := ClassOf(name); got != want {
			t.Errorf("ClassOf(%q) = %v, want %v", name, got, want)
		}
	}
	known := Known()
	if !slices.Contains(known, "python") || !slices.Contains(known, "sudo") || slices.Contains(known, "git") {
		t.Errorf("Known() = %v", known)
	}
}
