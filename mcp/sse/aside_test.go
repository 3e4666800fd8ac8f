package sse

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// slow is a page whose writes block between stall and resume.
type slow struct {
	*page
	stalled chan struct{} // nil while writes do not block; changed only while nobody writes
}

func (s *slow) stall() { s.stalled = make(chan struct{}) }

func (s *slow) Write(b []byte) (int, error) {
	if s.stalled != nil {
		<-s.stalled
	}
	return s.page.Write(b)
}

// Events that a client has not read are queued up to a bound. Beyond it events are lost,
// except the answer that ends the stream.
func TestAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &slow{page: newPage()}
		w := NewWriter(p)
		a := NewAside(w, func() { t.Error("the client counts as gone") })
		a.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(a, "data: one\n\n")
		synctest.Wait()
		p.stall()
		event := "data: " + strings.Repeat("x", 64<<10) + "\n\n"
		for range 1000 {
			fmt.Fprint(a, event)
		}
		synctest.Wait()
		if a.bytes > backlog+len(event) {
			t.Errorf("%d bytes wait", a.bytes)
		}
		close(p.stalled)
		synctest.Wait()
		if n := strings.Count(p.text(), event); n < backlog/len(event) || n > backlog/len(event)+3 {
			t.Errorf("the client got %d of 1000 events", n)
		}
		p.stall()
		fmt.Fprint(a, "data: being written\n\n")
		synctest.Wait()
		fmt.Fprint(a, "data: lost\n\n")
		fmt.Fprint(a, "data: answer\n\n")
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			a.Stop()
		}()
		synctest.Wait()
		close(p.stalled)
		<-stopped
		w.Stop()
		if !strings.HasPrefix(p.text(), "data: one\n\n") || !strings.HasSuffix(p.text(), "data: being written\n\ndata: answer\n\n") {
			t.Errorf("got %.20q ... %q", p.text(), p.text()[len(p.text())-60:])
		}
	})
}

// If a write to the client fails, the client counts as gone.
func TestAsideOfAClientThatIsGone(t *testing.T) {
	gone := make(chan struct{})
	p := newPage()
	p.broken = true
	w := NewWriter(p)
	a := NewAside(w, func() { close(gone) })
	fmt.Fprint(a, "data: one\n\n")
	<-gone
	fmt.Fprint(a, "data: two\n\n")
	a.Stop()
	w.Stop()
}
