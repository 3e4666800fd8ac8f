package main

import (
	"os"

	"belljar.dev/internal/config"
	"belljar.dev/internal/hostexec"
)

// boxes are those places under the policy that holds now.
func (w *works) boxes() hostexec.Boxes { return config.Boxes(w.gate.now.Load(), w.workspace, w.state) }

// hostProgram is what all programs of the operator have in common that run
// outside a box: they begin in "/", where no box writes.
func (w *works) hostProgram() hostexec.Program {
	p := hostexec.Program{Dir: "/", Boxes: w.boxes(), Inherit: os.Environ(), Pass: w.hostEnv}
	if w.sandbox != nil {
		p.Cgroup = w.sandbox.Cgroup()
	}
	return p
}
