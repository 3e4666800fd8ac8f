package policies

import (
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of a stack of files.
const (
	maxProjects     = 256
	maxProjectFiles = 16
	maxStackFiles   = 256
)

// project is a workspace and the files that are in force for it.
type project struct {
	dir   string
	files []*yaml.Node
}

// tenantFiles reads the layers of all tenants, and reports whether all of them were read:
// the tests may name their rules.
func (d *policyDecoder) tenantFiles() bool {
	p := d.p
	complete, sound := true, len(d.Faults) == 0
	for _, name := range p.Tenants() {
		t := p.tenants[name]
		for _, n := range t.files {
			var l *Layer
			if sound { // on a policy with faults the tests of these layers would fail
				l = d.further(n, LayerTenant, name)
			}
			if l == nil {
				complete = false
				continue
			}
			t.below = append(t.below, l)
			p.hash = stackHash(p.hash, l)
		}
	}
	return complete
}

// projects reads which files are in force for which workspaces.
func (d *policyDecoder) projects(n *yaml.Node) []project {
	o, ok := d.mapping(n, "projects", nil)
	if !ok {
		return nil
	}
	if len(n.Content) == 0 || len(o.keys) > maxProjects {
		d.Fault(n, "write projects: {/srv/app: [./app.yaml]}, or remove the key", "projects must name 1 to %d workspaces", maxProjects)
		return nil
	}
	var all []project
	for _, key := range o.keys {
		if !path.IsAbs(key.Value) || path.Clean(key.Value) != key.Value || control(key.Value) {
			d.Fault(key, "write the absolute path of a directory in its shortest form", "%s cannot be a workspace", shown(key.Value))
			continue
		}
		one := project{dir: key.Value}
		d.list(o.get(key.Value), "files of a project", maxProjectFiles, func(n *yaml.Node, _ string) { one.files = append(one.files, n) })
		all = append(all, one)
	}
	return all
}

// projectFiles reads the layers of the projects whose directory is the workspace, contains
// it or is below it. If the workspace has several such projects, all of them apply:
// narrowing more is never wrong.
func (d *policyDecoder) projectFiles(projects []project) {
	for _, one := range projects {
		dir := one.dir
		if d.files.Real != nil {
			dir = d.files.Real(dir)
		}
		if w := d.files.Workspace; w == "" || !within(w, dir) && !within(dir, w) {
			continue
		}
		for _, n := range one.files {
			if l := d.further(n, LayerProject, ""); l != nil {
				*d.p = *d.p.With(l)
			}
		}
	}
}

// within reports whether a path is a directory, or is below the directory.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// further reads a file that the policy names at n. Faults of the file become faults of the
// policy.
func (d *policyDecoder) further(n *yaml.Node, kind, tenantName string) *Layer {
	name := n.Value
	if !path.IsAbs(name) {
		name = path.Join(path.Dir(d.File), name)
	}
	switch {
	case control(name):
		d.Fault(n, "remove it", "the name of a file contains a control character")
		return nil
	case d.files.Read == nil:
		d.Fault(n, "name the policy by its file", "the file %s cannot be read here", shown(name))
		return nil
	case len(d.read) == maxStackFiles:
		d.Fault(n, "put what several tenants share into the rules of the policy", "the policy names more than %d files", maxStackFiles)
		return nil
	}
	d.read = append(d.read, name)
	text, err := d.files.Read(name)
	if err != nil {
		d.Fault(n, "correct its name or its permissions, or remove it from the list", "the file cannot be read: %s", Clip(err.Error(), maxSaid))
		return nil
	}
	below := &layerDecoder{decoder: newDecoder(name, text), upper: d.p, tenant: tenantName}
	l := below.layer(kind, text)
	if len(below.Faults) > 0 {
		d.Faults = append(d.Faults, below.Faults...)
		return nil
	}
	return l
}
