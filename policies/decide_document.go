package policies

import (
	"fmt"
	"strings"
)

// DecideDocument returns the decision about a document that a page asks for while the
// grant's call acts on the page. on is the URL of the page's document before the request; to
// and method are those of the request. The policy that made the grant and the layers of the
// session judge the request as an act of the same call. But if one of the call's own acts
// leads to the document, it is already allowed. The Decision has no Grant.
func (g Grant) DecideDocument(on, to, method string) Decision {
	return g.DecideDocumentBy(func(f Facts) Decision {
		d := g.policy.Decide(f)
		for _, l := range g.below {
			d = l.Narrow(d, f)
		}
		return d
	}, on, to, method)
}

// DecideDocumentBy is like DecideDocument, but calls decide instead of the policy that made
// the grant. decide can be, for example, the Decide of the policy that is in force now.
func (g Grant) DecideDocumentBy(decide func(Facts) Decision, on, to, method string) Decision {
	return g.decideAsked(decide, Act{Kind: ActFollow, On: on, To: to, Method: method})
}

// DecideFileBy is like DecideDocumentBy, for a file that the browser downloads for a page.
func (g Grant) DecideFileBy(decide func(Facts) Decision, on, to, method string) Decision {
	return g.decideAsked(decide, Act{Kind: ActDownload, On: on, To: to, Method: method})
}

// decideAsked decides about a document or a file that a page asks for.
func (g Grant) decideAsked(decide func(Facts) Decision, a Act) Decision {
	file := a.Kind == ActDownload
	if !gets(a.Method) { // it sends data, whether it gets a document or a file
		a.Kind = ActSubmit
	}
	if g.policy == nil || g.call == nil || g.IsZero() || g.call.Tool != ActTool {
		return Decision{Rule: ruleDefault, Part: Clip(a.String(), maxPart), Reason: "The call has no grant for it.", Instead: "Repeat the call."}
	}
	for _, done := range g.acts {
		leads := actsLead(done) || file && done.Kind == ActDownload
		if leads && sameDocument(done.To, a.To) && (done.Method == a.Method || gets(done.Method) && gets(a.Method)) {
			return Decision{Verdict: Allow, Profile: g.profile, Parts: 1}
		}
	}
	f := *g.call
	f.Acts, f.Profile = []Act{a}, g.asked
	d := decide(f)
	if granted := d.Grant.profile; d.Verdict == Allow && granted != g.profile {
		d = Decision{
			Verdict: Deny, Rule: d.Rule, Source: d.Source, Part: Clip(a.String(), maxPart), PartNo: 1, Parts: 1, Subject: anAct,
			Reason:  fmt.Sprintf("Rule %s allows it in profile %s, and this call has profile %s.", d.Rule, granted, g.profile),
			Instead: "Send it as a call of its own.",
		}
	}
	d.Grant, d.pending = Grant{}, nil
	return d
}

// Acted returns the grant after the acts of its call are done. It has neither the acts nor
// the approval of a person, so the documents that the acts lead to are decided about again.
func (g Grant) Acted() Grant {
	g.acts, g.approved = nil, false
	return g
}

// gets reports whether a method is that of a link. An act without a method counts as a
// link.
func gets(method string) bool { return method == "" || method == "GET" || method == "HEAD" }

// sameDocument reports whether two URLs are those of one document. They may differ in
// spellings that browsers unify, and in the fragment, which no request contains.
func sameDocument(a, b string) bool {
	x, ok := requested(a)
	if !ok {
		return false
	}
	y, ok := requested(b)
	return ok && x == y
}

// requested returns a URL as a browser asks for it (URL Standard, "URL serializing"):
// without its fragment, and in one spelling. It returns false if ParseURL refuses the URL, or
// if the URL is not one of http or https.
func requested(raw string) (string, bool) {
	raw, _, _ = strings.Cut(raw, "#")
	u, err := ParseURL(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", false
	}
	host := u.Host
	if p := u.Port(); p == ownPort(u.Scheme) {
		host = strings.TrimSuffix(host, ":"+p)
	}
	place, query, asks := strings.Cut(raw[strings.Index(raw, "://")+3:], "?")
	_, path, _ := strings.Cut(place, "/")
	if asks {
		query = "?" + browserEscaped(query, `"<>'`)
	}
	return u.Scheme + "://" + host + undotted("/"+browserEscaped(path, `"<>^`+"`{}")) + query, true
}

// browserEscaped returns a part of a URL in which the bytes that browsers escape are
// escaped: bytes that are not ASCII, and those in signs.
func browserEscaped(s, signs string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c >= 0x7f || strings.IndexByte(signs, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// undotted resolves the segments . and .. of a path, also with escaped dots, like browsers.
func undotted(path string) string {
	dot := strings.NewReplacer("%2e", ".", "%2E", ".")
	var kept []string
	parts := strings.Split(path[1:], "/")
	for i, part := range parts {
		last := i == len(parts)-1
		switch dot.Replace(part) {
		case "..":
			kept = kept[:max(len(kept)-1, 0)]
		case ".":
		default:
			kept = append(kept, part)
			continue
		}
		if last {
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
}
