package policies

import (
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Bounds of a profile.
const (
	maxProfiles = 1000
	maxMounts   = 256
	maxProtect  = 32 // half of what a workspace can have: its repositories name more
	maxEnv      = 256
	maxEnvBytes = 64 << 10 // execve counts the environment against its argument space
)

// profile reads one entry of profiles.
func (d *decoder) profile(name string, n *yaml.Node, secrets map[string]Secret) Grant {
	g := Grant{profile: name, limits: defaultLimits(), exec: DefaultExec, reading: defaultReading()}
	o, ok := d.mapping(n, "profile "+name, profileShape)
	if !ok {
		return g
	}
	if fs := o.get("fs"); fs != nil {
		d.files(fs, &g)
	}
	if net := o.get("net"); net != nil {
		d.network(net, &g, secrets)
	}
	if publish := o.get("publish"); publish != nil {
		g.publish = d.publish(publish)
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
			known := []string{string(LimitMemory), string(LimitPids), string(LimitCPU), string(LimitIO), string(LimitDisk)}
			switch {
			case !slices.Contains(known, s):
				d.Fault(n, suggest(s, known), "require cannot name %q", s)
			case slices.Contains(g.require, Limit(s)):
				d.Fault(n, "remove one", "require names %s twice", s)
			default:
				g.require = append(g.require, Limit(s))
			}
		})
	}
	return g
}

// files reads what a box sees of the host.
func (d *decoder) files(n *yaml.Node, g *Grant) {
	o, ok := d.mapping(n, "fs", filesShape)
	if !ok {
		return
	}
	if v := o.get("system"); v != nil {
		g.system = d.truth(v, "system")
	}
	if v := o.get("image"); v != nil {
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

var imageName = regexp.MustCompile(`^[a-z0-9]+(?:[._/-][a-z0-9]+)*(?::[A-Za-z0-9_][A-Za-z0-9._-]*)?$`)

// image reads the name of the image that is the box's root file system.
func (d *decoder) image(n *yaml.Node, system bool) string {
	const most = 200
	s, ok := d.text(n, "image")
	switch {
	case !ok:
	case len(s) > most || !imageName.MatchString(s):
		d.Fault(n, "write the name that it was imported under, for example debian or tools/go:1.26", "%s cannot be the name of an image", shown(s))
	case system:
		d.Fault(n, "an image brings its own: remove system, or the image", "fs has an image and the host's system directories")
	}
	return s
}

// protect reads which paths of a writable workspace cannot be written.
func (d *decoder) protect(n *yaml.Node) Protect {
	var p Protect
	if n.Kind == yaml.ScalarNode {
		p.Off = d.word(n, "protect", "default", "none") == 1
		return p
	}
	d.texts(n, "protect", func(n *yaml.Node, s string) {
		clean := strings.TrimSuffix(s, "/")
		switch {
		case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }):
			d.Fault(n, "remove it", "%q of protect holds a control character", s)
		case path.IsAbs(s):
			d.Fault(n, "write the path as it is below the workspace", "%q of protect is not relative to the workspace", s)
		case slices.Contains(strings.Split(s, "/"), ".."):
			d.Fault(n, "name a path below the workspace", "%q of protect holds ..", s)
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
	// In order, so that two grants with the same paths are equal.
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
			return Mount{}, fmt.Errorf("%q holds a control character", s)
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

var units = map[string]int64{
	"": 1, "B": 1,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
}

var quantity = regexp.MustCompile(`^(-?[0-9]+)[ ]?([A-Za-z]*)$`)

// Bounds of a number of CPUs. A cgroup gives out time in slices of a 100 ms
// period, of at least 1 ms: a limit below 0.01 of a CPU cannot be enforced.
const leastCPU, mostCPU = 0.01, 65536

// cpus reads a number of CPUs.
func (d *decoder) cpus(n *yaml.Node) (float64, bool) {
	return d.number(n, "cpu", "write a number of CPUs, for example 2 or 0.5", leastCPU, mostCPU)
}

// number reads a number, which may have a fraction.
func (d *decoder) number(n *yaml.Node, key, hint string, least, most float64) (float64, bool) {
	value, err := strconv.ParseFloat(n.Value, 64)
	switch {
	case n.Kind == yaml.AliasNode:
	case n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(value):
		d.Fault(n, hint, "%s must be a number, not %s", key, kind(n))
	case value < least || value > most:
		d.Fault(n, "a limit cannot be switched off; remove the key for the default", "%s is %s, outside %v to %v", key, n.Value, least, most)
	default:
		return value, true
	}
	return 0, false
}

// count reads a whole number above zero, or a size.
func (d *decoder) count(n *yaml.Node, key string, most int64, size bool) (int64, bool) {
	hint := "write a whole number, for example 512"
	if size {
		hint = "write a size, for example 512MiB, 2GiB or a number of bytes"
	}
	if n.Kind == yaml.AliasNode {
		return 0, false
	}
	m := quantity.FindStringSubmatch(n.Value)
	if n.Kind != yaml.ScalarNode || m == nil || m[2] != "" && !size {
		d.Fault(n, hint, "%s cannot be %s", key, quoted(n))
		return 0, false
	}
	unit, known := units[m[2]]
	if !known {
		d.Fault(n, suggest(m[2], []string{"KiB", "MiB", "GiB", "TiB", "kB", "MB", "GB", "TB"}), "%s has the unknown unit %q", key, m[2])
		return 0, false
	}
	value, err := strconv.ParseInt(m[1], 10, 64)
	switch {
	case err == nil && value <= 0:
		d.Fault(n, "a limit cannot be switched off; remove the key for the default", "%s must be above zero", key)
		return 0, false
	case err != nil || value > most/unit:
		d.Fault(n, "", "%s is %s, more than the %d that can be given", key, n.Value, most)
		return 0, false
	}
	return value * unit, true
}

// duration reads a time in Go's spelling.
func (d *decoder) duration(n *yaml.Node, key string) (time.Duration, bool) {
	const most = 30 * 24 * time.Hour
	if n.Kind == yaml.AliasNode {
		return 0, false
	}
	value, err := time.ParseDuration(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || err != nil:
		hint := "write a time with its unit, for example 30s, 10m or 1h30m"
		if _, err := strconv.Atoi(n.Value); err == nil {
			hint = fmt.Sprintf("write its unit: %ss for seconds, %sm for minutes", n.Value, n.Value)
		}
		d.Fault(n, hint, "%s cannot be %s", key, quoted(n))
	case value <= 0:
		d.Fault(n, "a limit cannot be switched off; remove the key for the default", "%s must be above zero", key)
	case value < time.Millisecond || value > most:
		d.Fault(n, "", "%s is %v, outside 1ms to %v", key, value, most)
	default:
		return value, true
	}
	return 0, false
}

// quoted is a node's value for a message, or its kind.
func quoted(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return kind(n)
	}
	return strconv.Quote(n.Value)
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// env reads the environment a profile adds to every command.
func (d *decoder) env(n *yaml.Node) map[string]string {
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
		case !variable.MatchString(key.Value):
			d.Fault(key, "use letters, digits and underscores, not a digit first", "%q is not a valid name of a variable", key.Value)
		case value.Kind == yaml.AliasNode:
		case value.Kind != yaml.ScalarNode || value.ShortTag() == "!!null":
			d.Fault(value, `write a text; "" for an empty one`, "variable %s must be a text, not %s", key.Value, kind(value))
		case strings.ContainsRune(value.Value, 0):
			d.Fault(value, "remove it", "variable %s holds a NUL byte", key.Value)
		default:
			env[key.Value] = value.Value // numbers and truth values as they are written
			size += len(key.Value) + len(value.Value)
		}
	}
	if size > maxEnvBytes {
		d.Fault(n, "", "env has %d bytes, more than %d", size, maxEnvBytes)
		return nil
	}
	return env
}

// names are the keys of a map in order.
func names[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
