package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"belljar.dev/internal/people/approval"
	"belljar.dev/policies"
)

// wrote creates an approval for a call whose argument is a text of an agent.
func (g *rig) wrote(text string) (approval.Approval, error) {
	a, _, err := g.approvals.Ask(g.t.Context(), approval.Request{
		CallID: fmt.Sprint(len(text)), Facts: policies.Facts{Tenant: "a", Session: "s-1", Tool: "Write", Args: map[string]any{"text": text}},
		Decision: policies.Decision{Verdict: policies.Ask, Rule: "rule"},
	})
	return a, err
}

// numbered returns n lines, each with another number.
func numbered(n int) string {
	var lines strings.Builder
	for i := range n {
		fmt.Fprintln(&lines, i)
	}
	return lines.String()
}

// WC-A7: a call with large arguments leads to a question of bounded size, which says that
// it is cut. All of the arguments can be read in parts. If the arguments have more than a
// MiB, no person is asked.
func TestLargeArguments(t *testing.T) {
	g := start(t)
	token := g.login(Viewer)
	for _, tt := range []struct {
		name, text  string
		lines, left int // number of lines that are shown, and number that are left out
	}{
		{"1,000 lines", numbered(1000), 40, 960},
		{"hidden characters", strings.Repeat("\u202e\u200b", 100_000), 1, 0},
		{"one line", strings.Repeat("x", 900_000), 1, 0},
		{"100,000 lines", numbered(100_000), 40, 99_960},
	} {
		a, err := g.wrote(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		got := g.send("GET", "api/v1/approvals/"+a.ID, token, nil)
		var is struct{ Shown approval.Shown }
		got.into(t, &is)
		if s := is.Shown; len(s.Args) != tt.lines || s.Left != tt.left || !s.Cut || tt.left == 0 && !strings.Contains(s.Args[0], "(cut: ") {
			t.Fatalf("%s: %d lines, %d left out, cut %v: %.200s", tt.name, len(s.Args), s.Left, s.Cut, got.body)
		}
		if got.status != http.StatusOK || len(got.body) > 128<<10 {
			t.Errorf("%s: %d with %d bytes", tt.name, got.status, len(got.body))
		}
		var all strings.Builder
		for part := (approval.Part{Total: 1}); part.Next < part.Total; {
			got := g.send("GET", "api/v1/approvals/"+a.ID+"/arguments?from="+fmt.Sprint(part.Next), token, nil)
			from := part.Next
			got.into(t, &part)
			if got.status != http.StatusOK || part.From != from || part.Next <= from || part.Next-from > maxPart || len(part.Text) != part.Next-from {
				t.Fatalf("%s: the part from %d: %d, %d to %d of %d with %d bytes", tt.name, from, got.status, part.From, part.Next, part.Total, len(part.Text))
			}
			all.WriteString(part.Text)
		}
		want := "text: " + strconv.Quote(tt.text) + "\n" // JSON quotes these texts in the same way
		if strings.Contains(tt.text, "\n") {
			want = "text:\n    " + strings.ReplaceAll(tt.text, "\n", "\n    ") + "\n"
		} else if tt.name == "hidden characters" {
			want = `text: "` + tt.text + `"` + "\n"
		}
		if all.String() != want {
			t.Errorf("%s: the parts have %d bytes, and the text %d: %.100q", tt.name, all.Len(), len(want), all.String())
		}
	}
	if got := g.send("GET", "api/v1/inbox", token, nil); got.status != http.StatusOK || len(got.body) > 512<<10 {
		t.Errorf("the inbox: %d with %d bytes", got.status, len(got.body))
	}
	for _, size := range []int{5 << 20, 10 << 20} {
		if _, err := g.wrote(strings.Repeat("x", size)); err == nil {
			t.Errorf("somebody is asked about %d bytes", size)
		}
	}
	// the arguments of the first path are not cut
	for _, path := range []string{g.ask("rm x").ID + "/arguments", "ap-nosuch/arguments"} {
		if got := g.send("GET", "api/v1/approvals/"+path, token, nil); got.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
}

// The size of the large arguments that are kept is bounded. The newest arguments are kept.
func TestKeptArguments(t *testing.T) {
	g := start(t)
	var all []approval.Approval
	for i := range 24 {
		a, err := g.wrote(strings.Repeat("x", 900_000+i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	kept := 0
	for i, a := range all {
		p, err := g.approvals.Arguments(a.ID, 0, 1)
		if err != nil {
			continue
		}
		if kept++; p.Total != 900_000+i+len(`text: ""`+"\n") {
			t.Errorf("text %d has %d bytes", i, p.Total)
		}
	}
	if kept != 18 { // as many as fit into 16 MiB
		t.Errorf("%d of 24 texts of 900,000 bytes are kept, want 18", kept)
	}
	if _, err := g.approvals.Arguments(all[23].ID, 0, 1); err != nil {
		t.Errorf("the newest: %v", err)
	}
}

// WC-A10: cookies have no effect. A page on any port of this host can set them.
func TestCookies(t *testing.T) {
	g := start(t, full)
	token := g.login(Operator)
	for _, name := range []string{"belljar", "token", "Authorization", "__Host-belljar", "__Host-token", "session"} {
		for _, value := range []string{token, "Bearer " + token} {
			if got := g.send("GET", "api/v1/me", "", nil, "Cookie", name+"="+value); got.status != http.StatusUnauthorized {
				t.Errorf("a token in the cookie %s: %d", name, got.status)
			}
		}
	}
	if got := g.send("GET", "api/v1/me", token, nil, "Cookie", "__Host-belljar=x; belljar=y"); got.status != http.StatusOK || got.header.Get("Set-Cookie") != "" {
		t.Errorf("with foreign cookies: %d", got.status)
	}
}

// A token is accepted only in the header Authorization, and not in a URL, because URLs are
// written into logs.
func TestTokensElsewhere(t *testing.T) {
	g := start(t)
	token := g.login(Operator)
	for _, path := range []string{"api/v1/me?token=" + token, "api/v1/me?access_token=" + token, "api/v1/me?code=" + token} {
		if got := g.send("GET", path, "", nil); got.status != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, got.status)
		}
	}
	for _, head := range [][]string{{"X-Token", token}, {"Authorization", token}, {"Authorization", "Basic " + token}, {"Proxy-Authorization", "Bearer " + token}} {
		if got := g.send("GET", "api/v1/me", "", nil, head...); got.status != http.StatusUnauthorized {
			t.Errorf("%q: %d", head, got.status)
		}
	}
}

// WC-A19: if a yes and a no arrive at the same time, the first one counts, and the sender
// of the other gets an error.
func TestYesAndNoAtOnce(t *testing.T) {
	g := start(t)
	token := g.login(Approver)
	for i := range 20 {
		a := g.ask(fmt.Sprintf("rm x%d", i))
		var statuses [2]int
		var both sync.WaitGroup
		for at, yes := range []bool{true, false} {
			both.Go(func() {
				statuses[at] = g.send("POST", "api/v1/approvals/"+a.ID+"/answer", token, map[string]any{"yes": yes, "version": a.Version()}).status
			})
		}
		both.Wait()
		now, err := g.approvals.Get(t.Context(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[approval.State][2]int{approval.Approved: {200, 409}, approval.Declined: {409, 200}}[now.State]; statuses != want {
			t.Errorf("the approval is %s, and the answers were %v", now.State, statuses)
		}
	}
}

// WC-A29: the login removes the data that an earlier program on the port left in the
// browser. No other answer does this, because agents could cause it.
func TestStorageIsCleared(t *testing.T) {
	g := start(t)
	_, code, _ := strings.Cut(first(g.Link("ann", Viewer)), "#")
	if got := g.send("POST", "api/v1/login", "", map[string]string{"code": "wrong"}); got.header.Get("Clear-Site-Data") != "" {
		t.Error("a wrong code clears the storage")
	}
	if got := g.send("POST", "api/v1/login", "", map[string]string{"code": code}); got.header.Get("Clear-Site-Data") != `"cache", "storage"` {
		t.Errorf("after the login: %q", got.header.Get("Clear-Site-Data"))
	}
	// the token is from another run of the server
	if got := start(t).send("GET", "api/v1/me", g.login(Viewer), nil); got.status != http.StatusUnauthorized {
		t.Errorf("a token of another run: %d", got.status)
	}
}

// WC-A31: a policy that is large or deeply nested costs no more than its bound.
func TestLargePolicies(t *testing.T) {
	g := start(t, full)
	token := g.login(Viewer)
	nested := map[string]any{}
	for at, i := nested, 0; i < 15_000; i++ {
		next := map[string]any{}
		at["a"], at = next, next
	}
	for _, tt := range []struct {
		path string
		body any
		want int
		says string // part of the answer: the bound that was exceeded
	}{
		{"policy/explain", map[string]any{"tool": "Bash", "arguments": map[string]any{"command": strings.Repeat("x", 10<<20)}}, 413, "more than 65536 bytes"},
		{"policy/explain", map[string]any{"tool": "Bash", "arguments": nested}, 413, "more than 65536 bytes"},
		{"policy/explain", json.RawMessage(`{"tool":"Bash","arguments":` + strings.Repeat(`{"a":`, 9000) + `1` + strings.Repeat(`}`, 9000) + `}`), 200, `"verdict"`},
		{"policy/replay", map[string]string{"policy": strings.Repeat("x", 10<<20)}, 413, "more than 524288 bytes"},
		{"policy/replay", map[string]string{"policy": strings.Repeat("{a: ", 80_000) + "1" + strings.Repeat("}", 80_000)}, 400, "exceeded max depth"},
		{"policy/replay", map[string]string{"policy": strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)}, 400, "exceeded max depth"},
		{"policy/explain", map[string]any{"tool": "Bash", "arguments": map[string]any{"command": strings.Repeat("$(", 20_000)}}, 200, "it nests more than 64 levels deep"},
		{"policy/explain", map[string]any{"tool": "Bash", "arguments": map[string]any{"command": strings.Repeat("$(", 65) + "ls" + strings.Repeat(")", 65)}}, 200, "it nests more than 64 levels deep"},
	} {
		if got := g.send("POST", "api/v1/"+tt.path, token, tt.body); got.status != tt.want || !strings.Contains(string(got.body), tt.says) {
			t.Errorf("%s: got %d %.200s, want %d %s", tt.path, got.status, got.body, tt.want, tt.says)
		}
	}
	// encoding/json would not write such a deep value
	deep := `{"tool":"Bash","arguments":{"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}}`
	if got := g.sendText("POST", "api/v1/policy/explain", token, deep); got.status != http.StatusBadRequest || !strings.Contains(string(got.body), "exceeded max depth") {
		t.Errorf("arguments that are nested deeply: %d %.200s", got.status, got.body)
	}
}

// WC-A32: the data are available only as JSON.
func TestNoTables(t *testing.T) {
	g := start(t, full)
	token := g.login(Viewer)
	for _, path := range []string{"api/v1/audit?format=csv", "api/v1/audit?limit=1", "api/v1/audit.csv"} {
		got := g.send("GET", path, token, nil, "Accept", "text/csv, application/vnd.ms-excel")
		if kind := got.header.Get("Content-Type"); kind != "application/json; charset=utf-8" || got.header.Get("Content-Disposition") != "" {
			t.Errorf("%s: %s %q", path, kind, got.header.Get("Content-Disposition"))
		}
	}
}

// WC-A15: the page and its files never contain a token or a code, whoever is logged in. An
// attacker who reads them still has to guess the token.
func TestPageHasNoSecret(t *testing.T) {
	g := start(t, full)
	_, code, _ := strings.Cut(first(g.Link("ann", Operator)), "#")
	secrets := []string{code, g.login(Viewer), g.login(Operator), "ann (uid 7)"}
	page := g.send("GET", "", "", nil)
	paths := []string{""}
	for _, link := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(string(page.body), -1) {
		paths = append(paths, link[1])
	}
	if len(paths) != 3 {
		t.Errorf("the page names %d files", len(paths))
	}
	for _, path := range paths {
		got := g.send("GET", path, "", nil)
		if got.status != http.StatusOK {
			t.Errorf("/%s: %d", path, got.status)
		}
		for _, secret := range secrets {
			if strings.Contains(string(got.body), secret) {
				t.Errorf("/%s has a secret", path)
			}
		}
	}
}

// WC12: the inbox contains what waits for all tenants and in all places.
func TestInboxOfAllTenants(t *testing.T) {
	g := start(t, func(_ *rig, v *Views) {
		v.Upstreams = &others{pins: []Pin{{Upstream: "files", Tenant: "c", Version: "v1"}}}
	})
	token := g.login(Viewer)
	for i := range maxInbox + 3 {
		if _, _, err := g.approvals.Ask(t.Context(), approval.Request{
			CallID: fmt.Sprint(i), Facts: policies.Facts{Tenant: []string{"a", "b"}[i%2], Session: "s", Tool: "Bash", Command: fmt.Sprint("rm ", i), Args: map[string]any{"command": fmt.Sprint("rm ", i)}},
			Decision: policies.Decision{Verdict: policies.Ask, Rule: "rule"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	var in inbox
	g.send("GET", "api/v1/inbox", token, nil).into(t, &in)
	tenants := make(map[string]int)
	for i, a := range in.Approvals {
		tenants[a.Tenant]++
		if i > 0 && a.Created.After(in.Approvals[i-1].Created) {
			t.Error("the newest are not first")
		}
	}
	if len(in.Approvals) != maxInbox || in.More != 3 || tenants["a"] < 20 || tenants["b"] < 20 || len(in.Pins) != 1 || in.Pins[0].Tenant != "c" {
		t.Errorf("%d approvals of %v, %d more, pins %+v", len(in.Approvals), tenants, in.More, in.Pins)
	}
}
