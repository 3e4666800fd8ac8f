package policies

import (
	"maps"
	"net/http"
	"slices"

	"go.yaml.in/yaml/v3"
)

// maxReadHeaders bounds the headers that a call may choose.
const maxReadHeaders = 32

// Render says which pages a browser renders before they are read. The zero value
// is RenderNever.
type Render int

// The values, from the closed one up.
const (
	RenderNever  Render = iota // what the server sends is read as it is
	RenderAuto                 // pages that are empty without their scripts, and those of calls that ask for it
	RenderAlways               // every page of HTML
)

// renders are the words of policies, in the order of the values.
var renders = []string{"never", "auto", "always"}

// String is the value as policies spell it.
func (r Render) String() string {
	if r < 0 || int(r) >= len(renders) {
		return renders[0]
	}
	return renders[r]
}

// Reading says how pages are read for calls of a profile.
type Reading struct {
	Render Render
	// Redirects to another host are followed where the rules allow the call with
	// the new URL too; otherwise the result names the new URL, and the agent can
	// call again.
	Redirects bool
	// Robots says that a page is not read if the robots.txt of its host (RFC 9309)
	// forbids robots to read it.
	Robots bool
	// Headers are those that a call may send, in their canonical spelling, in order.
	Headers []string
}

// defaultReading is that of a profile that says nothing about it.
func defaultReading() Reading { return Reading{Render: RenderAuto} }

// Reading is how pages are read for the call.
func (g Grant) Reading() Reading {
	r := g.reading
	r.Headers = slices.Clone(r.Headers)
	return r
}

// neverHeaders are headers that say what the connection is, or whom it is for:
// a call that could set them would speak for another than itself.
var neverHeaders = []string{
	"Host", "Connection", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Keep-Alive", "Proxy-Authorization",
	"Proxy-Connection", "Expect", "Accept-Encoding", "Range", "If-Range", "If-None-Match", "If-Modified-Since", "Http2-Settings",
}

// reading reads how pages are read.
func (d *decoder) reading(n *yaml.Node) Reading {
	r := defaultReading()
	o, ok := d.mapping(n, "read", readShape)
	if !ok {
		return r
	}
	if v := o.get("render"); v != nil {
		r.Render = Render(max(d.word(v, "render", renders...), 0)) // an unknown word leaves a fault and counts as never
	}
	if v := o.get("redirects"); v != nil {
		r.Redirects = d.word(v, "redirects", "report", "follow") == 1
	}
	if v := o.get("robots"); v != nil {
		r.Robots = d.word(v, "robots", "ignore", "respect") == 1
	}
	if v := o.get("headers"); v != nil {
		d.texts(v, "headers", func(n *yaml.Node, s string) {
			name := http.CanonicalHeaderKey(s)
			switch {
			case !token(s):
				d.Fault(n, "write the name of a header, for example Accept-Language", "%s is not a valid name of a header", shown(s))
			case slices.Contains(neverHeaders, name):
				d.Fault(n, "remove it; belljar sets it where it is needed", "no call may choose the header %s", name)
			case slices.Contains(r.Headers, name):
				d.Fault(n, "remove one", "headers name %s twice", name)
			case len(r.Headers) == maxReadHeaders:
				d.Fault(n, "name those that are needed", "headers has more than %d entries", maxReadHeaders)
			default:
				r.Headers = append(r.Headers, name)
			}
		})
		slices.Sort(r.Headers)
	}
	return r
}

// DecideURL returns the decision of the policy that made the grant about the same
// call with another URL in place of its own: for a page that leads to that URL.
// The Decision has no Grant. A person who said yes to the call said it only to
// its own URL. A URL that is allowed only in another profile is not allowed here.
func (g Grant) DecideURL(url string) Decision {
	if g.policy == nil || g.call == nil || g.IsZero() {
		return Decision{Rule: ruleDefault, Part: Clip(url, maxPart), Reason: "The call has no grant.", Instead: "Repeat the call."}
	}
	f := *g.call
	f.URLs, f.Profile = []string{url}, g.asked
	if _, named := f.Args["url"]; named { // conditions see the same URL as rules
		f.Args = maps.Clone(f.Args)
		f.Args["url"] = url
	}
	d := g.policy.Decide(f)
	for _, l := range g.below {
		d = l.Narrow(d, f)
	}
	if granted := d.Grant.profile; d.Verdict == Allow && granted != g.profile {
		d = Decision{
			Verdict: Deny, Rule: d.Rule, Source: d.Source, Part: Clip(url, maxPart), PartNo: 1, Parts: 1, Subject: aURL,
			Reason:  "Rule " + d.Rule + " allows it in profile " + granted + ", and this call has profile " + g.profile + ".",
			Instead: "Call again with that URL.",
		}
	}
	d.Grant, d.pending = Grant{}, Grant{}
	return d
}
