package act

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// MaxAsked is how many dialogs of a document wait for the agent.
const MaxAsked = maxAsked

// Kill ends the Chrome of a seat, as a crash does.
func (s *Seat) Kill() {
	s.mu.Lock()
	e := s.e
	s.mu.Unlock()
	e.lease.To.Close()
	<-e.g.done
}

// MissProgress makes the seat miss all further progress events of downloads.
func (s *Seat) MissProgress() {
	e := s.tab().e
	e.g.listen("", func(method string, params []byte) {
		if method != cdpbrowser.DownloadProgress.Method {
			e.hear(method, params)
		}
	}, nil)
}

// Stored is how many bytes the downloads take in the box of the seat.
func (s *Seat) Stored() (n int64) {
	e := s.tab().e
	e.mu.Lock()
	all := slices.Clone(e.files.all)
	e.mu.Unlock()
	for _, d := range all {
		f, err := e.lease.Open(e.ctx, downloadDir+"/"+d.guid)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = e.lease.Open(e.ctx, downloadDir+"/"+d.guid+".crdownload")
		}
		if err != nil {
			continue
		}
		if st, err := f.Stat(); err == nil {
			n += st.Size()
		}
		f.Close()
	}
	return n
}

// Crash ends the renderer of the current tab.
func (s *Seat) Crash() {
	t := s.tab()
	begin(t.e.g, t.session(), page.Crash, cdp.Empty{}).drop()
}

// SendInput sends a click and a key to the current tab past all steps, as late input of a step would
// arrive. It returns when the page has handled them.
func (s *Seat) SendInput(x, y float64) {
	t := s.tab()
	for _, typ := range []input.DispatchMouseEventType{input.DispatchMouseEventTypeMousePressed, input.DispatchMouseEventTypeMouseReleased} {
		if _, err := call(t.e.ctx, t.e.g, t.session(), input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: typ, X: x, Y: y, Button: input.MouseButtonLeft, ClickCount: 1}); err != nil {
			panic(err)
		}
	}
	for _, k := range keysOf("a")[0] {
		if _, err := call(t.e.ctx, t.e.g, t.session(), input.DispatchKeyEvent, *k); err != nil {
			panic(err)
		}
	}
}

// Collect makes the current tab collect its garbage.
func (s *Seat) Collect() {
	t := s.tab()
	if _, err := call(t.e.ctx, t.e.g, t.session(), heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		panic(err)
	}
}

// RefOfLeftDocument returns a ref such as a look that was too late would return: it is for
// an element of the previous document that has the place and the name of the element n.
func (s *Seat) RefOfLeftDocument(n int) int {
	t := s.tab()
	t.mu.Lock()
	defer t.mu.Unlock()
	was := *t.refs.byNum[n]
	left := t.refs.number(refKey{was.frame, "left", was.local})
	key := t.refs.byNum[left].refKey
	*t.refs.byNum[left] = was
	t.refs.byNum[left].refKey = key
	return left
}

// Insert puts a text into the field n in the way in which a secret is put into a field that
// was taken hold of. If left is true, the document of the field was left before.
func (s *Seat) Insert(ctx context.Context, n int, text string, left bool) error {
	return hand{s.tab()}.insert(ctx, s.aim(n, left), "", text)
}

// BeginScript sends a script that puts a text into the field n, in the way in which steps
// send all scripts. end waits until the script has run.
func (s *Seat) BeginScript(ctx context.Context, n int, text string) (end func() error) {
	a := s.aim(n, false)
	script := beginScript(ctx, s.tab(), a.frame, fmt.Sprintf("belljar.insert(%d, %s, %s)", a.local, argument(""), argument(text)))
	return func() error { return script.wait(ctx, nil) }
}

// Reading returns begins, which sends an expression of the agent to the current document;
// the document may be left before it is sent. end waits for the value of the expression.
func (s *Seat) Reading(ctx context.Context) (begins func(expression string) (end func() (string, error)), err error) {
	t := eye{s.tab()}
	f, _ := t.frameOf(t.target)
	w, err := t.readingWorldOf(ctx, f)
	return func(expression string) func() (string, error) {
		sent := begin(t.e.g, f.session, runtime.Evaluate, evaluation(w, expression))
		return func() (string, error) {
			r, err := sent.waitOr(ctx, t.stop())
			if err != nil || r.Result == nil {
				return "", err
			}
			return string(r.Result.Value), nil
		}
	}, err
}

// HoldNavigations delays the events about new documents of the current tab until let is
// closed, as on a busy machine.
func (s *Seat) HoldNavigations(let <-chan struct{}) {
	t := s.tab()
	session := t.session()
	t.e.g.listen(session, func(method string, params []byte) {
		if method == page.FrameNavigated.Method {
			<-let
		}
		ear{t}.hear(session, method, params)
	}, func(method string) { ear{t}.lost(session, method) })
}

// TakesInput returns an error if a step that has not begun its input must not send it to
// the document of the element n.
func (s *Seat) TakesInput(n int, left bool) error {
	return hand{s.tab()}.takesInput(s.aim(n, left).frame)
}

func (s *Seat) aim(n int, left bool) aim {
	t := s.tab()
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.refs.byNum[n]
	a := aim{frame: *t.frames[r.frame], local: r.local, n: n}
	if left {
		a.frame.loader = "left"
	}
	return a
}

func (s *Seat) tab() *tab {
	s.mu.Lock()
	e := s.e
	s.mu.Unlock()
	t, err := e.tab("")
	if err != nil {
		panic(err)
	}
	return t
}
