package policies_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"belljar.dev/internal/golden"
	"belljar.dev/policies"
)

// network is a profile with every setting of the network.
const network = `version: 1
defaults: {decision: allow}
secrets:
  github: {env: GITHUB_TOKEN}
  npm: {file: /etc/belljar/npm.token}
  vault: {command: [vault, read, -field=token, secret/x]}
profiles:
  dev:
    fs: {workspace: overlay, image: "tools/go:1.26"}
    net:
      mode: proxy
      allow: [API.github.com, "*.pypi.example", "files.example:8443", "[2001:DB8::1]:443", {host: api.example, ports: 443, methods: [HEAD, GET], paths: "/v1/**"}]
      deny: [evil.pypi.example, {host: "*", ports: [25]}, {host: api.github.com, methods: DELETE}]
      allow_private: ["localhost:3000", "10.1.2.3:5432", db.internal]
      ports: [443, 80]
      tls: intercept
      limits: {connections: 8, rate: 0.5, bytes: 1MiB, idle: 10s, life: 2m}
      secrets: [{secret: github, host: api.github.com, methods: [GET], paths: ["/repos/**"], header: authorization, value: "Bearer ${secret:github}"}]
    publish: ["8000-8099", 3000]
`

func TestGrantHoldsTheNetwork(t *testing.T) {
	p := parse(t, network)
	g := p.Decide(bash("ls")).Grant
	web := []uint16{80, 443}
	want := &policies.Egress{
		Allow: []policies.EgressRule{
			{Host: "api.github.com", Ports: web},
			{Host: "*.pypi.example", Ports: web},
			{Host: "files.example", Ports: []uint16{8443}},
			{Host: "2001:db8::1", Ports: []uint16{443}},
			{Host: "api.example", Ports: []uint16{443}, Methods: []string{"GET", "HEAD"}, Paths: []string{"/v1/**"}},
		},
		Deny: []policies.EgressRule{
			{Host: "evil.pypi.example"},
			{Host: "*", Ports: []uint16{25}},
			{Host: "api.github.com", Methods: []string{"DELETE"}},
		},
		Private: []policies.PrivateRule{
			{Host: host(t, "localhost"), Port: 3000},
			{Host: host(t, "10.1.2.3"), Port: 5432},
			{Host: host(t, "db.internal")},
			{Host: host(t, "db.internal"), Port: 80},
			{Host: host(t, "db.internal"), Port: 443},
		},
		Limits:    policies.EgressLimits{Conns: 8, Rate: 0.5, Bytes: 1 << 20, Idle: 10 * time.Second, Life: 2 * time.Minute},
		Secrets:   []policies.SecretHeader{{Secret: "github", Host: "api.github.com", Methods: []string{"GET"}, Paths: []string{"/repos/**"}, Header: "Authorization", Value: "Bearer ${secret:github}"}},
		Intercept: true,
	}
	same := cmp.Options{
		cmpopts.IgnoreUnexported(policies.EgressRule{}, policies.SecretHeader{}), cmpopts.IgnoreFields(policies.EgressRule{}, "Source"),
		cmp.Comparer(func(a, b policies.Host) bool { return a == b }),
	}
	if diff := cmp.Diff(want, g.Egress(), same); diff != "" {
		t.Errorf("egress (-want +got):\n%s", diff)
	}
	if got := g.Egress().Allow[2].Source; got != (policies.Source{File: "policy.yaml", Line: 12, Col: 49}) {
		t.Errorf("the third rule of allow: got %+v", got)
	}
	if diff := cmp.Diff([]policies.PortRange{{First: 3000, Last: 3000}, {First: 8000, Last: 8099}}, g.Publish()); diff != "" {
		t.Errorf("publish (-want +got):\n%s", diff)
	}
	if g.Workspace() != policies.AccessOverlay || g.Network() != policies.NetworkDoor || g.Image() != "tools/go:1.26" {
		t.Errorf("got %v, %v, %q", g.Workspace(), g.Network(), g.Image())
	}
	for name, want := range map[string]policies.Secret{
		"github": {Env: "GITHUB_TOKEN"},
		"npm":    {File: "/etc/belljar/npm.token"},
		"vault":  {Command: []string{"vault", "read", "-field=token", "secret/x"}},
	} {
		got, ok := p.Secret(name)
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("secret %s, %v (-want +got):\n%s", name, ok, diff)
		}
	}
	if _, ok := p.Secret("GITHUB_TOKEN"); ok {
		t.Error("there is a secret that nobody defined")
	}
}

func TestNetworkDefaults(t *testing.T) {
	p := parse(t, "version: 1\ndefaults: {decision: allow}\nprofiles: {a: {net: {mode: proxy, allow: files.example}}}\n")
	e := p.Decide(bash("ls")).Grant.Egress()
	want := policies.EgressLimits{
		Conns: policies.DefaultConns, Rate: policies.DefaultConnRate, Bytes: policies.DefaultEgressBytes,
		Idle: policies.DefaultConnIdle, Life: policies.DefaultConnLife,
	}
	if e.Limits != want || e.Intercept || len(e.Allow) != 1 || cmp.Diff(e.Allow[0].Ports, []uint16{80, 443}) != "" {
		t.Errorf("got %+v", e)
	}
	none := parse(t, "version: 1\ndefaults: {decision: allow}\nprofiles: {a: {net: {mode: none}}}\n").Decide(bash("ls")).Grant
	if none.Network() != policies.NetworkNone || none.Egress() == nil || !none.Egress().IsZero() {
		t.Errorf("mode none: got %v, %+v", none.Network(), none.Egress())
	}
}

func TestNetworkFaults(t *testing.T) {
	profile := func(text string) string {
		return "version: 1\nsecrets: {github: {env: GITHUB_TOKEN}, npm: {env: NPM}}\nprofiles:\n  a: {" + text + "}\n"
	}
	net := func(text string) string { return profile("net: {mode: proxy, " + text + "}") }
	allow := func(text string) string { return net("allow: [" + text + "]") }
	header := func(text string) string {
		return net("allow: [api.example, {host: tls.example, ports: 443}], secrets: [{" + text + "}]")
	}
	whole := func(host, name, value string) string {
		return header("secret: github, host: " + host + ", header: " + name + ", value: " + value)
	}
	const token = `"${secret:github}"`
	secrets := func(text string) string { return "version: 1\nprofiles: {a: {}}\nsecrets: " + text + "\n" }
	var all []string
	for _, tt := range []struct {
		name, text string
		line, col  int
		message    string
		hint       string // part of the hint
	}{
		{"open network", profile("net: {mode: host}"), 4, 19, `mode of net cannot be "host"`, "none, proxy"},
		{"misspelt mode", profile("net: {mode: porxy}"), 4, 19, `mode of net cannot be "porxy"`, `did you mean "proxy"?`},
		{"no mode", profile("net: {allow: [files.example]}"), 4, 12, "net has no mode", "mode: proxy"},
		{"none with allow", profile("net: {mode: none, allow: [files.example]}"), 4, 25, "net has mode none, so nothing may leave and allow has no meaning", "mode: proxy"},
		{"none with limits", profile("net: {mode: none, limits: {rate: 1}}"), 4, 25, "net has mode none, so nothing may leave and limits has no meaning", "mode: proxy"},
		{"misspelt key", net("allowed: [files.example], allow: [files.example]"), 4, 26, `net has no key "allowed"`, `did you mean "allow"?`},
		{"nothing allowed", profile("net: {mode: proxy}"), 4, 12, "net has mode proxy and allows nothing", "mode: none"},
		{"empty allow", net("allow: []"), 4, 33, "allow must not be empty", "at least one"},
		{"null allow", net("allow: "), 4, 33, "an entry of allow must be a text, not nothing", ""},
		{"number", allow("80"), 4, 34, "an entry of allow must be a text, not the number 80", `"80"`},
		{"range", allow("10.0.0.0/8"), 4, 34, `allow "10.0.0.0/8": contains a slash, which no host does`, "ranges cannot be named"},
		{"url", allow("https://files.example/v1"), 4, 34, `allow "https://files.example/v1": contains a slash, which no host does`, `name the host alone: "files.example"`},
		{"path", allow("files.example/v1"), 4, 34, `allow "files.example/v1": contains a slash, which no host does`, `paths: ["/v1"]`},
		{"star in a name", allow(`"api*.example"`), 4, 34, `allow "api*.example": a star stands alone or before a whole name; write "*.name" for all names below a name, or "*" for every host; under allow it is every public name only`, ""},
		{"star at the end", allow(`"api.*"`), 4, 34, `allow "api.*": a star stands alone or before a whole name; write "*.name" for all names below a name, or "*" for every host; under allow it is every public name only`, ""},
		{"two stars", allow(`"**.example"`), 4, 34, `allow "**.example": a star stands alone or before a whole name; write "*.name" for all names below a name, or "*" for every host; under allow it is every public name only`, ""},
		{"star of an address", allow(`"*.1.2.3.4"`), 4, 34, `allow "*.1.2.3.4": there are no names below an address`, ""},
		{"dot first", allow(`".files.example"`), 4, 34, `allow ".files.example": host .files.example is not a name: between dots it must have 1 to 63 characters, and no hyphen first or last`, `"*.files.example"`},
		{"user", allow("u@files.example"), 4, 34, `allow "u@files.example": host u@files.example is not a name: it contains more than letters, digits, hyphens, underscores and dots; write other letters in the xn-- form`, ""},
		{"raw idn", allow("bücher.example"), 4, 34, `allow "bücher.example": host bücher.example is not a name: it contains more than letters, digits, hyphens, underscores and dots; write other letters in the xn-- form`, ""},
		{"nul", allow(`"evil.example\0.files.example"`), 4, 34, `allow "evil.example\x00.files.example": host evil.example\x00.files.example is not a name: it contains more than letters, digits, hyphens, underscores and dots; write other letters in the xn-- form`, ""},
		{"decimal address", allow(`"2130706433"`), 4, 34, `allow "2130706433": host 2130706433 is not a name: its last part is a number; write an address as four numbers from 0 to 255`, ""},
		{"port zero", allow(`"files.example:0"`), 4, 34, `allow "files.example:0": "0" is not a valid port; write a number from 1 to 65535`, ""},
		{"large port", allow(`"files.example:65536"`), 4, 34, `allow "files.example:65536": "65536" is not a valid port; write a number from 1 to 65535`, ""},
		{"port with a sign", allow(`"files.example:+80"`), 4, 34, `allow "files.example:+80": "+80" is not a valid port; write a number from 1 to 65535`, ""},
		{"port of any", allow(`"files.example:*"`), 4, 34, `allow "files.example:*": "*" is not a valid port; write a number from 1 to 65535`, ""},
		{"twice", allow("files.example, FILES.example."), 4, 49, "allow says the same as on line 4", "remove one"},
		{"denied", net("allow: [files.example], deny: [files.example]"), 4, 34, "files.example is denied by files.example on line 4", "deny wins"},
		{"denied by a pattern", net(`allow: ["*.a.example:443"], deny: ["*.example:443"]`), 4, 34, "*.a.example is denied by *.example on line 4", "deny wins"},
		{"loopback", allow("127.0.0.1"), 4, 34, "127.0.0.1 is not a public address", `allow_private, as "127.0.0.1:80"`},
		{"private", allow(`"[fd00::1]:5432"`), 4, 34, "fd00::1 is not a public address", `"[fd00::1]:5432"`},
		{"metadata", allow("169.254.169.254"), 4, 34, "169.254.169.254 is a link-local, multicast or unspecified address, and cannot be reached from a box", "credentials"},
		{"entry without host", allow("{ports: 443}"), 4, 34, "the entry of allow has no host", "host:"},
		{"misspelt entry", allow("{host: files.example, port: 443}"), 4, 56, `an entry of allow has no key "port"`, `did you mean "ports"?`},
		{"two ports", allow(`{host: "files.example:80"}`), 4, 41, "host names a port, which belongs under ports here", `host: "files.example", ports: [80]`},
		{"no ports", allow("{host: files.example, ports: []}"), 4, 63, "ports must not be empty", ""},
		{"port twice", allow("{host: files.example, ports: [80, 80]}"), 4, 68, "ports names 80 twice", ""},
		{"range of ports", allow(`{host: files.example, ports: "80-90"}`), 4, 63, `ports: "80-90" is not a valid port; write a number from 1 to 65535`, ""},
		{"small method", allow("{host: files.example, methods: get}"), 4, 65, `the method "get" is not in capitals`, `did you mean "GET"?`},
		{"connect", allow("{host: files.example, methods: CONNECT}"), 4, 65, "CONNECT opens a connection and is not a request on one", ""},
		{"method with a blank", allow(`{host: files.example, methods: "GET /"}`), 4, 65, `"GET /" is not a method`, ""},
		{"method twice", allow("{host: files.example, methods: [GET, GET]}"), 4, 71, "methods name GET twice", ""},
		{"relative path", allow("{host: files.example, paths: v1}"), 4, 63, `path "v1": is not absolute; begin it with / or with **/`, "/v1/**"},
		{"stars first", allow(`{host: files.example, paths: "**/v1"}`), 4, 63, `path "**/v1": does not begin with a slash; write /**/v1`, ""},
		{"dots in a path", allow(`{host: files.example, paths: "/v1/../v2"}`), 4, 63, `path "/v1/../v2": is not in its shortest form, "/v2"`, ""},
		{"query in a path", allow(`{host: files.example, paths: "/v1?x=1"}`), 4, 63, `path "/v1?x=1": "v1?x=1": '?' has no meaning here; the wildcards are *, ** and {a,b}`, ""},
		{"escaped slash", allow(`{host: files.example, paths: "/a%2fb"}`), 4, 63, `path "/a%2fb": no path of a request surely looks like that: write blanks and quotes as escapes, for example %20, and letters, digits and - _ ~ . / without an escape; a comma, a star or a brace cannot be escaped; characters beyond ASCII and ; ? # \ % cannot be written, escaped or not, nor can //, /./ and /../`, ""},
		{"blank in a path", allow(`{host: files.example, paths: "/a b"}`), 4, 63, `path "/a b": no path of a request surely looks like that: write blanks and quotes as escapes, for example %20, and letters, digits and - _ ~ . / without an escape; a comma, a star or a brace cannot be escaped; characters beyond ASCII and ; ? # \ % cannot be written, escaped or not, nor can //, /./ and /../`, ""},
		{"escaped star", allow(`{host: files.example, paths: "/a%2A"}`), 4, 63, `path "/a%2A": no path of a request surely looks like that: write blanks and quotes as escapes, for example %20, and letters, digits and - _ ~ . / without an escape; a comma, a star or a brace cannot be escaped; characters beyond ASCII and ; ? # \ % cannot be written, escaped or not, nor can //, /./ and /../`, ""},
		{"private pattern", net(`allow_private: ["*.internal"]`), 4, 42, `allow_private "*.internal": what is not public is named one by one`, "operator"},
		{"private path", net(`allow_private: ["db.internal/x"]`), 4, 42, `allow_private "db.internal/x": contains a slash, which no host does`, "host.belljar.internal:3000"},
		{"private metadata", net(`allow_private: ["169.254.169.254:80"]`), 4, 42, "169.254.169.254 is a link-local, multicast or unspecified address, and cannot be reached from a box", "credentials"},
		{"private any", net(`allow_private: ["0.0.0.0:80"]`), 4, 42, "0.0.0.0 is a link-local, multicast or unspecified address, and cannot be reached from a box", ""},
		{"private twice", net(`allow_private: ["localhost:3000", "LOCALHOST:3000"]`), 4, 60, `allow_private names LOCALHOST:3000 twice`, ""},
		{"private mapping", net(`allow_private: [{host: localhost}]`), 4, 42, `an entry of allow_private must be a text, not a mapping`, ""},
		{"tls", net("allow: files.example, tls: intercpt"), 4, 53, `tls cannot be "intercpt"`, `did you mean "intercept"?`},
		{"limit", net("allow: files.example, limits: {conections: 1}"), 4, 57, `limits of net has no key "conections"`, `did you mean "connections"?`},
		{"no connections", net("allow: files.example, limits: {connections: 0}"), 4, 70, "connections must be above zero", "switched off"},
		{"many connections", net("allow: files.example, limits: {connections: 65537}"), 4, 70, "connections is 65537, more than the 65536 that can be given", ""},
		{"no rate", net("allow: files.example, limits: {rate: 0}"), 4, 63, "rate is 0, outside 0.01 to 100000", "switched off"},
		{"rate with a unit", net("allow: files.example, limits: {rate: 100/s}"), 4, 63, "rate must be a number, not a text", "in a second"},
		{"no bytes", net("allow: files.example, limits: {bytes: 0}"), 4, 64, "bytes must be above zero", "switched off"},
		{"bare idle", net("allow: files.example, limits: {idle: 5}"), 4, 63, `idle cannot be "5"`, "5s for seconds"},
		{"no life", net("allow: files.example, limits: {life: 0s}"), 4, 63, "life must be above zero", "switched off"},

		{"unknown secret", header(`secret: githb, host: api.example, header: A, value: "x ${secret:githb}"`), 4, 100, `secret "githb" does not exist`, `did you mean "github"?`},
		{"undefined secret", header(`secret: vault, host: api.example, header: A, value: "x ${secret:vault}"`), 4, 100, `secret "vault" does not exist`, "secrets: {vault: {env: VARIABLE}}"},
		{"secret without host", header(`secret: github, header: A, value: ` + token), 4, 91, "the secret of net has no host", ""},
		{"secret everywhere", whole(`"*"`, "A", token), 4, 114, "a secret cannot go to every host", "name the hosts"},
		{"secret to a port", whole(`"api.example:443"`, "A", token), 4, 114, "the host of a secret has no port", ""},
		{"secret out of reach", whole("other.example", "A", token), 4, 114, "nothing in allow reaches other.example, so the secret could never be used", "allow"},
		{"secret for private names", strings.Replace(whole(`"*.local"`, "A", token), "allow: [", `allow: ["*", `, 1), 4, 119, "nothing in allow reaches *.local, so the secret could never be used", "allow"},
		{"secret below", whole(`"*.api.example"`, "A", token), 4, 114, "nothing in allow reaches *.api.example, so the secret could never be used", "allow"},
		{"secret behind tls", whole("tls.example", "A", token), 4, 114, "tls.example is reached on port 443 only, where tls: pass cannot add a header", "intercept"},
		{"header", whole("api.example", `"X Key"`, token), 4, 135, `"X Key" is not a valid name of a header`, ""},
		{"host header", whole("api.example", "hOST", token), 4, 135, "the header Host belongs to the connection and carries no secret", ""},
		{"length header", whole("api.example", "content-length", token), 4, 135, "the header Content-Length belongs to the connection and carries no secret", ""},
		{"coding header", whole("api.example", "Transfer-Encoding", token), 4, 135, "the header Transfer-Encoding belongs to the connection and carries no secret", ""},
		{"te header", whole("api.example", "TE", token), 4, 135, "the header Te belongs to the connection and carries no secret", ""},
		{"value itself", whole("api.example", "A", "ghp_123"), 4, 145, "value does not say where the secret goes", "must not contain the secret itself"},
		{"two references", whole("api.example", "A", `"${secret:github}${secret:github}"`), 4, 145, "value contains more than one ${...}", ""},
		{"another reference", whole("api.example", "A", `"${secret:npm}"`), 4, 145, "value contains ${secret:npm}, but the secret here is github", "${secret:github}"},
		{"another form", whole("api.example", "A", `"${env:X} ${secret:github}"`), 4, 145, "value contains more than one ${...}", ""},
		{"line break", whole("api.example", "A", `"x\r\nHost: ${secret:github}"`), 4, 145, "value is not a valid value of a header", "ASCII"},
		{"trace", header(`secret: github, host: api.example, methods: TRACE, header: A, value: ` + token), 4, 136, "the answer to TRACE repeats the header, so no secret is added to it", ""},

		{"no secrets", secrets("{}"), 3, 10, "secrets must not be empty", "GITHUB_TOKEN"},
		{"name of a secret", secrets("{Git Hub: {env: A}}"), 3, 11, `"Git Hub" cannot be the name of a secret`, "lower-case letters"},
		{"the secret itself", secrets("{github: ghp_123}"), 3, 19, "secret github must be a mapping, not a text", "never what it is"},
		{"no place", secrets("{github: {}}"), 3, 19, "secret github has no place", "{env: VARIABLE}"},
		{"two places", secrets("{github: {env: A, file: /a}}"), 3, 28, "secret github has more than one place", "keep one"},
		{"misspelt place", secrets("{github: {envv: A}}"), 3, 20, `secret github has no key "envv"`, `did you mean "env"?`},
		{"variable of a secret", secrets("{github: {env: $A}}"), 3, 25, `"$A" is not a valid name of a variable`, ""},
		{"relative file", secrets("{github: {file: token}}"), 3, 26, `file "token" cannot hold a secret`, "absolute"},
		{"file with dots", secrets("{github: {file: /a/../b}}"), 3, 26, `file "/a/../b" cannot hold a secret`, "shortest"},
		{"a line for a shell", secrets(`{github: {command: "vault read x"}}`), 3, 29, "command must be a list, not a text", "no shell"},
		{"no command", secrets("{github: {command: []}}"), 3, 29, "command must not be empty", ""},
		{"relative program", secrets("{github: {command: [./get, x]}}"), 3, 30, `the program "./get" depends on where belljar was started`, "PATH"},
		{"nul in a command", secrets(`{github: {command: [get, "\0"]}}`), 3, 35, "an entry of command contains a NUL byte", ""},

		{"publish zero", profile("publish: 0"), 4, 16, `publish: "0" is not a valid port; write a number from 1 to 65535`, "8000-8099"},
		{"publish nothing", profile("publish: []"), 4, 16, "publish must not be empty", ""},
		{"publish backwards", profile(`publish: ["90-80"]`), 4, 17, "publish: the range 90-80 ends before it begins", ""},
		{"publish twice", profile(`publish: ["80-90", 85]`), 4, 26, "publish names 85 twice", "join"},
		{"publish a list", profile(`publish: [[80]]`), 4, 17, "an entry of publish must be a port, not a list", ""},
		{"image and system", profile("fs: {system: true, image: debian}"), 4, 33, "fs has an image and the host's system directories", "remove system"},
		{"image by path", profile("fs: {image: ../x}"), 4, 19, `"../x" cannot be the name of an image`, "imported"},
		{"workspace", profile("fs: {workspace: overlya}"), 4, 23, `workspace cannot be "overlya"`, `did you mean "overlay"?`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := faults(t, tt.text)
			all = append(all, e.Error())
			f := e.Faults[0]
			if f.Line != tt.line || f.Col != tt.col || f.Message != tt.message || !strings.Contains(f.Hint, tt.hint) || len(e.Faults) != 1 {
				t.Errorf("got\n%v\nwant %d:%d: %s\n and a hint with %q", e, tt.line, tt.col, tt.message, tt.hint)
			}
		})
	}
	golden.Equal(t, "faults/network.golden", strings.Join(all, "\n\n")+"\n")
}

// A fault must be reported if two secrets set the same header for the same requests. If
// anything differs, there is no fault.
func TestOneValueForAHeader(t *testing.T) {
	const one = "{secret: github, host: api.example, header: Authorization, value: \"${secret:github}\"}"
	with := func(other string) string {
		return "version: 1\nsecrets: {github: {env: A}, npm: {env: B}}\nprofiles:\n  a: {net: {mode: proxy, allow: [api.example], secrets: [" + one + ",\n" + other + "]}}\n"
	}
	e := faults(t, with(`{secret: npm, host: API.example, header: authorization, value: "x ${secret:npm}"}`))
	if got := e.Faults[0].Message; got != "another secret sets Authorization for the same requests to api.example" || e.Faults[0].Line != 5 {
		t.Errorf("got %v", e)
	}
	parse(t, with(`{secret: npm, host: api.example, header: X-Key, value: "x ${secret:npm}"}`))
	parse(t, with(`{secret: npm, host: api.example, methods: GET, header: Authorization, value: "x ${secret:npm}"}`))
}

func TestRegrant(t *testing.T) {
	before := parse(t, "version: 1\ndefaults: {decision: allow, profile: dev}\nprofiles: {dev: {net: {mode: proxy, allow: a.example}}, old: {}, shut: {net: {mode: proxy, allow: a.example}}}\n")
	after := parse(t, "version: 1\ndefaults: {decision: deny, profile: dev}\nprofiles: {dev: {net: {mode: proxy, allow: b.example}, publish: 80}, shut: {}}\ntotals: {boxes: 3}\n")
	grant := func(profile string) policies.Grant {
		return before.Decide(policies.Facts{Tenant: "acme", Tool: "Bash", Command: "ls", Profile: profile}).Grant
	}
	now, ok := after.Regrant(grant("dev"))
	if !ok || now.Tenant() != "acme" || now.Profile() != "dev" || now.Egress().Allow[0].Host != "b.example" || len(now.Publish()) != 1 || now.Totals().Boxes != 3 {
		t.Errorf("dev: got %+v, %v", now, ok)
	}
	if !grant("dev").Covers(now) || !now.Covers(grant("dev")) {
		t.Error("a box of the profile does not serve it under the new policy")
	}
	if now, ok = after.Regrant(grant("shut")); !ok || !now.Egress().IsZero() {
		t.Errorf("shut: got %+v, %v", now, ok)
	}
	if now, ok = after.Regrant(grant("old")); ok || !now.IsZero() {
		t.Errorf("old: got %+v, %v", now, ok)
	}
	if now, ok = after.Regrant(policies.Grant{}); ok || !now.IsZero() {
		t.Errorf("the zero grant: got %+v, %v", now, ok)
	}
}

func TestCoversTheNetwork(t *testing.T) {
	p := parse(t, `version: 1
defaults: {decision: allow, profile: none}
profiles:
  none: {}
  none2: {}
  served: {publish: 3000}
  served2: {publish: 3000}
  door: {net: {mode: proxy, allow: a.example}}
  door2: {net: {mode: proxy, allow: a.example}}
  opened: {net: {mode: proxy, allow: a.example, tls: intercept}}
  image: {fs: {image: debian}}
`)
	changed := parse(t, "version: 1\ndefaults: {decision: allow, profile: door}\nprofiles: {door: {net: {mode: proxy, allow: b.example}, publish: 1}, opened: {net: {mode: proxy, allow: a.example}}, none: {publish: 1}}\n")
	grant := func(p *policies.Policy, profile string) policies.Grant {
		return p.Decide(policies.Facts{Tenant: "t", Tool: "Bash", Command: "ls", Profile: profile}).Grant
	}
	for _, tt := range []struct {
		box, call policies.Grant
		want      bool
	}{
		{grant(p, "none"), grant(p, "none2"), true},
		{grant(p, "none"), grant(p, "served"), false},
		{grant(p, "served"), grant(p, "none"), false},
		{grant(p, "served"), grant(p, "served2"), true},
		{grant(p, "none"), grant(changed, "none"), true},
		{grant(p, "none"), grant(p, "door"), false},
		{grant(p, "door"), grant(p, "none"), false},
		{grant(p, "door"), grant(p, "door"), true},
		{grant(p, "door"), grant(p, "door2"), false},
		{grant(p, "door"), grant(changed, "door"), true},
		{grant(p, "opened"), grant(changed, "opened"), false},
		{grant(p, "none"), grant(p, "image"), false},
		{grant(p, "image"), grant(p, "image"), true},
	} {
		if got := tt.box.Covers(tt.call); got != tt.want {
			t.Errorf("a box of %s for a call of %s: got %v, want %v", tt.box.Profile(), tt.call.Profile(), got, tt.want)
		}
	}
}
