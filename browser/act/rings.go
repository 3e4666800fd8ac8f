package act

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// rings contains the last lines of a tab's console and network.
type rings struct {
	console  ring[string]
	errors   int // number of lines of the console that are errors
	told     int // value of errors that the agent has read last
	requests requestRing
}

// ring keeps the latest entries and drops the older ones.
type ring[T any] struct {
	all     []T
	older   int // number of entries that made room for newer ones
	skipped int // number of entries that were not kept at all, since too many came in a second
}

// missing returns lines about the entries that the ring does not have.
func (r *ring[T]) missing(what string) (out []string) {
	if r.older > 0 {
		out = append(out, fmt.Sprintf("… %s older %s were dropped", thousands(r.older), what))
	}
	if r.skipped > 0 {
		out = append(out, fmt.Sprintf("… %s more %s were not kept, since too many came in a second", thousands(r.skipped), what))
	}
	return out
}

func (r *ring[T]) add(v T, most int) *T {
	if len(r.all) >= most {
		n := most / 4
		r.all = append(r.all[:0], r.all[n:]...)
		r.older += n
	}
	r.all = append(r.all, v)
	return &r.all[len(r.all)-1]
}

// requestRing contains the requests of a tab.
type requestRing struct{ ring[requestLine] }

// lastTop returns the latest request for the document of the tab itself, or the zero
// requestLine.
func (r *requestRing) lastTop() requestLine {
	for _, l := range slices.Backward(r.all) {
		if l.top {
			return l
		}
	}
	return requestLine{}
}

type requestLine struct {
	id, method, kind, url string
	status                int
	failed                string
	top                   bool // whether it is for the document of the tab itself
}

// maxConsoleLine is how many characters of a line of the console an agent reads. Twice as
// many are kept, so that a secret at this place is masked as a whole.
const maxConsoleLine = 500

// counts reports whether a tab is not settled while a request of this kind is in progress.
func counts(kind string) bool {
	switch kind {
	case "XHR", "Fetch", "Script", "Stylesheet", "Document":
		return true
	}
	return false // pictures, and requests that never end: streams, sockets, pings
}

// began adds a line for a request that the page has sent.
func (t ear) began(v requestEvent) {
	// A secret may stand at the place where the line is cut, and may be typed later.
	u := clip(encodedURL(t.e.masks.hide(clip(v.Request.URL, MaxURL))), 2*maxShownURL)
	t.change(func() {
		if _, again := t.underway[v.RequestID]; !again && len(t.underway) < maxUnderway {
			t.underway[v.RequestID] = counts(v.Type)
			if counts(v.Type) {
				t.counted++
			}
		}
		t.requests.add(requestLine{id: v.RequestID, method: cut(plain(v.Request.Method), 20), kind: cut(plain(v.Type), 20), url: u, top: v.Type == "Document" && v.FrameID == t.target}, MaxRequests)
	})
}

func (t ear) answered(v requestEvent) {
	t.change(func() {
		if r := t.request(v.RequestID); r != nil {
			r.status = v.Response.Status
		}
	})
}

// request returns the latest line of a request. t.mu is held.
func (t ear) request(id string) *requestLine {
	for i := len(t.requests.all) - 1; i >= 0 && i >= len(t.requests.all)-100; i-- {
		if t.requests.all[i].id == id {
			return &t.requests.all[i]
		}
	}
	return nil
}

// ended notes the end of a request, with an error or without.
func (t ear) ended(v requestEvent) {
	t.change(func() {
		if counted, ok := t.underway[v.RequestID]; ok {
			delete(t.underway, v.RequestID)
			if counted {
				t.counted--
			}
		}
		if v.ErrorText == "" {
			return
		}
		if r := t.request(v.RequestID); r != nil {
			r.failed = cut(plain(v.ErrorText), 60)
			if r.top && t.failure == "" && v.ErrorText != "net::ERR_ABORTED" {
				t.failure = strings.TrimPrefix(r.failed, "net::")
			}
		}
	})
}

type consoleEvent struct {
	Type string `json:"type"`
	Args []struct {
		Type        string `json:"type"`
		Value       any    `json:"value"`
		Description string `json:"description"`
	} `json:"args"`
}

// logged adds a line of the console.
func (t ear) logged(v consoleEvent) {
	var b strings.Builder
	for i, a := range v.Args {
		if i == 20 || b.Len() > 8*maxConsoleLine {
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		switch s, ok := a.Value.(string); {
		case ok:
			b.WriteString(clip(s, 8*maxConsoleLine))
		case a.Description != "":
			b.WriteString(a.Description)
		case a.Type == "undefined":
			b.WriteString("undefined")
		case a.Value == nil:
			b.WriteString("null")
		default:
			fmt.Fprint(&b, a.Value)
		}
	}
	t.keep(cut(plain(v.Type), 20), b.String())
}

type exceptionEvent struct {
	Details struct {
		Text      string `json:"text"`
		Exception struct {
			Description string `json:"description"`
			Value       any    `json:"value"` // what was thrown, if it is not an object
		} `json:"exception"`
	} `json:"exceptionDetails"`
}

func (t ear) threw(v exceptionEvent) {
	text := cmp.Or(v.Details.Exception.Description, v.Details.Text)
	if value, ok := v.Details.Exception.Value.(string); ok && v.Details.Exception.Description == "" {
		text += " " + value
	}
	t.keep("error", text)
}

func (t ear) keep(kind, text string) {
	// A secret may stand at the place where the line is cut, and may be typed later.
	text = t.e.masks.hide(clip(text, 8*maxConsoleLine))
	line := kind + ": " + clip(escaped(text), 2*maxConsoleLine)
	t.change(func() {
		t.console.add(line, MaxConsole)
		if kind == "error" || kind == "assert" {
			t.errors++
		}
	})
}

// String returns a request as the agent reads it.
func (r requestLine) String() string {
	s := r.method + " " + r.url + " " + r.kind
	switch {
	case r.failed != "":
		s += " failed " + r.failed
	case r.status != 0:
		s += " " + strconv.Itoa(r.status)
	default:
		s += " under way"
	}
	return s
}
