package browser

import "time"

// Bounds of what is kept of the requests of one page.
const (
	maxRequests = 2048 // requests in progress
	maxRefused  = 32
)

// traffic contains the requests of a page, except the request for its document. The state's
// mu guards it.
type traffic struct {
	requests map[string]request // requests in progress, by their ids
	counted  int                // number of requests for which the page has to settle
	last     time.Time          // time when one of these requests last began or ended
	active   bool               // whether scripts of the page have made requests
	refused  []Refused
}

type request struct {
	url     string
	counted bool
}

// begin notes a request of a kind. parsed says whether the document was completely parsed
// when the request was made.
func (n *traffic) begin(id, url, kind string, parsed bool) {
	if _, again := n.requests[id]; again || len(n.requests) >= maxRequests {
		return
	}
	counted, script := counts(kind)
	n.requests[id] = request{clip(url, maxURL), counted}
	if counted {
		n.counted++
		n.last = time.Now()
	}
	if script || counted && parsed {
		n.active = true
	}
}

// counts reports whether a page is not settled while it waits for a request of this kind,
// and whether such a request is made by scripts.
func counts(kind string) (counted, script bool) {
	switch kind {
	case "XHR", "Fetch":
		return true, true
	case "Script", "Stylesheet", "Document":
		return true, false
	}
	return false, false // pictures, and requests that never end: streams, sockets, pings
}

// end notes that a request has ended, and reports whether the request was in progress.
func (n *traffic) end(e loadingEnded) bool {
	r, ok := n.requests[e.RequestID]
	if !ok {
		return false
	}
	delete(n.requests, e.RequestID)
	if r.counted {
		n.counted--
		n.last = time.Now()
	}
	if e.ErrorText != "" && e.ErrorText != "net::ERR_ABORTED" && len(n.refused) < maxRefused {
		reason := e.ErrorText
		if e.Blocked != "" {
			reason += " (" + e.Blocked + ")"
		}
		n.refused = append(n.refused, Refused{URL: r.url, Reason: clip(reason, maxNote)})
	}
	return true
}

// reset forgets the requests of the previous document.
func (n *traffic) reset() {
	clear(n.requests)
	n.counted, n.active = 0, false
}

// busy reports whether requests for which the page waits are in progress, or were within
// quietTime.
func (n *traffic) busy() bool {
	return n.counted > 0 || n.active && time.Since(n.last) < quietTime
}
