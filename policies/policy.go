package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A policy is a stack of files. The first is the system's: it alone has
// profiles and so grants, names the tenants, and says which further files are
// read. Those are layers. Each call gets the strictest verdict of all files, and
// each layer clips what the system's file granted.

// Bounds of a stack.
const (
	maxProjects     = 256
	maxProjectFiles = 16
	maxStackFiles   = 256
)

// Files is how Load gets at the files that a policy names.
type Files struct {
	// Read returns the text of a file, at most MaxText+1 bytes of it. name is the
	// name in the policy: relative to the directory of the policy, or absolute.
	// If Read is nil, a policy that names files has a fault.
	Read func(name string) ([]byte, error)
	// Workspace is the directory whose projects hold; empty for none. It is
	// absolute and without symbolic links.
	Workspace string
	// Real is a directory without symbolic links; nil leaves them.
	Real func(dir string) string
}

// File is one file of a stack.
type File struct{ Layer, Name string }

// project is a workspace and the files that hold for it.
type project struct {
	dir   string
	files []*yaml.Node
}

// Load reads a policy with all the files that it names. A fault in any of them
// is a fault of the whole.
func Load(name string, text []byte, files Files) (*Policy, error) {
	d := newDecoder(name, text)
	d.stack = &files
	p := &Policy{name: name, hash: textHash(text), source: Source{File: name}, unparsable: Ask, asking: defaultAsking(), channel: ChannelElicit, profiles: make(map[string]Grant)}
	root := d.root(text)
	if root != nil {
		d.policy(root, p)
	}
	if len(d.Faults) > 0 {
		e := newParseError(d.Faults)
		e.Files = d.read
		return nil, e
	}
	return p, nil
}

// Projects are the workspaces that the policy has files for, in its order.
func (p *Policy) Projects() []string { return slices.Clone(p.dirs) }

// Files are the files of the stack: the system's first, and then those of
// tenants and projects.
func (p *Policy) Files() []File {
	all := []File{{LayerSystem, p.name}}
	add := func(l *Layer) {
		if f := (File{l.kind, l.Name()}); !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	for _, name := range p.Tenants() {
		for _, l := range p.tenants[name].below {
			add(l)
		}
	}
	for _, l := range p.layers {
		add(l)
	}
	return all
}

// With is the policy with further layers below it, as a session has them. p
// stays as it is.
func (p *Policy) With(layers ...*Layer) *Policy {
	q := *p
	q.layers = slices.Concat(p.layers, layers)
	for _, l := range layers {
		q.hash = stackHash(q.hash, l)
	}
	return &q
}

// below is With for the layer of a tenant; of no tenant, it holds for all.
func (p *Policy) below(tenantName string, l *Layer) *Policy {
	own := p.tenants[tenantName]
	if own == nil {
		return p.With(l)
	}
	q, t := *p, *own
	t.below = append(slices.Clip(t.below), l)
	q.tenants = maps.Clone(p.tenants)
	q.tenants[tenantName] = &t
	q.hash = stackHash(q.hash, l)
	return &q
}

// layersOf are the layers that hold for a tenant, the upper ones first.
func (p *Policy) layersOf(tenantName string) []*Layer {
	own := p.tenants[tenantName]
	if own == nil {
		return p.layers
	}
	return slices.Concat(own.below, p.layers)
}

// Decide answers one call. It reads nothing but the policy and the facts, so
// equal calls get equal answers.
func (p *Policy) Decide(f Facts) Decision {
	d := p.decide(f)
	d.Policy = p.hash
	d.offer(d.offered().judgedBy(p, f))
	return d
}

func (p *Policy) decide(f Facts) Decision {
	profile, refused := p.asked(f)
	if profile == "" {
		return refused
	}
	if no, refuse := p.unasked(f, profile); refuse {
		return no
	}
	pieces := pieces(f)
	d := p.alone(f, profile, pieces)
	d.Layer, d.Profile = LayerSystem, profile
	if no, outside := p.outside(d, f.Tenant); outside {
		return no
	}
	for _, l := range p.layersOf(f.Tenant) {
		d = l.narrow(d, f, pieces)
	}
	return d
}

// grant is what the profile of a name gives to a tenant: with less wherever a
// layer takes from it.
func (p *Policy) grant(profile, tenantName string) Grant {
	g := p.profiles[profile]
	g.tenant, g.totals = tenantName, p.totals
	for _, l := range p.layersOf(tenantName) {
		g = g.clipped(l.clip)
	}
	return g
}

// sayBelow is what the layers of a tenant say to one part of its call.
func (p *Policy) sayBelow(c inquiry, pc *piece) []Said {
	var all []Said
	c.seen = nil
	for _, l := range p.layersOf(c.facts.Tenant) {
		o := l.rules.weigh(&c, pc)
		if o.skip || o.rule == nil && o.verdict == Allow {
			continue // it does not object
		}
		one := l.rules.decision(c.tool, pc, o)
		all = append(all, Said{Layer: l.kind, Verdict: one.Verdict, Rule: one.Rule, Source: one.Source})
	}
	return all
}

// ruleIDs are the ids of the rules of all layers.
func (p *Policy) ruleIDs() []string {
	var ids []string
	add := func(rules []rule) {
		for _, r := range rules {
			ids = append(ids, r.id)
		}
	}
	add(p.rules)
	for _, t := range p.tenants {
		for _, l := range t.below {
			add(l.rules.rules)
		}
	}
	for _, l := range p.layers {
		add(l.rules.rules)
	}
	return ids
}

// HiddenFrom reports whether no call of a tool by a tenant can be allowed or
// asked about. Unlike Hidden, it looks at the layers of that tenant too.
func (p *Policy) HiddenFrom(tenantName, tool string) bool {
	if !p.serves(tenantName) || p.Hidden(tool) {
		return true
	}
	return slices.ContainsFunc(p.layersOf(tenantName), func(l *Layer) bool { return l.Hidden(tool) })
}

// textHash is the SHA-256 of a file.
func textHash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// stackHash is the hash of a stack with one more layer.
func stackHash(upper string, l *Layer) string {
	h := sha256.New()
	for _, s := range []string{upper, l.kind, l.Name(), l.rules.hash} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// tenantFiles reads the layers of all tenants, and reports whether all are
// there: the tests may name their rules.
func (d *decoder) tenantFiles(p *Policy) bool {
	complete, sound := true, len(d.Faults) == 0
	for _, name := range p.Tenants() {
		t := p.tenants[name]
		for _, n := range t.files {
			var l *Layer
			if sound { // on half a policy their tests would fail
				l = d.further(n, LayerTenant, p, name)
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

// projects reads which files hold for which workspaces, and those that hold
// for this one.
func (d *decoder) projects(n *yaml.Node) []project {
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

// projectFiles reads the layers of the projects that share a directory with
// the workspace. Of two nested ones both hold: narrowing more is never wrong.
func (d *decoder) projectFiles(projects []project, p *Policy) {
	for _, one := range projects {
		dir := one.dir
		if d.stack.Real != nil {
			dir = d.stack.Real(dir)
		}
		if w := d.stack.Workspace; w == "" || !within(w, dir) && !within(dir, w) {
			continue
		}
		for _, n := range one.files {
			if l := d.further(n, LayerProject, p, ""); l != nil {
				*p = *p.With(l)
			}
		}
	}
}

// within reports whether a path is a directory, or is below it.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// further reads a file that the policy names at n. Its faults become the
// policy's.
func (d *decoder) further(n *yaml.Node, kind string, p *Policy, tenantName string) *Layer {
	name := n.Value
	if !path.IsAbs(name) {
		name = path.Join(path.Dir(d.File), name)
	}
	switch {
	case control(name):
		d.Fault(n, "remove it", "the name of a file holds a control character")
		return nil
	case d.stack == nil || d.stack.Read == nil:
		d.Fault(n, "name the policy by its file", "the file %s cannot be read here", shown(name))
		return nil
	case len(d.read) == maxStackFiles:
		d.Fault(n, "put what several tenants share into the rules of the policy", "the policy names more than %d files", maxStackFiles)
		return nil
	}
	d.read = append(d.read, name)
	text, err := d.stack.Read(name)
	if err != nil {
		d.Fault(n, "correct its name or its permissions, or remove it from the list", "the file cannot be read: %s", Clip(err.Error(), maxSaid))
		return nil
	}
	below := newDecoder(name, text)
	l := below.layer(kind, text, p, tenantName)
	if len(below.Faults) > 0 {
		d.Faults = append(d.Faults, below.Faults...)
		return nil
	}
	return l
}
