package browser_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"belljar.dev/browser"
	"belljar.dev/internal/testenv"
	"belljar.dev/policies"
	"belljar.dev/policies/policytest"
	"belljar.dev/sandbox"
)

// unnestedEnv is set for a test process in which the host allows boxes, but not namespaces
// such as those of Chrome's own sandbox.
const unnestedEnv = "BELLJAR_TEST_UNNESTED"

// TestDegraded checks a host on which Chrome's own sandbox cannot work: a page is loaded
// only if the policy allows Chrome without its own sandbox (browser: degraded), the result
// is marked as degraded, the box has all of its walls, and the doctor reports it. If
// Chrome's sandbox can work, it is used also under such a policy.
func TestDegraded(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces, testenv.Chromium)
	unnested := os.Getenv(unnestedEnv) != ""
	if !unnested {
		defer func() {
			c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestDegraded$", "-test.v", "-test.timeout=2m")
			c.Env = append(os.Environ(), unnestedEnv+"=1")
			out, err := c.CombinedOutput()
			if err != nil {
				t.Errorf("where no namespaces nest: %v", err)
			}
			t.Logf("where no namespaces nest:\n%s", out)
		}()
	}
	r := newRig(t, browser.Config{})
	if unnested {
		if err := testenv.Unnest(); err != nil {
			t.Fatal(err)
		}
	}
	r.page("/", "<!doctype html><p>x")
	grant := func(mode string) policies.Grant {
		return policytest.GrantFor(t, strings.NewReplacer("PORT", strings.TrimPrefix(r.web.URL, "http://127.0.0.1:"), "MODE", mode).Replace(`version: 1
defaults: {decision: allow, profile: pages}
profiles: {pages: {browser: MODE, net: {mode: proxy, allow_private: ["site.example:PORT"]}}}
`), policies.Facts{Tenant: mode, Tool: "ReadDocs"})
	}
	l, err := r.pool.Load(t.Context(), grant("sandboxed"), browser.Request{URL: r.url("/")})
	switch {
	case unnested && (browser.KindOf(err) != browser.KindAbsent || !strings.Contains(err.Error(), "belljar browser doctor")):
		t.Errorf("sandboxed: got %+v, %v; want a refusal that says who knows more", l, err)
	case !unnested && (err != nil || l.Degraded):
		t.Errorf("sandboxed: got %+v, %v", l, err)
	}
	l, err = r.pool.Load(t.Context(), grant("degraded"), browser.Request{URL: r.url("/")})
	if err != nil || l.Degraded != unnested {
		t.Errorf("degraded: got %+v, %v; want degraded %v", l, err, unnested)
	}
	bare := 0
	for _, b := range r.sup.Boxes() {
		if g := b.Grant(); !g.NestsNamespaces() {
			bare++
		}
	}
	if unnested != (bare == 1) {
		t.Errorf("%d boxes without nesting; degraded %v", bare, unnested)
	}
	s, err := sandbox.New(sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	checks := browser.Examine(t.Context(), s, policytest.GrantProfile(t, "browser: degraded"), "")
	for _, c := range checks {
		t.Logf("%+v", c)
		if own := c.Name == "its own sandbox"; own && c.OK == unnested || !own && !c.OK {
			t.Errorf("doctor: %+v", c)
		}
	}
}

// TestNotDegraded checks that a Chrome that does not start for another reason does not
// count as a Chrome without a sandbox.
func TestNotDegraded(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	s, err := sandbox.New(sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var log strings.Builder
	p, err := browser.New(browser.Config{Supervisor: s, Program: "/usr/bin/true", Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	g := policytest.GrantProfile(t, "browser: degraded\nnet: {mode: proxy, allow: [a.example]}")
	for range 2 {
		if l, err := p.Load(t.Context(), g, browser.Request{URL: "http://a.example/"}); browser.KindOf(err) != browser.KindAbsent {
			t.Errorf("got %+v, %v", l, err)
		}
	}
	p.Close()
	if strings.Contains(log.String(), "without a sandbox") {
		t.Errorf("log: %s", &log)
	}
	checks := browser.Examine(t.Context(), s, policytest.GrantProfile(t, "browser: degraded"), "/usr/bin/true")
	if len(checks) != 1 || checks[0].OK || checks[0].Mend != browser.Install {
		t.Errorf("doctor: %+v", checks)
	}
}

// TestSeatGivenUp checks that a call that was given up does not report that the host has no
// Chrome that starts.
func TestSeatGivenUp(t *testing.T) {
	testenv.Need(t, testenv.UserNamespaces)
	s, err := sandbox.New(sandbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := browser.New(browser.Config{Supervisor: s, Program: "/usr/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	g := policytest.GrantProfile(t, "browser: sandboxed\nnet: {mode: proxy, allow: [a.example]}")
	if seat, err := p.Seat(t.Context(), g, 0); browser.KindOf(err) != browser.KindAbsent {
		t.Errorf("a program that is not a Chrome: got %v, %v", seat, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if seat, err := p.Seat(ctx, g, 0); browser.KindOf(err) != browser.KindTimedOut || !strings.Contains(err.Error(), "call again") {
		t.Errorf("a call that was given up: got %v, %v", seat, err)
	}
}

func TestVersions(t *testing.T) {
	for product, want := range map[string]string{
		"HeadlessChrome/156.0.8078.79": "", "Chrome/125.0.1": "", "HeadlessChrome/9999.0": "newer than",
		"HeadlessChrome/124.0.6367.207": "too old; 125 is the oldest", "Chromium": "does not name a version", "": "does not name a version", "X/-3.1": "does not name a version",
	} {
		note, err := browser.Tried(product)
		if got := fmt.Sprint(note, err); !strings.Contains(got, want) || (err == nil) != (want == "" || want == "newer than") {
			t.Errorf("%q: got %s, want %q", product, got, want)
		}
	}
}
