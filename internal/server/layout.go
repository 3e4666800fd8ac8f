package server

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"belljar.dev/internal/config"
	"belljar.dev/policies"
)

// site contains what the command line says about places. It is immutable. Without clients
// over HTTP, a server has only the place of --workspace.
type site struct {
	home  string            // workspace of --workspace; all workspaces are absolute paths without links
	named map[string]string // workspaces of --place, by name
	http  bool              // whether clients connect over HTTP
	// workdir contains the places of a worker of a fleet; nil for another server.
	workdir *workdir
	routes  bool // whether this is a front, which has no places but knows which tenant enters which place
	// fleetPolicies keeps the policy of the fleet; nil for a server without such a policy.
	fleetPolicies *fleetPolicies
}

// layout contains the places that a server has under one policy, and the tenants that may
// enter them. Names and directories come only from the configuration. It is immutable.
type layout struct {
	*site

	began time.Time // time at which the reading of the policy began

	set  *config.PolicySet
	ids  map[string]string // workspaces of a worker's places, by the names of the places
	real map[string]string // workspaces by the paths that the policy contains
	all  []string          // every workspace once, that of --workspace first
}

// read reads a policy and finds the directories of its places.
func (s *site) read(policy string) (*layout, error) {
	l := &layout{site: s, began: time.Now(), real: make(map[string]string), ids: make(map[string]string), all: []string{s.home}}
	if s.routes {
		l.all = nil
	}
	var err error
	l.set, err = config.FindPolicies(policy, s.home, func(p *policies.Policy) ([]string, error) {
		switch {
		case s.routes:
			_, err := fleetPlaces(p)
			return nil, err
		case s.workdir != nil:
			return l.own(p)
		case !s.http:
			return nil, nil
		}
		if err := l.find(p); err != nil {
			return nil, err
		}
		return l.all[1:], nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// own finds the places of a policy that this worker has.
func (l *layout) own(p *policies.Policy) ([]string, error) {
	all, err := fleetPlaces(p)
	if err != nil {
		return nil, err
	}
	for _, id := range all {
		if l.workdir.has(id) {
			l.add(id)
		}
	}
	return l.all[1:], nil
}

func (l *layout) add(id string) {
	l.ids[id] = l.workdir.workspace(id)
	l.all = append(l.all, l.ids[id])
}

// with returns a layout with one more place of a worker. The place must exist on the disk.
func (l *layout) with(id string) (*layout, error) {
	next := *l
	next.all, next.ids = slices.Clone(l.all), maps.Clone(l.ids)
	next.add(id)
	var err error
	if next.set, err = l.set.With(l.home, next.ids[id]); err != nil {
		return nil, err
	}
	return &next, nil
}

// without returns a layout without one place of a worker.
func (l *layout) without(id string) *layout {
	next := *l
	next.ids = maps.Clone(l.ids)
	delete(next.ids, id)
	next.all = slices.DeleteFunc(slices.Clone(l.all), func(workspace string) bool { return workspace == l.workdir.workspace(id) })
	return &next
}

// idOf returns the name of the place of a workspace in a fleet, or "" if the place has no
// name.
func (l *layout) idOf(workspace string) string {
	if l.workdir == nil || workspace == l.home {
		return ""
	}
	dir := filepath.Dir(workspace)
	tenant, name := filepath.Base(filepath.Dir(dir)), filepath.Base(dir)
	if name == unnamed {
		name = ""
	}
	return placeID(tenant, name)
}

// names reports whether the policy has a place with this name for a tenant.
func (l *layout) names(tenant, name string) bool {
	t, known := l.policy().Tenant(tenant)
	if !known {
		return false
	}
	_, has := t.Places[name]
	return has || name == ""
}

// find finds the workspaces other than that of --workspace.
func (l *layout) find(p *policies.Policy) error {
	owners := map[string]string{l.home: "--workspace"}
	add := func(dir, owner string) {
		if _, known := owners[dir]; !known {
			owners[dir] = owner
			l.all = append(l.all, dir)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.named)) {
		add(l.named[name], "--place "+name)
	}
	if len(l.named) > 0 && len(p.Tenants()) > 0 {
		return fmt.Errorf("--place: policy %s names tenants, and so it must also name the places of each tenant; write there tenants: {NAME: {places: {SITE: /DIRECTORY}}}", p.Name())
	}
	for _, tenant := range p.Tenants() {
		t, _ := p.Tenant(tenant)
		for _, name := range slices.Sorted(maps.Keys(t.Places)) {
			if t.Places[name] == "" {
				return fmt.Errorf("tenant %s of policy %s: its place %s has no directory, and only workers of a fleet make directories; write places: {%s: /DIRECTORY}", tenant, p.Name(), name, name)
			}
		}
		for _, dir := range t.Workspaces() {
			real, err := config.FindPlace(dir, "in the policy")
			if err != nil {
				return fmt.Errorf("tenant %s of policy %s: %w", tenant, p.Name(), err)
			}
			l.real[dir] = real
			add(real, "tenant "+tenant)
		}
	}
	return nested(l.all, owners)
}

// pathOf returns the URL path of a place. The empty name stands for the place of requests
// without a name.
func pathOf(name string) string {
	if name == "" {
		return "/mcp"
	}
	return "/w/" + name + "/mcp"
}

// nested returns an error if a workspace lies in another one: files that are protected in
// one of them could be written through the other, and a tenant could read another tenant's
// files.
func nested(all []string, owners map[string]string) error {
	sorted := slices.Sorted(slices.Values(all))
	known := make(map[string]bool, len(all))
	for _, dir := range sorted {
		known[dir] = true
	}
	for _, dir := range sorted {
		for up := parent(dir); up != ""; up = parent(up) {
			if known[up] {
				return fmt.Errorf("the workspace %s (%s) lies in the workspace %s (%s), so work in the one could change the other; name directories beside each other", dir, owners[dir], up, owners[up])
			}
		}
	}
	return nil
}

// same reports whether two layouts have the same policies for the same workspaces.
func (l *layout) same(o *layout) bool {
	return l.policy().Hash() == o.policy().Hash() && // a front has no workspaces, so its policy is compared here
		slices.Equal(l.all, o.all) && maps.Equal(l.real, o.real) &&
		!slices.ContainsFunc(l.all, func(workspace string) bool { return l.set.Of(workspace).Hash() != o.set.Of(workspace).Hash() })
}

// policy returns the policy of the place of --workspace.
func (l *layout) policy() *policies.Policy { return l.set.Of(l.home) }

// at returns the workspace to which a tenant's requests for a place lead. The name is empty
// for a request without a name. ok is false if the place does not exist, or if the tenant
// may not enter it.
func (l *layout) at(tenant, name string) (workspace string, ok bool) {
	t, known := l.policy().Tenant(tenant)
	switch {
	case l.workdir != nil && !l.names(tenant, name):
		return "", false
	case l.workdir != nil:
		workspace = l.ids[placeID(tenant, name)]
	case !known && len(l.policy().Tenants()) > 0:
		return "", false // the tenant was let in, and then removed from the policy
	case name == "" && t.Workspace != "":
		workspace = l.real[t.Workspace]
	case name == "":
		workspace = l.home
	case known:
		workspace = l.real[t.Places[name]]
	default:
		workspace = l.named[name]
	}
	return workspace, workspace != ""
}

// enters reports whether a tenant may enter a workspace, under any name.
func (l *layout) enters(tenant, workspace string) bool {
	t, known := l.policy().Tenant(tenant)
	if at, _ := l.at(tenant, ""); at == workspace {
		return true
	}
	places := l.named
	if known {
		places = t.Places
	}
	for name := range places {
		if at, ok := l.at(tenant, name); ok && at == workspace {
			return true
		}
	}
	return false
}

// parent returns the directory of an absolute path; empty for the root.
func parent(path string) string {
	if path == "/" {
		return ""
	}
	return filepath.Dir(path)
}

// workspaces returns the workspaces of all places of the policy in force.
func (s *Server) workspaces() []string { return s.places.layout.Load().all }

// workspaces returns the workspaces of the policy in force.
func (r *reloader) workspaces() []string { return r.places.layout.Load().all }
