package act

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"

	"belljar.dev/browser"
)

// governor stands between Chrome and the two that command it: this package, and
// chromedp. A page can make events as fast as it likes, so the events of a session
// have a bound per second, and the rest is dropped before it is decoded. chromedp
// keeps all messages that it gets, without a bound, so it gets only the answers to
// its own commands and the events of guestEvents. Some of its commands would make
// Chrome mirror the whole document, or would change settings that this package relies
// on: the governor answers those itself, and Chrome never gets them.
type governor struct {
	seat *browser.Seat

	writing sync.Mutex // held while one message is written

	mu       sync.Mutex
	last     int64             // the number of our newest command
	waiting  map[int64]awaited // the answers to our commands, by their numbers
	sessions map[string]*listener
	guests   map[string]bool // sessions of chromedp
	err      error           // why the governor has ended

	unread chan *cdproto.Message // messages that chromedp has not read yet
	done   chan struct{}         // closed when the governor has ended
}

const (
	// firstID is where the numbers of our own commands begin; those of chromedp are
	// below it. Chrome takes numbers of 32 bits only.
	firstID = 1 << 30
	// guestQueue is the largest number of messages that may wait for chromedp. The queue is
	// full only if chromedp has stopped reading.
	guestQueue    = 1024
	writePatience = 5 * time.Second
	// maxEvents bounds the events of one session in a second, and maxPageMade those
	// of pageMade among them.
	maxEvents   = 2000
	maxPageMade = 200
)

// pageMade are the events that a page can make at will.
var pageMade = []string{
	"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded",
	"Page.navigatedWithinDocument",
}

// vital are the events that are never dropped: without them a tab would stand still.
// A page can make some of them, but each costs it a round trip.
var vital = []string{
	"Fetch.requestPaused", "Fetch.authRequired", "Target.attachedToTarget", "Target.detachedFromTarget",
	"Page.javascriptDialogOpening", "Page.javascriptDialogClosed", "Inspector.targetCrashed", "Page.frameNavigated",
	"Network.loadingFinished", "Network.loadingFailed", "Browser.downloadWillBegin", "Page.frameDetached",
}

// guestEvents are the events that chromedp gets, each from its own sessions.
var guestEvents = []string{
	"Input.dragIntercepted", "Target.detachedFromTarget",
	"Runtime.executionContextCreated", "Runtime.executionContextsCleared",
}

// faked are the commands of chromedp that Chrome never gets, each with the answer
// that chromedp gets.
var faked = map[string]string{
	"DOM.enable": "{}", "CSS.enable": "{}", "Log.enable": "{}", "Network.enable": "{}",
	"Target.setDiscoverTargets": "{}", "Target.setAutoAttach": "{}", "Page.setLifecycleEventsEnabled": "{}", "Page.enable": "{}",
	"DOM.getDocument": `{"root":{"nodeId":1,"backendNodeId":1,"nodeType":9,"nodeName":"#document","localName":"","nodeValue":""}}`,
}

// listener handles the events of one session.
type listener struct {
	hear func(method string, params []byte) // handles an event; must not block
	lost func(method string)                // gets the method of each event that was dropped; may be nil; must not block

	second int64 // second in which the events below arrived
	events int
	made   int // number of these events that are of pageMade
}

// awaited is the answer to a command of a session.
type awaited struct {
	to      chan<- answer
	session string
}

type answer struct {
	result jsonv2.Value
	err    error
}

// protocolError is a command that Chrome answered with an error.
type protocolError struct {
	Method  string
	Code    int64
	Message string
}

func (e *protocolError) Error() string { return e.Method + ": " + e.Message }

var errGone = errors.New("the browser has ended")

var jsonOptions = jsonv2.JoinOptions(jsonv2.DefaultOptionsV2(), jsonv2.AllowInvalidUTF8(true))

func newGovernor(s *browser.Seat) *governor {
	return &governor{
		seat: s, last: firstID, waiting: map[int64]awaited{}, sessions: map[string]*listener{}, guests: map[string]bool{},
		unread: make(chan *cdproto.Message, guestQueue), done: make(chan struct{}),
	}
}

// serve passes on the messages of Chrome until its pipe ends.
func (g *governor) serve() {
	for {
		text, err := browser.ReadMessage(g.seat.From)
		switch {
		case errors.Is(err, browser.ErrTooLong):
			if h, ok := headOf(text); ok && h.id >= firstID {
				g.answer(h.id, answer{err: &protocolError{Message: "the answer is too long"}})
			}
		case err != nil:
			g.end(errGone)
			return
		default:
			g.dispatch(text, time.Now().Unix())
		}
	}
}

// dispatch handles one message of Chrome.
func (g *governor) dispatch(text []byte, second int64) {
	if method, session, ok := glance(text); ok && slices.Contains(pageMade, method) {
		// Most of these events are dropped, so their whole text is not decoded.
		g.mu.Lock()
		e := g.sessions[session]
		room := e != nil && e.hasRoom(second)
		g.mu.Unlock()
		if !room {
			if e != nil {
				e.drop(method)
			}
			return
		}
	}
	h, ok := headOf(text)
	switch {
	case !ok:
		return // Chrome sends no such message; each caller that waits has a deadline
	case h.id >= firstID:
		var m struct {
			Result jsonv2.Value `json:"result"`
			Error  *struct {
				Code    int64  `json:"code"`
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := jsonv2.Unmarshal(text, &m, jsonOptions); err != nil {
			g.answer(h.id, answer{err: fmt.Errorf("read answer: %w", err)})
		} else if m.Error != nil {
			g.answer(h.id, answer{err: &protocolError{Code: m.Error.Code, Message: m.Error.Message}})
		} else {
			g.answer(h.id, answer{result: m.Result})
		}
		return
	case h.id > 0:
		g.pass(text, true)
		return
	case h.method == "":
		return
	}
	g.mu.Lock()
	e, guest := g.sessions[h.session], g.guests[h.session]
	over := e != nil && !e.admit(h.method, second)
	g.mu.Unlock()
	if guest && slices.Contains(guestEvents, h.method) || h.session == "" && h.method == "Target.detachedFromTarget" {
		g.pass(text, false)
	}
	switch {
	case over:
		e.drop(h.method)
	case e != nil:
		e.hear(h.method, h.params)
	}
}

// admit counts an event, and reports whether it is within the bounds of its second.
func (e *listener) admit(method string, second int64) bool {
	if second != e.second {
		e.second, e.events, e.made = second, 0, 0
	}
	if slices.Contains(vital, method) {
		return true
	}
	e.events++
	if slices.Contains(pageMade, method) {
		if e.made++; e.made > maxPageMade {
			return false
		}
	}
	return e.events <= maxEvents
}

// drop notes that an event was dropped.
func (e *listener) drop(method string) {
	if e.lost != nil {
		e.lost(method)
	}
}

// hasRoom reports whether an event of pageMade is within the bounds of its second.
func (e *listener) hasRoom(second int64) bool { return second != e.second || e.made < maxPageMade }

// pass hands a message to chromedp. If the queue has no room for an answer, chromedp
// has stopped reading, and the governor ends.
func (g *governor) pass(text []byte, isAnswer bool) {
	m := new(cdproto.Message)
	if jsonv2.Unmarshal(text, m, jsonOptions) != nil {
		return
	}
	g.hand(m, isAnswer)
}

func (g *governor) hand(m *cdproto.Message, isAnswer bool) {
	if !isAnswer && len(g.unread) > guestQueue/2 {
		return
	}
	select {
	case g.unread <- m:
	default:
		g.end(errors.New("chromedp has stopped reading"))
	}
}

func (g *governor) answer(id int64, a answer) {
	g.mu.Lock()
	to := g.waiting[id].to
	delete(g.waiting, id)
	g.mu.Unlock()
	if to != nil {
		to <- a // to has room for the only answer
	}
}

// end makes all waiting callers fail.
func (g *governor) end(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
		close(g.done)
	}
}

// listen calls hear with each event of a session, and lost with the method of each event
// that was dropped; neither may block. If lost is nil, dropped events are not counted. The
// empty session is the browser's own.
func (g *governor) listen(session string, hear func(string, []byte), lost func(string)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sessions[session] = &listener{hear: hear, lost: lost}
}

// leave ends listen when the session has ended. Chrome does not answer the commands that
// wait in an ended session, so leave makes them fail.
func (g *governor) leave(session string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.sessions, session)
	for id, w := range g.waiting {
		if w.session == session {
			delete(g.waiting, id)
			w.to <- answer{err: errSessionEnded} // w.to has room for the only answer
		}
	}
}

// errSessionEnded is the error of a command whose session has ended before its answer.
var errSessionEnded = errors.New("the session has ended")

// bind returns a function for listen that passes the session on, too.
func bind(session string, hear func(session, method string, params []byte)) func(string, []byte) {
	return func(method string, params []byte) { hear(session, method, params) }
}

// write sends one message.
func (g *governor) write(text []byte) error {
	g.writing.Lock()
	defer g.writing.Unlock()
	if err := g.seat.To.SetWriteDeadline(time.Now().Add(writePatience)); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	if _, err := g.seat.To.Write(append(text, 0)); err != nil {
		g.end(errGone) // half a message may be in the pipe
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// pending is a command that was sent; R is the type of its answer.
type pending[R any] struct{ sending }

// sending is a pending for any type of answer. Its methods are compiled once, and not once
// for each R.
type sending struct {
	g       *governor
	id      int64
	answer  <-chan answer
	back    chan<- answer // the channel of answer, to put an answer back
	session string
	method  string
	err     error
}

// begin sends a command to a session and does not wait for its answer. A caller that
// does not want the answer drops it.
func begin[P, R any](g *governor, session string, cmd cdp.Command[P, R], params P) pending[R] {
	return pending[R]{g.send(session, cmd.Method, params)}
}

// send is begin for any type of command.
func (g *governor) send(session, method string, params any) sending {
	p := sending{g: g, session: session, method: method}
	to := make(chan answer, 1)
	g.mu.Lock()
	if g.err != nil {
		p.err = g.err
		g.mu.Unlock()
		return p
	}
	g.last++
	p.id, p.answer, p.back = g.last, to, to
	g.waiting[p.id] = awaited{to, session}
	g.mu.Unlock()
	text, err := jsonv2.Marshal(struct {
		ID        int64  `json:"id"`
		Method    string `json:"method"`
		Params    any    `json:"params,omitempty"`
		SessionID string `json:"sessionId,omitempty"`
	}{p.id, method, params, session}, jsonOptions)
	if err == nil {
		err = g.write(text)
	}
	if err != nil {
		p.drop()
		p.err = err
	}
	return p
}

// drop gives up the answer, if the command was sent.
func (p sending) drop() {
	if p.id != 0 {
		p.g.mu.Lock()
		delete(p.g.waiting, p.id)
		p.g.mu.Unlock()
	}
}

// wait waits for the answer.
func (p pending[R]) wait(ctx context.Context) (R, error) { return p.waitOr(ctx, nil) }

// errBlocked is the error of a command that the page cannot answer because of a dialog or a
// crash.
var errBlocked = errors.New("a dialog blocks the page, or the page has crashed")

// waitOr waits for the answer, or until stop is closed.
func (p pending[R]) waitOr(ctx context.Context, stop <-chan struct{}) (R, error) {
	var result R
	err := p.read(ctx, stop, &result)
	return result, err
}

// read is waitOr for any answer, which it reads into result.
func (p sending) read(ctx context.Context, stop <-chan struct{}, result any) error {
	if p.err != nil {
		return fmt.Errorf("%s: %w", p.method, p.err)
	}
	var a answer
	select {
	case a = <-p.answer:
	case <-ctx.Done():
		p.drop()
		return fmt.Errorf("%s: %w", p.method, context.Cause(ctx))
	case <-stop:
		select {
		case a = <-p.answer: // the answer came first
		default:
			p.drop()
			return fmt.Errorf("%s: %w", p.method, errBlocked)
		}
	case <-p.g.done:
		select {
		case a = <-p.answer: // the answer came before the end
		default:
			p.drop()
			return fmt.Errorf("%s: %w", p.method, errGone)
		}
	}
	if a.err != nil {
		if e, ok := errors.AsType[*protocolError](a.err); ok {
			e.Method = p.method
		}
		return a.err
	}
	if len(a.result) > 0 {
		if err := jsonv2.Unmarshal(a.result, result, jsonOptions); err != nil {
			return fmt.Errorf("%s: read answer: %w", p.method, err)
		}
	}
	return nil
}

// answered reports whether the answer has arrived, or the command was not sent. It leaves
// the answer for wait.
func (p sending) answered() bool { return p.err != nil || len(p.answer) > 0 }

// came waits for the answer, for at most the duration most, and reports whether waiting is
// over: the answer has arrived, or will never arrive. It leaves the answer for wait.
func (p sending) came(ctx context.Context, stop <-chan struct{}, most time.Duration) bool {
	if p.err != nil {
		return true
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case a := <-p.answer:
		p.back <- a // p.back has room for the only answer
	case <-late.C:
		return false
	case <-ctx.Done():
	case <-stop:
	case <-p.g.done:
	}
	return true
}

// call sends a command to a session and waits for its answer.
func call[P, R any](ctx context.Context, g *governor, session string, cmd cdp.Command[P, R], params P) (R, error) {
	return begin(g, session, cmd, params).wait(ctx)
}

// Read implements chromedp's Transport.
func (g *governor) Read(ctx context.Context, m *cdproto.Message) error {
	select {
	case next := <-g.unread:
		*m = *next
		return nil
	case <-g.done:
		return io.EOF
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Write implements chromedp's Transport.
func (g *governor) Write(_ context.Context, m *cdproto.Message) error {
	if m.ID <= 0 || m.ID >= firstID {
		return fmt.Errorf("the command of chromedp has the invalid id %d", m.ID)
	}
	if text, ok := faked[string(m.Method)]; ok {
		g.hand(&cdproto.Message{ID: m.ID, SessionID: m.SessionID, Result: jsonv2.Value(text)}, true)
		return nil
	}
	if m.SessionID != "" {
		g.mu.Lock()
		g.guests[string(m.SessionID)] = true
		g.mu.Unlock()
	}
	text, err := jsonv2.Marshal(m, jsonOptions)
	if err != nil {
		return fmt.Errorf("write command of chromedp: %w", err)
	}
	return g.write(text)
}
