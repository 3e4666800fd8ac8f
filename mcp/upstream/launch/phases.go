package launch

import "belljar.dev/mcp/upstream/config"

// phases sets both phases of a launcher. The first runs the command first: it reaches only
// registries, and gets only the settings of package managers from the entry. The second
// runs the command run: it gets the entry's environment, and reaches no registry.
func (p *Plan) phases(d Dirs, h hosts, cache Cache, more []string, first, run []config.Text) {
	one, two := phase(first...), phase(run...)
	one.Hosts, one.Cache, two.Cache = h.all, CacheKept, cache
	one.Env = p.environment(d, installs(p.env), online, more)
	p.Notes = nil // the second phase adds the same notes for all variables
	two.Env = p.environment(d, p.env, offline, more)
	p.Install, p.Run = &one, two
}

// from adds the packages and the hosts that they come from; add is called for each package.
// chosen reports that an option replaces the usual registry; the variables in replacing do
// so too.
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

// withPackages returns options that name packages.
func withPackages(flag string, packages []config.Text) (out []config.Text) {
	for _, s := range packages {
		out = append(out, s.With(flag))
	}
	return out
}
