package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
	"belljar.dev/sandbox/egress"
)

// program is a program that reaches a host in its ordinary way: it does not know of a door
// or a proxy. The script gets the NAME and the PORT of the host, and prints the greeting if
// it reaches the host.
type program struct {
	name  string
	needs []testenv.Thing
	host  string                // name of a program that a machine may lack
	where func(*servers) string // returns the port; nil for HTTPS
	raw   bool                  // uses TLS without HTTP, which a door that opens TLS does not let through

	script string
}

var clients = []program{
	{name: "curl", needs: things(testenv.Curl), script: `curl -fsS https://$NAME:$PORT/hello`},
	{name: "curl in the clear", needs: things(testenv.Curl), where: func(s *servers) string { return s.http }, script: `curl -fsS http://$NAME:$PORT/hello`},
	{name: "git", needs: things(testenv.Git), script: `rm -rf /tmp/clone; git clone -q https://$NAME:$PORT/git/probe.git /tmp/clone && cat /tmp/clone/hello`},
	{
		name: "go mod download", needs: things(testenv.Go),
		script: lines(
			`export GOPROXY=https://$NAME:$PORT/go GONOSUMDB='*' GOTOOLCHAIN=local GOFLAGS=-modcacherw GOMODCACHE=/tmp/modules GOCACHE=/tmp/cache`,
			`rm -rf /tmp/modules /tmp/m; mkdir /tmp/m; cd /tmp/m`,
			`printf 'module m\n\ngo 1.21\n\nrequire probe.test/m v1.0.0\n' > go.mod`,
			`go mod download probe.test/m && cat /tmp/modules/probe.test/m@v1.0.0/hello.txt`),
	},
	{
		name: "npm", needs: things(testenv.Npm),
		script: lines(
			`rm -rf /tmp/p ~/.npm; mkdir /tmp/p; cd /tmp/p; echo '{"name": "p", "private": true}' > package.json`,
			`npm install --registry https://$NAME:$PORT/npm/ --fetch-retries=1 --no-audit --no-fund --no-update-notifier probe && node -e 'require("probe")'`),
	},
	{
		name: "apt", needs: things(testenv.Apt),
		script: lines(
			`rm -rf /tmp/apt; mkdir -p /tmp/apt/state/lists/partial /tmp/apt/cache/archives/partial; cd /tmp/apt; : > status`,
			`echo "deb [trusted=yes] https://$NAME:$PORT/apt ./" > list`,
			`apt() { apt-get -q -o Dir::Etc::sourcelist=/tmp/apt/list -o Dir::Etc::sourceparts=- -o Dir::Etc::parts=- -o Dir::State=/tmp/apt/state \`,
			`  -o Dir::State::status=/tmp/apt/status -o Dir::Cache=/tmp/apt/cache -o Dir::Log=/tmp/apt -o APT::Sandbox::User= -o Acquire::Retries=0 \`,
			`  -o APT::Update::Error-Mode=any ${CA:+-o Acquire::https::CAInfo=$CA} "$@"; }`,
			`apt update && apt download probe && cat probe_1.0_all.deb`),
	},
	{
		name: "Python's urllib", needs: things(testenv.Python),
		script: `python3 -c 'import os, urllib.request; print(urllib.request.urlopen("https://%(NAME)s:%(PORT)s/hello" % os.environ, timeout=20).read().decode())'`,
	},
	{
		name: "Node's fetch", needs: things(testenv.Node),
		script: `node -e 'fetch("https://" + process.env.NAME + ":" + process.env.PORT + "/hello").then(r => r.text()).then(t => console.log(t))'`,
	},
	{
		name: "Java's HttpClient", host: "javac",
		script: lines(
			`export JDK_JAVA_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"`,
			`[ -e /tmp/java ] || javac -d /tmp/java Fetch.java && java -cp /tmp/java Fetch https://$NAME:$PORT/hello $CA`),
	},
	{
		name: "raw TLS", needs: things(testenv.Python), where: func(s *servers) string { return s.raw }, raw: true,
		script: lines(`python3 -c 'import os, socket, ssl`,
			`name = os.environ["NAME"]`,
			`c = ssl.create_default_context().wrap_socket(socket.create_connection((name, int(os.environ["PORT"])), 20), server_hostname=name)`,
			`f = c.makefile("rw"); hello = f.readline(); f.write("again\n"); f.flush()`,
			`print(hello, f.readline())'`),
	},
}

func things(t ...testenv.Thing) []testenv.Thing { return t }

// trusts makes a box trust the authority of the servers, by a setting for each of its
// programs.
const trusts = `
env:
  CA: /workspace/ca.pem
  SSL_CERT_FILE: /workspace/ca.pem
  CURL_CA_BUNDLE: /workspace/ca.pem
  GIT_SSL_CAINFO: /workspace/ca.pem
  NODE_EXTRA_CA_CERTS: /workspace/ca.pem
  npm_config_cafile: /workspace/ca.pem
`

// TestClients checks that ordinary clients reach an allowed host, and fail immediately for
// a host that is not allowed. All of it happens on this machine.
func TestClients(t *testing.T) { testClients(t, false) }

// TestClientsIntercepted does the same with TLS that is opened at the door. No client gets
// an option that names an authority: the box trusts the door's authority.
func TestClientsIntercepted(t *testing.T) { testClients(t, true) }

func testClients(t *testing.T, intercept bool) {
	testenv.Need(t, testenv.UserNamespaces)
	s := startServers(t)
	b := clientsBox(t, s, intercept)
	for _, c := range clients {
		if c.raw && intercept {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			testenv.Need(t, c.needs...)
			if _, err := exec.LookPath(c.host); c.host != "" && err != nil {
				t.Skipf("this host has no %s", c.host)
			}
			port := s.https
			if c.where != nil {
				port = c.where(s)
			}
			s.names()
			s.requests()
			r, out := c.run(t, b, allowedName, port)
			if r.Status != sandbox.Exited || r.Code != 0 || !strings.Contains(out, greeting) || len(r.Blocked) > 0 {
				t.Errorf("%s: got %v, code %d, blocked %q: %s", allowedName, r.Status, r.Code, refusals(r), out)
			}
			if seen := s.names(); !slices.Equal(seen, []string{allowedName}) {
				t.Errorf("%s: the servers were asked for %q", allowedName, seen)
			}
			// The door sees the requests in TLS only if it opens TLS.
			if intercept || port == s.http {
				s.awaitRequest(t)
			} else if n := s.requests(); n > 0 {
				t.Errorf("%s: the door saw %d requests in TLS", allowedName, n)
			}
			for _, name := range []string{deniedName, halfName} {
				r, out := c.run(t, b, name, port)
				if r.Status != sandbox.Exited || r.Code == 0 || strings.Contains(out, greeting) {
					t.Errorf("%s: got %v, code %d, want a failure: %s", name, r.Status, r.Code, out)
				}
				if !slices.ContainsFunc(r.Blocked, func(r egress.Record) bool { return r.Host.String() == name }) {
					t.Errorf("%s: blocked is %q, which does not name it: %s", name, refusals(r), out)
				}
			}
			if seen := s.names(); len(seen) > 0 {
				t.Errorf("the servers were asked for %q", seen)
			}
		})
	}
}

// run runs the client against a host.
func (c program) run(t *testing.T, b *sandbox.Box, name, port string) (sandbox.Result, string) {
	t.Helper()
	r, err := b.Run(t.Context(), sandbox.Cmd{
		Grant: b.Grant(), Timeout: 30 * time.Second * testenv.Patience(t),
		Env:   map[string]string{"NAME": name, "PORT": port},
		Shell: "if env | grep -i proxy=; then exit 99; fi\n{ " + c.script + "\n} 2>&1",
	})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r, read(t, r.Output)
}

func refusals(r sandbox.Result) (all []string) {
	for _, b := range r.Blocked {
		all = append(all, b.Refusal())
	}
	return all
}

// clientsBox returns a box from which only one of the servers' names can be reached.
func clientsBox(t *testing.T, s *servers, intercept bool) *sandbox.Box {
	t.Helper()
	tls, env := "pass", trusts
	if intercept {
		tls, env = "intercept", ""
	}
	var allow []string
	for _, port := range []string{s.https, s.http, s.raw} {
		allow = append(allow, strconv.Quote(allowedName+":"+port))
	}
	allow = append(allow, strconv.Quote(halfName+":1"))
	g := policytest.GrantProfile(t, fmt.Sprintf(`
fs: {system: true, workspace: rw}
limits: {memory: 2GiB, tmp: 1GiB, wall: 10m}
net:
  mode: proxy
  allow_private: [%s]
  tls: %s
%s`, strings.Join(allow, ", "), tls, env))
	sup, dir := worldOf(t, sandbox.Config{Resolver: s, Egress: s.record})
	sup.SetRoots(s.roots)
	source, err := os.ReadFile(filepath.Join("testdata", "clients", "Fetch.java"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "ca.pem"), string(s.authority))
	write(t, filepath.Join(dir, "Fetch.java"), string(source))
	b, err := sup.Open(t.Context(), "clients", g)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
