package act

import (
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
)

// Kill ends the Chrome of a seat, as a crash does.
func (s *Seat) Kill() {
	s.mu.Lock()
	e := s.e
	s.mu.Unlock()
	e.lease.To.Close()
	<-e.g.done
}

// Crash ends the renderer of the current tab.
func (s *Seat) Crash() {
	t := s.tab()
	begin(t.e.g, t.session(), page.Crash, cdp.Empty{}).drop()
}

// Collect has the current tab throw away what nothing holds.
func (s *Seat) Collect() {
	t := s.tab()
	if _, err := call(t.e.ctx, t.e.g, t.session(), heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		panic(err)
	}
}

// NumberOfLeft is a number for an element of the document before, which is in the place of that of
// a number and is called the same. A look that ends after its document was left gives such numbers.
func (s *Seat) NumberOfLeft(n int) int {
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
