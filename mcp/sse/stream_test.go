package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// page is a client's end of a response.
type page struct {
	mu     sync.Mutex
	header http.Header
	status int
	body   string
	broken bool
}

func newPage() *page { return &page{header: make(http.Header)} }

func (p *page) Header() http.Header { return p.header }

func (p *page) WriteHeader(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return 0, errors.New("the connection is broken")
	}
	p.body += string(b)
	return len(b), nil
}

func (p *page) Flush() {}

func (p *page) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.body
}

// stalled is a page whose client does not read until free is closed.
type stalled struct {
	*page
	free chan struct{}
}

func (p *stalled) Write(b []byte) (int, error) {
	<-p.free
	return p.page.Write(b)
}

// fate records whether an answer was written or lost.
type fate struct {
	mu   sync.Mutex
	told []bool
}

func (f *fate) Writing() {}

func (f *fate) Done(written bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, written)
}

func (f *fate) is(t *testing.T, want bool) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.told) != 1 || f.told[0] != want {
		t.Errorf("the answer was reported as %v, want [%v]", f.told, want)
	}
}

func ok(http.Header) int { return http.StatusOK }

// serve serves a stream in a goroutine. done gets what Serve returns.
func serve(ctx context.Context, s *Stream, o Serving) (p *page, done chan error) {
	p, done = newPage(), make(chan error, 1)
	go func() { done <- s.Serve(ctx, p, o) }()
	synctest.Wait()
	return p, done
}

func TestAnswerInTimeIsPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fate
		s := NewLog().Open()
		p, done := serve(t.Context(), s, Serving{Status: func(h http.Header) int { h.Set("X", "y"); return 418 }, Prime: true})
		time.Sleep(Patience - time.Millisecond)
		if err := s.Answer([]byte(`{"a":1}`), &f); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if p.status != 418 || p.body != `{"a":1}` || p.header.Get("Content-Type") != "application/json" || p.header.Get("Content-Length") != "7" || p.header.Get("X") != "y" {
			t.Errorf("got %d %v %q", p.status, p.header, p.body)
		}
		f.is(t, true)
	})
}

func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		p, done := serve(t.Context(), s, Serving{Status: ok})
		if err := s.Answer(nil); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil || p.status != http.StatusAccepted || p.body != "" {
			t.Errorf("got %d %q, %v", p.status, p.body, err)
		}
	})
}

// A slow answer is a stream of events that no proxy takes for dead: a comment immediately,
// and one each 15 s.
func TestSlowAnswerIsAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		p, done := serve(t.Context(), s, Serving{Status: ok})
		time.Sleep(Patience - time.Millisecond)
		synctest.Wait()
		if p.text() != "" {
			t.Errorf("before its time: %q", p.text())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		want := ":\n\n"
		if p.text() != want {
			t.Errorf("after %v: %q, want a comment", Patience, p.text())
		}
		for name, value := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"} {
			if got := p.header.Get(name); got != value {
				t.Errorf("%s: %q, want %q", name, got, value)
			}
		}
		for range 3 {
			time.Sleep(15 * time.Second)
			synctest.Wait()
			if want += ":\n\n"; p.text() != want {
				t.Errorf("15 s later: %q, want %q", p.text(), want)
			}
		}
		_ = s.Answer([]byte(`{}`))
		if err := <-done; err != nil {
			t.Error(err)
		}
		if want += "event: message\ndata: {}\n\n"; p.text() != want {
			t.Errorf("at the end: %q, want %q", p.text(), want)
		}
	})
}

func TestEventsBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewLog().Open()
		s.log.name = "L"
		// Messages that are sent before the first reader are not lost.
		if err := errors.Join(s.Notify([]byte(`1`)), s.Request([]byte(`2`)), s.Answer([]byte(`3`))); err != nil {
			t.Error(err)
		}
		if err := s.Notify([]byte(`4`)); !errors.Is(err, ErrOver) {
			t.Errorf("a notification after the answer: %v", err)
		}
		p, done := serve(t.Context(), s, Serving{Status: ok, Prime: true})
		if err := <-done; err != nil {
			t.Error(err)
		}
		want := ":\n\nevent: message\nid: L-1\ndata: 1\n\nevent: message\nid: L-2\ndata: 2\n\nevent: message\nid: L-3\ndata: 3\n\n"
		if p.text() != want {
			t.Errorf("got %q, want %q", p.text(), want)
		}
	})
}

// The newest reader of a standing stream replaces the older one, and gets all later
// messages.
func TestNewestWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewLog().Standing()
		s.log.name = "L"
		if err := s.Request([]byte(`0`)); !errors.Is(err, ErrNobody) {
			t.Errorf("a request that nobody reads: %v", err)
		}
		var last *page
		var dones []chan error
		for range 1000 {
			p, done := serve(t.Context(), s, Serving{})
			last, dones = p, append(dones, done)
		}
		for i, done := range dones[:999] {
			if err := <-done; err != nil {
				t.Fatalf("reader %d: %v", i, err)
			}
		}
		if err := s.Request([]byte(`1`)); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if want := ":\n\nevent: message\nid: L-1\ndata: 1\n\n"; last.text() != want {
			t.Errorf("the newest reader got %q, want %q", last.text(), want)
		}
		ended := make(chan struct{})
		close(ended)
		p, done := serve(t.Context(), s, Serving{Ended: ended})
		if err := <-done; err != nil && !errors.Is(err, ErrEnded) || strings.Contains(p.text(), "data") {
			t.Errorf("a reader of an ended session got %q, %v", p.text(), err)
		}
		<-dones[999]
	})
}

// A client that was cut off continues after its last event, and gets no event twice.
func TestComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fate
		log := NewLog()
		log.name = "L"
		s, other := log.Open(), log.Standing()
		ctx, cut := context.WithCancel(t.Context())
		p, done := serve(ctx, s, Serving{Status: ok, Prime: true})
		time.Sleep(Patience)
		synctest.Wait()
		if want := ":\n\nid: L-1\ndata: \n\n"; p.text() != want {
			t.Errorf("a primed stream begins with %q, want %q", p.text(), want)
		}
		cut()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve of a client that went away: %v", err)
		}
		_ = other.Notify([]byte(`"of another stream"`))
		_ = s.Notify([]byte(`"progress"`))
		found, number := log.Find("L-1")
		if found != s {
			t.Fatal("the stream of the first event was not found")
		}
		p, done = serve(t.Context(), found, Serving{After: number})
		_ = s.Answer([]byte(`"answer"`), &f)
		if err := <-done; err != nil {
			t.Error(err)
		}
		want := ":\n\nevent: message\nid: L-3\ndata: \"progress\"\n\nevent: message\nid: L-4\ndata: \"answer\"\n\n"
		if p.text() != want {
			t.Errorf("got %q, want %q", p.text(), want)
		}
		f.is(t, true)
		// A client can also resume after the stream's end: the kept events are written, and
		// the stream ends.
		p, done = serve(t.Context(), s, Serving{After: 3})
		if err := <-done; err != nil || !strings.HasSuffix(p.text(), ":\n\nevent: message\nid: L-4\ndata: \"answer\"\n\n") {
			t.Errorf("after its end: %q, %v", p.text(), err)
		}
	})
}

// A client that comes back before the server has noticed that its connection is gone gets
// the answers that still wait. It is reported of each whether it was written.
func TestAnswersWaitForAClientThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewLog().Standing()
		first := &stalled{page: newPage(), free: make(chan struct{})}
		done := make(chan error, 1)
		ctx, cut := context.WithCancel(t.Context())
		go func() { done <- s.Serve(ctx, first, Serving{}) }()
		synctest.Wait() // the first comment does not arrive
		var answer, claimed fate
		s.Reply([]byte(`"claimed"`), &claimed)
		s.Reply([]byte(`"answer"`), &answer)
		p, again := serve(ctx, s, Serving{After: 1})
		if !strings.Contains(p.text(), `"answer"`) || strings.Contains(p.text(), `"claimed"`) {
			t.Errorf("the client that came back got %q", p.text())
		}
		answer.is(t, true)
		claimed.is(t, false) // nobody wrote it
		close(first.free)
		<-done
		cut()
		<-again
	})
}

// An id that is not of this log, or not kept, names no stream.
func TestIDsOfOthers(t *testing.T) {
	log, other := NewLog(), NewLog()
	mine, others := log.Standing(), other.Standing()
	for range 3 {
		_, _ = mine.Notify([]byte(`1`)), others.Notify([]byte(`2`))
	}
	for _, id := range []string{
		"", "2", "-2", other.name + "-2", log.name, log.name + "-", log.name + "--2", log.name + "-0", log.name + "-4",
		log.name + "-18446744073709551616", log.name + "-2x", "x" + log.name + "-2",
	} {
		if s, n := log.Find(id); s != nil {
			t.Errorf("%q names the event %d", id, n)
		}
	}
	if s, n := log.Find(log.name + "-2"); s != mine || n != 2 {
		t.Errorf("our own id names %v %d", s, n)
	}
}

func TestLogIsBounded(t *testing.T) {
	log := NewLog()
	s := log.Standing()
	for range 1000 {
		_ = s.Notify([]byte(`small`))
	}
	if len(log.kept) != maxEvents || log.bytes != maxEvents*5 {
		t.Errorf("%d events with %d bytes are kept, want %d with %d", len(log.kept), log.bytes, maxEvents, maxEvents*5)
	}
	for range 10 {
		_ = s.Notify(make([]byte, 200<<10))
	}
	if log.bytes > maxBytes || len(log.kept) != 5 {
		t.Errorf("%d events with %d bytes are kept, want 5 within %d", len(log.kept), log.bytes, maxBytes)
	}
}

// A client that does not read costs only a bounded amount of memory. Its answer is kept for
// it.
func TestBacklog(t *testing.T) {
	s := New()
	sent := 0
	for s.Notify(make([]byte, 100<<10)) == nil {
		if sent++; sent > 100 {
			t.Fatal("there is no end to what waits for a client")
		}
	}
	if err := s.Request([]byte(`{}`)); !errors.Is(err, ErrFull) {
		t.Errorf("a request behind %d notifications: %v", sent, err)
	}
	if err := s.Answer([]byte(`{}`)); err != nil {
		t.Errorf("the answer behind %d notifications: %v", sent, err)
	}
}

func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, f := range map[string]func(*Stream, *fate){
			"the client went away before": func(s *Stream, f *fate) {
				ctx, cut := context.WithCancel(t.Context())
				cut()
				_, done := serve(ctx, s, Serving{Status: ok})
				<-done
				_ = s.Answer([]byte(`{}`), f)
			},
			"the connection breaks": func(s *Stream, f *fate) {
				p := newPage()
				p.broken = true
				_ = s.Answer([]byte(`{}`), f)
				if s.Serve(t.Context(), p, Serving{Status: ok}) == nil {
					t.Error("a broken connection was not noticed")
				}
			},
			"the connection breaks as a stream": func(s *Stream, f *fate) {
				p := newPage()
				_ = s.Notify([]byte(`{}`))
				_ = s.Answer([]byte(`{}`), f)
				p.broken = true
				if s.Serve(t.Context(), p, Serving{Status: ok}) == nil {
					t.Error("a broken connection was not noticed")
				}
			},
			"it had one": func(s *Stream, f *fate) {
				_ = s.Answer([]byte(`{}`))
				_ = s.Answer([]byte(`{}`), f)
			},
			"there is none": func(s *Stream, f *fate) { _ = s.Answer(nil, f) },
		} {
			var got fate
			f(New(), &got)
			t.Log(name)
			got.is(t, false)
		}
	})
}

// A handler that writes its own events shares a response with comments.
func TestWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage()
		w := NewWriter(p)
		w.KeepAlive()
		time.Sleep(Patience)
		synctest.Wait()
		if p.text() != Comment || p.header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("a silent handler: %v %q", p.header, p.text())
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: own\n\n")
		_, _ = w.Write(Event("", []byte(`{}`)))
		time.Sleep(keepAlive)
		synctest.Wait()
		w.Stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if want := ":\n\ndata: own\n\nevent: message\ndata: {}\n\n:\n\n"; p.text() != want {
			t.Errorf("got %q, want %q", p.text(), want)
		}

		// An error that is written after the first comment is an event.
		p = newPage()
		w = NewWriter(p)
		w.KeepAlive()
		time.Sleep(Patience)
		synctest.Wait()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":1}`)
		w.Stop()
		if want := ":\n\nevent: message\ndata: {\"error\":1}\n\n"; p.text() != want || p.status != 200 {
			t.Errorf("a late error: %d %q, want %q", p.status, p.text(), want)
		}

		// An error that is written before the first comment stays as the handler wrote it.
		p = newPage()
		w = NewWriter(p)
		w.KeepAlive()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":1}`)
		time.Sleep(time.Minute)
		synctest.Wait()
		w.Stop()
		if p.text() != `{"error":1}` || p.status != 400 {
			t.Errorf("an error in time: %d %q", p.status, p.text())
		}
	})
}

// ServeWhile answers as Serve does, and starts a goroutine only if one is needed.
func TestServeWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tt := range map[string]struct {
			run  func(*Stream)
			want string
		}{
			"in time":     {func(*Stream) {}, `{}`},
			"never":       {func(s *Stream) { _ = s.Answer(nil) }, ``},
			"late":        {func(*Stream) { time.Sleep(Patience + 16*time.Second) }, ":\n\n:\n\nevent: message\ndata: {}\n\n"},
			"with events": {func(s *Stream) { _ = s.Notify([]byte(`1`)) }, ":\n\nevent: message\ndata: 1\n\nevent: message\ndata: {}\n\n"},
		} {
			var f fate
			p, s := newPage(), New()
			err := s.ServeWhile(t.Context(), p, Serving{Status: ok}, func() {
				tt.run(s)
				_ = s.Answer([]byte(`{}`), &f)
			})
			if err != nil || p.text() != tt.want {
				t.Errorf("%s: got %q, %v; want %q", name, p.text(), err, tt.want)
			}
			f.is(t, name != "never")
		}
		// The client cancels its request.
		var f fate
		p, s := newPage(), New()
		ctx, cut := context.WithCancel(t.Context())
		err := s.ServeWhile(ctx, p, Serving{Status: ok}, func() {
			cut()
			time.Sleep(time.Minute)
			_ = s.Answer([]byte(`{}`), &f)
		})
		if !errors.Is(err, context.Canceled) || p.text() != "" {
			t.Errorf("a client that went away got %q, %v", p.text(), err)
		}
		f.is(t, false)
	})
}

// Comments of streams that began within a moment are written at one time, so that the process
// wakes up once for them.
func TestCommentsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var pages []*page
		for range 3 {
			p := newPage()
			w := NewWriter(p)
			w.KeepAlive()
			defer w.Stop()
			s := New()
			q, done := serve(t.Context(), s, Serving{Status: ok})
			defer func() { <-done }()
			defer func() { _ = s.Answer(nil) }()
			pages = append(pages, p, q)
			time.Sleep(10 * time.Millisecond) // fake time
		}
		time.Sleep(time.Until(began.Add(Patience + keepAlive)))
		synctest.Wait()
		for i, p := range pages {
			if p.text() != Comment+Comment {
				t.Errorf("stream %d has %q, want two comments, the second when the first stream gets it", i, p.text())
			}
		}
	})
}
