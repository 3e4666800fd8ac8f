package sandbox

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox/limit"
)

func TestExpose(t *testing.T) {
	good := Host{
		Limits:   limit.Enforcements{policies.LimitMemory: limit.Enforced, policies.LimitPids: limit.Enforced, policies.LimitCPU: limit.Enforced, policies.LimitIO: limit.Enforced},
		Landlock: 7, Root: true, Execs: true, CPUs: 8, Memory: 64 << 30,
	}
	small := policies.Limits{BoxLimits: policies.BoxLimits{Memory: 1 << 30, Pids: 100, CPU: 1}, CommandLimits: policies.CommandLimits{Background: 1}}
	with := func(change func(*policies.Profile, *Host)) (policies.Profile, Host) {
		p, h := policies.Profile{Name: "p", Limits: small, Exec: policies.ExecObserve}, good
		h.Limits = limit.Enforcements{}
		maps.Copy(h.Limits, good.Limits)
		change(&p, &h)
		return p, h
	}
	network := func(net string) func(*policies.Profile, *Host) {
		e := policytest.Egress(t, net)
		return func(p *policies.Profile, _ *Host) {
			if p.Egress = e; !e.IsZero() {
				p.Network = policies.NetworkDoor
			}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*policies.Profile, *Host)
		want   int
	}{
		{"nothing", func(*policies.Profile, *Host) {}, 0},
		{"read", func(p *policies.Profile, _ *Host) { p.Workspace = policies.AccessRead }, weightWorkspaceRead},
		{"write", func(p *policies.Profile, _ *Host) { p.Workspace = policies.AccessWrite }, weightWorkspaceWrite},
		{"write, unprotected", func(p *policies.Profile, _ *Host) {
			p.Workspace, p.Protect.Off = policies.AccessWrite, true
		}, weightWorkspaceWrite + weightUnprotected},
		{"protect off where nothing can be written", func(p *policies.Profile, _ *Host) {
			p.Workspace, p.Protect.Off = policies.AccessRead, true
		}, weightWorkspaceRead},
		{"what is started is not seen", func(p *policies.Profile, _ *Host) { p.Exec = policies.ExecOff }, weightUnseen},
		{"what is started cannot be seen", func(_ *policies.Profile, h *Host) { h.Execs = false }, weightUnseen},
		{"a browser", func(p *policies.Profile, _ *Host) { p.Browser = policies.BrowserSandboxed }, weightBrowser},
		{"a browser without a sandbox", func(p *policies.Profile, _ *Host) { p.Browser = policies.BrowserDegraded }, weightBrowser + weightBareBrowser},
		{"system", func(p *policies.Profile, _ *Host) { p.System = true }, weightSystem},
		{"overlay", func(p *policies.Profile, _ *Host) { p.Workspace = policies.AccessOverlay }, weightOverlay},
		{"a network of which nothing is known", func(p *policies.Profile, _ *Host) { p.Network = policies.NetworkDoor }, weightEveryName},
		{"no network", network("mode: none"), 0},
		{"a name", network("{mode: proxy, allow: [a.example]}"), weightNames},
		{"many names", network("{mode: proxy, allow: [a.example, b.example, c.example]}"), weightNames},
		{"names below a name", network(`{mode: proxy, allow: [a.example, "*.b.example"]}`), weightBelowName},
		{"every name", network(`{mode: proxy, allow: [a.example, "*.b.example", "*"]}`), weightEveryName},
		{"a private server", network(`{mode: proxy, allow_private: ["localhost:3000", db.internal]}`), weightPrivate},
		{"TLS opened", network(`{mode: proxy, allow: a.example, tls: intercept}`), weightNames + weightIntercept},
		{"secrets", network(`{mode: proxy, allow: a.example, tls: intercept, secrets: [
      {secret: env, host: a.example, header: A, value: "${secret:env}"}, {secret: file, host: a.example, header: B, value: "${secret:file}"}]}`), weightNames + weightIntercept + 2*weightSecret},
		{"a secret in plain text", network(`{mode: proxy, allow: a.example, secrets: [{secret: env, host: a.example, header: A, value: "${secret:env}"}]}`), weightNames + weightSecret + weightBareHTTP},
		{"published ports", func(p *policies.Profile, _ *Host) { p.Publish = []policies.PortRange{{First: 3000, Last: 3000}} }, weightPublish},
		{"a mount", func(p *policies.Profile, _ *Host) { p.Mounts = []policies.Mount{{Source: "/opt/tools"}} }, weightMountRead},
		{"a writable mount", func(p *policies.Profile, _ *Host) {
			p.Mounts = []policies.Mount{{Source: "/srv/data", Writable: true}}
		}, weightMountWrite},
		{"keys", func(p *policies.Profile, _ *Host) { p.Mounts = []policies.Mount{{Source: "/home/me/.ssh"}} }, weightSecretRead},
		{"a whole home", func(p *policies.Profile, _ *Host) {
			p.Mounts = []policies.Mount{{Source: "/home/me", Writable: true}}
		}, weightSecretWrite},
		{"what holds keys", func(p *policies.Profile, _ *Host) { p.Mounts = []policies.Mount{{Source: "/var"}} }, weightSecretRead},
		{"a daemon's socket", func(p *policies.Profile, _ *Host) {
			p.Mounts = []policies.Mount{{Source: "/srv/docker.sock", Writable: true}}
		}, weightSecretWrite},
		{"a project in a home", func(p *policies.Profile, _ *Host) {
			p.Mounts = []policies.Mount{{Source: "/home/me/src/lib"}}
		}, weightMountRead},
		{"a secret", func(p *policies.Profile, _ *Host) { p.Env = []string{"LANG", "GITHUB_TOKEN"} }, weightSecretEnv},
		{"memory watched", func(_ *policies.Profile, h *Host) { h.Limits[policies.LimitMemory] = limit.Watchdog }, 5},
		{"pids free", func(_ *policies.Profile, h *Host) { h.Limits[policies.LimitPids] = limit.NotEnforced }, 10},
		{"io free and no disk", func(_ *policies.Profile, h *Host) { h.Limits[policies.LimitIO] = limit.NotEnforced }, 0},
		{"io free", func(p *policies.Profile, h *Host) {
			p.Workspace, h.Limits[policies.LimitIO] = policies.AccessRead, limit.NotEnforced
		}, weightWorkspaceRead + 2},
		{"no landlock", func(_ *policies.Profile, h *Host) { h.Landlock = 0 }, weightNoLandlock},
		{"a landlock too old to be used", func(_ *policies.Profile, h *Host) { h.Landlock = 1 }, weightNoLandlock},
		{"an old landlock", func(_ *policies.Profile, h *Host) { h.Landlock = 5 }, weightOldLandlock},
		{"a landlock that has all", func(_ *policies.Profile, h *Host) { h.Landlock = 6 }, 0},
		{"the same user", func(_ *policies.Profile, h *Host) { h.Root = false }, weightSameUser},
		{"much memory", func(p *policies.Profile, _ *Host) { p.Limits.Memory = 33 << 30 }, weightLargeMemory},
		{"all CPUs", func(p *policies.Profile, _ *Host) { p.Limits.CPU = 8 }, weightLargeCPU},
		{"many processes", func(p *policies.Profile, _ *Host) { p.Limits.Pids = largePids + 1 }, weightManyPids},
		{"long jobs", func(p *policies.Profile, _ *Host) { p.Limits.Background = largeJob + 1 }, weightLongJobs},
		{"everything", func(p *policies.Profile, h *Host) {
			p.Workspace, p.System, p.Network, p.Env = policies.AccessWrite, true, policies.NetworkDoor, []string{"API_KEY"}
			p.Mounts = []policies.Mount{{Source: "/etc", Writable: true}, {Source: "/home", Writable: true}}
		}, mostScore},
	} {
		e := Expose(with(tt.change))
		if e.Score != tt.want {
			t.Errorf("%s: got %d, want %d: %+v", tt.name, e.Score, tt.want, e.Points)
		}
		sum := 0
		for _, p := range e.Points {
			sum += p.Score
		}
		if min(sum, mostScore) != e.Score {
			t.Errorf("%s: the points add up to %d, not to %d", tt.name, sum, e.Score)
		}
	}
}

// docs/hosts.md must contain every weight.
func TestExposureIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/hosts.md")
	if err != nil {
		t.Fatal(err)
	}
	unheld := map[policies.Limit]map[limit.Enforcement]int{}
	for _, u := range weightUnheld {
		unheld[u.limit] = u.weight
	}
	for _, row := range []struct {
		fact   string
		points string
	}{
		{"it can reach every public name", fmt.Sprint(weightEveryName)},
		{"it can reach all names below another", fmt.Sprint(weightBelowName)},
		{"it can reach hosts that the policy names", fmt.Sprint(weightNames)},
		{"it can reach servers that are not public", fmt.Sprint(weightPrivate)},
		{"TLS is opened at the door", fmt.Sprint(weightIntercept)},
		{"a secret is added to requests, or travels in plain text besides", fmt.Sprintf("%d, %d each", weightSecret, weightSecret+weightBareHTTP)},
		{"ports of it can be opened on this machine", fmt.Sprint(weightPublish)},
		{"the workspace can be written, and its disk can be filled", fmt.Sprint(weightWorkspaceWrite)},
		{"the workspace can be read, and a layer over it can be written", fmt.Sprint(weightOverlay)},
		{"the workspace can be read", fmt.Sprint(weightWorkspaceRead)},
		{"`protect: none` with a writable workspace", fmt.Sprint(weightUnprotected)},
		{"a sensitive place (keys, sockets of daemons, the system's own files) can be written", fmt.Sprint(weightSecretWrite, " each")},
		{"a sensitive place can be read", fmt.Sprint(weightSecretRead, " each")},
		{"another path can be written", fmt.Sprint(weightMountWrite, " each")},
		{"another path can be read", fmt.Sprint(weightMountRead, " each")},
		{"the host's system directories can be read", fmt.Sprint(weightSystem)},
		{"a variable that looks like a secret", fmt.Sprint(weightSecretEnv, " each")},
		{"memory is held by the watchdog, or not", fmt.Sprintf("%d, %d", unheld[policies.LimitMemory][limit.Watchdog], unheld[policies.LimitMemory][limit.NotEnforced])},
		{"processes are not held", fmt.Sprint(unheld[policies.LimitPids][limit.NotEnforced])},
		{"CPU is not held", fmt.Sprint(unheld[policies.LimitCPU][limit.NotEnforced])},
		{"io is held in part, or not, and there is a workspace", fmt.Sprintf("%d, %d", unheld[policies.LimitIO][limit.Partly], unheld[policies.LimitIO][limit.NotEnforced])},
		{"no Landlock, or one before 6.12", fmt.Sprintf("%d, %d", weightNoLandlock, weightOldLandlock)},
		{"on the host, boxes are the user that runs belljar", fmt.Sprint(weightSameUser)},
		{"a box can have more than half of the host's memory", fmt.Sprint(weightLargeMemory)},
		{"a box can have all CPUs", fmt.Sprint(weightLargeCPU)},
		{fmt.Sprintf("a box can have more than %d processes", largePids), fmt.Sprint(weightManyPids)},
		{"jobs can run longer than a day", fmt.Sprint(weightLongJobs)},
	} {
		if line := "| " + row.fact + " | " + row.points + " |\n"; !strings.Contains(string(text), line) {
			t.Errorf("docs/hosts.md lacks the row %q", line)
		}
	}
	for _, place := range secretPlaces {
		if !strings.Contains(string(text), place) {
			t.Errorf("docs/hosts.md does not name %s as a sensitive place", place)
		}
	}
	for _, l := range landlockLosses {
		if line := fmt.Sprintf("| %s | %s | %s |\n", l.linux, l.what, l.means); !strings.Contains(string(text), line) {
			t.Errorf("docs/hosts.md lacks the row %q", line)
		}
	}
}
