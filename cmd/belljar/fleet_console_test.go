package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// frontConsole is a person at the console of a front.
type frontConsole struct {
	g          *grid
	url, token string
}

// console logs in at the console of a front.
func (g *grid) console(front *node, role string) *frontConsole {
	g.t.Helper()
	out, err := g.command("console", "--role", role, "--state", g.path(front.name)).Output()
	if err != nil {
		g.t.Fatalf("console: %v; the front says:\n%s", err, g.log(front.name))
	}
	link, code, _ := strings.Cut(strings.TrimSpace(string(out)), "#")
	p := &frontConsole{g: g, url: link + "api/v1/"}
	var in struct{ Token string }
	if status := p.do("POST", "login", map[string]string{"code": code}, &in); status != http.StatusOK {
		g.t.Fatalf("login: %d", status)
	}
	p.token = in.Token
	return p
}

// do sends a request, and reads an answer into a value.
func (p *frontConsole) do(method, path string, body, into any) int {
	p.g.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		p.g.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(p.g.t.Context(), method, p.url+path, bytes.NewReader(text))
	if err != nil {
		p.g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.g.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		p.g.t.Fatal(err)
	}
	if into != nil && resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(got, into); err != nil {
			p.g.t.Fatalf("%s: %v: %s", path, err, got)
		}
	}
	return resp.StatusCode
}

// TestFleetConsole checks that a person at the front sees the boxes, questions and records
// of all workers, and can decide there.
func TestFleetConsole(t *testing.T) {
	g := newGrid(t)
	policy := strings.Replace(gridPolicy, "tenants:", "rules: [{id: asked, match: {tool: Bash, command: \"echo asked **\"}, decision: ask}]\ntenants:", 1)
	if err := os.WriteFile(g.path("policy.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"w1/places/a/@", "w2/places/b/@"} { // a worker that has the directory has the place
		for _, sub := range []string{"workspace", "state"} {
			if err := os.MkdirAll(g.path(dir+"/"+sub), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	f := g.front("front", "--console", "127.0.0.1:0")
	g.ofWorkers = []string{"--console"}
	g.worker("w1", f)
	g.worker("w2", f)
	g.ofWorkers = nil
	g.worker("w3", f) // this worker has no console
	if a := ask(t.Context(), f.url+"/mcp", "one", "1", "echo seen"); a.err != nil || !strings.Contains(a.text, "seen") {
		t.Fatalf("%+v", a)
	}
	waits := make(chan told, 1)
	go func() { waits <- ask(t.Context(), f.url+"/mcp", "two", "2", "echo asked for") }()
	p, viewer := g.console(f, "operator"), g.console(f, "viewer")
	var boxes []struct{ ID, Tenant, Worker string }
	if status := viewer.do("GET", "boxes", nil, &boxes); status != http.StatusOK || len(boxes) != 1 || boxes[0].Worker != "w1" || boxes[0].Tenant != "a" {
		t.Errorf("boxes: %d %+v", status, boxes)
	}
	var in struct {
		Approvals []struct{ ID, Tenant, Worker, Version string }
	}
	if !testenv.Until(20*time.Second*testenv.Patience(t), func() bool { return p.do("GET", "inbox", nil, &in) == http.StatusOK && len(in.Approvals) == 1 }) {
		select {
		case a := <-waits:
			var raw json.RawMessage
			t.Fatalf("nobody is asked: %+v; %d %s", a, p.do("GET", "workers/w2/inbox", nil, &raw), raw)
		default:
			t.Fatalf("nobody is asked; worker w2 says:\n%s", g.log("w2"))
		}
	}
	one := in.Approvals[0]
	answer := map[string]any{"yes": true, "version": one.Version}
	path := "workers/" + one.Worker + "/approvals/" + one.ID + "/answer"
	if status := viewer.do("POST", path, answer, nil); status != http.StatusForbidden {
		t.Errorf("yes by a viewer: %d", status)
	}
	// On the machine of the worker, the command line also shows the approval.
	if out, err := g.command("approve", "list", "--json", "--state", g.path("w2/state")).Output(); err != nil || !strings.Contains(string(out), one.ID) {
		t.Errorf("approve list at the worker: %v %s", err, out)
	}
	agent := &frontConsole{g, p.url, "one"}
	if status := agent.do("POST", path, answer, nil); status != http.StatusForbidden {
		t.Errorf("yes by an agent: %d", status)
	}
	if status := p.do("POST", path, answer, nil); status != http.StatusOK || one.Worker != "w2" || one.Tenant != "b" {
		t.Fatalf("yes: %d %+v", status, one)
	}
	a := <-waits
	if !strings.Contains(a.text, "asked") { // if the call did not wait, the agent repeats it
		a = ask(t.Context(), f.url+"/mcp", "two", "3", "echo asked for")
	}
	if a.failed || !strings.Contains(a.text, "asked") {
		t.Errorf("after the yes: %+v", a)
	}
	var page struct {
		Records []struct{ Kind, Worker, Tenant string }
	}
	of := make(map[string]bool)
	p.do("GET", "audit", nil, &page)
	for _, r := range page.Records {
		of[r.Kind+" "+r.Tenant+" "+r.Worker] = true
	}
	for _, want := range []string{"decision a w1", "decision b w2", "approval b w2"} {
		if !of[want] {
			t.Errorf("the log has no %s: %v", want, of)
		}
	}
	if status := p.do("POST", "workers/w1/boxes/"+boxes[0].ID+"/kill", struct{}{}, nil); status != http.StatusOK {
		t.Errorf("kill: %d", status)
	}
	for path, want := range map[string]int{"workers/w3/boxes": http.StatusBadGateway, "workers/w1/stats": http.StatusNotFound, "workers/w9/boxes": http.StatusNotFound} {
		if status := p.do("GET", path, nil, nil); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	// A client reaches none of that through the front, whatever it sends.
	for _, at := range []string{"/link/ask/api/v1/boxes", "/w/link/ask/api/v1/boxes", "/mcp/../link/ask/api/v1/boxes"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.URL.Path = at
		req.Header.Set("Authorization", "Bearer one")
		req.Header.Set("Belljar-Person", "eyJuYW1lIjoiYW5uIiwicm9sZSI6Im9wZXJhdG9yIn0")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Errorf("a client gets %s", at)
		}
	}
}
