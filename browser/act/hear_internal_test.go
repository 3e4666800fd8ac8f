package act

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"
)

// TestJudgeOfSchemes checks that a document that is not of the web is refused before the
// Judge is called, even if Chrome would load it (BR25, BR36, BR-A32).
func TestJudgeOfSchemes(t *testing.T) {
	asked := 0
	e := &engine{ctx: t.Context(), opts: &Options{Judge: func(context.Context, Navigation) error { asked++; return nil }}}
	page := ear{&tab{e: e, target: "f", frames: map[string]*frame{}}}
	judge := func(url string) error {
		v := pausedEvent{FrameID: "f", NetworkID: "n"}
		v.Request.URL, v.Request.Method = url, "GET"
		return page.judge(v)
	}
	for _, url := range []string{"file:///etc/passwd", "data:text/html,x", "chrome://version", "ftp://site.example/", "blob:http://site.example/1", "about:blank", "view-source:http://site.example/", "javascript:0", "", "//site.example/", "http://[::1/"} {
		if judge(url) == nil {
			t.Errorf("%q was let through", url)
		}
	}
	if asked != 0 {
		t.Errorf("somebody was asked %d times", asked)
	}
	for _, url := range []string{"http://site.example/", "https://site.example/"} {
		if err := judge(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if asked != 2 {
		t.Errorf("the judge was asked %d times, want 2", asked)
	}
}

// TestFailuresOfFrames checks that a frame whose document cannot be loaded does not count
// as a failure of the tab's own document, which may still arrive.
func TestFailuresOfFrames(t *testing.T) {
	for frame, failure := range map[string]string{"top": "ERR_CONNECTION_REFUSED", "inner": ""} {
		of := ear{&tab{e: &engine{masks: new(masks)}, target: "top", changed: make(chan struct{}, 1), going: going{underway: map[string]bool{}}}}
		var v requestEvent
		v.RequestID, v.FrameID, v.Type, v.Request.URL = "r", frame, "Document", "http://"+frame+".example/"
		of.began(v)
		of.ended(requestEvent{RequestID: "r", ErrorText: "net::ERR_CONNECTION_REFUSED"})
		if of.failure != failure {
			t.Errorf("the document of the frame %s failed, and the tab says %q, want %q", frame, of.failure, failure)
		}
		if last := hand(of).lastAsked(); (last != "") != (frame == "top") {
			t.Errorf("the document of the tab that was requested last is %q", last)
		}
	}
}

// TestLinesOfTheConsole checks what is kept of values that have no description.
func TestLinesOfTheConsole(t *testing.T) {
	of := ear{&tab{e: &engine{masks: new(masks)}, changed: make(chan struct{}, 1)}}
	of.hear("s", runtime.ConsoleAPICalled.Method, []byte(`{"type":"log","args":[{"type":"undefined"},{"type":"object","subtype":"null","value":null},{"type":"boolean","value":false},{"type":"number","value":1.5,"description":"1.5"},{"type":"string","value":"text"},{"type":"object","description":"Object"}]}`))
	of.hear("s", runtime.ExceptionThrown.Method, []byte(`{"exceptionDetails":{"text":"Uncaught","exception":{"type":"string","value":"no such item"}}}`))
	of.hear("s", runtime.ExceptionThrown.Method, []byte(`{"exceptionDetails":{"text":"Uncaught","exception":{"type":"object","description":"Error: it broke\n    at x"}}}`))
	want := []string{"log: undefined null false 1.5 text Object", "error: Uncaught no such item", "error: Error: it broke at x"}
	if !slices.Equal(of.console.all, want) {
		t.Errorf("got %q, want %q", of.console.all, want)
	}
}

// TestDownloadsEndAtTheirBound checks that a download is cancelled as soon as Chrome
// reports that the download and the files that wait are larger than Options.Downloads, or
// that the download alone will be. The size of the file system is the second bound (BR31).
func TestDownloadsEndAtTheirBound(t *testing.T) {
	for name, tt := range map[string]struct {
		event downloadEvent
		want  string
	}{
		"within":             {downloadEvent{GUID: "b", ReceivedBytes: 40, TotalBytes: 100}, "on its way"},
		"over with another":  {downloadEvent{GUID: "b", ReceivedBytes: 41}, "cancelled"},
		"will be larger":     {downloadEvent{GUID: "b", TotalBytes: 101}, "cancelled"},
		"claims any size":    {downloadEvent{GUID: "b", TotalBytes: 1 << 63}, "cancelled"},
		"has any size":       {downloadEvent{GUID: "b", ReceivedBytes: 1 << 63}, "cancelled"},
		"complete, and over": {downloadEvent{GUID: "b", ReceivedBytes: 41, State: "completed"}, "cancelled"},
		"complete":           {downloadEvent{GUID: "b", ReceivedBytes: 40, State: "completed"}, "ready"},
	} {
		e := &engine{opts: &Options{Downloads: 100}, errands: make(chan func(), 1)}
		e.files.all = []*download{{name: "d1", guid: "a", size: 60, state: "ready"}, {name: "d2", guid: "b", state: "on its way"}}
		e.fileGoesOn(tt.event)
		if d := e.files.all[1]; d.state != tt.want || (len(e.errands) > 0) != (tt.want == "cancelled") {
			t.Errorf("%s: it is %s (%s), and %d commands go to Chrome", name, d.state, d.why, len(e.errands))
		}
	}
	e := &engine{opts: &Options{Downloads: 1 << 30}, errands: make(chan func(), 1)}
	e.files.all = []*download{{name: "d1", guid: "a", state: "on its way"}}
	e.fileGoesOn(downloadEvent{GUID: "a", ReceivedBytes: 10, State: "canceled"})
	if _, err := e.take(t.Context(), "d1"); ReasonOf(err) != ReasonFailed || !strings.Contains(err.Error(), "load it again") {
		t.Errorf("a download that the server ended: %v", err)
	}
}
