package browser_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"

	"belljar.dev/browser"
	"belljar.dev/policies"
	"belljar.dev/sandbox"
)

// A program that starts boxes must call sandbox.Init first in its main. (The TestMain of
// this package does so for this example.)
func Example() {
	// A page that is empty until its script has run.
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "<!doctype html><title>Before</title><script>document.title = 'After'</script>")
	}))
	defer site.Close()
	_, port, err := net.SplitHostPort(site.Listener.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}

	// The profile says whether there is a browser at all, and which servers it may reach. A
	// server on this machine is not public, so it must be named.
	policy, err := policies.Parse("policy.yaml", fmt.Appendf(nil, `
version: 1
defaults: {decision: allow}
profiles:
  pages: {browser: sandboxed, net: {mode: proxy, allow_private: ["127.0.0.1:%s"]}}
`, port))
	if err != nil {
		fmt.Println(err)
		return
	}
	grant := policy.Decide(policies.Facts{Tenant: "local", Tool: "ReadDocs", URLs: []string{site.URL}}).Grant

	// Each Chrome of a pool runs in a box of the supervisor.
	supervisor, err := sandbox.New(sandbox.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer supervisor.Close()
	pool, err := browser.New(browser.Config{Supervisor: supervisor})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	// No two calls share cookies, storage or a cache.
	page, err := pool.Load(context.Background(), grant, browser.Request{URL: site.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(page.Status, page.Title)

	// A host that the profile does not name cannot be reached, neither by the page nor by a
	// call for its URL.
	_, err = pool.Load(context.Background(), grant, browser.Request{URL: "http://localhost:1/"})
	fmt.Println(err != nil)
	// Output:
	// 200 After
	// true
}
