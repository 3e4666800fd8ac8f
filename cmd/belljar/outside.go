package main

import (
	"os"

	"belljar.dev/internal/hostexec"
	"belljar.dev/policies"
)

// boxesOf are the places that an agent can write through a box: the workspace,
// whatever a profile's access to it is, the mounts that a profile may write, and
// the state, in which the layers of overlay workspaces lie.
func boxesOf(policy *policies.Policy, workspace, state string) hostexec.Boxes {
	var dirs []string
	for _, dir := range []string{workspace, state} {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	for _, name := range policy.Profiles() {
		profile, _ := policy.Profile(name)
		for _, m := range profile.Mounts {
			if m.Writable {
				dirs = append(dirs, m.Source)
			}
		}
	}
	return hostexec.WrittenIn(dirs...)
}

// boxes are those places under the policy that holds now.
func (w *works) boxes() hostexec.Boxes { return boxesOf(w.gate.now.Load(), w.workspace, w.state) }

// hostProgram is what all programs of the operator have in common that run
// outside a box: they begin in "/", where no box writes.
func (w *works) hostProgram() hostexec.Program {
	p := hostexec.Program{Dir: "/", Boxes: w.boxes(), Inherit: os.Environ(), Pass: w.hostEnv}
	if w.sandbox != nil {
		p.Cgroup = w.sandbox.Cgroup()
	}
	return p
}
