package policies_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
)

func host(t testing.TB, s string) policies.Host {
	t.Helper()
	h, err := policies.ParseHost(s)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// decisions is the net section for the tests below.
const decisions = `mode: proxy
tls: intercept
allow:
  - files.example
  - "*.pypi.example"
  - deep.example:8443
  - "203.0.113.7"
  - "[2001:db8::7]:443"
  - {host: api.example, methods: [GET, HEAD], paths: ["/v1/**", "/health", "/@scope/*", "/a%20b/**"]}
  - {host: api.example, methods: [POST], paths: "/v2/{jobs,runs}/*"}
  - {host: all.example, methods: [GET], paths: "/**"}
  - {host: both.example, paths: "/narrow/**"}
  - {host: both.example, ports: [8443]}
  - {host: part.example}
  - {host: dev.internal, ports: [8080], methods: [GET]}
deny:
  - evil.pypi.example
  - "*.bad.pypi.example"
  - {host: files.example, ports: [80]}
  - {host: part.example, methods: [DELETE]}
  - {host: part.example, paths: ["/admin/**", "/@root"]}
  - "203.0.113.9"
allow_private: ["localhost:3000", "127.0.0.1:5432", dev.internal, "dev.internal:8080", "gone.internal:80", 10.0.0.5]
`

func TestConnect(t *testing.T) {
	e := policytest.Egress(t, decisions)
	for _, tt := range []struct {
		host string
		port uint16
		want string // "no", "yes" or "requests"
		rule string
	}{
		{"files.example", 443, "yes", "allow files.example"},
		{"FILES.EXAMPLE.", 443, "yes", "allow files.example"},
		{"files.example", 80, "no", "deny files.example"},
		{"files.example", 8080, "no", "no rule"},
		{"xfiles.example", 443, "no", "no rule"},
		{"a.files.example", 443, "no", "no rule"},
		{"files.example.evil.example", 443, "no", "no rule"},
		{"pypi.example", 443, "no", "no rule"},
		{"a.pypi.example", 443, "yes", "allow *.pypi.example"},
		{"a.b.c.pypi.example", 80, "yes", "allow *.pypi.example"},
		{"xpypi.example", 443, "no", "no rule"},
		{"evil.pypi.example", 443, "no", "deny evil.pypi.example"},
		{"evil.pypi.example", 8443, "no", "deny evil.pypi.example"},
		{"a.evil.pypi.example", 443, "yes", "allow *.pypi.example"},
		{"bad.pypi.example", 443, "yes", "allow *.pypi.example"},
		{"a.bad.pypi.example", 443, "no", "deny *.bad.pypi.example"},
		{"deep.example", 8443, "yes", "allow deep.example"},
		{"deep.example", 443, "no", "no rule"},
		{"203.0.113.7", 443, "yes", "allow 203.0.113.7"},
		{"::ffff:203.0.113.7", 443, "yes", "allow 203.0.113.7"},
		{"203.0.113.8", 443, "no", "no rule"},
		{"203.0.113.9", 443, "no", "deny 203.0.113.9"},
		{"[2001:DB8:0::7]", 443, "yes", "allow 2001:db8::7"},
		{"2001:db8::7", 80, "no", "no rule"},
		{"api.example", 443, "requests", "allow api.example"},
		{"all.example", 443, "requests", "allow all.example"},
		{"both.example", 443, "requests", "allow both.example"},
		{"both.example", 8443, "yes", "allow both.example"},
		{"part.example", 443, "requests", "allow part.example"},
		{"localhost", 3000, "yes", "allow_private localhost"},
		{"localhost", 80, "no", "no rule"},
		{"127.0.0.1", 3000, "no", "no rule"},
		{"127.0.0.1", 5432, "yes", "allow_private 127.0.0.1"},
		{"::ffff:127.0.0.1", 5432, "yes", "allow_private 127.0.0.1"},
		{"dev.internal", 8080, "requests", "allow dev.internal"},
		{"dev.internal", 443, "no", "no rule"},
		{"10.0.0.5", 443, "yes", "allow_private 10.0.0.5"},
		{"10.0.0.5", 22, "no", "no rule"},
		{"169.254.169.254", 80, "no", "no rule"},
		{"files.example", 0, "no", "no rule"},
	} {
		h := host(t, tt.host)
		v := e.Connect(h, tt.port)
		got := "no"
		switch {
		case v.Allowed && v.Requests:
			got = "requests"
		case v.Allowed:
			got = "yes"
		}
		if got != tt.want || v.Rule != tt.rule || (v.Reason == "") != v.Allowed {
			t.Errorf("%s:%d: got %s, %+v; want %s by %q", tt.host, tt.port, got, v, tt.want, tt.rule)
		}
		if v.Allowed && !e.Names(h) {
			t.Errorf("%s:%d may be reached, and its name may not be resolved", tt.host, tt.port)
		}
		if spoke := v.Rule != "no rule" && !strings.HasPrefix(v.Rule, "allow_private"); spoke != (v.Source.Line > 0) {
			t.Errorf("%s:%d: %q stands at %+v", tt.host, tt.port, v.Rule, v.Source)
		}
	}
	if v := e.Connect(policies.Host{}, 443); v.Allowed {
		t.Error("the zero host may be reached")
	}
	if v := (&policies.Egress{}).Connect(host(t, "files.example"), 443); v.Allowed || v.Reason != "the profile lets nothing out" {
		t.Errorf("the zero egress: got %+v", v)
	}
}

func TestRequest(t *testing.T) {
	e := policytest.Egress(t, decisions)
	for _, tt := range []struct {
		host, method, path string
		want               bool
	}{
		{"api.example", "GET", "/v1/users", true},
		{"api.example", "HEAD", "/v1", true},
		{"api.example", "GET", "/v1/", true},
		{"api.example", "GET", "/v1/a/b/c", true},
		{"api.example", "GET", "/health", true},
		{"api.example", "GET", "/health/", false},
		{"api.example", "GET", "/V1/users", false},
		{"api.example", "GET", "/v10", false},
		{"api.example", "GET", "/", false},
		{"api.example", "GET", "", false},
		{"api.example", "POST", "/v1/users", false},
		{"api.example", "get", "/v1/users", false},
		{"api.example", "GETX", "/v1/users", false},
		{"api.example", "CONNECT", "/v1/users", false},
		{"api.example", "POST", "/v2/jobs/7", true},
		{"api.example", "POST", "/v2/runs/7", true},
		{"api.example", "POST", "/v2/jobs/7/8", false},
		{"api.example", "GET", "/v2/jobs/7", false},
		{"api.example", "GET", "/@scope/x", true},
		{"api.example", "GET", "/%40scope/x", false},
		{"api.example", "GET", "/@scope/a%2Bb", true},
		{"api.example", "GET", "/a%20b/c", true},
		// Paths that servers read in different ways.
		{"api.example", "GET", "/v1/../admin", false},
		{"api.example", "GET", "/v1/..", false},
		{"api.example", "GET", "/v1/.", false},
		{"api.example", "GET", "/v1/./x", false},
		{"api.example", "GET", "/v1//x", false},
		{"api.example", "GET", "//v1/x", false},
		{"api.example", "GET", "/v1/%2e%2e/admin", false},
		{"api.example", "GET", "/v1/%2E./admin", false},
		{"api.example", "GET", "/v1/x%2fy", false},
		{"api.example", "GET", "/v1/x%2F..%2Fy", false},
		{"api.example", "GET", "/v1/x%5cy", false},
		{"api.example", "GET", `/v1/..\admin`, false},
		{"api.example", "GET", "/v1/%252e%252e/admin", false},
		{"api.example", "GET", "/v1/..;/admin", false},
		{"api.example", "GET", "/v1/x;a=b", false},
		{"api.example", "GET", "/v1/x%3Bb", false},
		{"api.example", "GET", "/v1/%c0%ae%c0%ae/x", false},
		{"api.example", "GET", "/v1/%ef%bc%8e/x", false},
		{"api.example", "GET", "/%761/x", false},
		{"api.example", "GET", "/v1/%00", false},
		{"api.example", "GET", "/v1/x%", false},
		{"api.example", "GET", "/v1/x%2", false},
		{"api.example", "GET", "/v1/x%zz", false},
		{"api.example", "GET", "/v1/x y", false},
		{"api.example", "GET", "/v1/x?y", false},
		{"api.example", "GET", "/v1/x#y", false},
		{"api.example", "GET", "/v1/\xc3\xbc", false},
		{"api.example", "GET", "/v1/\r\nX: y", false},
		{"api.example", "GET", "https://api.example/v1/x", false},
		{"api.example", "OPTIONS", "*", false},
		// "/**" is every path, also a vague path.
		{"all.example", "GET", "/a/../b%2f", true},
		{"all.example", "POST", "/a", false},
		{"both.example", "PUT", "/narrow/x", true},
		{"both.example", "PUT", "/wide", false},
		// For a rule of Deny a possible match is enough.
		{"part.example", "GET", "/x", true},
		{"part.example", "POST", "/x/y", true},
		{"part.example", "DELETE", "/x", false},
		{"part.example", "delete", "/x", false},
		{"part.example", "GET", "/admin", false},
		{"part.example", "GET", "/admin/", false},
		{"part.example", "GET", "/ADMIN/users", false},
		{"part.example", "GET", "/administrator", true},
		{"part.example", "GET", "/x/../admin", false},
		{"part.example", "GET", "/%61dmin", false},
		{"part.example", "GET", "//admin", false},
		{"part.example", "GET", "/x%2fy", false},
		{"part.example", "GET", "/@root", false},
		{"part.example", "GET", "/@root/", false},
		{"part.example", "GET", "/%40ROOT", false},
		{"part.example", "GET", "/@rooted", true},
		{"part.example", "OPTIONS", "*", false},
		// A rule without methods and paths allows every request.
		{"files.example", "DELETE", "/a/../b", true},
		{"evil.pypi.example", "GET", "/", false},
		{"none.example", "GET", "/", false},
	} {
		v := e.Request(host(t, tt.host), 443, tt.method, tt.path)
		if v.Allowed != tt.want || (v.Reason == "") != v.Allowed || v.Requests {
			t.Errorf("%s %s%s: got %+v, want %v", tt.method, tt.host, tt.path, v, tt.want)
		}
	}
	// A rule of Allow counts more than allow_private.
	if v := e.Request(host(t, "dev.internal"), 8080, "POST", "/"); v.Allowed {
		t.Errorf("POST to dev.internal: got %+v", v)
	}
}

func TestEveryPublicName(t *testing.T) {
	e := policytest.Egress(t, `{mode: proxy, allow: "*", deny: ["*.evil.example", {host: "*", ports: 80}], allow_private: ["box.local:8080"]}`)
	for in, want := range map[string]bool{
		"files.example": true, "a.b.c.example": true, "evil.example": true, "evil.example.com": true,
		"x.evil.example": false, "1.1.1.1": false, "2606:4700::1111": false,
		"localhost": false, "x.localhost": false, "intranet": false, "printer.local": false,
		"metadata.google.internal": false, "nas.home.arpa": false, "home.arpa": false, "x.onion": false,
		"local.example": true, "notlocal": false, "xlocal.example": true,
	} {
		if v := e.Connect(host(t, in), 443); v.Allowed != want {
			t.Errorf("%s: got %+v, want %v", in, v, want)
		}
		if got := e.Names(host(t, in)); got != want {
			t.Errorf("may %s be resolved: got %v, want %v", in, got, want)
		}
		if v := e.Connect(host(t, in), 80); v.Allowed {
			t.Errorf("%s:80: got %+v", in, v)
		}
	}
	if v := e.Connect(host(t, "box.local"), 8080); !v.Allowed || !e.Names(host(t, "box.local")) {
		t.Errorf("box.local: got %+v", v)
	}
}

func TestNamesLeavesOutWhatIsDenied(t *testing.T) {
	e := policytest.Egress(t, `{mode: proxy, allow: ["*.a.example", "b.example:8443", {host: c.example, methods: GET}],
      deny: [x.a.example, {host: y.a.example, ports: 80}, {host: z.a.example, ports: [80, 443]}, {host: w.a.example, methods: GET}], allow_private: [10.0.0.1]}`)
	for in, want := range map[string]bool{
		"a.a.example": true, "x.a.example": false, "y.a.example": true, "z.a.example": false, "w.a.example": true,
		"a.example": false, "b.example": true, "c.example": true, "d.example": false, "localhost": false, "10.0.0.1": true, "10.0.0.2": false,
	} {
		if got := e.Names(host(t, in)); got != want {
			t.Errorf("%s: got %v, want %v", in, got, want)
		}
	}
	if got := fmt.Sprint(e.Ports()); got != "[80 443 8443]" {
		t.Errorf("Ports: got %s", got)
	}
}

// An address that is denied is denied under every name that leads to it.
func TestDenied(t *testing.T) {
	e := policytest.Egress(t, `{mode: proxy, allow: files.example, deny: ["203.0.113.9", "203.0.113.8:443", {host: 203.0.113.7, methods: GET}]}`)
	for in, want := range map[string]bool{
		"203.0.113.9:443": true, "203.0.113.9:80": true, "203.0.113.8:443": true, "203.0.113.8:80": false,
		"203.0.113.7:443": false, "203.0.113.6:443": false, "[::ffff:203.0.113.9]:443": true,
	} {
		addr := netip.MustParseAddrPort(in)
		if v, got := e.Denied(policies.HostAddr(addr.Addr()), addr.Port()); got != want || v.Allowed || got != (v.Reason != "") {
			t.Errorf("%s: got %+v, %v, want %v", in, v, got, want)
		}
	}
}

func TestAllowsPrivate(t *testing.T) {
	e := policytest.Egress(t, `{mode: proxy, allow: [db.internal:5432], allow_private: ["localhost:3000", db.internal]}`)
	for in, want := range map[string]bool{
		"localhost:3000": true, "localhost:80": false, "db.internal:5432": true, "db.internal:1": true, "x.db.internal:5432": false, "127.0.0.1:3000": false,
	} {
		name, port, _ := strings.Cut(in, ":")
		var p uint16
		fmt.Sscan(port, &p)
		if got := e.AllowsPrivate(host(t, name), p); got != want {
			t.Errorf("%s: got %v, want %v", in, got, want)
		}
	}
	if v := e.Connect(host(t, "db.internal"), 80); v.Allowed {
		t.Errorf("allow names another port of it: got %+v", v)
	}
}

func TestHeaders(t *testing.T) {
	e := policytest.Egress(t, `mode: proxy
tls: intercept
allow: ["*.example", "other.net:8443"]
secrets:
  - {secret: env, host: api.example, methods: [GET], paths: ["/repos/**"], header: authorization, value: "Bearer ${secret:env}"}
  - {secret: file, host: "*.example", header: Authorization, value: "token ${secret:file}"}
  - {secret: command, host: "*.api.example", header: X-Key, value: "${secret:command}"}
`)
	for _, tt := range []struct{ host, method, path, want string }{
		{"api.example", "GET", "/repos/a", "Authorization=env"},
		{"api.example", "POST", "/repos/a", "Authorization=file"},
		{"api.example", "GET", "/repos/../user", "Authorization=file"},
		{"api.example", "TRACE", "/", ""},
		{"a.api.example", "GET", "/repos/a", "Authorization=file X-Key=command"},
		{"example", "GET", "/", ""},
		{"other.net", "GET", "/", ""},
	} {
		var got []string
		for _, s := range e.Headers(host(t, tt.host), tt.path, tt.method) {
			got = append(got, s.Header+"="+s.Secret)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s %s%s: got %q, want %q", tt.method, tt.host, tt.path, got, tt.want)
		}
	}
}

// A rule that Parse did not make is compiled at each use, and a rule that cannot be read
// lets nothing through.
func TestRulesFromElsewhere(t *testing.T) {
	web := []uint16{443}
	h := host(t, "files.example")
	for name, tt := range map[string]struct {
		e    policies.Egress
		want bool
	}{
		"plain":             {policies.Egress{Allow: []policies.EgressRule{{Host: "files.example", Ports: web}}}, true},
		"allow no port":     {policies.Egress{Allow: []policies.EgressRule{{Host: "files.example"}}}, false},
		"allow nonsense":    {policies.Egress{Allow: []policies.EgressRule{{Host: "*files.example", Ports: web}}}, false},
		"allow bad paths":   {policies.Egress{Allow: []policies.EgressRule{{Host: "files.example", Ports: web, Paths: []string{"v1"}}}}, false},
		"deny nonsense":     {policies.Egress{Allow: []policies.EgressRule{{Host: "files.example", Ports: web}}, Deny: []policies.EgressRule{{Host: ""}}}, false},
		"deny bad paths":    {policies.Egress{Allow: []policies.EgressRule{{Host: "files.example", Ports: web}}, Deny: []policies.EgressRule{{Host: "x.example", Paths: []string{"["}}}}, false},
		"deny another":      {policies.Egress{Allow: []policies.EgressRule{{Host: "files.example", Ports: web}}, Deny: []policies.EgressRule{{Host: "x.example"}}}, true},
		"deny another port": {policies.Egress{Allow: []policies.EgressRule{{Host: "files.example", Ports: web}}, Deny: []policies.EgressRule{{Host: "files.example", Ports: []uint16{80}}}}, true},
	} {
		if v := tt.e.Request(h, 443, "GET", "/"); v.Allowed != tt.want {
			t.Errorf("%s: got %+v, want %v", name, v, tt.want)
		}
		if got := tt.e.Names(h); got != tt.want {
			t.Errorf("%s: its name may be resolved: got %v, want %v", name, got, tt.want)
		}
	}
}

// The reason of a refusal because of a vague path names what makes it vague.
func TestReasonOfVaguePath(t *testing.T) {
	e := policytest.Egress(t, `{mode: proxy, allow: [{host: api.example, paths: ["/wiki/*"]}]}`)
	for _, path := range []string{"/wiki/M%C3%BCnchen", "/wiki/München"} {
		v := e.Request(host(t, "api.example"), 80, "GET", path)
		if v.Allowed || !strings.Contains(v.Reason, "a rule with paths other than /** never allows it") || !strings.Contains(v.Reason, "a character beyond ASCII (escaped or not)") {
			t.Errorf("%s: got %+v", path, v)
		}
	}
}

func TestReasonsSayWhatIsLetThrough(t *testing.T) {
	e := policytest.Egress(t, `{mode: proxy, allow: [files.example:8443, {host: api.example, methods: [GET], paths: ["/v1/**"]}, "*"], allow_private: ["db.internal:5432", "db.internal:6379"]}`)
	for _, tt := range []struct {
		got  policies.EgressVerdict
		want string
	}{
		{e.Connect(host(t, "files.example"), 22), "the profile lets connections to it through on port 8443 or 80 or 443, not on 22"},
		{e.Connect(host(t, "db.internal"), 80), "the profile lets connections to it through on port 5432 or 6379, not on 80"},
		{e.Connect(host(t, "1.1.1.1"), 443), "an address is let through only where a rule names it; use the host's name"},
		{e.Connect(host(t, "intranet"), 443), "no rule of the profile names it"},
	} {
		if tt.got.Allowed || tt.got.Reason != tt.want {
			t.Errorf("got %+v, want %q", tt.got, tt.want)
		}
	}
	narrow := policytest.Egress(t, `{mode: proxy, allow: {host: api.example, methods: [GET], paths: ["/v1/**"]}}`)
	if v := narrow.Request(host(t, "api.example"), 443, "GET", "/v2"); v.Reason != "the profile allows only some requests to it, GET of /v1/**" {
		t.Errorf("got %q", v.Reason)
	}
}

// Whatever a path looks like, if a rule that allows some paths lets it through, a rule that
// denies the same paths stops it: to allow needs proof, to deny needs a possibility.
func FuzzRequestPath(f *testing.F) {
	for _, s := range []string{"/v1/x", "/v1/../x", "/v1/%2e", "/V1", "/v1/x%20y", "/@a", "/%40a", "*", "", "/a,b", "/v1/%7B"} {
		f.Add("/v1/**", s)
		f.Add("/@{a,b}", s)
	}
	h := policies.Host{}
	if p, err := policies.ParseHost("files.example"); err == nil {
		h = p
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		web := []uint16{443}
		narrow := policies.Egress{Allow: []policies.EgressRule{{Host: "files.example", Ports: web, Paths: []string{pattern}}}}
		wide := policies.Egress{
			Allow: []policies.EgressRule{{Host: "files.example", Ports: web}},
			Deny:  narrow.Allow,
		}
		allowed := narrow.Request(h, 443, "GET", path)
		denied := wide.Request(h, 443, "GET", path)
		if allowed.Allowed && denied.Allowed {
			t.Errorf("%q lets %q through, and does not stop it", pattern, path)
		}
		if allowed.Allowed && pattern != "/**" && strings.ContainsAny(path, "\\;?# ") {
			t.Errorf("%q lets %q through", pattern, path)
		}
	})
}

func BenchmarkEgress(b *testing.B) {
	var allow strings.Builder
	for i := range 999 {
		fmt.Fprintf(&allow, "host%d.example, ", i)
	}
	small := policytest.Egress(b, decisions)
	large := policytest.Egress(b, "mode: proxy\nallow: ["+allow.String()+"\"*.pypi.example\"]\n")
	for _, bench := range []struct {
		name, host, path string
		e                *policies.Egress
	}{
		{"connect", "a.pypi.example", "", small},
		{"connect/1000rules", "a.pypi.example", "", large},
		{"refuse/1000rules", "none.example", "", large},
		{"request", "api.example", "/v1/users/7/repos", small},
		{"request/denied", "part.example", "/x/../admin", small},
	} {
		h := host(b, bench.host)
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if bench.path == "" {
					bench.e.Connect(h, 443)
				} else {
					bench.e.Request(h, 443, "GET", bench.path)
				}
			}
		})
	}
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := policies.ParseHost("api.files.example"); err != nil {
				b.Fatal(err)
			}
		}
	})
}
