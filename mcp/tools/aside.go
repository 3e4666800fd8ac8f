package tools

import (
	"context"
	"log/slog"
	"sync"

	"belljar.dev/internal/callback"
	"belljar.dev/internal/skills"
	"belljar.dev/mcp"
)

// Aside adds belljar's own messages to results: callbacks that have fired, a reminder of
// skills to load, and a notice that a session has a new box. It knows which calls run, and
// therefore which tenant is idle. Its methods are safe for concurrent use. Began and Ended
// of a nil Aside do nothing.
type Aside struct {
	callbacks *callback.Book
	skills    *skills.Catalog
	log       *slog.Logger

	mu       sync.Mutex
	running  map[string]int          // guarded by mu: number of calls by tenant, without calls for which waits is true
	sessions map[string]*sessionNote // guarded by mu: sessions that have made a call, by id
}

// sessionNote contains what an Aside knows about an open session.
type sessionNote struct {
	loaded   map[string]bool // names of the skills that the session has loaded
	reminded bool            // a result has named the skills to load
	resumed  bool            // a result has said that the session has a new box
}

// maxLoaded bounds the number of names that are kept for one session.
const maxLoaded = 1024

// NewAside returns an Aside with callbacks and a catalog of skills. Each argument may be
// nil.
func NewAside(callbacks *callback.Book, catalog *skills.Catalog, log *slog.Logger) *Aside {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Aside{callbacks: callbacks, skills: catalog, log: log, running: make(map[string]int), sessions: make(map[string]*sessionNote)}
}

// waits reports whether a tenant counts as idle during a call: calls of SetCallback wait
// for callbacks or manage them.
func waits(c mcp.Call) bool { return c.Tool == "SetCallback" }

// Began notes that a call runs.
func (a *Aside) Began(c mcp.Call) {
	if a == nil {
		return
	}
	a.note(c.Session)
	if waits(c) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running[c.Session.Tenant()]++
}

// Ended notes that a call is over, and returns what is added to its result. answered is
// false if nothing can be added, for example to a call that failed.
func (a *Aside) Ended(ctx context.Context, c mcp.Call, answered bool) (more mcp.Beside) {
	if a == nil {
		return more
	}
	tenant := c.Session.Tenant()
	if !waits(c) {
		a.mu.Lock()
		if a.running[tenant]--; a.running[tenant] <= 0 {
			delete(a.running, tenant)
		}
		a.mu.Unlock()
	}
	if !answered || ctx.Err() != nil {
		return more
	}
	if line, receipt := a.resumed(c.Session); line != "" {
		more.Content, more.Receipts = append(more.Content, mcp.Content{Text: line}), append(more.Receipts, receipt)
	}
	if line, receipt := a.reminder(c.Session); line != "" {
		more.Content, more.Receipts = append(more.Content, mcp.Content{Text: line}), append(more.Receipts, receipt)
	}
	if a.callbacks == nil {
		return more
	}
	// Callbacks fire for an agent between two of its calls; the end of a call is such a time.
	err := a.callbacks.Tick(ctx, a.Idle)
	all, takeErr := a.callbacks.Take(ctx, owner(c.Session), a.alive)
	if err != nil || takeErr != nil {
		a.log.Error("callbacks were not delivered", "fire", err, "take", takeErr)
	}
	for _, d := range all {
		more.Content = append(more.Content, mcp.Content{Text: callback.Told(d)})
	}
	if len(all) > 0 {
		more.Receipts = append(more.Receipts, receiptOf(a.callbacks, all, a.log))
	}
	return more
}

// receiptOf returns a receipt that records whether the agent received the deliveries in a
// result.
func receiptOf(book *callback.Book, all []callback.Delivery, log *slog.Logger) mcp.Receipt {
	return func(ctx context.Context, received bool) {
		if !received {
			book.Untold(all)
		} else if err := book.Told(ctx, all); err != nil {
			log.Error("callbacks will be delivered again", "err", err)
		}
	}
}

// Idle reports whether no call of a tenant runs.
func (a *Aside) Idle(tenant string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running[tenant] == 0
}

// alive reports whether a session that has made a call is still open.
func (a *Aside) alive(session string) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sessions[session] != nil
}

// note returns the note of a session. It creates the note of a new session.
func (a *Aside) note(s *mcp.Session) *sessionNote {
	a.mu.Lock()
	n, known := a.sessions[s.ID()]
	if !known {
		n = &sessionNote{loaded: make(map[string]bool)}
		a.sessions[s.ID()] = n
	}
	a.mu.Unlock()
	if !known {
		// OnEnd is called without the lock, because it calls the function immediately if
		// the session has already ended.
		s.OnEnd(func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			delete(a.sessions, s.ID())
		})
	}
	return n
}

// loaded notes that a session has loaded a skill.
func (a *Aside) loaded(s *mcp.Session, name string) {
	if a == nil {
		return
	}
	n := a.note(s)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(n.loaded) < maxLoaded {
		n.loaded[name] = true
	}
}

// resumed returns the line that tells the agent of a resumed session what it has lost. The
// line is added to results until a receipt says that the agent received it.
func (a *Aside) resumed(s *mcp.Session) (line string, _ mcp.Receipt) {
	if !s.Resumed() {
		return "", nil
	}
	receipt := a.once(&a.note(s).resumed)
	if receipt == nil {
		return "", nil
	}
	return resumedText, receipt
}

// resumedText is the text for the agent of a resumed session.
const resumedText = "[belljar] The server was restarted, or this session was idle for a long time: the session has a new box. " +
	"Files of the workspace are kept; background tasks, processes and files elsewhere are gone."

// reminder returns a line with the required skills that the session has not loaded. The
// line is added to results until a receipt says that the agent received it.
func (a *Aside) reminder(s *mcp.Session) (line string, _ mcp.Receipt) {
	if a.skills == nil {
		return "", nil
	}
	n := a.note(s)
	receipt := a.once(&n.reminded)
	if receipt == nil {
		return "", nil
	}
	line = a.skills.Nudge(func(name string) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return n.loaded[name]
	})
	return line, receipt
}

// once sets a flag of a sessionNote when a text is sent to the agent. It returns a receipt
// that clears the flag if the result is lost. If the flag was already set, the receipt is
// nil and no text is sent.
func (a *Aside) once(said *bool) mcp.Receipt {
	a.mu.Lock()
	defer a.mu.Unlock()
	if *said {
		return nil
	}
	*said = true
	return func(_ context.Context, received bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		*said = received
	}
}

// CallbacksChanged notifies the clients of a tenant that the resource of callbacks
// changed.
func CallbacksChanged(s *mcp.Server, tenant string) { s.Updated(tenant, callbackURI) }
