package search_test

import (
	"context"
	"fmt"

	"belljar.dev/policies"
	"belljar.dev/search"
	"belljar.dev/search/engine"
	"belljar.dev/search/searchtest"
)

// A fan asks several engines at the same time and merges their answers.
func Example() {
	// Engines are described in files. Those that come with belljar need no directory.
	engines, err := engine.Load("")
	if err != nil {
		fmt.Println(err)
		return
	}

	// The grant names the hosts that may be asked. An engine whose host is not in it is not
	// asked, and the report says so.
	policy, err := policies.Parse("policy.yaml", []byte(`
version: 1
defaults: {decision: allow}
profiles:
  search: {net: {mode: proxy, allow: [api.github.com, hn.algolia.com]}}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	grant := policy.Decide(policies.Facts{Tenant: "local", Tool: "WebSearch"}).Grant

	// The engines are on the internet, and an example must not use it: here a server on
	// this machine answers in their place. A program does not set Door.
	standIn, err := searchtest.Start()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer standIn.Close()
	for _, e := range searchtest.Defaults() {
		if e.Write != nil {
			standIn.Set(e, searchtest.Zipped(e.Write(searchtest.Made(e.Name, 2))))
		}
	}
	fan, err := search.New(search.Config{Engines: func() *engine.Set { return engines }, Door: standIn.Door(nil)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fan.Close()

	report, err := fan.Search(context.Background(), grant, search.Query{Text: "sandbox", Engines: []string{"github", "hackernews", "arxiv"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range report.Results {
		fmt.Println(r.Title)
		for _, from := range r.Engines {
			fmt.Println("- found by", from.Engine, "as number", from.Rank)
		}
	}
	// The report gives the outcome of each engine: an empty answer is not the same as a
	// blocked one.
	for _, e := range report.Engines {
		fmt.Println(e.Engine, e.Outcome)
	}
	// Output:
	// Page shared/0 of the made-up web
	// - found by github as number 1
	// - found by hackernews as number 1
	// Page github/1 of the made-up web
	// - found by github as number 2
	// Page hackernews/1 of the made-up web
	// - found by hackernews as number 2
	// arxiv DISABLED_BY_POLICY
	// github OK
	// hackernews OK
}
