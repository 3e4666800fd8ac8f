package server

import (
	"os"

	"belljar.dev/internal/config"
	"belljar.dev/internal/hostexec"
)

// boxes are those places under the policy that holds now.
func (s *Server) boxes() hostexec.Boxes { return config.Boxes(s.gate.now.Load(), s.Workspace, s.State) }

// hostProgram is what all programs of the operator have in common that run
// outside a box: they begin in "/", where no box writes.
func (s *Server) hostProgram() hostexec.Program {
	p := hostexec.Program{Dir: "/", Boxes: s.boxes(), Inherit: os.Environ(), Pass: s.cfg.HostEnv}
	if s.sandbox != nil {
		p.Cgroup = s.sandbox.Cgroup()
	}
	return p
}
