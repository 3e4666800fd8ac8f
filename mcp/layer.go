package mcp

import "belljar.dev/policies"

// Narrow puts a layer below the policy for the calls of this session, and replaces the
// layer before; nil removes it. Running calls are not affected. A layer can only be
// stricter than the policy.
func (s *Session) Narrow(l *policies.Layer) {
	before := s.layer.Swap(l)
	if before == l {
		return
	}
	s.server.tools.announceIf(s.tenant, func(t *tool) bool {
		var f policies.Facts
		t.show(&f)
		return before.Hidden(f) != l.Hidden(f)
	})
}

// Narrowed returns the name of the layer that Narrow put below the policy; empty without a
// layer.
func (s *Session) Narrowed() string {
	if l := s.layer.Load(); l != nil {
		return l.Name()
	}
	return ""
}

// Narrows returns a grant without what the session's own layer takes away from it. It
// returns false if the session cannot be allowed any call with these facts. It fills in the
// Tenant of the facts.
func (s *Session) Narrows(g policies.Grant, f policies.Facts) (policies.Grant, bool) {
	f.Tenant = s.tenant
	l := s.layer.Load()
	h, ok := s.server.cfg.Gate.(Hider)
	if l.Hidden(f) || ok && h.Hidden(f) {
		return policies.Grant{}, false
	}
	return l.Clipped(g), true
}
