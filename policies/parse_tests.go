package policies

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxTests bounds the tests in a policy.
const maxTests = 10_000

// inlineTest is one entry of tests.
type inlineTest struct {
	node  *yaml.Node
	facts Facts
	want  Verdict
	rule  string // rule that must decide; empty for any rule
}

// testDecoder reads the tests in a policy or a layer.
type testDecoder struct {
	*decoder

	p      *Policy // policy that is tested
	tenant string  // tenant of calls that name none
}

// tests reads the tests, and runs them if the policy has no fault: a faulty policy
// would fail many tests, which would hide the cause.
func (d *testDecoder) tests(n *yaml.Node) []TestResult {
	var all []inlineTest
	for _, entry := range d.items(n, "tests", maxTests) {
		t, ok := d.test(entry)
		if t.facts.Tenant == "" {
			t.facts.Tenant = d.tenant
		}
		if ok {
			all = append(all, t)
		}
	}
	if len(d.Faults) > 0 {
		return nil
	}
	var results []TestResult
	for _, t := range all {
		got := d.p.Decide(t.facts)
		results = append(results, TestResult{
			Source: d.source(t.node), Call: Clip(callText(t.facts), maxShown),
			Want: t.want, Got: got.Verdict, Rule: got.Rule, Profile: got.Grant.Profile(),
		})
		by := "by rule " + got.Rule
		switch {
		case got.Rule == ruleDefault:
			by = "by default"
		case got.Source.Line > 0 && got.Source.File != d.File:
			by += fmt.Sprintf(" (%s:%d)", got.Source.File, got.Source.Line)
		case got.Source.Line > 0:
			by += fmt.Sprintf(" (line %d)", got.Source.Line)
		}
		switch {
		case got.Verdict != t.want:
			d.Fault(t.node, "fix the rule or the test", "test failed: want %s, got %s %s", t.want, got.Verdict, by)
		case t.rule != "" && t.rule != got.Rule:
			d.Fault(t.node, "fix the rule or the test", "test failed: want rule %s, got %s %s", t.rule, got.Verdict, by)
		}
	}
	return results
}

// callText returns a call in short form.
func callText(f Facts) string {
	words := slices.Concat([]string{f.Tool, f.Command}, f.Paths, f.URLs, f.Hosts)
	for _, a := range f.Acts {
		words = append(words, a.String())
	}
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
}

// test reads one entry of tests.
func (d *testDecoder) test(n *yaml.Node) (inlineTest, bool) {
	t := inlineTest{node: n}
	o, ok := d.mapping(n, "a test", testShape)
	if !ok {
		return t, false
	}
	bash, call := o.get("bash"), o.get("call")
	switch {
	case bash == nil && call == nil:
		d.Fault(n, `write bash: "git status", or call: {tool: ReadDocs, url: "https://pkg.go.dev/"}`, "the test makes no call")
	case bash != nil && call != nil:
		d.Fault(call, "make two tests of it", "the test makes two calls")
	case bash != nil:
		t.facts.Tool = "Bash"
		t.facts.Command, _ = d.text(bash, "bash")
	default:
		d.call(call, &t.facts)
	}
	if v := o.get("as"); v != nil {
		if s, ok := d.text(v, "as"); ok {
			if _, known := d.p.tenants[s]; !known && s != LocalTenant {
				d.Fault(v, cmp.Or(near(s, d.p.Tenants()), "name one of tenants"), "tenant %q does not exist", s)
			}
			t.facts.Tenant = s
		}
	}
	if v := o.get("profile"); v != nil {
		// The profile may be one that does not exist: what such a call gets is worth a test
		// too.
		t.facts.Profile, _ = d.text(v, "profile")
	}
	if v := o.get("now"); v != nil {
		t.facts.Now = d.moment(v)
	}
	t.facts.agree()
	if v := o.get("want"); v != nil {
		t.want = d.verdict(v, "want")
	} else {
		d.Fault(n, "write want: allow, ask or deny", "the test wants nothing")
	}
	if v := o.get("rule"); v != nil {
		if t.rule, ok = d.text(v, "rule"); ok {
			ids := slices.Concat(reserved, d.p.ids())
			for _, l := range d.p.allLayers() {
				ids = append(ids, l.rules.ids()...)
			}
			if !slices.Contains(ids, t.rule) {
				d.Fault(v, cmp.Or(near(t.rule, ids), "it names the id of a rule, or default"), "rule %q does not exist", t.rule)
			}
		}
	}
	return t, true
}

// call reads what the call of a test shows the policy.
func (d *testDecoder) call(n *yaml.Node, f *Facts) {
	o, ok := d.mapping(n, "call", callShape)
	if !ok {
		return
	}
	if v := o.get("tool"); v != nil {
		f.Tool, _ = d.text(v, "tool")
	} else {
		d.Fault(n, "write tool: ReadDocs", "the call names no tool")
	}
	if v := o.get("command"); v != nil {
		f.Command, _ = d.text(v, "command")
	}
	if v := o.get("upstream"); v != nil {
		f.Upstream, _ = d.text(v, "upstream")
	}
	if v := o.get("args"); v != nil {
		f.Args = d.testArgs(v)
	}
	if v := o.get("annotations"); v != nil {
		if all, ok := d.mapping(v, "annotations", annotationsShape); ok {
			f.Annotations = make(map[string]bool)
			for _, key := range all.keys {
				f.Annotations[key.Value] = d.truth(all.get(key.Value), "annotation "+key.Value)
			}
		}
	}
	if v := o.get("act"); v != nil {
		d.testActs(v, f)
	}
	for key, to := range map[string]*[]string{"path": &f.Paths, "url": &f.URLs, "host": &f.Hosts} {
		if v := o.get(key); v != nil {
			d.texts(v, key, func(_ *yaml.Node, s string) { *to = append(*to, s) })
		}
	}
}

// testActs reads one act of a test's call, or a list of them.
func (d *testDecoder) testActs(n *yaml.Node, f *Facts) {
	entries := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		if entries = d.items(n, "act", maxTexts); len(n.Content) == 0 {
			d.Fault(n, "name at least one, or remove the key", "act must not be empty")
		}
	}
	for _, entry := range entries {
		o, ok := d.mapping(entry, "an act", actShape)
		if !ok {
			continue
		}
		var a Act
		if v := o.get("kind"); v == nil {
			d.Fault(entry, "write {kind: submit, on: \"https://shop.example/cart\", to: \"https://shop.example/pay\", method: POST}", "the act has no kind")
		} else if i := d.word(v, "kind", actWords()...); i >= 0 {
			a.Kind = ActKinds()[i]
		}
		for key, to := range map[string]*string{"on": &a.On, "to": &a.To, "method": &a.Method, "field": &a.Field, "secret": &a.Secret, "path": &a.Path} {
			if v := o.get(key); v != nil {
				*to, _ = d.text(v, key)
			}
		}
		f.Acts = append(f.Acts, a)
	}
}

// moment reads the time of a test's call.
func (d *testDecoder) moment(n *yaml.Node) time.Time {
	if n.Kind == yaml.AliasNode {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		d.Fault(n, `write a date, a time and a zone, for example "2026-11-22T14:30:00+01:00"`, "now cannot be %s", quoted(n))
	}
	return t
}

// agree makes the facts of a test and its arguments agree: in a real call, the tool makes
// the facts from the arguments.
func (f *Facts) agree() {
	if f.Args == nil {
		f.Args = make(map[string]any)
	}
	if s, ok := f.Args["command"].(string); ok && f.Command == "" {
		f.Command = s
	} else if f.Command != "" {
		f.Args["command"] = f.Command
	}
	for key, to := range map[string]*[]string{"url": &f.URLs, "file_path": &f.Paths} {
		if s, ok := f.Args[key].(string); ok && len(*to) == 0 {
			*to = []string{s}
		} else if len(*to) == 1 && slices.Contains(names(toolArgs()[f.Tool]), key) {
			f.Args[key] = (*to)[0]
		}
	}
}

// testArgs reads the arguments of a test's call as they would come in JSON.
func (d *testDecoder) testArgs(n *yaml.Node) map[string]any {
	o, ok := d.mapping(n, "args", nil)
	if !ok {
		return nil
	}
	all := make(map[string]any, len(o.keys))
	for _, key := range o.keys {
		all[key.Value] = d.json(o.get(key.Value))
	}
	return all
}

// json returns a node in the form that JSON would give: numbers are floats.
func (d *testDecoder) json(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		return d.testArgs(n)
	case yaml.SequenceNode:
		all := make([]any, 0, len(n.Content))
		for _, e := range n.Content {
			all = append(all, d.json(e))
		}
		return all
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!null":
			return nil
		case "!!bool":
			return n.Value == "true"
		case "!!int", "!!float":
			var f float64
			if err := n.Decode(&f); err != nil {
				d.Fault(n, "put it in quotes, or write it as JSON does", "%s is not a JSON number", quoted(n))
			}
			return f
		}
		return n.Value
	case yaml.AliasNode, yaml.DocumentNode:
	}
	return nil // plain has refused it
}
