package policies

import "slices"

// Render says which pages a browser renders before they are read. The zero value
// is RenderNever.
type Render int

// The values, the strictest first.
const (
	RenderNever  Render = iota // what the server sends is read as it is
	RenderAuto                 // pages that are empty without their scripts, and pages of calls that ask for it
	RenderAlways               // every page of HTML
)

// renders are the words of policies, in the order of the values.
var renders = []string{"never", "auto", "always"}

// String returns the value as policies spell it.
func (r Render) String() string {
	if r < 0 || int(r) >= len(renders) {
		return renders[0]
	}
	return renders[r]
}

// Reading says how pages are read for calls of a profile.
type Reading struct {
	Render Render
	// Redirects says that redirects to another host are followed if the rules also allow
	// the call with the new URL; otherwise the result names the new URL, and the agent can
	// call again.
	Redirects bool
	// Robots says that a page is not read if the robots.txt of its host (RFC 9309)
	// forbids robots to read it.
	Robots bool
	// Headers are the headers that a call may send, in their canonical spelling, in order.
	Headers []string
}

// defaultReading returns the Reading of a profile that says nothing about it.
func defaultReading() Reading { return Reading{Render: RenderAuto} }

// Reading returns how pages are read for the call.
func (g profileGrant) Reading() Reading {
	r := g.reading
	r.Headers = slices.Clone(r.Headers)
	return r
}
