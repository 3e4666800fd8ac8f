package policies

import "slices"

// Secret says where the operator keeps a secret. Exactly one field is set. The
// policy knows only the place, never the value.
type Secret struct {
	Env     string   // variable of belljar's own environment
	File    string   // absolute path on the host
	Command []string // program on the host that prints the secret, and its arguments
}

// Secret returns where the secret with a name is kept. It returns false if the policy
// defines no secret with that name.
func (p *Policy) Secret(name string) (Secret, bool) {
	s, ok := p.secrets[name]
	s.Command = slices.Clone(s.Command)
	return s, ok
}
