package gateway

import (
	"slices"

	"belljar.dev/mcp/upstream"
)

// Status is how a server is, for people. Texts of servers and files are in it as they are.
type Status struct {
	upstream.Status
	File    string // of its entry, with the line
	Line    int
	Trusted bool
	Pin     string // the mode of its pins
	Held    int    // definitions that wait for a person
	Tools   int    // that are offered
}

// Faults are what is wrong with the files, one line each.
func (g *Gateway) Faults() (all []string) {
	for _, f := range g.setup().faults {
		all = append(all, f.String())
	}
	return all
}

// Status is how all servers are, each of their instances once.
func (g *Gateway) Status() (all []Status) {
	now := g.setup()
	for _, s := range g.calls.pool.Status() {
		one := Status{Status: s}
		if of := now.servers[s.Server]; of != nil {
			one.File, one.Line, one.Trusted, one.Pin = of.entry.Source.File, of.entry.Source.Line, of.Trusted, of.Settings.Pin.String()
		}
		g.calls.offers.count(&one)
		all = append(all, one)
	}
	for _, name := range slices.Sorted(slices.Values(now.off)) {
		all = append(all, Status{Status: upstream.Status{Key: upstream.Key{Server: name}, State: upstream.Off, Reason: "it is switched off in its file"}})
	}
	return all
}
