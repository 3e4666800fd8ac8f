package launch

import "belljar.dev/mcp/upstream/config"

// phases sets both phases of a launcher: first reaches only registries and gets nothing of
// the entry's, then run has the entry's environment and no registry.
func (p *Plan) phases(d Dirs, h hosts, cache Cache, more []string, first, run []config.Text) {
	one, two := phase(first...), phase(run...)
	one.Hosts, one.Cache, two.Cache = h.all, CacheKept, cache
	one.Env = p.environment(d, installs(p.env), online, more)
	p.Notes = nil // the second phase says the same of all variables
	two.Env = p.environment(d, p.env, offline, more)
	p.Install, p.Run = &one, two
}

// from notes the packages and the hosts that they come from, which add adds for each. chosen
// says that an option replaces the usual registry; so do the variables in replacing.
func (p *Plan) from(h *hosts, packages []config.Text, add func(t config.Text, chosen bool) error, chosen bool, replacing ...string) error {
	byVariable, err := p.variables(h, replacing...)
	if err != nil {
		return err
	}
	for _, t := range packages {
		if err := add(t, chosen || byVariable); err != nil {
			return err
		}
		p.Packages = append(p.Packages, t.Pinned())
	}
	return nil
}

// withPackages are options that name packages.
func withPackages(flag string, packages []config.Text) (out []config.Text) {
	for _, s := range packages {
		out = append(out, s.With(flag))
	}
	return out
}
