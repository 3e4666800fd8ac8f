package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"belljar.dev/internal/testenv"
)

// walker makes random calls for two tenants. Each tenant has a canary: a text that it
// leaves wherever it can, and that no answer to the other tenant may contain.
type walker struct {
	*estate
	r      *rand.Rand
	canary map[string]string // canary by tenant
	ids    []string          // IDs of sessions, outputs and other things that answers have contained
}

// deed is one action of a tenant. sees reports whether the answer must contain the tenant's
// own canary once the tenant has left it everywhere.
type deed struct {
	name string
	sees bool
	do   func(w *walker, tenant, path string) string
}

// strangers are the paths that both tenants of a walker use: the first leads each tenant to
// its own workspace, the second to its own place of the same name, and the third leads both
// tenants to the same directory.
var strangers = []string{"/mcp", "/w/site/mcp", "/w/both/mcp"}

const walkersPolicy = `version: 1
defaults: {decision: allow, profile: box}
profiles:
  box: {fs: {system: true, workspace: MODE}}
totals: {boxes: 64}
tenants:
  a: {token: "${file:DIR/t/a}", approvers: [], workspace: DIR/a, places: {site: DIR/a-site, both: DIR/b-own}, limit: {calls: 10000/s, burst: 100000}}
  b: {token: "${file:DIR/t/b}", approvers: [], workspace: DIR/b, places: {site: DIR/b-site, both: DIR/b-own}, limit: {calls: 10000/s, burst: 100000}}
`

// bashes returns a deed that runs a script. $C in the script stands for the canary.
func bashes(name string, sees bool, script string) deed {
	return deed{name, sees, func(w *walker, tenant, path string) string {
		return w.bash(tenant, path, strings.ReplaceAll(script, "$C", w.canary[tenant]))
	}}
}

// calls returns a deed that calls a tool. $C in the arguments stands for the canary. A
// number below zero stands for a random number that may belong to another tenant's thing.
func calls(name string, sees bool, tool string, args map[string]any) deed {
	return deed{name, sees, func(w *walker, tenant, path string) string {
		own := make(map[string]any, len(args))
		for key, v := range args {
			switch v := v.(type) {
			case string:
				own[key] = strings.ReplaceAll(v, "$C", w.canary[tenant])
			case int:
				own[key] = v
				if v < 0 {
					own[key] = 1 + w.r.IntN(8)
				}
			default:
				own[key] = v
			}
		}
		return w.call(tenant, path, tool, own)
	}}
}

// leaves are the ways of leaving the canary. A plan comes first: while a session plans, its
// commands run in another box. A deed that writes files into a workspace is only for places
// that the tenants do not share, and is not in this list.
var leaves = []deed{
	calls("a plan", false, "PlanMode", map[string]any{"action": "enter", "goal": "$C", "plan_file": "one.md"}),
	calls("a plan that is over", false, "PlanMode", map[string]any{"action": "exit", "plan": "$C", "plan_file": "one.md"}),
	bashes("a file outside of the workspace", false, "echo $C > /tmp/c; echo $C > ~/c; mkdir -p /dev/shm/x; echo $C > /dev/shm/x/c"),
	bashes("a process", false, "(exec -a $C sleep 60) & true"),
	calls("a task", false, "TaskManager", map[string]any{"action": "create", "text": "$C"}),
	calls("a step", false, "TaskManager", map[string]any{"action": "add", "text": "$C"}),
	calls("a background task", false, "BackgroundBash", map[string]any{"command": "echo $C", "description": "$C", "delay_ms": 0}),
	calls("a callback", false, "SetCallback", map[string]any{"message": "$C", "delay_seconds": 3600}),
}

// layered leaves the canary in the workspace. With workspace: overlay this is a layer of
// the session, so two tenants with the same directory have different layers.
var layered = bashes("a file of a layer", false, "echo $C > /workspace/layered")

// looks are the ways of finding a canary.
var looks = []deed{
	bashes("a file", false, "cat /workspace/canary /workspace/../canary 2>/dev/null; true"),
	bashes("everything that is near", true, "grep -rsh canary- /workspace /tmp /dev/shm ~ /run 2>/dev/null | sort -u | head; true"),
	bashes("processes", false, "cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' ' '; ls /proc/1/root/ 2>&1; true"),
	{"a path of the host", false, func(w *walker, tenant, path string) string {
		dir := filepath.Join(w.dir, append(slices.Clone(rented), "home", "state")[w.r.IntN(len(rented)+2)])
		return w.bash(tenant, path, "cat '"+dir+"/canary' 2>/dev/null; ls -R '"+w.dir+"' /proc/self/root"+w.dir+" 2>/dev/null | head; true")
	}},
	{"a working directory", false, func(w *walker, tenant, path string) string {
		return w.call(tenant, path, "Bash", map[string]any{"command": "cat canary", "cwd": []string{"..", "/", filepath.Join(w.dir, "b"), "../../b"}[w.r.IntN(4)]})
	}},
	{"a link", false, func(w *walker, tenant, path string) string {
		return w.bash(tenant, path, "ln -sfn '"+filepath.Join(w.dir, []string{"a", "b", "a-site", "b-site"}[w.r.IntN(4)])+"' link; cat link/canary 2>/dev/null; true")
	}},
	calls("tasks", true, "TaskManager", map[string]any{"action": "list"}),
	calls("a task of a number", false, "TaskManager", map[string]any{"action": "switch", "task_id": -1}),
	calls("background tasks", true, "ListBgTasks", map[string]any{}),
	calls("an output", false, "ReadBgOutput", map[string]any{"task_id": -1}),
	calls("the end of a background task", false, "KillBgTask", map[string]any{"task_id": -1}),
	calls("callbacks", true, "SetCallback", map[string]any{"action": "list"}),
	calls("a plan", true, "PlanMode", map[string]any{"action": "json", "plan_file": "one.md"}),
	calls("the state of a plan", false, "PlanMode", map[string]any{"action": "status"}),
	calls("skills", false, "SearchSkills", map[string]any{"query": "canary"}),
	calls("a picture", false, "ReadImage", map[string]any{"path": "/workspace/canary"}),
	{"a resource", false, func(w *walker, tenant, path string) string {
		uri := []string{"file:///workspace/canary", "file:///workspace/../b/canary", "file://" + w.dir + "/b/canary", "belljar://tasks", "job://" + fmt.Sprint(1+w.r.IntN(8)), w.id("output://")}[w.r.IntN(6)]
		return w.request(tenant, path, "resources/read", uri, map[string]any{"uri": uri})
	}},
	{"all resources", false, func(w *walker, tenant, path string) string {
		return w.request(tenant, path, "resources/list", "", map[string]any{})
	}},
	{"the session of another", false, func(w *walker, tenant, path string) string {
		_, body, _ := w.do(tenant, path, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"TaskManager","arguments":{"action":"list"}}}`, "Mcp-Session-Id", w.id("s-"))
		return body
	}},
	{"a session of its own", false, func(w *walker, tenant, path string) string {
		_, body, header := w.do(tenant, path, hello)
		w.note("s-" + header.Get("Mcp-Session-Id"))
		return body
	}},
	{"a place of another", false, func(w *walker, tenant, _ string) string {
		name := []string{"a", "b", "a-site", "own", "home", "..", "%2e%2e", "site%2f..%2fown"}[w.r.IntN(8)]
		status, body, _ := w.do(tenant, "/w/"+name+"/mcp", "{}")
		if status != http.StatusNotFound {
			w.t.Errorf("%s enters %s: %d", tenant, name, status)
		}
		return body
	}},
}

var outputURI = regexp.MustCompile(`output://[A-Za-z0-9_-]+`)

// note remembers an ID, which both tenants may use.
func (w *walker) note(id string) {
	if w.ids = append(w.ids, id); len(w.ids) > 64 {
		w.ids = w.ids[1:]
	}
}

// id returns a random ID of a kind from those that were remembered.
func (w *walker) id(kind string) string {
	for _, i := range w.r.Perm(len(w.ids)) {
		if id, ok := strings.CutPrefix(w.ids[i], kind); ok {
			if kind == "s-" {
				return id
			}
			return kind + id
		}
	}
	return kind + "none"
}

// request sends a modern request other than a call.
func (w *walker) request(tenant, path, method, name string, params map[string]any) string {
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "t", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
	}
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		w.t.Fatal(err)
	}
	headers := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		headers = append(headers, "Mcp-Name", name)
	}
	_, body, _ := w.do(tenant, path, string(text), headers...)
	return body
}

// does performs a deed, and checks that its answer does not contain the canary of the other
// tenant.
func (w *walker) does(d deed, tenant, path string) string {
	w.t.Helper()
	got := d.do(w, tenant, path)
	for _, uri := range outputURI.FindAllString(got, 4) {
		w.note(uri)
	}
	for other, canary := range w.canary {
		if other != tenant && strings.Contains(got, canary) {
			w.t.Errorf("%s at %s looks for %s and finds what is of %s: %.400s", tenant, path, d.name, other, got)
		}
	}
	return got
}

// Two tenants make random calls in their own places and in one whose directory they share.
// No answer to a tenant contains what the other tenant has left, and each tenant finds what
// it has left itself.
func TestNothingCrossesTenants(t *testing.T) {
	n, r := testenv.Cases(t, 60)
	t.Run("rw", func(t *testing.T) { walk(t, n/2, r, "rw", leaves) })
	t.Run("overlay", func(t *testing.T) { walk(t, n-n/2, r, "overlay", append(slices.Clone(leaves), layered)) })
}

// walk makes n random calls in workspaces with an access mode.
func walk(t *testing.T, n int, r *rand.Rand, mode string, leaves []deed) {
	e := newEstate(t)
	put(t, e.policy, strings.NewReplacer("DIR", e.dir, "MODE", mode).Replace(walkersPolicy))
	e.serve(e.config())
	w := &walker{estate: e, r: r, canary: map[string]string{"a": fmt.Sprintf("canary-a-%x", r.Uint64()), "b": fmt.Sprintf("canary-b-%x", r.Uint64())}}
	for tenant, canary := range w.canary {
		for _, dir := range []string{tenant, tenant + "-site"} {
			put(t, filepath.Join(e.dir, dir, "canary"), canary)
		}
	}
	for range n {
		tenant := []string{"a", "b"}[r.IntN(2)]
		path := strangers[r.IntN(len(strangers))]
		all := looks
		if r.IntN(3) == 0 {
			all = leaves
		}
		w.does(all[r.IntN(len(all))], tenant, path)
	}
	// The control: each tenant leaves its canary everywhere, and finds it.
	for _, tenant := range []string{"a", "b"} {
		for _, path := range strangers {
			for _, d := range leaves {
				w.does(d, tenant, path)
			}
		}
	}
	for _, tenant := range []string{"a", "b"} {
		for _, path := range strangers {
			for _, d := range looks {
				got := w.does(d, tenant, path)
				if d.sees && !strings.Contains(got, w.canary[tenant]) {
					t.Errorf("%s at %s looks for %s and does not find its own: %.400s", tenant, path, d.name, got)
				}
			}
		}
	}
}
