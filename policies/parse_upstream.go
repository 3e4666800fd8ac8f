package policies

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds of upstreams.
const (
	maxUpstreams     = 256
	maxUpstreamName  = 64 // characters
	maxUpstreamFiles = 16
	maxToolFacts     = 64
	maxFactPointers  = 16
)

// upstreamDecoder reads the key upstreams: how other people's MCP servers may run.
type upstreamDecoder struct {
	*decoder

	p        *Policy // already contains its profiles and secrets
	profiles *heir
}

// upstreams reads the key upstreams.
func (d *upstreamDecoder) upstreams(n *yaml.Node) {
	to := &d.p.upstreams
	o, ok := d.mapping(n, "upstreams", upstreamsShape)
	if !ok {
		return
	}
	if v := o.get("from"); v != nil {
		d.texts(v, "from", func(n *yaml.Node, s string) {
			switch {
			case control(s):
				d.Fault(n, "remove it", "the name of a file contains a control character")
			case slices.Contains(to.from, s):
				d.Fault(n, "remove one", "from names %s twice", shown(s))
			case len(to.from) == maxUpstreamFiles:
				d.Fault(n, "put the servers into fewer files", "from names more than %d files", maxUpstreamFiles)
			default:
				to.from = append(to.from, s)
			}
		})
	}
	if v := o.get("wait"); v != nil {
		if wait, ok := d.duration(v, "wait"); ok {
			to.wait = wait
		}
	}
	if v := o.get("defaults"); v != nil {
		d.server(v, "defaults of upstreams", &to.base)
	}
	if v := o.get("servers"); v != nil {
		d.servers(v)
	}
}

func (d *upstreamDecoder) servers(n *yaml.Node) {
	o, ok := d.mapping(n, "servers", nil)
	switch {
	case !ok:
		return
	case len(n.Content) == 0:
		d.Fault(n, "name one, for example github: {pin: ask}, or remove the key", "servers must not be empty")
	case len(o.keys) > maxUpstreams:
		d.Fault(n, "", "there are %d servers, more than the %d that are read", len(o.keys), maxUpstreams)
		return
	}
	d.p.upstreams.servers = make(map[string]upstream, len(o.keys))
	for _, key := range o.keys {
		if !isServerName(key.Value) {
			d.Fault(key, "write the name that the server has in its file; belljar reads 64 characters at most, without control characters", "%s cannot be the name of a server", shown(key.Value))
			continue
		}
		one := d.p.upstreams.base
		d.server(o.get(key.Value), "server "+key.Value, &one)
		d.p.upstreams.servers[key.Value] = one
	}
}

// isServerName reports whether a text can be the name of a server. Other programs allow
// blanks, capitals and letters of any script in such names.
func isServerName(s string) bool {
	return strings.TrimSpace(s) != "" && utf8.RuneCountInString(s) <= maxUpstreamName && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError })
}

// server reads the keys of one server, and replaces those in u. Each key replaces the same
// key in u as a whole; only timeout replaces each of its times separately.
func (d *upstreamDecoder) server(n *yaml.Node, what string, u *upstream) {
	o, ok := d.mapping(n, what, upstreamShape)
	if !ok {
		return
	}
	if v := o.get("profile"); v != nil {
		u.run = d.profile(what, v)
	}
	if v := o.get("install"); v != nil {
		u.install.network, u.install.egress = NetworkNone, nil
		(&netDecoder{decoder: d.decoder, secrets: d.p.secrets}).network(v, &u.install)
	}
	d.life(o, u)
	if v := o.get("secrets"); v != nil {
		u.Secrets = d.secrets(v)
	}
	if v := o.get("tools"); v != nil {
		d.tools(v, u)
	}
	if v := o.get("facts"); v != nil {
		u.facts = d.facts(v)
	}
	if v := o.get("safety"); v != nil {
		u.Unguarded = d.word(v, "safety", "on", "off") == 1
	}
	if v := o.get("limit"); v != nil {
		u.Limit = (&ruleDecoder{decoder: d.decoder}).limit(v)
		u.Limit.Source = d.source(v)
	}
	if v := o.get("expose"); v != nil {
		u.Search = d.word(v, "expose", "list", "search") == 1
	}
	if v := o.get("sampling"); v != nil {
		u.Sampling = d.truth(v, "sampling")
	}
	if v := o.get("roots"); v != nil {
		u.Roots = d.truth(v, "roots")
	}
}

// life reads when a server runs, for whom, and whether its definitions are trusted without
// a question. An unknown word leaves a fault.
func (d *upstreamDecoder) life(o object, u *upstream) {
	if v := o.get("pin"); v != nil {
		u.Pin = Pin(max(d.word(v, "pin", pins...), 0))
	}
	if v := o.get("share"); v != nil {
		u.Share = Share(max(d.word(v, "share", shares...), 0))
	}
	if v := o.get("start"); v != nil {
		u.Eager = d.word(v, "start", "lazy", "eager") == 1
	}
	if v := o.get("keep"); v != nil {
		u.Keep = d.truth(v, "keep")
	}
	if v := o.get("timeout"); v != nil {
		if times, ok := d.mapping(v, "timeout", upstreamTimeoutShape); ok {
			upstreamTimeouts.read(d.decoder, times, &u.Timeouts)
		}
	}
}

// profile reads the profile of a server's box: the name of a profile, or keys of its own. A
// key that is missing comes from the profile that it extends, or from the profile of a
// server that names none.
func (d *upstreamDecoder) profile(what string, n *yaml.Node) profileGrant {
	if n.Kind != yaml.MappingNode {
		name, ok := d.text(n, "profile")
		if !ok {
			return upstreamProfile()
		}
		d.known(d.p.profiles, n, name)
		return d.p.profiles[name]
	}
	g := upstreamProfile()
	what = "profile of " + what
	o, ok := d.mapping(n, what, upstreamProfileShape)
	switch {
	case ok && o.get("extends") != nil:
		return d.profiles.nameless(what, n)
	case ok:
		d.profiles.d.fill(o, &g)
	}
	return g
}

// secrets reads which secrets a server's entry may name.
func (d *upstreamDecoder) secrets(n *yaml.Node) map[string]SecretPlace {
	o, ok := d.mapping(n, "secrets of a server", nil)
	switch {
	case !ok:
		return nil
	case len(n.Content) == 0 || len(o.keys) > maxSecretHeaders:
		d.Fault(n, "write secrets: {github: door}, or remove the key", "secrets of a server must not be empty, and has at most %d names", maxSecretHeaders)
		return nil
	}
	all := make(map[string]SecretPlace, len(o.keys))
	for _, key := range o.keys {
		if _, defined := d.p.secrets[key.Value]; !defined {
			d.Fault(key, suggest(key.Value, names(d.p.secrets)), "secret %q does not exist", Clip(key.Value, 64))
		}
		all[key.Value] = SecretPlace(max(d.word(o.get(key.Value), "the place of a secret", secretPlaces...), 0))
	}
	return all
}

// tools reads which tools of a server clients can see.
func (d *upstreamDecoder) tools(n *yaml.Node, u *upstream) {
	o, ok := d.mapping(n, "tools", upstreamToolsShape)
	if !ok {
		return
	}
	u.AllowTools, u.DenyTools = nil, nil
	if v := o.get("allow"); v != nil {
		d.texts(v, "allow of tools", func(_ *yaml.Node, s string) { u.AllowTools = append(u.AllowTools, s) })
	}
	if v := o.get("deny"); v != nil {
		d.texts(v, "deny of tools", func(_ *yaml.Node, s string) { u.DenyTools = append(u.DenyTools, s) })
	}
}

// facts reads which kinds of facts the arguments of tools are.
func (d *upstreamDecoder) facts(n *yaml.Node) []toolFacts {
	o, ok := d.mapping(n, "facts", nil)
	switch {
	case !ok:
		return nil
	case len(n.Content) == 0 || len(o.keys) > maxToolFacts:
		d.Fault(n, `write facts: {navigate: {/url: url}}, or remove the key`, "facts must not be empty, and has at most %d tools", maxToolFacts)
		return nil
	}
	var all []toolFacts
	for _, key := range o.keys {
		of, ok := d.mapping(o.get(key.Value), "facts of "+shown(key.Value), nil)
		if !ok {
			continue
		}
		if strings.TrimSpace(key.Value) == "" {
			d.Fault(key, "write the name of a tool, or * for all", "the name of a tool must not be empty")
		}
		if len(of.keys) > maxFactPointers {
			d.Fault(of.node, "name what holds several of them", "facts of a tool has more than %d pointers", maxFactPointers)
			continue
		}
		one := toolFacts{tool: key.Value}
		for _, at := range of.keys {
			parts, ok := compilePointer(at.Value)
			if !ok {
				d.Fault(at, "write the place of the argument, for example /url or /options/path", "%s is not a JSON pointer", shown(at.Value))
			}
			one.pointers = append(one.pointers, factPointer{parts, factKind(max(d.word(of.get(at.Value), "a fact", factKinds...), 0))})
		}
		all = append(all, one)
	}
	return all
}
