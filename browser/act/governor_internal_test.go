package act

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"

	"belljar.dev/browser"
	"belljar.dev/internal/testenv"
)

// wired is a governor with the two ends of its pipe that belong to Chrome.
type wired struct {
	*governor
	commands *bufio.Reader
	answers  *os.File
}

func wire(t *testing.T) *wired {
	t.Helper()
	fromUs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	g := newGovernor(&browser.Seat{To: to, From: bufio.NewReader(from)})
	var served sync.WaitGroup
	served.Go(g.serve)
	t.Cleanup(func() {
		answers.Close()
		served.Wait()
		for _, f := range []*os.File{fromUs, to, from} {
			f.Close()
		}
	})
	return &wired{g, bufio.NewReader(fromUs), answers}
}

// wiredCommand is a command that a Chrome gets.
type wiredCommand struct {
	ID        int64  `json:"id"`
	Method    string `json:"method"`
	SessionID string `json:"sessionId"`
	Params    struct {
		Rate float64 `json:"rate"`
	} `json:"params"`
}

// command reads the next command; ok is false at the end of the pipe.
func (w *wired) command() (c wiredCommand, ok bool) {
	text, err := w.commands.ReadBytes(0)
	ok = err == nil && json.Unmarshal(bytes.TrimSuffix(text, []byte{0}), &c) == nil
	return c, ok
}

func (w *wired) say(t *testing.T, text string) {
	t.Helper()
	if _, err := w.answers.WriteString(text + "\x00"); err != nil {
		t.Fatal(err)
	}
}

// TestChromedpAttaches pins the commands that chromedp sends when it attaches to a page,
// their order, and the answers that it gets in place of Chrome's, and checks that its
// session is ended (BR43). A version of chromedp that sends other commands must be
// reviewed.
func TestChromedpAttaches(t *testing.T) {
	w := wire(t)
	var asked []string
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for {
			c, ok := w.command()
			if !ok {
				return
			}
			who := "chromedp"
			if c.ID >= firstID {
				who = "belljar"
			}
			asked = append(asked, who+" "+c.Method+" "+c.SessionID)
			result := "{}"
			switch c.Method {
			case "Target.attachToTarget":
				result = `{"sessionId":"guest"}`
			case "Runtime.evaluate":
				result = `{"result":{"type":"object","className":"Window"}}`
			case "Page.getFrameTree":
				result = `{"frameTree":{"frame":{"id":"page","loaderId":"1","url":"about:blank"}}}`
			case "Target.detachFromTarget":
				return
			}
			session := ""
			if c.SessionID != "" {
				session = fmt.Sprintf(`,"sessionId":%q`, c.SessionID)
			}
			if _, err := fmt.Fprintf(w.answers, `{"id":%d,"result":%s%s}`+"\x00", c.ID, result, session); err != nil {
				return
			}
		}
	}()
	e := &engine{g: w.governor}
	_, done, err := e.guest(t.Context(), "page")
	if err != nil {
		t.Fatal(err)
	}
	done()
	<-heard
	want := []string{
		"chromedp Target.attachToTarget ", "chromedp Runtime.enable guest", "chromedp Runtime.evaluate guest", "chromedp Inspector.enable guest",
		"chromedp Page.getFrameTree guest", "belljar Target.detachFromTarget ",
	}
	if !slices.Equal(asked, want) {
		t.Errorf("Chrome was asked for\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.guests) > 0 || len(w.unread) > 0 || len(w.waiting) > 0 {
		t.Errorf("left are %d sessions, %d messages and %d commands", len(w.guests), len(w.unread), len(w.waiting))
	}
}

// hostile returns a message that a Chrome may send after a page has taken it over.
func hostile(r *rand.Rand) string {
	one := []string{
		"", "garbage", "{", "null", "[]", `"x"`, "\x01\x02", `{"id":1}`, `{"id":-5,"result":{}}`, `{"id":"x"}`, `{"id":1e99}`, `{"id":9223372036854775808}`,
		`{"method":"Page.frameNavigated","params":{"frame":{"id":"x"}},"sessionId":"nobody"}`, `{"method":"Target.detachedFromTarget","params":{"sessionId":"nobody"}}`,
		`{"method":"Fetch.requestPaused","params":7,"sessionId":"ours"}`, `{"method":"Runtime.consoleAPICalled","params":{"type":"log","args":[{"value":"` + "\xff\xfe" + `"}]},"sessionId":"ours"}`,
		`{"method":"` + strings.Repeat("x", 1<<16) + `"}`, strings.Repeat("[", 100000), strings.Repeat(`{"method":`, 20000), `{"method":"Runtime.consoleAPICalled","sessionId":"`,
		fmt.Sprintf(`{"id":%d,"result":{}}`, firstID+r.IntN(5)), fmt.Sprintf(`{"id":%d,"error":{"code":1,"message":"\ud800"}}`, firstID+r.IntN(5)), fmt.Sprintf(`{"id":%d,"result":[1]}`, firstID+r.IntN(5)),
		`{"id":7,"result":{},"sessionId":"guest"}`, `{"method":"Target.attachedToTarget","params":{"sessionId":"a","targetInfo":{"targetId":"b","type":"iframe"}},"sessionId":"ours"}`,
	}
	text := one[r.IntN(len(one))]
	if n := len(text); n > 0 && r.IntN(4) == 0 { // half a message
		text = text[:r.IntN(n)]
	}
	return strings.ReplaceAll(text, "\x00", "")
}

// TestGovernorSurvivesAnything checks that, whatever comes out of the pipe, each call is
// answered or fails, at most once, and that the queues are bounded (BR-A43).
func TestGovernorSurvivesAnything(t *testing.T) {
	n, r := testenv.Cases(t, 400)
	w := wire(t)
	read := make(chan struct{})
	w.listen("ours", func(string, []byte) {}, nil)
	for range n {
		w.say(t, hostile(r))
	}
	w.listen("over", func(string, []byte) { close(read) }, nil) // this session has used none of its events
	w.say(t, `{"method":"Test.over","sessionId":"over"}`)
	<-read
	// The governor still passes on answers.
	go func() {
		for {
			c, ok := w.command()
			if !ok {
				return
			}
			for range 3 { // send each answer more than once
				_, _ = fmt.Fprintf(w.answers, `{"id":%d,"result":{"result":{"type":"number","value":4}}}`+"\x00", c.ID)
			}
		}
	}()
	for range 20 {
		if v, err := call(t.Context(), w.governor, "", runtime.Evaluate, runtime.EvaluateParams{Expression: "2+2"}); err != nil || string(v.Result.Value) != "4" {
			t.Fatalf("the answer is %+v, %v", v.Result, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) > 0 || len(w.unread) > guestQueue || len(w.sessions) != 2 {
		t.Errorf("left are %d commands, %d messages for chromedp, %d sessions", len(w.waiting), len(w.unread), len(w.sessions))
	}
}

// TestLongAnswersAreRefused checks that a message of more than 64 MiB is not kept, and that
// the call that it answers fails immediately (BR43, BR-A43).
func TestLongAnswersAreRefused(t *testing.T) {
	w := wire(t)
	p := begin(w.governor, "", runtime.Evaluate, runtime.EvaluateParams{Expression: "0"})
	written := make(chan struct{})
	go func() {
		defer close(written)
		block := bytes.Repeat([]byte("x"), 1<<20)
		_, _ = fmt.Fprintf(w.answers, `{"id":%d,"result":{"result":{"type":"string","value":"`, p.id)
		for range 66 {
			_, _ = w.answers.Write(block)
		}
		_, _ = w.answers.WriteString("\"}}}\x00")
	}()
	if _, err := p.wait(t.Context()); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
	<-written
	q := begin(w.governor, "", runtime.Enable, cdp.Empty{})
	w.say(t, fmt.Sprintf(`{"id":%d,"result":{}}`, q.id))
	if _, err := q.wait(t.Context()); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// TestCallsFailWithTheirChrome: calls that wait fail when the pipe ends, and so do later ones (BR43).
func TestCallsFailWithTheirChrome(t *testing.T) {
	w := wire(t)
	p := begin(w.governor, "", runtime.Enable, cdp.Empty{})
	w.answers.Close()
	if _, err := p.wait(t.Context()); err == nil {
		t.Error("a call was answered by nobody")
	}
	if _, err := call(t.Context(), w.governor, "", runtime.Enable, cdp.Empty{}); err == nil {
		t.Error("a call went to a Chrome that has ended")
	}
}

// TestEventsAreCounted checks that a session gets at most 200 events a second of the kinds
// that a page can make at will, and 2,000 of all kinds, and that each dropped event is
// counted. Events that a tab cannot work without are never dropped (BR22, BR43, BR-A19).
func TestEventsAreCounted(t *testing.T) {
	g := newGovernor(&browser.Seat{})
	heard, lost := map[string]int{}, map[string]int{}
	g.listen("s", func(method string, _ []byte) { heard[method]++ }, func(method string) { lost[method]++ })
	for _, method := range []string{"Runtime.consoleAPICalled", "Page.frameNavigated", "DOM.attributeModified"} {
		for range 5000 {
			g.dispatch(fmt.Appendf(nil, `{"method":%q,"params":{},"sessionId":"s"}`, method), 7)
		}
	}
	if c, n, d := heard["Runtime.consoleAPICalled"], heard["Page.frameNavigated"], heard["DOM.attributeModified"]; c != maxPageMade || n != 5000 || d != maxEvents-maxPageMade {
		t.Errorf("heard %d lines, %d documents, %d others", c, n, d)
	}
	for method, n := range heard {
		if n+lost[method] != 5000 {
			t.Errorf("of 5,000 %s %d were heard and %d were told to be lost", method, n, lost[method])
		}
	}
	g.dispatch([]byte(`{"method":"Runtime.consoleAPICalled","params":{},"sessionId":"s"}`), 8)
	if heard["Runtime.consoleAPICalled"] != maxPageMade+1 {
		t.Error("the next second has none")
	}
}

// TestGuestsHearLittle checks that chromedp gets only the events of guestEvents, and only
// in its own sessions. They fill at most about half of its queue, so that answers have room
// (BR43).
func TestGuestsHearLittle(t *testing.T) {
	g := newGovernor(&browser.Seat{})
	g.guests["guest"] = true
	got := func(method, session string) bool {
		g.dispatch(fmt.Appendf(nil, `{"method":%q,"params":{},"sessionId":%q}`, method, session), 7)
		select {
		case m := <-g.unread:
			return string(m.Method) == method
		default:
			return false
		}
	}
	for _, method := range slices.Concat(vital, pageMade, guestEvents, []string{"DOM.attributeModified", "Network.requestWillBeSent", "Page.loadEventFired", "Target.targetCreated"}) {
		if is, want := got(method, "guest"), slices.Contains(guestEvents, method); is != want {
			t.Errorf("%s in its session: chromedp gets it %v, want %v", method, is, want)
		}
		if got(method, "ours") {
			t.Errorf("chromedp gets %s of a session that is not its own", method)
		}
	}
	for range 2 * guestQueue {
		g.dispatch([]byte(`{"method":"Runtime.executionContextCreated","params":{},"sessionId":"guest"}`), 7)
	}
	if n := len(g.unread); n > guestQueue/2+1 {
		t.Errorf("%d events wait for chromedp", n)
	}
	g.dispatch([]byte(`{"id":1,"result":{},"sessionId":"guest"}`), 7)
	if n := len(g.unread); n != guestQueue/2+2 || g.err != nil {
		t.Errorf("an answer has no room: %d messages wait, %v", n, g.err)
	}
}

// TestSeatsEnd: a seat that is not used is parked, and one that is too old is closed (BR19).
func TestSeatsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Pool: new(browser.Pool)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		seat := &Seat{forget: s.drop, turn: make(chan struct{}, 1), quit: make(chan struct{}), used: time.Now(), since: time.Now()}
		s.all = append(s.all, seat)
		time.Sleep(MaxAge - time.Minute)
		synctest.Wait()
		if n := len(s.List()); n != 1 {
			t.Fatalf("%d seats before their age", n)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := len(s.List()); n != 0 {
			t.Errorf("%d seats after it", n)
		}
		if err := seat.with(t.Context(), nil); ReasonOf(err) != ReasonClosed {
			t.Errorf("a call later: %v", err)
		}
	})
}
