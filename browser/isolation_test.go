package browser_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"belljar.dev/browser"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// census prints what a command in the box of a page sees of the host and of others. It
// starts nothing while it lists processes, so only Chrome's processes, the init of the box
// and the shell itself are listed.
const census = `ls -d /workspace /root /home/* /etc/shadow /tmp/profile/DevToolsActivePort 2>/dev/null
echo "user $UID"
for p in /proc/[0-9]*; do
	{ read -r name <$p/comm; } 2>/dev/null || continue # it ended meanwhile
	[[ $name == *chrom* ]] && name=chrome # which of them there is differs
	echo "process $name"
done
listeners=$(cat /proc/net/tcp /proc/net/tcp6)
while read -r _ address _ state _; do
	[[ $state == 0A ]] && echo "listens $address"
done <<<"$listeners"
true`

// inTheCensus contains all that the census may print: the home, the user and the processes
// of the box, and the door's listeners for names, connections and proxy clients.
var inTheCensus = []string{
	"/home/agent",
	"listens FEFF13C6:0001", "listens FEFF13C6:0002", "listens FEFF13C6:0035",
	"process bash", "process belljar-init", "process chrome",
	"user 1000",
}

// TestIsolation checks that no later call, of the same tenant or of another, sees anything
// that a page leaves behind, and that the box contains nothing of the host.
func TestIsolation(t *testing.T) {
	r := newRig(t, browser.Config{})
	r.page("/set", `<!doctype html><p id=p>set<script>document.cookie = "a=secret; max-age=1000"; localStorage.a = "secret"; indexedDB.open("secret"); caches?.open("secret");</script>`)
	r.page("/get", `<!doctype html><p id=p><script>p.textContent = "[" + document.cookie + "|" + localStorage.a + "]"; indexedDB.databases().then(d => { p.append(" " + d.length); p.className = "done" })</script>`)
	for _, tenant := range []string{"a", "a", "b"} {
		g := r.grant(tenant)
		l, err := r.pool.Load(t.Context(), g, browser.Request{URL: r.url("/get"), Selector: ".done"})
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
		res, err := b.Run(t.Context(), sandbox.Cmd{Grant: b.Grant(), Timeout: 10 * time.Second, Shell: census})
		if err != nil {
			t.Fatal(err)
		}
		cut, err := res.Output.Cut(4 << 10)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSpace(string(cut.Text)), "\n")
		slices.Sort(got)                  // by name, since Chrome's processes start and end
		if testenv.Root.Missing() != "" { // each command may have a pid namespace of its own
			got = append(got, "process chrome")
			slices.Sort(got)
		}
		if got = slices.Compact(got); !slices.Equal(got, inTheCensus) {
			t.Errorf("a command in the box of a page sees %q, want %q", got, inTheCensus)
		}
	}
}
