package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"belljar.dev/browser"
	"belljar.dev/policies"
)

// Seat is a Chrome for one session and profile. Looks and steps of one seat run one at a
// time; its methods are safe for concurrent use. A seat that nobody has used for some time
// is frozen: the processes of its Chrome are stopped until the next call. Later it is
// parked: its Chrome ends, and the next call gets the addresses of its tabs. A document is
// loaded again only by a step that was decided about.
type Seat struct {
	pool   *browser.Pool
	forget func(*Seat)
	log    func(what string, err error)
	grant  policies.Grant
	opts   Options
	masks  masks

	turn chan struct{} // held by the one call that runs
	quit chan struct{} // closed by Close
	wg   sync.WaitGroup

	mu     sync.Mutex
	e      *engine
	id     string
	closed bool
	used   time.Time
	since  time.Time
	places []string // addresses of the tabs after the last call
	parked bool     // whether its Chrome was ended because it was not used
	word   string   // what happened meanwhile, for the next look
	hold   hold     // the person who has stopped its acts
}

// hold is a person who has stopped the acts of a seat. The zero value means that nobody
// has.
type hold struct {
	by    string
	since time.Time
}

// held refuses a step while a person has stopped the acts of the seat.
func (s *Seat) held() error {
	s.mu.Lock()
	h := s.hold
	s.mu.Unlock()
	if h.since.IsZero() {
		return nil
	}
	return &Refusal{
		Reason: ReasonHeld, Message: fmt.Sprintf("a person has stopped all acts in this browser since %s", h.since.UTC().Format("15:04:05 UTC")),
		Next: "looks still work; act again when the person allows it, and ask them if that takes long",
	}
}

// Look returns what a tab shows. It does not change the page.
func (s *Seat) Look(ctx context.Context, q LookRequest) (*Look, error) {
	if q.MaxChars != 0 && (q.MaxChars < 500 || q.MaxChars > MaxChars) {
		return nil, &Refusal{Reason: ReasonArgument, Message: fmt.Sprintf("max_chars is %d", q.MaxChars), Next: fmt.Sprintf("write 500 to %d", MaxChars)}
	}
	var out *Look
	err := s.with(ctx, func(ctx context.Context, e *engine, word string) error {
		t, err := e.tab(q.Tab)
		if err != nil {
			return err
		}
		if err := t.front(ctx); err != nil {
			return t.fault(err, false)
		}
		rested(ctx, t)
		out, err = eye{t}.lookAt(ctx, q)
		if err != nil {
			return refusal(ctx, t, err, false)
		}
		if word != "" && out.Text != "" {
			out.Text = word + "\n" + out.Text
			s.told()
		}
		return nil
	})
	return out, err
}

// lookAt returns one look of one kind.
func (t eye) lookAt(ctx context.Context, q LookRequest) (*Look, error) {
	d := t.waiting()
	mark := nonce()
	switch q.At {
	case AtConsole, AtNetwork, AtTabs, AtDownloads:
		return t.list(q)
	case AtPage, AtChanges, AtText, AtPicture, "":
	default:
		return nil, &Refusal{Reason: ReasonArgument, Message: "at is " + quoted(string(q.At), 20), Next: "write page, changes, text, picture, console, network, tabs or downloads"}
	}
	switch {
	case d != nil:
		return &Look{Tab: t.name, URL: shownURL(t.e.masks.hide(t.url())), Dialog: d, Text: fmt.Sprintf(
			"<<page %s tab %s>>\ndialog %s %s\n<<end %s>>", mark, t.name, d.Kind, quoted(d.Text, MaxDialogText), mark)}, nil
	case q.At == AtChanges:
		return t.changes(ctx, q)
	case q.At == AtPicture:
		return t.picture(ctx)
	case q.At == AtText:
		return t.html(ctx)
	}
	return t.look(ctx, q)
}

// Prepare reads what a step would do, and does nothing else. An empty tab is the current
// one.
func (s *Seat) Prepare(ctx context.Context, tab string, step Step) (*Prepared, error) {
	if err := step.Check(); err != nil {
		return nil, err
	}
	var out *Prepared
	err := s.with(ctx, func(ctx context.Context, e *engine, word string) error {
		if err := s.held(); err != nil {
			return err
		}
		if word != "" && step.Do != DoOpen {
			return &Refusal{Reason: ReasonStale, Message: word, Next: "look again"}
		}
		t, err := e.tab(tab)
		if err != nil {
			return err
		}
		if t.isCrashed() && step.Do != DoOpen && step.Do != DoClose && step.Do != DoSwitch {
			return t.fault(errCrashed, false)
		}
		if err := t.front(ctx); err != nil {
			return t.fault(err, false)
		}
		rested(ctx, t)
		p, err := hand{t}.prepare(ctx, step)
		if err != nil {
			return t.fault(err, false)
		}
		out = &Prepared{Tab: t.name, Facts: p.facts, Seen: step.Do == DoOpen && e.seen.has(step.URL), by: s, plan: p}
		return nil
	})
	return out, err
}

// Do carries out a step that was prepared. step must be the prepared step, except for its
// File and Unseen. Do reads the facts again and does nothing if they differ from the facts
// of p, or if p was used before. It returns once the page has settled, at most SettleTime
// after the act, or immediately when a dialog opens. If it fails after it began, the
// Outcome says what happened to the tab.
func (s *Seat) Do(ctx context.Context, p *Prepared, step Step) (*Outcome, error) {
	if p == nil || p.by != s || p.plan == nil || !p.plan.step.same(step) {
		return nil, &Refusal{Reason: ReasonArgument, Message: "the step is not the one that was prepared", Next: "call again"}
	}
	var out *Outcome
	err := s.with(ctx, func(ctx context.Context, e *engine, word string) error {
		if err := s.held(); err != nil {
			return err
		}
		was := p.plan
		if was.used || was.e != e || word != "" && step.Do != DoOpen {
			return &Refusal{Reason: ReasonChanged, Message: "the browser was started anew since the step was prepared, or the step was done already", Next: "look again"}
		}
		was.used = true
		now := was
		t, err := e.tab(was.t.name)
		if err != nil {
			return err
		}
		if step.Do == DoOpen && t.isCrashed() {
			if t, err = e.instead(ctx, t); err != nil {
				return t.fault(err, false)
			}
			now.t = t
		} else if was.gripped() && p.Facts == was.facts && t.waiting() == nil {
			rested(ctx, t) // the facts are read again when the element is taken hold of
		} else if now, err = (hand{t}).prepare(ctx, step); err != nil {
			return t.fault(err, false)
		} else if now.facts != was.facts || p.Facts != was.facts || now.aim.key() != was.aim.key() || now.to.key() != was.to.key() || now.entry != was.entry {
			return changedBetween()
		}
		out, err = now.do(ctx, step)
		if word != "" {
			out.Line = word + "; " + out.Line
			s.told()
		}
		if err != nil {
			return now.t.fault(err, true)
		}
		return nil
	})
	return out, err
}

// Mask returns a text in which the values of secrets that were typed in this seat are
// replaced.
func (s *Seat) Mask(text string) string { return s.masks.hide(text) }

// SecretsHere returns the names of the secrets that may be typed in a document of a tab as
// it is now.
func (s *Seat) SecretsHere(tab string) []string {
	s.mu.Lock()
	e := s.e
	s.mu.Unlock()
	if e == nil {
		return nil
	}
	t, err := e.tab(tab)
	if err != nil {
		return nil
	}
	return hand{t}.secretsHere()
}

// instead opens a tab that replaces a tab that crashed, under its name.
func (e *engine) instead(ctx context.Context, old *tab) (*tab, error) {
	t, err := e.newTab(ctx)
	if err != nil {
		return old, err
	}
	_ = hand{old}.shut(ctx) // old is dropped in any case
	e.mu.Lock()
	t.name, e.current = old.name, old.name
	t.refs.last = old.refs.last
	e.mu.Unlock()
	return t, nil
}

// with runs one call of the seat: alone, and with a Chrome that is alive. word says what
// happened to the seat since its last call.
func (s *Seat) with(ctx context.Context, f func(ctx context.Context, e *engine, word string) error) error {
	select {
	case s.turn <- struct{}{}:
	case <-s.quit:
		return errClosed()
	case <-ctx.Done():
		return &Refusal{Reason: ReasonTimeout, Message: "another call of this session still uses the browser", Next: "call again in a moment", Err: context.Cause(ctx)}
	}
	defer func() { <-s.turn }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed()
	}
	s.wg.Go(func() {
		select {
		case <-s.quit:
			cancel()
		case <-stop:
		}
	})
	s.used = time.Now()
	s.mu.Unlock()
	e, word, err := s.engine(ctx)
	if err != nil {
		return s.why(err)
	}
	eachTab(e, listenAnew)
	err = s.why(f(ctx, e, word))
	s.mu.Lock()
	s.used = time.Now()
	if now := e.addresses(); e.alive() == nil && len(now) > 0 {
		s.places = now
	}
	s.mu.Unlock()
	return err
}

// told forgets what happened to the seat, since the agent knows it now.
func (s *Seat) told() {
	s.mu.Lock()
	s.word = ""
	s.mu.Unlock()
}

// why returns an error as a refusal.
func (s *Seat) why(err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-s.quit:
		return errClosed()
	default:
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r
	}
	r := &Refusal{Reason: ReasonFailed, Message: "the browser failed", Next: "call again", Err: err}
	if b, ok := errors.AsType[*browser.Error](err); ok {
		r.Reason, r.Message, r.Next = ReasonAbsent, b.Message, "read pages with ReadDocs"
		if b.Kind == browser.KindClosed {
			return errClosed()
		}
		if b.Kind == browser.KindTimedOut {
			r.Reason, r.Next = ReasonTimeout, "call again"
		}
	} else if errors.Is(err, errGone) {
		r.Reason, r.Message, r.Next = ReasonCrashed, "the browser died", "look: that starts a new browser; no step is repeated"
	} else if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		r.Reason, r.Message = ReasonTimeout, "the time was up before the browser was ready"
	}
	return r
}

// engine returns the Chrome of the seat, and a word about what happened. A Chrome that died
// or was parked is started again, and the word contains the addresses of its tabs.
func (s *Seat) engine(ctx context.Context) (*engine, string, error) {
	s.mu.Lock()
	e, what := s.e, ""
	if s.parked {
		what = "the browser was not used for a while and was ended, with its logins"
	}
	s.mu.Unlock()
	if e != nil && e.alive() == nil {
		if e.lease.Frozen() { // a page that was asked before had no time to answer
			eachTab(e, forgetQuestions)
		}
		e.lease.Thaw()
		if err := inhabited(ctx, e); err != nil {
			return nil, "", err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return e, s.word, nil
	}
	if e != nil {
		what = "the browser died"
		s.mu.Lock()
		s.e = nil
		s.mu.Unlock()
		e.close()
	}
	s.mu.Lock()
	s.parked = false
	if what != "" {
		s.word = what + "; its tabs were at " + cmp.Or(strings.Join(s.places, " and "), "about:blank") + "; nothing was repeated, so open what you need again"
	}
	s.mu.Unlock()
	e, err := s.start(ctx)
	if err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.places { // the agent reads these addresses in the word
		e.seen.add(u)
	}
	s.e, s.id = e, e.lease.ID()
	return e, s.word, nil
}

// inhabited opens a tab if the last tab has closed itself.
func inhabited(ctx context.Context, e *engine) error {
	e.mu.Lock()
	none := len(e.tabs) == 0
	e.mu.Unlock()
	if !none {
		return nil
	}
	t, err := e.newTab(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.current = t.name
	e.mu.Unlock()
	return nil
}

func (s *Seat) start(ctx context.Context) (*engine, error) {
	lease, err := s.pool.Seat(ctx, s.grant, s.opts.Downloads)
	if err != nil {
		return nil, err
	}
	e, err := startEngine(ctx, lease, &s.opts, &s.masks, hears{
		browser: func(e *engine) func(string, []byte) { return e.hear },
		session: func(t *tab) (func(string, string, []byte), func(string, string)) { return ear{t}.hear, ear{t}.lost },
		window:  (*engine).window,
	})
	if err != nil {
		return nil, err
	}
	e.log = s.log
	return e, nil
}

// addresses returns the addresses of the tabs, for word.
func (e *engine) addresses() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []string
	size := 0
	for _, t := range e.tabs {
		u := t.url()
		if size += len(u); u == "" || u == "about:blank" || size > MaxParked {
			continue
		}
		out = append(out, shownURL(e.masks.hide(u)))
	}
	return out
}

// Close ends the Chrome and waits until nothing of it is left. Other callers that wait get
// an error with ReasonClosed. It may be called twice.
func (s *Seat) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.quit)
	}
	s.mu.Unlock()
	s.turn <- struct{}{} // calls that run end immediately
	s.mu.Lock()
	e := s.e
	s.e = nil
	s.mu.Unlock()
	if e != nil {
		e.close()
	}
	<-s.turn
	s.wg.Wait()
	s.forget(s)
	return nil
}

func errClosed() error {
	return &Refusal{Reason: ReasonClosed, Message: "the browser of this session is closed", Next: "open a page anew"}
}
