package gateway

import (
	"fmt"

	"belljar.dev/mcp/upstream"
	"belljar.dev/mcp/upstream/config"
)

// Status is the state of a server, for people. Texts of servers and files are in it
// unescaped.
type Status struct {
	upstream.Status
	File    string // path of the file that contains its entry; Line is the line of the entry there
	Line    int
	Hides   []string // the entries of other files that it replaces, each FILE:LINE, the latest file first
	Trusted bool
	Pin     string // the mode of its pins
	Held    int    // number of held definitions: a person has not decided about them, or has refused them
	Tools   int    // number of tools in lists
	Bytes   int    // bytes of the definitions of these tools
}

// from sets the place of the server's entry.
func (s *Status) from(at config.Source) {
	s.File, s.Line, s.Trusted = at.File, at.Line, at.Trusted
	for _, h := range at.Hides {
		s.Hides = append(s.Hides, fmt.Sprintf("%s:%d", h.File, h.Line))
	}
}

// Faults returns one text for each fault of the files.
func (g *Gateway) Faults() (all []string) {
	for _, f := range g.setup().faults {
		all = append(all, f.String())
	}
	return all
}

// Status returns the states of all servers, one for each instance.
func (g *Gateway) Status() (all []Status) {
	now := g.setup()
	for _, s := range g.calls.pool.Status() {
		one := Status{Status: s}
		if of := now.servers[s.Server]; of != nil {
			one.from(of.entry.Source)
			one.Pin = of.Settings.Pin.String()
		}
		g.calls.offers.count(&one)
		all = append(all, one)
	}
	for _, e := range now.off {
		one := Status{Status: upstream.Status{Key: upstream.Key{Server: e.Name}, State: upstream.Off, Reason: "it is switched off in its file"}}
		one.from(e.Source)
		all = append(all, one)
	}
	return all
}
