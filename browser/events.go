package browser

import (
	"net/http"
	"net/url"

	"github.com/chromedp/cdproto/cdp/jsonv2"
)

// These types contain only the parts of Chrome's events that are read. The types of cdproto
// have ten times as many fields, and a page can have thousands of requests.

type frameNavigated struct {
	Frame frameInfo `json:"frame"`
}

type frameInfo struct {
	ParentID       string `json:"parentId"`
	LoaderID       string `json:"loaderId"`
	URL            string `json:"url"`
	MimeType       string `json:"mimeType"`
	UnreachableURL string `json:"unreachableUrl"`
}

type frameMoved struct {
	FrameID string  `json:"frameId"`
	URL     string  `json:"url"`
	Delay   float64 `json:"delay"` // in seconds
}

type dialogOpening struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

type attachedToTarget struct {
	TargetInfo struct {
		TargetID string `json:"targetId"`
		URL      string `json:"url"`
	} `json:"targetInfo"`
}

type downloadWillBegin struct {
	FrameID           string `json:"frameId"`
	URL               string `json:"url"`
	SuggestedFilename string `json:"suggestedFilename"`
}

type requestPaused struct {
	RequestID string `json:"requestId"`
	Request   struct {
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
	} `json:"request"`
}

type requestWillBeSent struct {
	RequestID string `json:"requestId"`
	LoaderID  string `json:"loaderId"`
	FrameID   string `json:"frameId"`
	Type      string `json:"type"`
	Request   struct {
		URL string `json:"url"`
	} `json:"request"`
	RedirectResponse *responseInfo `json:"redirectResponse"`
}

type responseInfo struct {
	URL      string            `json:"url"`
	Status   int               `json:"status"`
	MimeType string            `json:"mimeType"`
	Headers  map[string]string `json:"headers"`
}

type responseReceived struct {
	RequestID string       `json:"requestId"`
	LoaderID  string       `json:"loaderId"`
	FrameID   string       `json:"frameId"`
	Type      string       `json:"type"`
	Response  responseInfo `json:"response"`
}

type responseHead struct {
	RequestID string `json:"requestId"`
	LoaderID  string `json:"loaderId"`
	FrameID   string `json:"frameId"`
	Type      string `json:"type"`
}

type loadingEnded struct {
	RequestID string `json:"requestId"`
	Type      string `json:"type"`
	ErrorText string `json:"errorText"`
	Blocked   string `json:"blockedReason"`
}

// decode reads an event.
func decode(text []byte, into any) error { return jsonv2.Unmarshal(text, into, jsonOptions) }

// isDocument reports whether a request is for the page itself.
func (t *tab) isDocument(id, loader, frame, kind string) bool {
	return kind == "Document" && id == loader && frame == string(t.frame)
}

// began notes a request of the page.
func (t *tab) began(e requestWillBeSent) {
	if t.isDocument(e.RequestID, e.LoaderID, e.FrameID, e.Type) {
		t.change(func() {
			if r := e.RedirectResponse; r != nil && len(t.redirects) < maxRedirects {
				t.redirects = append(t.redirects, Redirect{From: clip(r.URL, maxURL), To: clip(e.Request.URL, maxURL), Status: r.Status})
			} else if r == nil {
				t.doc, t.failure = document{}, ""
			}
			t.doc.url = e.Request.URL
		})
		return
	}
	t.change(func() { t.traffic.begin(e.RequestID, e.Request.URL, e.Type, t.dom) })
}

// answered notes the status and headers of an answer.
func (t *tab) answered(params []byte) {
	var head responseHead
	if decode(params, &head) != nil || !t.isDocument(head.RequestID, head.LoaderID, head.FrameID, head.Type) {
		return
	}
	var e responseReceived
	if decode(params, &e) != nil {
		return
	}
	headers := make(map[string]string, min(len(e.Response.Headers), maxHeader))
	for name, value := range e.Response.Headers {
		if len(headers) < maxHeader && len(value) <= 8<<10 {
			headers[http.CanonicalHeaderKey(name)] = value
		}
	}
	t.change(func() {
		t.doc = document{url: e.Response.URL, mime: e.Response.MimeType, status: e.Response.Status, headers: headers}
	})
}

// ended notes the end of a request, with an error or without.
func (t *tab) ended(e loadingEnded) {
	t.change(func() {
		if !t.traffic.end(e) && e.Type == "Document" && e.ErrorText != "" {
			t.failure = e.ErrorText
		}
	})
}

func canonical(name string) string { return http.CanonicalHeaderKey(name) }

// originOf returns the scheme, host and port of a URL.
func originOf(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return "", err
	}
	return u.Scheme + "://" + u.Host, nil
}
