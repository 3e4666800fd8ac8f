package browser_test

import (
	"strings"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// What a page leaves behind is seen by no later call, of its tenant or another,
// and the box holds nothing of the host.
func TestIsolation(t *testing.T) {
	r := newRig(t, browser.Config{})
	r.page("/set", `<!doctype html><p id=p>set<script>document.cookie = "a=secret; max-age=1000"; localStorage.a = "secret"; indexedDB.open("secret"); caches?.open("secret");</script>`)
	r.page("/get", `<!doctype html><p id=p><script>p.textContent = "[" + document.cookie + "|" + localStorage.a + "]"; indexedDB.databases().then(d => p.append(" " + d.length))</script>`)
	for _, tenant := range []string{"a", "a", "b"} {
		g := r.grant(tenant)
		l, err := r.pool.Load(t.Context(), g, browser.Request{URL: r.url("/get")})
		if err != nil || !strings.Contains(l.HTML, "[|undefined] 0") {
			t.Errorf("%s: %+v %v", tenant, l, err)
		}
		if _, err := r.pool.Load(t.Context(), g, browser.Request{URL: r.url("/set")}); err != nil {
			t.Error(err)
		}
	}
	boxes := r.sup.Boxes()
	if len(boxes) != 2 {
		t.Errorf("%d boxes for two tenants", len(boxes))
	}
	for _, b := range boxes {
		if g := b.Grant(); g.Workspace() != policies.AccessNone || len(g.Mounts()) > 0 {
			t.Errorf("box %s: %+v", b.ID(), g)
		}
		res, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Timeout: 10 * time.Second, Shell: `ls -d /workspace /root /home/* /etc/shadow 2>&1 | grep -v 'No such' ; id -u
for p in /proc/[0-9]*; do readlink $p/exe; done | grep -v -e chromium -e bash -e coreutils ; echo | grep -c ' 0A ' /proc/net/tcp /proc/net/tcp6; ls /tmp/profile/DevToolsActivePort 2>&1 | grep -v 'No such'; true`})
		if err != nil {
			t.Fatal(err)
		}
		cut, err := res.Output.Cut(4 << 10)
		if err != nil {
			t.Fatal(err)
		}
		// Its home, its own user, no other processes, and the door's listeners.
		t.Logf("%s", cut.Text)
		if lines := strings.Fields(string(cut.Text)); len(lines) < 2 || len(lines) > 5 || lines[0] != "/home/agent" || lines[1] != "1000" {
			t.Errorf("it sees %q", cut.Text)
		}
	}
}
