package search

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"belljar.dev/policies"
	"belljar.dev/search/engine"
)

const (
	// wanted11 is the number of engines that a query asks: those of its category, and
	// reserves in place of those that are left alone.
	wanted11    = 11
	enginesMost = 16 // number of engines with the optional ones, which have a key
)

// plan contains the engines that a query may ask, before their health is looked at.
type plan struct {
	query    Query
	grant    policies.Grant
	mark     mark
	first    []*engine.Engine // in the order in which they are asked
	reserves []*engine.Engine
	closed   []*engine.Engine // engines that the policy does not allow
	named    bool             // reports whether the query names its engines
	keys     engine.Keys
}

// plan returns the plan of a query.
func (f *Fan) plan(g policies.Grant, q Query) (*plan, error) {
	p := &plan{query: q, grant: g, named: len(q.Engines) > 0, keys: f.cfg.Keys()}
	engines := f.cfg.Engines()
	var all []*engine.Engine
	if p.named {
		var err error
		if all, err = p.find(engines, q.Engines); err != nil {
			return nil, err
		}
	} else {
		all = slices.DeleteFunc(engines.All(), func(e *engine.Engine) bool {
			return e.Use == engine.UseOff || !e.Usable(p.keys)
		})
	}
	var names []string
	for _, e := range all {
		switch {
		case !lets(g, e, p.keys):
			if p.named || e.Use != engine.UseReserve {
				p.closed = append(p.closed, e)
			}
			continue
		case p.named || e.Use != engine.UseReserve && suits(e.Role, q.Category) && len(p.first) < enginesMost:
			p.first = append(p.first, e)
		case e.Use == engine.UseReserve:
			p.reserves = append(p.reserves, e)
		default:
			continue
		}
		names = append(names, e.Name)
	}
	if len(p.first)+len(p.reserves) == 0 {
		e := &NotAllowedError{Profile: g.Profile()}
		for _, c := range p.closed {
			e.Engines = append(e.Engines, c.Name)
		}
		return nil, e
	}
	p.order()
	// The names are part of the mark, because the answers depend on which engines are
	// asked.
	p.mark = f.mark(g.Tenant(), q.asKey(), names)
	return p, nil
}

// find returns the engines that a query names.
func (p *plan) find(engines *engine.Set, names []string) ([]*engine.Engine, error) {
	if len(names) > enginesMost {
		return nil, &QueryError{"engines", fmt.Sprintf("got %d of them, and at most %d are allowed", len(names), enginesMost)}
	}
	var all []*engine.Engine
	for _, name := range names {
		e := engines.Find(strings.ToLower(strings.TrimSpace(name)))
		switch {
		case e == nil:
			var known []string
			for _, k := range engines.All() {
				if k.Usable(p.keys) {
					known = append(known, k.Name)
				}
			}
			return nil, &QueryError{"engines", fmt.Sprintf("no such engine %q; known are %s", policies.Clip(name, 40), strings.Join(known, ", "))}
		case !e.Usable(p.keys):
			return nil, &QueryError{"engines", fmt.Sprintf("%s needs a key or an address, which the operator has not set", e.Name)}
		case !slices.Contains(all, e):
			all = append(all, e)
		}
	}
	return all, nil
}

// order moves the reserves that the category asks for to the front.
func (p *plan) order() {
	rank := func(e *engine.Engine) int {
		switch {
		case slices.Contains(favourites(p.query.Category), e.Role):
			return 0
		case e.Role == engine.RoleGeneral:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(p.reserves, func(a, b *engine.Engine) int { return rank(a) - rank(b) })
}

// substitute takes the best reserve out of the plan: one of the role, or else the first. It
// returns nil if no reserve is left.
func (p *plan) substitute(role engine.Role) *engine.Engine {
	i := slices.IndexFunc(p.reserves, func(e *engine.Engine) bool { return e.Role == role })
	if i < 0 && len(p.reserves) > 0 {
		i = 0
	}
	if i < 0 {
		return nil
	}
	e := p.reserves[i]
	p.reserves = slices.Delete(slices.Clone(p.reserves), i, i+1)
	return e
}

// suits reports whether engines of a role are asked for a category.
func suits(r engine.Role, category string) bool {
	switch category {
	case "code":
		return r != engine.RoleAcademic && r != engine.RoleNews
	case "academic":
		return r == engine.RoleGeneral || r == engine.RoleReference || r == engine.RoleAcademic
	case "news":
		return r == engine.RoleGeneral || r == engine.RoleNews || r == engine.RoleDiscussion
	}
	return true
}

// lets reports whether a grant allows an engine to be asked, which is so if at least one of
// its hosts is allowed. The door judges each request again.
func lets(g policies.Grant, e *engine.Engine, keys engine.Keys) bool {
	if g.IsZero() || g.Network() != policies.NetworkDoor {
		return false
	}
	if e.NeedsURL != "" {
		u, err := url.Parse(keys[e.NeedsURL])
		return err == nil && reaches(g, u.Hostname(), portOf(u))
	}
	return slices.ContainsFunc(e.Hosts, func(h string) bool {
		if below, ok := strings.CutPrefix(h, "*."); ok {
			return reaches(g, "en."+below, 443)
		}
		return reaches(g, h, 443)
	})
}

func reaches(g policies.Grant, host string, port uint16) bool {
	h, err := policies.ParseHost(host)
	return err == nil && g.Egress().Connect(h, port).Allowed
}

func portOf(u *url.URL) uint16 {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}
