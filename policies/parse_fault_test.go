package policies_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
)

// many returns n texts made from a format, as the inside of a flow list or mapping.
func many(n int, format string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(all, ",")
}

// TestOtherFaults checks faults that the other tables do not contain. Most of them are
// about too many things, or too large ones.
func TestOtherFaults(t *testing.T) {
	profile := func(text string) string { return "version: 1\nprofiles:\n  a: {" + text + "}\n" }
	net := func(text string) string { return profile("net: {mode: proxy, allow: [api.example], " + text + "}") }
	secret := func(text string) string {
		return "version: 1\nsecrets: {github: {env: A}, npm: {env: B}}\nprofiles:\n  a: {net: {mode: proxy, allow: [api.example], secrets: [" + text + "]}}\n"
	}
	match := func(text string) string {
		return head + "rules:\n  - {id: a, match: {" + text + "}, decision: deny}\n"
	}
	rule := func(text string) string { return head + "rules:\n  - {id: a, match: {tool: Bash}, " + text + "}\n" }
	const one = "{secret: github, host: api.example, header: Authorization, value: \"${secret:github}\"}"
	var all []string
	for _, tt := range []struct{ name, text, want string }{
		{"profiles", "version: 1\ndefaults: {profile: p0}\nprofiles: {" + many(1001, "p%d: {}") + "}\n", "more than the 1000"},
		{"tests", head + "tests: [" + many(10001, "{bash: a%d, want: ask}") + "]\n", "more than the 10000"},
		{"faults", "version: 1\nprofiles: {a: {" + many(60, "k%d: 1") + "}}\n", "has no key"},
		{"mounts", profile("fs: {read: [" + many(257, "/a%d") + "]}"), "more than 256 paths"},
		{"protect", profile("fs: {protect: [" + many(33, "a%d") + "]}"), "more than 32 paths"},
		{"env", profile("env: {" + many(257, "A%d: x") + "}"), "more than the 256"},
		{"long env", profile("env: {A: " + strings.Repeat("x", 65<<10) + "}"), "bytes, more than"},
		{"extends", "version: 1\ndefaults: {profile: p}\nprofiles: {p: {extends: q}, q: {extends: r}, r: {extends: s}, s: {extends: t}, t: {extends: u}, u: {extends: v}, v: {extends: w}, w: {extends: x}, x: {extends: y}, y: {extends: z}, z: {}}\n", "extends more than"},
		{"methods", net("deny: [{host: api.example, methods: [" + many(40, "M%d") + "]}]"), "methods"},
		{"paths", net("deny: [{host: api.example, paths: [" + many(70, `"/a%d"`) + "]}]"), "paths"},
		{"path twice", net(`deny: [{host: api.example, paths: ["/a", "/a"]}]`), "twice"},
		{"private", net("allow_private: [" + many(1100, "a%d.example") + "]"), "more than"},
		{"secrets", "version: 1\nsecrets: {" + many(300, "s%d: {env: A}") + "}\nprofiles: {a: {}}\n", "secrets"},
		{"long argument", "version: 1\nsecrets: {s: {command: [a, " + strings.Repeat("x", 5000) + "]}}\nprofiles: {a: {}}\n", "bytes, more than"},
		{"no secrets of net", secret(""), "secrets of net must not be empty"},
		{"a secret's kind", secret("github"), "a secret of net must be a mapping"},
		{"secrets' kind", "version: 1\nprofiles:\n  a: {net: {mode: proxy, allow: [api.example], secrets: github}}\n", "secrets of net must be a list"},
		{"one value", secret(one + ", " + strings.Replace(one, "secret: github", "secret: github", 1)), "another secret"},
		{"long value", secret(`{secret: github, host: api.example, header: X-A, value: "` + strings.Repeat("x", 9000) + `${secret:github}"}`), "value has"},

		{"long reason", rule("decision: deny, reason: " + strings.Repeat("x", 2001)), "bytes, more than"},
		{"flags alone", match("tool: Bash, flags: [-n]"), "says more about commands"},
		{"elements", match(`path: "` + strings.Repeat("/a", 70) + `"`), "elements, more than"},
		{"no open brace", match(`command: "a}"`), "a } without its {"},
		{"braces in braces", match(`command: "{a,{b,c}}"`), "alternatives inside alternatives"},
		{"many texts", match(`command: "{a,b,c,d}{a,b,c,d}{a,b,c,d}{a,b,c,d}{a,b,c,d}"`), "stands for more than"},
		{"long pattern", match(`command: "` + strings.Repeat("x", 5000) + `"`), "bytes, more than"},
		{"no scheme", match(`url: "://a/"`), "has no scheme"},
		{"no scheme at all", match(`url: "go.dev/"`), "has no scheme"},
		{"port", match(`url: "https://a:x/**"`), "has the port"},
		{"limit", rule("decision: allow, limit: {calls: often}"), "calls cannot be"},
		{"empty limit", rule("decision: allow, limit: {}"), "limit must not be empty"},
		{"conditions", head + "rules: [" + many(201, "{id: r%d, match: {tool: Bash}, when: 'true', decision: ask}") + "]\n", "conditions"},
		{"long condition", rule("decision: ask, when: '" + strings.Repeat("true||", 700) + "true'"), "bytes, more than"},
		{"an object", rule("decision: ask, when: 'google.protobuf.Int64Value{value: 1} == 1'"), "cannot make objects"},
		{"empty obligations", rule("decision: allow, obligations: {}"), "obligations must not be empty"},
		{"return after", "version: 1\ndefaults: {decision: ask, ask: {timeout: 30s, return_after: 40s}}\nprofiles: {a: {}}\n", "longer than the timeout of a question"},

		{"tenants", head + "tenants: {}\n", "tenants must not be empty"},
		{"many tenants", head + "tenants: {" + many(1100, `t%d: {token: "${env:T}"}`) + "}\n", "more than the"},
		{"test of no tenant", head + "tests: [{bash: ls, as: somebody, want: ask}]\n", "tenant \"somebody\" does not exist"},
		{"test of no tool", head + "tests: [{call: {path: /a}, want: ask}]\n", "names no tool"},
		{"projects", head + "projects: {}\n", "projects must name"},
		{"files of a project", head + "projects: {/srv/app: {a: b}}\n", "files of a project"},
		{"a total on disk", "version: 1\nprofiles: {a: {fs: {storage: disk}, limits: {tmp: 2GiB}}}\ntotals: {disk: 1GiB}\n", "the total is 1GiB"},
		{"a tenant's total", head + "tenants: {a: {limit: {memory: 1MiB}}}\n", "less than profile"},
		{"a workspace's path", head + "tenants: {a: {workspace: srv/a}}\n", "cannot be a workspace"},
		{"a workspace that is all", head + "tenants: {a: {workspace: /}}\n", "cannot be a workspace"},
		{"a place's path", head + "tenants: {a: {places: {site: /srv/../etc}}}\n", "cannot be a workspace"},
		{"a place's name", head + "tenants: {a: {places: {../b: /srv/b}}}\n", "cannot be the name of a place"},
		{"places that are none", head + "tenants: {a: {places: 3}}\n", "places of a tenant"},
		{"no places", head + "tenants: {a: {places: {}}}\n", "places must name 1 to 64"},
		{"a list of no places", head + "tenants: {a: {places: []}}\n", "places must name 1 to 64 places"},
		{"a name in a list of places", head + "tenants: {a: {places: [../b]}}\n", "cannot be the name of a place"},
		{"a layer's name", head + "tenants: {a: {token: \"${env:T}\", rules: [\"a\\x01.yaml\"]}}\n", "control character"},
		{"a layer of a text", head + "tenants: {a: {token: \"${env:T}\", rules: [a.yaml]}}\n", "cannot be read here"},
	} {
		e := faults(t, tt.text)
		if !strings.Contains(e.Error(), tt.want) {
			t.Errorf("%s: got\n%.2000v\nwant %q", tt.name, e, tt.want)
		}
		e.Faults = e.Faults[:min(len(e.Faults), 2)]
		all = append(all, e.Error())
	}
	golden.Equal(t, "faults/other.golden", strings.Join(all, "\n\n")+"\n")
}

// TestFaultsOfFiles checks the faults of files that a policy names.
func TestFaultsOfFiles(t *testing.T) {
	files := func(n int) string {
		text := head + "tenants:\n"
		for i := range n {
			text += fmt.Sprintf("  t%d: {token: \"${env:T}\", rules: [a.yaml]}\n", i)
		}
		return text
	}
	var all []string
	for _, tt := range []struct{ name, policy, layer string }{
		{"gone", files(1), ""},
		{"defaults", files(1), "version: 1\ndefaults: ask\n"},
		{"files", files(257), "version: 1\n"},
	} {
		_, err := policies.Load("policy.yaml", []byte(tt.policy), policies.Files{Read: func(name string) ([]byte, error) {
			if tt.layer == "" {
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			return []byte(tt.layer), nil
		}})
		var e *policies.ParseError
		if !errors.As(err, &e) {
			t.Fatalf("%s: got %v", tt.name, err)
		}
		all = append(all, e.Error())
	}
	_, err := policies.OpenBundled("nothing")
	golden.Equal(t, "faults/files.golden", strings.Join(append(all, fmt.Sprint(err)), "\n\n")+"\n")
}
