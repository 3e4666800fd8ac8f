package act

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// TestWhatIsKeptIsBounded checks that a tab keeps a bounded number of everything that a
// page makes (lines, requests, frames, notes, files, addresses, elements), each of a
// bounded length (BR22, BR-A19, BR-A20).
func TestWhatIsKeptIsBounded(t *testing.T) {
	e := &engine{opts: &Options{Downloads: 1 << 20}, masks: new(masks)}
	of := &tab{
		e: e, target: "f0", changed: make(chan struct{}, 1), blocked: make(chan struct{}), views: map[string]*view{}, frames: map[string]*frame{},
		going: going{underway: map[string]bool{}}, secret: map[string]string{},
	}
	e.tabs = []*tab{of}
	const rounds = 5 * maxKnownFrames / 2 // larger than the bound of every list that gets an entry in each round
	for n := range rounds {
		long := ""
		switch { // frames and files keep their first entries, the console and the requests their last
		case n < 2:
			long = strings.Repeat("ä", MaxURL)
		case n > rounds-MaxConsole:
			long = strings.Repeat("ä", 2*maxConsoleLine)
		}
		for method, params := range map[string]string{
			runtime.ConsoleAPICalled.Method:     fmt.Sprintf(`{"type":"log","args":[{"type":"string","value":"%d %s"}]}`, n, long),
			runtime.ExceptionThrown.Method:      fmt.Sprintf(`{"exceptionDetails":{"text":"%d %s"}}`, n, long),
			network.RequestWillBeSent.Method:    fmt.Sprintf(`{"requestId":"r%d","type":"Fetch","request":{"method":"GET","url":"http://site.example/%s"}}`, n, long),
			page.FrameAttached.Method:           fmt.Sprintf(`{"frameId":"f%d","parentFrameId":"f0"}`, n),
			page.FrameNavigated.Method:          fmt.Sprintf(`{"frame":{"id":"g%d","parentId":"f0","loaderId":"l%d","url":"http://site.example/%s"}}`, n, n, long),
			page.FileChooserOpened.Method:       `{}`,
			page.JavascriptDialogOpening.Method: fmt.Sprintf(`{"type":"alert","message":%q}`, long),
		} {
			ear{of}.hear("s", method, []byte(params))
		}
		e.hear(cdpbrowser.DownloadWillBegin.Method, fmt.Appendf(nil, `{"frameId":"f0","guid":"%08x","url":"http://site.example/%s","suggestedFilename":%q}`, n, long, long))
	}
	for n := range 3 * MaxRefs {
		of.refs.number(refKey{"f0", "l0", n + 1})
		e.seen.add(fmt.Sprint("http://site.example/", n))
	}
	for what, size := range map[string][2]int{
		"lines of the console": {len(of.console.all), MaxConsole}, "requests": {len(of.requests.all), MaxRequests}, "requests under way": {len(of.underway), maxUnderway},
		"frames": {len(of.frames), maxKnownFrames}, "notes": {len(of.notes), maxNotes}, "numbers": {len(of.refs.byNum), maxNumbers}, "keys of numbers": {len(of.refs.numbers), maxNumbers},
		"addresses": {len(e.seen.all), maxSeenURLs}, "files": {len(e.files.all), MaxDownloads}, "lines of files": {len(e.files.begun), maxNotes}, "unwanted files": {len(e.unwanted.guids), maxUnwanted},
	} {
		// At most MaxDownloads files begin, so there may be fewer lines of files.
		if size[0] > size[1] || size[0] < size[1]/2 && what != "lines of files" {
			t.Errorf("%d %s are kept, want at most %d and not much less", size[0], what, size[1])
		}
	}
	fits := func(what, text string, most int) {
		t.Helper()
		if n := utf8.RuneCountInString(text); n > most {
			t.Errorf("%s has %d characters, want at most %d", what, n, most)
		}
	}
	for _, l := range of.console.all {
		fits("a line of the console", l, 2*maxConsoleLine+20)
	}
	for _, r := range of.requests.all {
		fits("a request", r.url, 2*maxShownURL+1)
	}
	for _, f := range of.frames {
		if len(f.url) > MaxURL {
			t.Errorf("the address of a frame has %d bytes", len(f.url))
		}
	}
	for _, n := range of.notes {
		fits("a note", n, MaxDialogText+100)
	}
	for _, d := range e.files.all {
		fits("the name of a file", d.shown, MaxName)
		fits("the source of a file", d.from, 300)
	}
}

// TestLooksAreBounded checks that the lines of a look have at most MaxLook bytes, however
// many frames the tab has.
func TestLooksAreBounded(t *testing.T) {
	of := eye{&tab{e: &engine{masks: new(masks)}}}
	s, seen, within := new(sight), map[string]*looked{}, map[string]map[int]frame{}
	for n := range MaxFrames {
		var l looked
		for range 300 {
			l.Lines = append(l.Lines, lookedLine{Segs: []any{strings.Repeat("a", 1000)}})
		}
		l.Lines = append(l.Lines, lookedLine{Frame: 1, Segs: []any{"frame"}})
		id := fmt.Sprint(n)
		seen[id], within[id] = &l, map[int]frame{1: {id: fmt.Sprint(n + 1), parent: id}}
	}
	of.write(s, frame{id: "0"}, seen, within, true, 0)
	size := 0
	for _, l := range s.lines {
		size += len(l.text)
	}
	if size > MaxLook || size < MaxLook/2 || s.cut != "text" {
		t.Errorf("the lines have %d bytes, want at most %d and not much less; the limit that was reached is %q", size, MaxLook, s.cut)
	}
}

// TestRefsMakeRoom checks that a page that has made more elements than can have numbers
// still gets numbers for new ones, that the numbers that the agent was shown last stay, and
// that a look says so if it has left out a control.
func TestRefsMakeRoom(t *testing.T) {
	of := eye{&tab{e: &engine{masks: new(masks)}}}
	next := 0
	number := func() int { next++; return of.refs.number(refKey{"f", "l", next}) }
	for range 10 {
		last := number()
		of.refs.byNum[last].shown = true
		for len(of.refs.byNum) < maxNumbers {
			number()
		}
		var has line
		if text := of.lineOf(&has, frame{id: "f", loader: "l"}, []any{map[string]any{"n": float64(next), "r": "button", "m": "Old"}}); text != fmt.Sprintf(`[%d] button "Old"`, of.refs.last) || len(has.shows) != 1 || has.lacks {
			t.Fatalf("a control with a number is shown as %q, and the line shows %v", text, has.shows)
		}
		var w line
		if text := of.lineOf(&w, frame{id: "f", loader: "l"}, []any{map[string]any{"n": 1e9, "r": "button", "m": "New"}}); text != "" || !w.lacks {
			t.Fatalf("a control without a number is shown as %q, and the line lacks one: %v", text, w.lacks)
		}
		of.forgetRefs()
		if of.refs.byNum[last] == nil {
			t.Fatalf("[%d] was shown, and is forgotten", last)
		}
		if number() == 0 {
			t.Fatal("a new element gets no number")
		}
	}
	for len(of.refs.byNum) < maxNumbers { // the agent was shown all of them
		of.refs.byNum[number()].shown = true
	}
	of.forgetRefs()
	if len(of.refs.byNum) > MaxRefs || len(of.refs.byNum) != len(of.refs.numbers) || of.refs.byNum[of.refs.last] == nil {
		t.Errorf("there are %d numbers and %d keys", len(of.refs.byNum), len(of.refs.numbers))
	}
}
