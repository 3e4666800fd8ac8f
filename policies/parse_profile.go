package policies

import (
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// Bounds of a profile.
const (
	maxProfiles = 1000
	maxMounts   = 256
	maxProtect  = 32 // half of the most that a workspace can have: its repositories name more
	maxEnv      = 256
	maxEnvBytes = 64 << 10 // execve counts the environment as a part of its argument space
)

// profileDecoder reads profiles except their networks.
type profileDecoder struct {
	*decoder

	secrets map[string]Secret // secrets that profiles may name
}

// profile reads a profile; what names it for messages.
func (d *profileDecoder) profile(name, what string, n *yaml.Node) profileGrant {
	g := profileGrant{profile: name, exec: DefaultExec, reading: defaultReading()}
	profileLimits.usual(&g.limits)
	if o, ok := d.mapping(n, what, profileShape); ok {
		d.fill(o, &g)
	}
	return g
}

// fill reads the keys of a profile, and replaces those in g.
func (d *profileDecoder) fill(o object, g *profileGrant) {
	if fs := o.get("fs"); fs != nil {
		d.files(fs, g)
	}
	door := &netDecoder{decoder: d.decoder, secrets: d.secrets}
	if net := o.get("net"); net != nil {
		door.network(net, g)
	}
	if publish := o.get("publish"); publish != nil {
		g.publish = door.publish(publish)
	}
	if limits := o.get("limits"); limits != nil {
		d.limits(limits, &g.limits)
	}
	if env := o.get("env"); env != nil {
		g.env = d.env(env)
	}
	if v := o.get("audit"); v != nil {
		g.audited = d.word(v, "audit", "required") == 0
	}
	if v := o.get("read"); v != nil {
		g.reading = d.reading(v)
	}
	if v := o.get("browser"); v != nil {
		g.browser = d.browser(v)
	}
	if exec := o.get("exec"); exec != nil {
		g.exec = d.exec(exec)
	}
	if require := o.get("require"); require != nil {
		d.texts(require, "require", func(n *yaml.Node, s string) {
			switch {
			case !slices.Contains(requirable, s):
				d.Fault(n, suggest(s, requirable), "require cannot name %q", s)
			case slices.Contains(g.require, Limit(s)):
				d.Fault(n, "remove one", "require names %s twice", s)
			default:
				g.require = append(g.require, Limit(s))
			}
		})
	}
}

// files reads what a box sees of the host.
func (d *profileDecoder) files(n *yaml.Node, g *profileGrant) {
	o, ok := d.mapping(n, "fs", filesShape)
	if !ok {
		return
	}
	if v := o.get("system"); v != nil {
		g.system = d.truth(v, "system")
	}
	if v := o.get("image"); v != nil {
		g.system = g.system && o.get("system") != nil
		g.image = d.image(v, g.system)
	}
	if v := o.get("workspace"); v != nil {
		switch d.word(v, "workspace", "rw", "ro", "overlay", "none") {
		case 0:
			g.access = AccessWrite
		case 1:
			g.access = AccessRead
		case 2:
			g.access = AccessOverlay
		}
	}
	if v := o.get("storage"); v != nil && d.word(v, "storage", "memory", "disk") == 1 {
		g.storage = StorageDisk
	}
	if v := o.get("protect"); v != nil {
		g.protect = d.protect(v)
	}
	for _, key := range []string{"read", "write"} {
		list := o.get(key)
		if list == nil {
			continue
		}
		d.texts(list, key, func(n *yaml.Node, s string) {
			m, err := mount(s)
			m.Writable = key == "write"
			twice := slices.ContainsFunc(g.mounts, func(other Mount) bool { return other.Target == m.Target })
			switch {
			case err != nil:
				d.Fault(n, `write an absolute path, for example "/opt/tools", or with its place in the box, for example "/opt/tools:/tools"`, "%s of fs: %v", key, err)
			case twice:
				d.Fault(n, "remove one, or give it another place in the box", "%s already leads to another entry of fs", m.Target)
			case len(g.mounts) == maxMounts:
				d.Fault(n, "name a directory that holds several of them", "fs names more than %d paths", maxMounts)
			default:
				g.mounts = append(g.mounts, m)
			}
		})
	}
}

const imagePattern = `^[a-z0-9]+(?:[._/-][a-z0-9]+)*(?::[A-Za-z0-9_][A-Za-z0-9._-]*)?$`

var imageName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(imagePattern) })

// image reads the name of the image that is the box's root file system.
func (d *profileDecoder) image(n *yaml.Node, system bool) string {
	const most = 200
	s, ok := d.text(n, "image")
	switch {
	case !ok:
	case len(s) > most || !imageName().MatchString(s):
		d.Fault(n, "write the name that it was imported under, for example debian or tools/go:1.26", "%s cannot be the name of an image", shown(s))
	case system:
		d.Fault(n, "an image brings its own: remove system, or the image", "fs has an image and the host's system directories")
	}
	return s
}

// protect reads which paths of a writable workspace cannot be written.
func (d *profileDecoder) protect(n *yaml.Node) Protect {
	var p Protect
	if n.Kind == yaml.ScalarNode {
		p.Off = d.word(n, "protect", "default", "none") == 1
		return p
	}
	d.texts(n, "protect", func(n *yaml.Node, s string) {
		clean := strings.TrimSuffix(s, "/")
		switch {
		case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
			d.Fault(n, "remove it", "%q of protect contains a control character", s)
		case path.IsAbs(s):
			d.Fault(n, "write the path as it is below the workspace", "%q of protect is not relative to the workspace", s)
		case slices.Contains(strings.Split(s, "/"), ".."):
			d.Fault(n, "name a path below the workspace", "%q of protect contains ..", s)
		case path.Clean(s) != clean || clean == ".":
			d.Fault(n, "use workspace: ro to protect all of it", "%q of protect is not the shortest form of a path below the workspace", s)
		case s == "default" || s == "none":
			d.Fault(n, "write protect: default or protect: none; a list protects its paths besides the default ones", "%q cannot be part of a list of protected paths", s)
		case slices.Contains(p.Also, clean):
			d.Fault(n, "remove one", "protect names %s twice", clean)
		case len(p.Also) == maxProtect:
			d.Fault(n, "name a directory that holds several of them", "protect names more than %d paths", maxProtect)
		default:
			p.Also = append(p.Also, clean)
		}
	})
	// Sorted, so that two grants with the same paths are equal.
	slices.Sort(p.Also)
	return p
}

// mount reads "/host" or "/host:/box".
func mount(s string) (Mount, error) {
	source, target, two := strings.Cut(s, ":")
	if !two {
		target = source
	}
	if strings.Contains(target, ":") {
		return Mount{}, fmt.Errorf("%q has more than one colon", s)
	}
	for _, p := range []string{source, target} {
		switch {
		case strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return Mount{}, fmt.Errorf("%q contains a control character", s)
		case !path.IsAbs(p):
			return Mount{}, fmt.Errorf("%q is not an absolute path", p)
		case path.Clean(p) != strings.TrimSuffix(p, "/") && p != "/":
			return Mount{}, fmt.Errorf("%q is not in its shortest form, %q", p, path.Clean(p))
		}
	}
	source, target = path.Clean(source), path.Clean(target)
	if source == "/" {
		// A private root that contains the host's root would not be private.
		return Mount{}, fmt.Errorf("%q would show the whole host", s)
	}
	first, _, _ := strings.Cut(target[1:], "/")
	if target == "/" || target == "/workspace" || slices.Contains([]string{"proc", "sys", "dev"}, first) {
		return Mount{}, fmt.Errorf("%s belongs to the box itself", target)
	}
	return Mount{Source: source, Target: target}, nil
}

const variablePattern = `^[A-Za-z_][A-Za-z0-9_]*$`

var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(variablePattern) })

// env reads the environment that a profile adds to every command.
func (d *profileDecoder) env(n *yaml.Node) map[string]string {
	o, ok := d.mapping(n, "env", nil)
	if !ok {
		return nil
	}
	if len(o.keys) > maxEnv {
		d.Fault(n, "", "env has %d variables, more than the %d that are read", len(o.keys), maxEnv)
		return nil
	}
	env, size := make(map[string]string), 0
	for _, key := range o.keys {
		value := o.get(key.Value)
		switch {
		case !variable().MatchString(key.Value):
			d.Fault(key, "use letters, digits and underscores, not a digit first", "%q is not a valid name of a variable", key.Value)
		case value.Kind == yaml.AliasNode:
		case value.Kind != yaml.ScalarNode || value.ShortTag() == "!!null":
			d.Fault(value, `write a text; "" for an empty one`, "variable %s must be a text, not %s", key.Value, kind(value))
		case strings.ContainsRune(value.Value, 0):
			d.Fault(value, "remove it", "variable %s contains a NUL byte", key.Value)
		default:
			env[key.Value] = value.Value // numbers and truth values in the spelling of the policy
			size += len(key.Value) + len(value.Value)
		}
	}
	if size > maxEnvBytes {
		d.Fault(n, "", "env has %d bytes, more than %d", size, maxEnvBytes)
		return nil
	}
	return env
}

// exec reads the exec mode of a profile.
func (d *profileDecoder) exec(n *yaml.Node) ExecMode {
	// An unknown word leaves a fault and counts as off.
	return ExecMode(max(d.word(n, "exec", ExecOff.String(), ExecObserve.String(), ExecEnforce.String()), 0))
}

// maxReadHeaders bounds the headers that a call may choose.
const maxReadHeaders = 32

// neverHeaders are headers that say what the connection is, or whom it is for: a call that
// could set them could claim to be another caller.
var neverHeaders = []string{
	"Host", "Connection", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Keep-Alive", "Proxy-Authorization",
	"Proxy-Connection", "Expect", "Accept-Encoding", "Range", "If-Range", "If-None-Match", "If-Modified-Since", "Http2-Settings",
}

// reading reads how pages are read for a profile.
func (d *profileDecoder) reading(n *yaml.Node) Reading {
	r := defaultReading()
	o, ok := d.mapping(n, "read", readShape)
	if !ok {
		return r
	}
	if v := o.get("render"); v != nil {
		r.Render = Render(max(d.word(v, "render", renders...), 0)) // an unknown word leaves a fault and counts as never
	}
	if v := o.get("redirects"); v != nil {
		r.Redirects = d.word(v, "redirects", "report", "follow") == 1
	}
	if v := o.get("robots"); v != nil {
		r.Robots = d.word(v, "robots", "ignore", "respect") == 1
	}
	if v := o.get("headers"); v != nil {
		d.texts(v, "headers", func(n *yaml.Node, s string) {
			name := http.CanonicalHeaderKey(s)
			switch {
			case !token(s):
				d.Fault(n, "write the name of a header, for example Accept-Language", "%s is not a valid name of a header", shown(s))
			case slices.Contains(neverHeaders, name):
				d.Fault(n, "remove it; belljar sets it where it is needed", "no call may choose the header %s", name)
			case slices.Contains(r.Headers, name):
				d.Fault(n, "remove one", "headers name %s twice", name)
			case len(r.Headers) == maxReadHeaders:
				d.Fault(n, "name those that are needed", "headers has more than %d entries", maxReadHeaders)
			default:
				r.Headers = append(r.Headers, name)
			}
		})
		slices.Sort(r.Headers)
	}
	return r
}
