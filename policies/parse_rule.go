package policies

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of a policy's rules.
const (
	maxRules = 2000
	maxSaid  = 2000 // bytes of a reason
)

// ruleDecoder reads the rules of a policy or a layer.
type ruleDecoder struct {
	*decoder

	to       *ruleset                // the set that gets the rules
	profiles map[string]profileGrant // profiles that rules may name
	whens    int                     // number of conditions so far
}

// rules reads all rules.
func (d *ruleDecoder) rules(n *yaml.Node) {
	first := make(map[string]Source)
	for _, entry := range d.items(n, "rules", maxRules) {
		r, ok := d.rule(entry)
		if !ok {
			continue
		}
		if before, twice := first[r.id]; twice && r.id != "" {
			d.Fault(entry, "give each rule its own", "the id %s is taken by the rule on line %d", r.id, before.Line)
		} else {
			first[r.id] = r.source
		}
		for _, name := range slices.Concat(r.match.profiles, r.unless.profiles) {
			d.known(d.profiles, name.node, name.name)
		}
		if r.node != nil {
			d.known(d.profiles, r.node, r.profile)
		}
		d.to.rules = append(d.to.rules, r)
		d.to.shadows = d.to.shadows || r.mode != ModeEnforce
	}
	d.to.index = newIndex(d.to.rules)
}

// rule reads one entry of rules.
func (d *ruleDecoder) rule(n *yaml.Node) (rule, bool) {
	r := rule{source: d.source(n)}
	o, ok := d.mapping(n, "a rule", ruleShape)
	if !ok {
		return r, false
	}
	if v := o.get("id"); v == nil {
		d.Fault(n, "give it one, for example id: no-force-push; refusals and logs name it", "the rule has no id")
	} else if s, ok := d.text(v, "id"); ok {
		switch {
		case !IsName(s):
			d.Fault(v, NameShape, "%q cannot be the id of a rule", s)
		case slices.Contains(reserved, s):
			d.Fault(v, "choose another", "%q is reserved for decisions that no rule made", s)
		default:
			r.id = s
		}
	}
	if v := o.get("match"); v == nil {
		d.Fault(n, `write match: {tool: "*"} for a rule about every call`, "the rule has no match")
	} else {
		r.match = d.match(v, "match", matchShape)
	}
	if v := o.get("unless"); v != nil {
		r.unless = d.match(v, "unless", unlessShape)
		if u := &r.unless; len(r.match.acts) > 0 && len(u.acts) == 0 && len(u.places)+len(u.urls)+len(u.paths) > 0 {
			u.acts = r.match.acts // the keys of the exception are about the acts of the match
		}
		if u := &r.unless; len(u.acts) > 0 && len(r.match.acts) == 0 {
			d.Fault(v, "name the acts under match too", "the exception is about acts, and the match names none")
		}
	}
	if v := o.get("decision"); v == nil {
		d.Fault(n, "write decision: allow, ask or deny", "the rule has no decision")
	} else {
		r.verdict = d.verdict(v, "decision")
	}
	if v := o.get("unsure"); v != nil {
		r.passes = d.word(v, "unsure", "ask", "pass") == 1
		if decision := o.get("decision"); decision != nil && r.verdict == Allow {
			d.Fault(v, "remove it; a rule that allows is always sure", "only a rule that refuses can be unsure")
		}
	}
	for key, to := range map[string]*string{"reason": &r.reason, "instead": &r.instead} {
		if v := o.get(key); v != nil {
			*to = d.said(v, key)
		}
	}
	if v := o.get("profile"); v != nil {
		if s, ok := d.text(v, "profile"); ok {
			r.profile, r.node = s, v
			if decision := o.get("decision"); decision != nil && r.verdict != Allow {
				d.Fault(v, "remove it; under match it says for which profile the rule holds", "only a rule that allows grants a profile")
			}
		}
	}
	if v := o.get("when"); v != nil {
		r.when = d.when(v, r.match)
	}
	if v := o.get("mode"); v != nil {
		r.mode = d.mode(v)
	}
	d.terms(o, &r)
	return r, true
}

// said reads a text that an agent gets.
func (d *ruleDecoder) said(n *yaml.Node, key string) string {
	s, ok := d.text(n, key)
	if ok && len(s) > maxSaid {
		d.Fault(n, "an agent reads it with every refusal", "%s has %d bytes, more than %d", key, len(s), maxSaid)
	}
	return strings.Join(strings.Fields(s), " ") // a refusal has only one line for it
}

// mode reads the mode of a rule. An unknown word leaves a fault and counts as
// enforce.
func (d *ruleDecoder) mode(n *yaml.Node) Mode {
	return Mode(max(d.word(n, "mode", modes...), 0))
}

// match reads match or unless.
func (d *ruleDecoder) match(n *yaml.Node, what string, s *shape) match {
	var m match
	o, ok := d.mapping(n, what, s)
	if !ok {
		return m
	}
	if len(n.Content) == 0 {
		d.Fault(n, "give it a key: "+strings.Join(s.names(), ", "), "%s must not be empty", what)
	}
	if v := o.get("tool"); v != nil {
		d.texts(v, "tool", func(n *yaml.Node, s string) {
			if !slices.Contains(knownTools, s) && !strings.ContainsAny(s, "*{.") {
				if near := Nearest(s, knownTools); near != "" {
					d.Fault(n, "did you mean "+near+"?", "tool %q does not exist", s)
					return
				}
			}
			e, err := compileElement(strings.ReplaceAll(s, "**", "*"))
			if err != nil {
				d.Fault(n, "", "tool: %v", err)
				return
			}
			m.tools = append(m.tools, e)
		})
	}
	if v := o.get("command"); v != nil {
		d.texts(v, "command", collect(d.decoder, &m.commands, "command", compileCommand))
	}
	if v := o.get("path"); v != nil {
		d.texts(v, "path", collect(d.decoder, &m.paths, "path", compilePath))
	}
	if v := o.get("url"); v != nil {
		d.texts(v, "url", collect(d.decoder, &m.urls, "url", compileURL))
	}
	if v := o.get("host"); v != nil {
		d.texts(v, "host", collect(d.decoder, &m.hosts, "host", compileHost))
	}
	d.acts(o, what, &m)
	d.origin(o, &m)
	for key, to := range map[string]*[]element{"flags": &m.flags, "any_flag": &m.anyFlag, "env": &m.env} {
		v := o.get(key)
		if v == nil {
			continue
		}
		d.texts(v, key, collect(d.decoder, to, key, compileElement))
		if len(m.commands) == 0 {
			if what == "match" {
				d.Fault(v, `write the commands too: command: "git log **"`, "%s says more about commands, and the match names none", key)
			}
			m.commands = []glob{{text: "**", elements: []element{{any: true}}}}
		}
	}
	if v := o.get("profile"); v != nil {
		d.texts(v, "profile", func(n *yaml.Node, s string) { m.profiles = append(m.profiles, named{s, n}) })
	}
	return m
}

// acts reads act and on of a match.
func (d *ruleDecoder) acts(o object, what string, m *match) {
	if v := o.get("on"); v != nil {
		d.texts(v, "on", collect(d.decoder, &m.places, "on", compileURL))
		if o.get("act") == nil && what == "match" {
			d.Fault(v, `write the acts too: act: submit`, "on says more about acts, and the match names none")
		}
	}
	v := o.get("act")
	if v == nil {
		return
	}
	d.texts(v, "act", func(n *yaml.Node, s string) {
		switch kind := ActKind(s); {
		case !slices.Contains(ActKinds(), kind):
			d.Fault(n, suggest(s, actWords()), "act cannot be %q", s)
		case slices.Contains(m.acts, kind):
			d.Fault(n, "remove one", "act names %s twice", s)
		default:
			m.acts = append(m.acts, kind)
		}
	})
	for _, key := range []string{"command", "flags", "any_flag", "env", "host"} {
		if other := o.get(key); other != nil {
			d.Fault(other, "make two rules of it; of an act, on is where it happens, url what it leads to and path its file", "a match with act cannot name %s", key)
		}
	}
	if len(m.tools) > 0 && !m.onTool(ActTool) {
		d.Fault(v, "write tool: "+ActTool+", or leave the tool out", "only calls of %s have acts, and the match names other tools", ActTool)
	}
}

// collect returns a function that compiles each text that it gets, and adds the result to
// to.
func collect[T any](d *decoder, to *[]T, key string, compile func(string) (T, error)) func(*yaml.Node, string) {
	return func(n *yaml.Node, s string) {
		g, err := compile(s)
		if err != nil {
			// An error names the word that it is about, which may be the whole s.
			d.Fault(n, "", "%s %q: %s", key, s, strings.TrimPrefix(err.Error(), strconv.Quote(s)+": "))
			return
		}
		*to = append(*to, g)
	}
}

// origin reads upstream and annotations of a match.
func (d *ruleDecoder) origin(o object, m *match) {
	if v := o.get("upstream"); v != nil {
		d.texts(v, "upstream", collect(d.decoder, &m.upstreams, "upstream", func(s string) (element, error) {
			return compileElement(strings.ReplaceAll(s, "**", "*"))
		}))
	}
	v := o.get("annotations")
	if v == nil {
		return
	}
	all, ok := d.mapping(v, "annotations", annotationsShape)
	if ok && len(v.Content) == 0 {
		d.Fault(v, "write annotations: {readOnlyHint: true}", "annotations must not be empty")
	}
	for _, key := range all.keys {
		m.hints = append(m.hints, hint{key.Value, d.truth(all.get(key.Value), fmt.Sprintf("annotation %s", key.Value))})
	}
}

// verdict reads allow, ask or deny.
func (d *decoder) verdict(n *yaml.Node, what string) Verdict {
	// An unknown word leaves a fault and counts as deny.
	return max(Verdict(d.word(n, what, Deny.String(), Ask.String(), Allow.String())), Deny)
}
