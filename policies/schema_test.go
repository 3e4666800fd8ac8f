package policies_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
)

// schemaFiles are the files of the documentation that contain the schemas.
var schemaFiles = map[string]func() []byte{
	"../docs/policy-v1.schema.json": policies.Schema,
	"../docs/layer-v1.schema.json":  policies.LayerSchema,
}

// The schemas in the documentation are those that the program prints.
func TestSchemaFiles(t *testing.T) {
	for file, schema := range schemaFiles {
		golden.File(t, file, string(schema()))
	}
}

// schemaTexts returns all texts of the schemas, as editors show them.
func schemaTexts(t *testing.T) []string {
	t.Helper()
	var all []string
	for file := range schemaFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		visit(v, func(v any) {
			if s, ok := v.(string); ok {
				all = append(all, s)
			}
		})
	}
	return all
}

// visit calls see with a value of JSON and with every value in it.
func visit(v any, see func(any)) {
	see(v)
	switch v := v.(type) {
	case map[string]any:
		for _, below := range v {
			visit(below, see)
		}
	case []any:
		for _, below := range v {
			visit(below, see)
		}
	}
}

// resolve makes a schema ready for use.
func resolve(t testing.TB, text []byte) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// asJSON returns a YAML node in the form in which an editor's schema sees it: a date in
// YAML 1.1 is a text in YAML 1.2.
func asJSON(n *yaml.Node) any {
	switch n.Kind {
	case yaml.DocumentNode:
		return asJSON(n.Content[0])
	case yaml.AliasNode:
		return asJSON(n.Alias)
	case yaml.MappingNode:
		m := make(map[string]any)
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = asJSON(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := []any{}
		for _, e := range n.Content {
			list = append(list, asJSON(e))
		}
		return list
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!null":
			return nil
		case "!!bool":
			return strings.EqualFold(n.Value, "true")
		case "!!int", "!!float":
			if f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64); err == nil {
				return f
			}
		}
	}
	return n.Value
}

func document(t testing.TB, text []byte) *yaml.Node {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return &doc
}

// The schema accepts every policy: the bundled policies, and the examples in the
// documentation.
func TestSchemaTakesPolicies(t *testing.T) {
	policy, layer := resolve(t, policies.Schema()), resolve(t, policies.LayerSchema())
	for _, name := range policies.Bundled() {
		if err := policy.Validate(asJSON(document(t, []byte(policies.BundledText(name))))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	docs, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range docs {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, example := range strings.Split(string(text), "```yaml\n")[1:] {
			example, _, _ = strings.Cut(example, "\n```")
			var doc yaml.Node
			if yaml.Unmarshal([]byte(example), &doc) != nil {
				continue // a part of a policy that is not YAML by itself
			}
			value, ok := asJSON(&doc).(map[string]any)
			if !ok {
				continue
			}
			known := resolvedKeys(t)
			if slices.ContainsFunc(keysIn(value), func(k string) bool { return !known[k] }) {
				continue // an example of something else
			}
			n++
			// A part of a policy becomes a whole policy.
			schema := policy
			if value["profiles"] == nil && value["version"] != nil {
				schema = layer
			}
			if value["version"] == nil {
				value["version"] = 1.0
			}
			if value["profiles"] == nil && schema == policy {
				value["profiles"] = map[string]any{"offline": map[string]any{}}
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("%s:\n%s\n%v", file, example, err)
			}
		}
	}
	if n < 10 {
		t.Errorf("the documentation has %d examples", n)
	}
}

// resolvedKeys returns the keys at the top of a policy and of a layer.
func resolvedKeys(t *testing.T) map[string]bool {
	t.Helper()
	known := make(map[string]bool)
	for _, text := range [][]byte{policies.Schema(), policies.LayerSchema()} {
		var s jsonschema.Schema
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		for k := range s.Properties {
			known[k] = true
		}
	}
	return known
}

func keysIn(m map[string]any) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// The schema also refuses a policy with a wrong structure. The faults that a schema cannot
// express are below, with the reason.
func TestSchemaRefusesFaults(t *testing.T) {
	schema := resolve(t, policies.Schema())
	cannot := map[string]string{
		"second.yaml": "a schema sees one document",
		"tab.yaml":    "it is no YAML",
		"tests.yaml":  "its tests fail",
	}
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var doc yaml.Node
		refused := false
		if yaml.Unmarshal(text, &doc) == nil {
			refused = schema.Validate(asJSON(&doc)) != nil
		}
		if why := cannot[filepath.Base(file)]; refused == (why != "") {
			t.Errorf("%s: refused %v; a schema cannot, since %q", file, refused, why)
		}
	}
}

// documentedLimits are the limits of a box with their defaults, in the form of a policy,
// from the table of limits in the documentation.
var documentedLimits = func() string {
	text, err := os.ReadFile("../docs/policy.md")
	if err != nil {
		panic(err)
	}
	_, table, _ := strings.Cut(string(text), "\n<!-- limits -->\n")
	table, _, _ = strings.Cut(table, "\n<!-- end -->")
	var all []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\S+) \\|").FindAllStringSubmatch(table, -1) {
		all = append(all, m[1]+": "+m[2])
	}
	return strings.Join(all, ", ")
}()

// everything is a policy that has every key of the format, so that the tests below can try
// all values of a key.
var everything = `version: 1
defaults: {decision: ask, unparsable: deny, profile: a, no_approver: deny, ask: {timeout: 5m, return_after: 10s, remember: [once, 1h], max_remember: 2h}}
ask: console
secrets: {github: {env: GITHUB_TOKEN}, key: {file: /etc/key}, vault: {command: [vault, read]}}
profiles:
  a:
    fs: {system: true, workspace: rw, read: [/opt/tools, "/srv/m:/m"], write: /srv/cache, storage: disk, protect: [deploy]}
    net:
      mode: proxy
      allow: [api.example, "*.b.example", "c.example:8443", {host: d.example, ports: [8080, 443], methods: [GET], paths: ["/v1/**"]}]
      deny: {host: x.example, ports: 80}
      allow_private: ["host.belljar.internal:3000"]
      ports: [80, 443, 8443]
      tls: intercept
      limits: {connections: 32, rate: 0.5, bytes: 2GiB, idle: 4m, life: 2h}
      secrets: [{secret: github, host: api.example, methods: GET, paths: "/v1/**", header: Authorization, value: "Bearer ${secret:github}"}]
    publish: [3000, "8000-8099"]
    limits: {` + documentedLimits + `}
    env: {CI: "true", N: 1, B: true}
    require: [memory, disk]
    audit: required
    exec: enforce
    read: {render: never, redirects: follow, robots: respect, headers: [Accept-Language]}
    browser: {walls: sandboxed, act: true, eval: off, open: any, sites: any, uploads: 9MiB, downloads: 40MiB, idle: 9m, secrets: [{secret: github, origin: "https://shop.example", field: password, embedded: true}]}
  b: {extends: a, fs: {system: false, image: "tools/go:1.26", protect: none}, publish: 3000, exec: off, browser: degraded}
  c: {net: {mode: none}}
totals: {memory: 15GiB, pids: 4095, cpu: 3, boxes: 15, disk: 15GiB, browsers: 3, egress: 15GiB}
audit: {level: full, required: true, fsync: 100ms, rotate: 32MiB, keep: 20, redact: [secrets, emails], path: /var/log/belljar, otlp: "http://127.0.0.1:4318"}
console:
  people: {ann: {role: operator, tenants: [ci], token: "${file:/etc/belljar/ann.sha256}"}}
  provider: {url: "https://d.example", client: belljar, secret: "${env:CLIENT_SECRET}", scopes: [groups], algorithms: [RS256], addresses: [10.0.0.0/8], name: email, roles: [{when: '"ops" in claims.groups', role: operator, tenants: [ci]}]}
tenants: {ci: {token: "${env:TOKEN_SHA256}", profile: b, may_request: [a], rules: [], approvers: [ci], workspace: /srv/ci, places: {site: /srv/site}, limit: {calls: 90/s, burst: 900, in_flight: 120, sessions: 60, streams: 120, memory: 14GiB, pids: 4000, cpu: 2.5, boxes: 7, disk: 14GiB, browsers: 1, egress: 14GiB}}}
auth:
  issuers:
    - {url: "https://a.example", audience: ["https://b.example/mcp"], keys: "https://a.example/keys", algorithms: [ES256], types: [at+jwt, JWT], addresses: [10.0.0.0/8], tenant: ci}
    - {url: "https://c.example", tenant_of: {claim: org, map: {acme: ci}}}
  scopes: {read: {tools: [Read, "Web*"], profiles: [b]}}
upstreams:
  from: [./mcp.json, /etc/mcp.toml]
  wait: 3s
  defaults: {profile: c, install: {mode: none}, share: tenant}
  servers:
    My Server:
      profile: {extends: b, fs: {workspace: ro}, limits: {pids: 64}, env: {A: b}, require: [memory]}
      install: {mode: proxy, allow: [registry.example]}
      pin: ask
      share: session
      start: eager
      keep: true
      timeout: {handshake: 20s, install: 3m, call: 1m, idle: 5m}
      secrets: {github: door, key: env}
      tools: {allow: ["read_*"], deny: [read_all]}
      facts: {"*": {/url: url, "": none}, run: {/a~1b/0: command, /host: host, /path: path}}
      safety: off
      limit: {calls: 10/s, concurrent: 3}
      expose: search
      sampling: true
      roots: true
    net: {profile: {net: {mode: proxy, allow: [a.example]}}}
projects: {/srv/app: []}
rules:
  - id: git
    match: {tool: [Bash, "ext.*"], command: ["git log **"], flags: [-n], any_flag: [-n], env: [CI], profile: [a, b], upstream: [x], annotations: {readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false}}
    unless: {command: ["git log -p"], flags: [-p], any_flag: [-p], env: [CI], path: ["/x"], url: ["https://a.example/"], host: [a.example], profile: a, upstream: y, annotations: {readOnlyHint: true}}
    decision: allow
    reason: Because.
    instead: Something else.
    profile: a
    mode: warn
    limit: {calls: 30/h, concurrent: 4}
    obligations: {redact: [emails]}
    audit: none
  - {id: pages, match: {tool: ReadDocs, url: ["https://pkg.go.dev/**"], host: ["*.example"], path: ["**/.env"]}, decision: ask, unsure: pass, mode: audit, remember: [once, session], obligations: {limit: {calls: 1/s}}}
  - {id: shop, match: {tool: Browser, act: [submit, secret], on: ["https://shop.example/**"], url: "https://shop.example/**", path: "/x"}, unless: {act: submit, on: "https://shop.example/help/**"}, decision: ask}
tests:
  - {call: {tool: Browser, act: {kind: submit, on: "https://shop.example/", to: "https://shop.example/pay", method: POST, field: text, secret: github, path: /x}}, want: ask}
  - {bash: "ls", as: ci, profile: a, now: "2026-11-22T14:30:00+01:00", want: ask, rule: default}
  - {call: {tool: Other, command: ls, path: [/a], url: "https://a.example/", host: [b.example], args: {x: 1}, upstream: u, annotations: {readOnlyHint: true}}, want: ask}
`

// everyLayer is a layer that has every key of the format.
var everyLayer = `version: 1
defaults: {decision: ask}
narrow: {read_only: true, offline: true, limits: {` + documentedLimits + `}}
rules: [{id: r, match: {tool: Bash}, decision: ask}]
tests: [{bash: ls, want: deny}]
`

// The texts have every key that the schemas know: a key that is missing in all texts is not
// tried by the tests below, and perhaps no decoder reads it.
func TestEverythingHasEveryKey(t *testing.T) {
	for _, row := range []struct {
		schema []byte
		texts  []string
	}{
		{policies.Schema(), []string{everything, condition}},
		// a layer has the same rules and tests as a policy
		{policies.LayerSchema(), []string{everyLayer, everything, condition}},
	} {
		var s jsonschema.Schema
		if err := json.Unmarshal(row.schema, &s); err != nil {
			t.Fatal(err)
		}
		seen := make(map[*jsonschema.Schema]map[string]bool)
		for _, text := range row.texts {
			keysSeen(&s, &s, asJSON(document(t, []byte(text))), seen)
		}
		for name, shape := range s.Defs {
			for key := range shape.Properties {
				if seen[shape][key] {
					continue
				}
				where := "everything in schema_test.go, with a value"
				if name == "limits" {
					where = "docs/policy.md by -update for TestEveryLimitIsDocumentedWithItsDefault"
				}
				t.Errorf("no text has the key %s of %s: add it to %s", key, name, where)
			}
		}
		for key := range s.Properties {
			if !seen[&s][key] {
				t.Errorf("no text has the key %s: add a value to everything, or everyLayer, in schema_test.go", key)
			}
		}
	}
}

// Every key occurs as code in the documentation of policies or of the audit log.
func TestEveryKeyIsDocumented(t *testing.T) {
	var docs strings.Builder
	for _, name := range []string{"policy", "audit"} {
		text, err := os.ReadFile("../docs/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range regexp.MustCompile("(?s)```.*?```|`[^`]*`").FindAllString(string(text), -1) {
			docs.WriteString(code + "\n") // only code counts: the names of many keys are words of the running text
		}
	}
	for _, text := range [][]byte{policies.Schema(), policies.LayerSchema()} {
		var s jsonschema.Schema
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatal(err)
		}
		s.Defs["the top"] = &jsonschema.Schema{Properties: s.Properties}
		for name, shape := range s.Defs {
			for key := range shape.Properties {
				// The hints are those of the protocol, whose own documentation describes
				// them.
				if name != "annotations" && !regexp.MustCompile(`\b`+key+`\b`).MatchString(docs.String()) {
					t.Errorf("docs/policy.md does not name the key %s of %s", key, name)
				}
			}
		}
	}
}

// keysSeen records which keys of each mapping's schema a value has.
func keysSeen(root, s *jsonschema.Schema, v any, seen map[*jsonschema.Schema]map[string]bool) {
	if s == nil {
		return
	}
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		keysSeen(root, root.Defs[name], v, seen)
	}
	for _, one := range s.AnyOf {
		keysSeen(root, one, v, seen)
	}
	switch v := v.(type) {
	case map[string]any:
		if seen[s] == nil {
			seen[s] = make(map[string]bool)
		}
		for key, value := range v {
			if below := s.Properties[key]; below != nil {
				seen[s][key] = true
				keysSeen(root, below, value, seen)
			} else {
				keysSeen(root, s.AdditionalProperties, value, seen)
			}
		}
	case []any:
		for _, entry := range v {
			keysSeen(root, s.Items, entry, seen)
		}
	}
}

// condition is a policy with a condition, which takes long to compile. It is not a part of
// everything, because that is compiled thousands of times.
const condition = "version: 1\nprofiles: {a: {}}\ntenants: {t: {}}\nauth: {issuers: [{url: 'https://a.example', tenant_when: [{when: claims.org == 'a', tenant: t}]}]}\nrules: [{id: a, match: {tool: Bash}, when: commands.size() > 0, decision: ask}]\n"

// TestSchemaAgreesWithDecoder puts many other values in the place of each value of a
// policy. The schema must accept what the decoder accepts. It must refuse what the decoder
// refuses because of the kind of a value, a key or a word.
func TestSchemaAgreesWithDecoder(t *testing.T) {
	t.Parallel()
	schema, doc := resolve(t, policies.Schema()), document(t, []byte(everything))
	decode := func(text []byte) error {
		_, err := policies.Parse("p.yaml", text)
		return err
	}
	tried, both := 0, 0
	words := make(map[string]bool) // lists of words that the decoder has named
	try := func(what string) {
		text, err := yaml.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		var faults *policies.ParseError
		err = decode(text)
		refused := errors.As(err, &faults)
		says := schema.Validate(asJSON(doc))
		tried++
		switch {
		case !refused && says != nil:
			t.Errorf("%s: the decoder takes it, the schema: %v", what, says)
		case refused && says != nil:
			both++
		case refused && structural(faults):
			t.Errorf("%s: the schema takes it, the decoder:\n%v", what, err)
		}
		if refused {
			for _, f := range faults.Faults {
				if list, ok := strings.CutPrefix(f.Hint, "use one of: "); ok {
					all := strings.Split(list, ", ")
					slices.Sort(all)
					words[strings.Join(all, " ")] = true
				}
			}
		}
	}
	valid := func() bool {
		text, err := yaml.Marshal(doc)
		return err == nil && decode(text) == nil
	}
	throughout := func(text string) {
		doc = document(t, []byte(text))
		if err := schema.Validate(asJSON(doc)); err != nil {
			t.Fatal(err)
		}
		if err := decode([]byte(text)); err != nil {
			t.Fatal(err)
		}
		changeOne(doc.Content[0], "", try)
		for i := range len(doc.Content[0].Content) / 2 {
			// The value is changed in a policy that has this key and only the keys that it
			// needs: otherwise the whole text would be written and read 7,000 times.
			doc = document(t, []byte(text))
			root := doc.Content[0]
			key, value := root.Content[2*i].Value, root.Content[2*i+1]
			for _, other := range keys(root) {
				all := root.Content
				if root.Content = without(all, other); other == key || !valid() {
					root.Content = all
				}
			}
			changeAll(value, "."+key, try)
		}
	}
	throughout(everything)
	throughout(condition)
	upper := parse(t, "version: 1\nprofiles: {a: {}}\n")
	schema = resolve(t, policies.LayerSchema())
	decode = func(text []byte) error {
		_, err := policies.ParseLayer(policies.LayerSession, "l.yaml", text, upper)
		return err
	}
	throughout(everyLayer)
	t.Logf("%d texts, %d refused by both", tried, both)
	if both < 1000 {
		t.Errorf("only %d texts were refused by both", both)
	}
	var v any
	if err := json.Unmarshal(policies.Schema(), &v); err != nil {
		t.Fatal(err)
	}
	visit(v, func(v any) {
		m, _ := v.(map[string]any)
		enum, _ := m["enum"].([]any)
		var all []string
		for _, e := range enum {
			all = append(all, fmt.Sprint(e))
		}
		slices.Sort(all)
		// A list of one word is in the message itself, tools may have other names, and a
		// word of protect may be a path.
		if list := strings.Join(all, " "); len(all) > 1 && !slices.Contains(all, "Bash") && !words[list] {
			t.Errorf("the schema has the words %q, which the decoder never named", list)
		}
	})
}

// structural reports whether one of the faults is about the kind of a value, a key or a
// word, which a schema can express.
func structural(e *policies.ParseError) bool {
	return slices.ContainsFunc(e.Faults, func(f policies.Fault) bool {
		for _, mark := range []string{"must be a", "must be true or false", "has no key", "has no id", "has no match", "has no decision", "has no mode", "has no version", "must not be empty", "names no tool", "makes no call", "makes two calls", "wants nothing", "must be above zero", "cannot be a", "cannot be no"} {
			// Only the decoder can find a reference to something that does not exist.
			if strings.Contains(f.Message, mark) && !strings.Contains(f.Message, "there is no") {
				return true
			}
		}
		return false
	})
}

// changeAll changes a value and each value below it, one at a time.
func changeAll(n *yaml.Node, where string, try func(string)) {
	changeOne(n, where, try)
	for i, below := range n.Content {
		switch {
		case n.Kind == yaml.SequenceNode:
			changeAll(below, fmt.Sprintf("%s[%d]", where, i), try)
		case n.Kind == yaml.MappingNode && i%2 == 1:
			changeAll(below, where+"."+n.Content[i-1].Value, try)
		}
	}
}

// changeOne puts other values in the place of a value, and other keys in it, one at a time,
// and calls try after each change.
func changeOne(n *yaml.Node, where string, try func(string)) {
	was := *n
	for _, other := range []string{"null", "true", "7", "-1", "0", "1.5", "zz-zz", `""`, "\"\\n\"", "[]", "{}", "[null]", "[zz-zz]", "{zz-zz: 1}", "7zz"} {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(other), &doc); err != nil {
			panic(err)
		}
		*n = *doc.Content[0]
		try(where + " as " + other)
	}
	*n = was
	if n.Kind != yaml.MappingNode {
		return
	}
	for i, name := range keys(n) {
		n.Content = without(was.Content, name)
		try(where + "." + name + " left out")
		n.Content = was.Content
		n.Content[2*i].Value = "Zz zz"
		try(where + "." + name + " with another key")
		n.Content[2*i].Value = name
	}
	extra := []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: "zz-zz"}, {Kind: yaml.ScalarNode, Tag: "!!int", Value: "1"}}
	n.Content = append(slices.Clone(was.Content), extra...)
	try(where + " with one key more")
	n.Content = was.Content
}

// keys returns the keys of a mapping.
func keys(n *yaml.Node) (all []string) {
	for i := 0; i < len(n.Content); i += 2 {
		all = append(all, n.Content[i].Value)
	}
	return all
}

// without returns the content of a mapping without one key.
func without(content []*yaml.Node, key string) (left []*yaml.Node) {
	for i := 0; i < len(content); i += 2 {
		if content[i].Value != key {
			left = append(left, content[i:i+2]...)
		}
	}
	return left
}
