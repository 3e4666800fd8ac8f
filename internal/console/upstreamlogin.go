package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"belljar.dev/policies"
)

// A person logs in at an upstream in three steps:
//
//  1. The page requests a login. The server finds the authorization server, and answers with the
//     address for the browser, and with names for the person to read.
//  2. The person goes to that address, and is redirected to upstreamLoginPath, which is the page too.
//  3. The page removes the answer from its address and sends it here, with the token of the person.
//     The answer is accepted only from a person who has begun a login, and only for that login. Any
//     web page can lead a browser to step 3, so an answer without the state of the login changes
//     nothing.

// Bounds of logins at upstreams.
const (
	upstreamLoginLife = 10 * time.Minute // longest time from the beginning of a login to its end
	maxLoginAnswer    = 8 << 10          // bytes of the query with which an authorization server redirects a browser
)

// upstreamLoginPath is the path to which an authorization server redirects a browser. It
// also serves the page.
const upstreamLoginPath = "upstream-login"

// LoginTarget names an upstream, its place and the tenant that the login is for.
type LoginTarget struct {
	Name   string // name of the upstream
	Tenant string
	Place  string // workspace that has the upstream
}

// UpstreamLogin is a login at an upstream that has begun. Its functions are not called
// concurrently.
type UpstreamLogin struct {
	URL    string // address to which the browser is sent
	Server string // URL of the upstream, for the person to read
	Issuer string // URL of the authorization server, for the person to read
	// Answers reports whether a query contains the state of this login. Receive accepts
	// only such a query.
	Answers func(answer url.Values) bool
	// Receive ends the login with the query of the address to which the browser was
	// redirected.
	Receive func(ctx context.Context, answer url.Values) error
	// Close releases the resources of the login. It must also be called after Receive.
	Close func(context.Context)
}

// pendingUpstreamLogin is a login at an upstream that a person has begun.
type pendingUpstreamLogin struct {
	*UpstreamLogin
	at   LoginTarget
	ends *time.Timer
}

// upstreamLogins are the logins at upstreams that have begun, at most one for each token.
// Its methods are safe for concurrent use.
type upstreamLogins struct {
	late sync.WaitGroup // waits for timers that close a login

	mu     sync.Mutex
	all    map[sha256sum]*pendingUpstreamLogin // guarded by mu: logins by the token of the person
	closed bool                                // guarded by mu
}

// errNoUpstreamLogin is the error for an answer from a person who is not logging in at an
// upstream.
var errNoUpstreamLogin = fault(http.StatusConflict, "no login at an upstream has begun here in the last ten minutes; begin again")

// errOtherUpstreamLogin is the error for an answer that does not belong to the login of its
// person. It leaves that login unchanged.
var errOtherUpstreamLogin = fault(http.StatusConflict, "the answer does not belong to the login that you have begun, and was not used")

// add stores a login until it is taken, for at most ten minutes, and only while the token
// of the person is valid. It ends the token's earlier login.
func (l *upstreamLogins) add(ctx context.Context, who Person, p *pendingUpstreamLogin) error {
	ctx = context.WithoutCancel(ctx)
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		p.Close(ctx)
		return fault(http.StatusServiceUnavailable, "the console is closing; begin again when it is back")
	}
	if l.all == nil {
		l.all = make(map[sha256sum]*pendingUpstreamLogin)
	}
	of := who.sum
	before := l.all[of]
	l.all[of] = p
	p.ends = time.AfterFunc(min(upstreamLoginLife, time.Until(who.Until)), func() {
		l.mu.Lock()
		late := l.all[of] == p
		if late {
			delete(l.all, of)
			l.late.Add(1)
		}
		l.mu.Unlock()
		if late {
			defer l.late.Done()
			p.Close(ctx)
		}
	})
	l.mu.Unlock()
	if before != nil {
		before.end(ctx)
	}
	return nil
}

// end releases the resources of a login.
func (p *pendingUpstreamLogin) end(ctx context.Context) {
	p.ends.Stop()
	p.Close(ctx)
}

// take removes and returns the login of a token, if answer belongs to it. The caller must
// end the login.
func (l *upstreamLogins) take(of sha256sum, answer url.Values) (*pendingUpstreamLogin, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.all[of]
	switch {
	case p == nil:
		return nil, errNoUpstreamLogin
	case !p.Answers(answer):
		return nil, errOtherUpstreamLogin
	}
	delete(l.all, of)
	return p, nil
}

// drop ends the login of a token, if the token has one.
func (l *upstreamLogins) drop(ctx context.Context, of sha256sum) {
	l.mu.Lock()
	p := l.all[of]
	delete(l.all, of)
	l.mu.Unlock()
	if p != nil {
		p.end(ctx)
	}
}

// dropEnded ends the logins of tokens that are not valid any more.
func (l *upstreamLogins) dropEnded(ctx context.Context, valid func(token sha256sum) bool) {
	var ended []*pendingUpstreamLogin
	l.mu.Lock()
	for of, p := range l.all {
		if !valid(of) {
			delete(l.all, of)
			ended = append(ended, p)
		}
	}
	l.mu.Unlock()
	for _, p := range ended {
		p.end(ctx)
	}
}

// pending reports whether at least one person is logging in at an upstream.
func (l *upstreamLogins) pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all) > 0
}

// close ends all logins that have begun, and waits for those that a timer is closing. No
// login can begin afterwards.
func (l *upstreamLogins) close(ctx context.Context) {
	l.mu.Lock()
	l.closed = true
	all := l.all
	l.all = nil
	l.mu.Unlock()
	for _, p := range all {
		p.end(ctx)
	}
	l.late.Wait()
}

// beginUpstreamLogin begins a login at an upstream.
func beginUpstreamLogin(r *request) (any, error) {
	var want struct {
		Tenant string `json:"tenant"`
		Place  string `json:"place"`
	}
	if err := r.read(&want); err != nil {
		return nil, err
	}
	if want.Tenant == "" {
		want.Tenant = policies.LocalTenant
	}
	if !r.console.turns.login.TryLock() { // Login sends requests to other servers, and waits for their answers
		return nil, fault(http.StatusTooManyRequests, "another login at an upstream begins now; try again in a moment")
	}
	defer r.console.turns.login.Unlock()
	at := LoginTarget{r.named("name"), want.Tenant, want.Place}
	begun, err := r.views.Upstreams.Login(r.context(), at, r.who.Name, r.console.front.URL()+"/"+r.console.prefix+upstreamLoginPath)
	if _, known := errors.AsType[*Error](err); err != nil && !known {
		err = &Error{http.StatusBadGateway, err}
	}
	if err != nil {
		return nil, err
	}
	if err := r.console.upstreamLogins.add(r.context(), r.who, &pendingUpstreamLogin{UpstreamLogin: begun, at: at}); err != nil {
		return nil, err
	}
	if !r.console.access.valid(r.who.sum) { // the token has ended in the meantime
		r.console.upstreamLogins.drop(r.context(), r.who.sum)
		return nil, fault(http.StatusUnauthorized, "your login at this console has ended; log in again")
	}
	return struct {
		URL    string `json:"url"`
		Server string `json:"server"`
		Issuer string `json:"issuer"`
	}{begun.URL, begun.Server, begun.Issuer}, nil
}

// finishUpstreamLogin ends the login that the person has begun.
func finishUpstreamLogin(r *request) (any, error) {
	var said struct {
		Answer string `json:"answer"` // query of the address to which the browser was redirected
	}
	if err := r.read(&said); err != nil {
		return nil, err
	}
	answer, err := url.ParseQuery(said.Answer)
	if err != nil || len(said.Answer) > maxLoginAnswer {
		return nil, fault(http.StatusBadRequest, "answer: want the query of an address with at most %d bytes", maxLoginAnswer)
	}
	p, err := r.console.upstreamLogins.take(r.who.sum, answer)
	if err != nil {
		return nil, err
	}
	defer p.end(r.context())
	if !r.who.Scope.Sees(p.at.Tenant) {
		return nil, fault(http.StatusForbidden, "the login is for a tenant that you may not see")
	}
	if err := p.Receive(r.context(), answer); err != nil {
		return nil, &Error{http.StatusBadGateway, err}
	}
	return struct {
		Upstream string `json:"upstream"`
		Tenant   string `json:"tenant"`
	}{p.at.Name, p.at.Tenant}, nil
}
