package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/golden"
	"belljar.dev/mcp/upstream/config"
)

var dirs = Dirs{Home: "/h", Cache: "/c", Temp: "/t"}

var lookup = config.Lookup{
	Variable: func(name string) (string, bool) {
		v, ok := map[string]string{"TOKEN": "t0k3n", "DIR": "/srv/data", "PKG": "@acme/server@1.2.3"}[name]
		return v, ok
	},
	Secret:    func(string) bool { return true },
	Workspace: "/srv/loom",
	Home:      "/srv/ada",
}

// entry returns the expanded entry of a command line. A "·" in a word stands for a space.
func entry(t *testing.T, line, env string) config.Entry {
	t.Helper()
	words := strings.Fields(line)
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], "·", " ")
	}
	server, err := json.Marshal(map[string]any{"command": words[0], "args": words[1:]})
	if err != nil {
		t.Fatal(err)
	}
	if env != "" {
		server = []byte(strings.TrimSuffix(string(server), "}") + `,"env":` + env + "}")
	}
	return expanded(t, string(server))
}

func expanded(t *testing.T, server string) config.Entry {
	t.Helper()
	entries, faults := config.Read("servers", []byte(`{"mcpServers":{"s":`+server+`}}`))
	if len(entries) != 1 {
		t.Fatalf("%s: %v", server, faults)
	}
	e, faults := config.Expand(entries[0], lookup)
	if e.Name == "" {
		t.Fatalf("%s: %v", server, faults)
	}
	return e
}

func dump(p *Plan) string {
	var b strings.Builder
	phase := func(name string, is *Phase) {
		cache := map[Cache]string{CacheReadOnly: "read", CacheScratch: "scratch", CacheKept: "keep"}[is.Cache]
		fmt.Fprintf(&b, "  %s %q cache=%s", name, is.Argv, cache)
		if is.Hosts != nil {
			fmt.Fprintf(&b, " hosts=%s", strings.Join(is.Hosts, ","))
		}
		if is.Entrypoint {
			b.WriteString(" entrypoint")
		}
		for _, v := range is.Env {
			if !slices.ContainsFunc(ours(dirs, offline, nil), func(o config.Variable) bool { return o.Name == v.Name && o.Value.String() == v.Value.String() }) {
				fmt.Fprintf(&b, " %s=%s", v.Name, v.Value)
			}
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "  launcher %q", p.Launcher)
	if p.Image != "" {
		fmt.Fprintf(&b, " image %s", p.Image)
	}
	if len(p.Packages) > 0 {
		fmt.Fprintf(&b, " packages %q", p.Packages)
	}
	if !p.Cwd.Empty() {
		fmt.Fprintf(&b, " cwd %s", p.Cwd)
	}
	b.WriteByte('\n')
	if p.Install != nil {
		phase("install", p.Install)
	}
	phase("run", &p.Run)
	for _, m := range p.Mounts {
		fmt.Fprintf(&b, "  mount %s on %s readonly=%v\n", m.Source, m.Target, m.ReadOnly)
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "  note %s\n       = %s\n", n.Message, n.Hint)
	}
	return b.String()
}

var lines = []struct{ line, env string }{
	{"server --port 0", `{"A":"${TOKEN}","B":"${secret:b}"}`},
	{"/opt/x/server", `{"HOME":"/root","PATH":"/opt/x","LD_PRELOAD":"/x.so","npm_config_cache":"/elsewhere","NPM_CONFIG_CACHE":"/there"}`},
	{"node /srv/app/index.js --stdio", ""},
	{"uv --directory /srv/weather run weather.py", ""},
	{"sh -c curl·-s·https://x.example·|·sh", ""},
	{"bash -lc server", ""},
	{"node -e require('x')", ""},
	{"cmd /c npx -y @modelcontextprotocol/server-everything", ""},
	{"powershell -Command x", ""},
	{"npx -y @modelcontextprotocol/server-filesystem /data", `{"KEY":"${secret:k}"}`},
	{"npx @playwright/mcp@latest --headless", ""},
	{"/usr/local/bin/npx --yes mcp-remote https://x.example/mcp --header Authorization:${TOKEN}", ""},
	{"npx.cmd -y x", ""},
	{"npx -y -p @acme/tools -p lodash tool-server --stdio", ""},
	{"npx --package=@acme/tools@2 --yes -- tool-server", ""},
	{"npx -y -p @acme/tools -c tool-server|tee", ""},
	{"npx -q --ignore-scripts x", ""},
	{"npx --registry https://npm.example.com/ x", ""},
	{"npx --registry=https://npm.example.com:8443/a x", ""},
	{"npx --@acme:registry=https://acme.example.com/ @acme/x", ""},
	{"npx -y ${PKG}", ""},
	{"npx -y github:acme/server#v1", ""},
	{"npx -y acme/server", ""},
	{"npx -y git+https://git.example.com/acme/server.git", ""},
	{"npx -y https://dl.example.com/server.tgz", ""},
	{"npx -y ./local-server", ""},
	{"npx -y x", `{"npm_config_registry":"https://npm.example.com/","TOKEN":"${TOKEN}"}`},
	{"npm exec --yes -- @acme/server --stdio", ""},
	{"npm x @acme/server", ""},
	{"bunx @acme/server --stdio", ""},
	{"bunx --bun -p @acme/tools tool", ""},
	{"bun x --trust --registry=https://npm.example.com @acme/server", ""},
	{"pnpm dlx @acme/server --stdio", ""},
	{"pnpm --package=@acme/tools dlx tool", ""},
	{"pnpm --silent dlx --allow-build esbuild @acme/server", ""},
	{"pnpm --package=a --package b -c dlx tool|tee", ""},
	{"pnpx @acme/server", ""},
	{"uvx mcp-server-git --repository /srv/loom", ""},
	{"uvx --from mcp-tools[cli]>=1.2 tool --stdio", ""},
	{"uvx --python 3.12 --with requests -w httpx mcp-server-fetch@2025.1.1", ""},
	{"uvx -U --refresh --reinstall-package a -q awslabs.core-mcp-server@latest", ""},
	{"uvx --from git+https://github.com/acme/server@main server", ""},
	{"uvx --index-url https://pypi.example.com/simple x", ""},
	{"uvx --extra-index-url=https://extra.example.com/simple x", ""},
	{"uvx x", `{"UV_INDEX":"corp=https://corp.example.com/simple","UV_PYTHON":"3.12"}`},
	{"uv tool run --isolated mcp-server-time", ""},
	{"pipx run mcp-server-time --utc", ""},
	{"pipx run --spec mcp-tools==1.2 tool --stdio", ""},
	{"pipx -q run --python 3.12 --index-url https://pypi.example.com/simple tool==2", ""},
	{"docker run -i --rm ghcr.io/github/github-mcp-server", ""},
	{"docker run -i --rm -e GITHUB_PERSONAL_ACCESS_TOKEN ghcr.io/github/github-mcp-server", `{"GITHUB_PERSONAL_ACCESS_TOKEN":"${secret:gh}","OTHER":"stays"}`},
	{"docker run --rm -i --init --name notes --pull=always -e A=1 -eB=2 --env C=${secret:c} --env=D=${TOKEN} mcp/notes:1.2 --stdio -e x", ""},
	{"docker container run -i -v /srv/data:/data:ro --mount type=bind,src=/srv/loom,dst=/loom,readonly mcp/files /data", ""},
	{"docker run -i -w /app --entrypoint node registry.example.com:5000/team/mcp@sha256:" + strings.Repeat("a", 64) + " server.js", ""},
	{"docker run --interactive=true --network none --cap-drop ALL --security-opt no-new-privileges --read-only x", ""},
	{"docker run -i -e NOT_SET -e BOX=1 -e BOX=2 x", ""},
	{"podman run -i -- docker.io/library/x", ""},
	{"docker run -i -v${DIR}:/data x", ""},
}

func TestPlans(t *testing.T) {
	var b strings.Builder
	for _, l := range lines {
		p, err := New(entry(t, l.line, l.env), dirs)
		fmt.Fprintf(&b, "== %s %s\n", l.line, l.env)
		if err != nil {
			t.Errorf("%s: %v", l.line, err)
			continue
		}
		b.WriteString(dump(p))
	}
	golden.Equal(t, "plans.golden", b.String())
}

// These rules hold for every plan, whatever the launcher.
func TestEveryPlanKeepsThePhasesApart(t *testing.T) {
	for _, l := range lines {
		p, err := New(entry(t, l.line, `{"KEY":"${secret:key}","TOK":"${TOKEN}","npm_config_registry":"https://r.example/"}`), dirs)
		if err != nil {
			t.Errorf("%s: %v", l.line, err)
			continue
		}
		if (p.Install == nil) != (p.Launcher == Direct || p.Launcher == Docker) {
			t.Errorf("%s: launcher %q, install %v", l.line, p.Launcher, p.Install)
		}
		if i := p.Install; i != nil {
			text := fmt.Sprintf("%q %v", i.Argv, i.Env)
			if len(i.Secrets()) > 0 || strings.Contains(text, "KEY") || strings.Contains(text, "TOK") || strings.Contains(text, "UV_OFFLINE") || i.Cache != CacheKept {
				t.Errorf("%s: the install phase has %s", l.line, text)
			}
			if p.Run.Cache == CacheKept || !has(p.Run.Env, "npm_config_offline", "true") || !has(p.Run.Env, "UV_OFFLINE", "1") || p.Run.Hosts != nil {
				t.Errorf("%s: the run phase is not offline: %v", l.line, p.Run.Env)
			}
		}
		if p.Launcher != Docker && !slices.Contains(p.Run.Secrets(), "key") {
			t.Errorf("%s: the run phase lacks its secret", l.line)
		}
		for _, is := range []*Phase{p.Install, &p.Run} {
			if is == nil {
				continue
			}
			if text := strings.Join(append(slices.Clone(is.Argv), is.Shown...), " "); strings.Contains(text, "${secret:") || strings.Contains(strings.Join(is.Shown, " "), "t0k3n") {
				t.Errorf("%s: arguments are %s", l.line, text)
			}
			for _, want := range ours(dirs, offline, nil) {
				if v, _ := want.Value.Plain(); want.Name != "XDG_CACHE_HOME" && want.Name != "npm_config_offline" && want.Name != "pnpm_config_offline" && want.Name != "UV_OFFLINE" && want.Name != "PIP_NO_INDEX" && !has(is.Env, want.Name, v) {
					t.Errorf("%s: %s is not %s", l.line, want.Name, v)
				}
			}
			seen := map[string]bool{}
			for _, v := range is.Env {
				if seen[v.Name] || strings.HasPrefix(v.Name, "BELLJAR_") {
					t.Errorf("%s: the variable %s is there twice, or is ours", l.line, v.Name)
				}
				seen[v.Name] = true
			}
		}
	}
}

func has(env []config.Variable, name, value string) bool {
	return slices.ContainsFunc(env, func(v config.Variable) bool { s, ok := v.Value.Plain(); return ok && v.Name == name && s == value })
}

var refusals = []struct{ line, flag string }{
	{"server --token=${secret:t}", ""},
	{"npx -y x --key ${secret:t}", ""},
	{"uvx --from ${secret:t} x", ""},
	{"docker run -i x --key ${secret:t}", ""},
	{"docker run -i x -e ${secret:t}", ""},
	{"docker run -i -w /${secret:t} x", ""},
	{"npx", ""},
	{"npx -y", ""},
	{"npx -y -p x", ""},
	{"npx --no-install x", "--no-install"},
	{"npx --unheard-of x", "--unheard-of"},
	{"npx --cache /tmp/c x", "--cache"},
	{"npx --prefix=/x x", "--prefix"},
	{"npx --registry http://npm.example.com x", "--registry"},
	{"npx --registry https://user:pw@npm.example.com x", "--registry"},
	{"npx --registry", "--registry"},
	{"npx git+ssh://git@github.com/acme/server", ""},
	{"npx git@github.com:acme/server", ""},
	{"bunx --no-install x", "--no-install"},
	{"bunx -p a -p b c", "--package"},
	{"bunx --env-file .env x", "--env-file"},
	{"bunx --registry http://npm.example.com x", "--registry"},
	{"pnpm dlx --dir /x y", "--dir"},
	{"uvx", ""},
	{"uvx --from x", ""},
	{"uvx --cache-dir /x y", "--cache-dir"},
	{"uvx --env-file .env y", "--env-file"},
	{"uvx --index-url http://pypi.example.com/simple y", "--index-url"},
	{"uvx --allow-insecure-host h y", "--allow-insecure-host"},
	{"uvx --from git+ssh://git@github.com/a/b b", ""},
	{"pipx run", ""},
	{"pipx run --spec x", ""},
	{"pipx run --pypackages x", "--pypackages"},
	{"pipx run --with a b", "--with"},
	{"pipx --global run x", "--global"},

	{"docker", ""},
	{"docker ps", ""},
	{"docker exec -i c server", ""},
	{"docker compose run x", ""},
	{"docker mcp gateway run", ""},
	{"docker -H tcp://host run -i x", "-H"},
	{"docker --context prod run -i x", "--context"},
	{"docker run x", "-i"},
	{"docker run --interactive=false x", "-i"},
	{"docker run -i", ""},
	{"docker run -i --name", "--name"},
	{"docker run -i Not/An/Image", ""},
	{"docker run -it x", "-t"},
	{"docker run -i -d x", "-d"},
	{"docker run -i --privileged x", "--privileged"},
	{"docker run -i --network host x", "--network"},
	{"docker run -i --net=host x", "--net"},
	{"docker run -i --network=container:other x", "--network"},
	{"docker run -i -v /:/host x", "-v"},
	{"docker run -i -v /etc:/e:ro x", "-v"},
	{"docker run -i -v /srv/ada/../../etc/shadow:/s x", "-v"},
	{"docker run -i -v /var/run/docker.sock:/var/run/docker.sock x", "-v"},
	{"docker run -i -v /opt/x/docker.sock:/d x", "-v"},
	{"docker run -i --volume=/run:/run x", "--volume"},
	{"docker run -i -v data:/data x", "-v"},
	{"docker run -i -v /data x", "-v"},
	{"docker run -i -v ./data:/data x", "-v"},
	{"docker run -i -v /srv/data:/ x", "-v"},
	{"docker run -i -v /srv/data:/data:shared x", "-v"},
	{"docker run -i --mount type=volume,src=d,dst=/d x", "--mount"},
	{"docker run -i --mount type=bind,src=/,dst=/d x", "--mount"},
	{"docker run -i --mount type=tmpfs,dst=/d x", "--mount"},
	{"docker run -i --mount type=bind,src=/srv,dst=/d,volume-opt=x x", "--mount"},
	{"docker run -i --volumes-from c x", "--volumes-from"},
	{"docker run -i -p 8080:80 x", "-p"},
	{"docker run -ip 8080:80 x", "-p"},
	{"docker run -i -P x", "-P"},
	{"docker run -i --device /dev/kvm x", "--device"},
	{"docker run -i --gpus all x", "--gpus"},
	{"docker run -i --cap-add SYS_ADMIN x", "--cap-add"},
	{"docker run -i --security-opt seccomp=unconfined x", "--security-opt"},
	{"docker run -i --pid host x", "--pid"},
	{"docker run -i --ipc=host x", "--ipc"},
	{"docker run -i --userns host x", "--userns"},
	{"docker run -i --cgroupns host x", "--cgroupns"},
	{"docker run -i --sysctl a=b x", "--sysctl"},
	{"docker run -i --runtime sysbox x", "--runtime"},
	{"docker run -i --add-host a:1.2.3.4 x", "--add-host"},
	{"docker run -i --dns 1.1.1.1 x", "--dns"},
	{"docker run -i -m 1g x", "-m"},
	{"docker run -i --cpus 2 x", "--cpus"},
	{"docker run -i -u root x", "-u"},
	{"docker run -i --env-file .env x", "--env-file"},
	{"docker run -i --tmpfs /x x", "--tmpfs"},
	{"docker run -i --platform linux/arm64 x", "--platform"},
	{"docker run -i --restart always x", "--restart"},
	{"docker run -i -e BELLJAR_TOKEN=x x", "-e"},
	{"docker run -i --use-api-socket x", "--use-api-socket"},
	{"docker run -i --brand-new x", "--brand-new"},
	{"docker run -i -Z x", "-Z"},
}

func TestRefusals(t *testing.T) {
	var b strings.Builder
	for _, r := range refusals {
		p, err := New(entry(t, r.line, ""), dirs)
		var is *Refusal
		if !errors.As(err, &is) || is.Flag != r.flag {
			t.Errorf("%s: got %v and %v, want a refusal of %q", r.line, p, err, r.flag)
			continue
		}
		if r.flag != "" && !strings.Contains(is.Message, r.flag) {
			t.Errorf("%s: %q does not name %s", r.line, is.Message, r.flag)
		}
		fmt.Fprintf(&b, "== %s\n%s\n", r.line, is)
	}
	golden.Equal(t, "refusals.golden", b.String())
}

// The phase that installs must use the registries that the entry names, or be refused: the
// usual registries may have another person's package under the same name.
func TestRegistriesOfVariablesAreKeptOrRefused(t *testing.T) {
	for _, test := range []struct{ line, env, hosts string }{
		{"npx x", `{"npm_config_registry":"https://r.example/"}`, "r.example"},
		{"npx @acme/x", `{"npm_config_@acme:registry":"https://r.example/"}`, "r.example,registry.npmjs.org"},
		{"bunx x", `{"BUN_CONFIG_REGISTRY":"https://r.example/"}`, "r.example"},
		{"pnpm dlx x", `{"pnpm_config_registry":"https://r.example/"}`, "r.example"},
		{"uvx x", `{"UV_DEFAULT_INDEX":"https://r.example/simple"}`, "r.example"},
		{"uvx x", `{"UV_INDEX":"a=https://a.example/ https://b.example/","UV_FIND_LINKS":"/srv/wheels"}`, "a.example,b.example,pypi.org,files.pythonhosted.org"},
		{"pipx run x", `{"PIP_INDEX_URL":"https://r.example/simple"}`, "r.example"},
		{"uvx x", `{"UV_RESOLUTION":"lowest","UV_PUBLISH_TOKEN":"${TOKEN}"}`, "pypi.org,files.pythonhosted.org"},

		{"npx x", `{"NPM_CONFIG_REGISTRY":"https://r.example/${secret:s}"}`, ""},
		{"npx x", `{"npm_config_registry":"http://r.example/"}`, ""},
		{"uvx x", `{"UV_INDEX_URL":"https://user:${secret:s}@r.example/simple"}`, ""},
		{"uvx x", `{"UV_INDEX_URL":"https://user:pw@r.example/simple"}`, ""},
		{"uvx x", `{"UV_CONFIG_FILE":"/srv/uv.toml"}`, ""},
		{"uvx x", `{"UV_INSECURE_HOST":"r.example"}`, ""},
		{"pipx run x", `{"PIP_CONFIG_FILE":"/srv/pip.conf"}`, ""},
		{"pipx run x", `{"PIP_TRUSTED_HOST":"r.example"}`, ""},
		{"npx x", `{"NPM_CONFIG_USERCONFIG":"/srv/npmrc"}`, ""},
		{"npx x", `{"npm_config_strict_ssl":"false"}`, ""},
	} {
		p, err := New(entry(t, test.line, test.env), dirs)
		if test.hosts == "" {
			var is *Refusal
			if !errors.As(err, &is) || is.Flag == "" || strings.Contains(is.Error(), "pw") {
				t.Errorf("%s %s: got %v, want a refusal", test.line, test.env, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %s: %v", test.line, test.env, err)
			continue
		}
		text := fmt.Sprint(p.Install.Env)
		if got := strings.Join(p.Install.Hosts, ","); got != test.hosts || strings.Contains(text, "TOKEN") || strings.Contains(test.env, "RESOLUTION") != strings.Contains(text, "UV_RESOLUTION") {
			t.Errorf("%s %s: got the hosts %s and %s, want %s", test.line, test.env, got, text, test.hosts)
		}
	}
}

// Wherever a variable is in a command line, no text that goes to logs shows its value.
func TestNothingShownHasValuesOfVariables(t *testing.T) {
	var all []string
	for _, l := range lines {
		all = append(all, l.line)
	}
	for _, r := range refusals {
		all = append(all, r.line)
	}
	tried := 0
	for _, line := range all {
		words := strings.Fields(line)
		for i := 1; i < len(words); i++ {
			for _, with := range []string{"${TOKEN}", words[i] + "${TOKEN}", words[i] + "=${TOKEN}", "-${TOKEN}", "--${TOKEN}", "/${TOKEN}:/x", "https://${TOKEN}.example"} {
				changed := slices.Clone(words)
				changed[i] = with
				e := entry(t, strings.Join(changed, " "), "")
				p, err := New(e, dirs)
				shown := fmt.Sprint(err)
				if err == nil {
					shown = fmt.Sprint(p.Notes, p.Run.Shown, p.Packages, Pin(e, p).Argv, Pin(e, p).Env, Pin(e, p).Packages)
				}
				tried++
				if strings.Contains(shown, "t0k3n") {
					t.Errorf("%s: %s", strings.Join(changed, " "), shown)
				}
			}
		}
	}
	if tried < 3000 {
		t.Errorf("only %d command lines were tried", tried)
	}
}

func TestTextsForPeopleAreHarmless(t *testing.T) {
	for _, line := range []string{"npx --\x1b[31m x", "docker run -i \x1b]0;x\x07", "docker \u202eps", "docker run -i --" + strings.Repeat("x", 5000) + " y", "docker run -i -e \x1b[2J x"} {
		p, err := New(entry(t, line, ""), dirs)
		text := fmt.Sprint(err)
		if p != nil {
			text = fmt.Sprint(p.Notes)
		}
		if strings.ContainsAny(text, "\x1b\x07\u202e") || len(text) > 800 || err == nil && len(p.Notes) == 0 {
			t.Errorf("%q: got %q", line, text)
		}
	}
}

func TestPins(t *testing.T) {
	var b strings.Builder
	for _, l := range lines {
		e := entry(t, l.line, l.env)
		p, err := New(e, dirs)
		if err != nil {
			t.Errorf("%s: %v", l.line, err)
			continue
		}
		is := Pin(e, p)
		fmt.Fprintf(&b, "== %s %s\n  %q\n  env %q\n", l.line, l.env, is.Argv, is.Env)
		if text := fmt.Sprint(is); strings.Contains(text, "t0k3n") {
			t.Errorf("%s: a pin shows a value: %s", l.line, text)
		}
		fmt.Fprintf(&b, "  image %s packages %q files %q locks %q mounts %q\n", is.Image, is.Packages, is.Files, is.Locks, is.Mounts)
	}
	remote := Pin(expanded(t, `{"url":"https://a.example/${TOKEN}?k=${secret:k}","headers":{"Authorization":"Bearer ${secret:k}"}}`), nil)
	fmt.Fprintf(&b, "== a URL\n  %q\n  env %q\n", remote.Argv, remote.Env)
	golden.Equal(t, "pins.golden", b.String())
}

// A pin changes with the code that runs, and not with a token.
func TestPinsSeeWhatRuns(t *testing.T) {
	of := func(line, env string) string {
		e := entry(t, line, env)
		p, err := New(e, dirs)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%q", Pin(e, p))
	}
	base := of("npx -y x@1 --a", `{"TOKEN":"one"}`)
	for _, other := range [][2]string{
		{"npx -y x@2 --a", `{"TOKEN":"one"}`},
		{"npx -y x@1 --b", `{"TOKEN":"one"}`},
		{"npx -y x@1", `{"TOKEN":"one"}`},
		{"/tmp/npx -y x@1 --a", `{"TOKEN":"one"}`},
		{"npx -y x@1 --a", `{"TOKEN":"one","NODE_OPTIONS":"--require /x"}`},
		{"npx -y x@1 --a", `{"TOKEN":"one","OTHER":""}`},
		{"npx -y x@1 --a", `{}`},
	} {
		if of(other[0], other[1]) == base {
			t.Errorf("%s %s is pinned alike", other[0], other[1])
		}
	}
	if of("npx -y x@1 --a", `{"TOKEN":"two"}`) != base {
		t.Error("another token changes the pin")
	}
	if of("server", `{"LD_PRELOAD":"/a.so"}`) == of("server", `{"LD_PRELOAD":"/b.so"}`) {
		t.Error("another preload is pinned alike")
	}
}

func TestOnlyCommandsAreLaunched(t *testing.T) {
	if _, err := New(expanded(t, `{"url":"https://a.example/"}`), dirs); err == nil {
		t.Error("a URL has a plan")
	}
}
