package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// wantsLogin checks that an error says which command to run.
func wantsLogin(t *testing.T, err error) {
	t.Helper()
	needed, ok := errors.AsType[*NeededError](err)
	if !ok || needed.Name != "github" || !strings.Contains(err.Error(), "run `belljar upstream login github`") {
		t.Errorf("got %v, want an error that names the command", err)
	}
}

// A token is renewed before its end, and each renewal uses the refresh token of the
// previous renewal.
func TestRenewal(t *testing.T) {
	for what, change := range map[string]func(*world){
		"refresh tokens are good once": nil,
		"they stay":                    func(w *world) { w.issuer.noRotate = true },
	} {
		c := newClock()
		w, s := loggedIn(t, openBook(t, "", c), change)
		for round := range 4 {
			for range 2 {
				if got, err := call(t.Context(), s); got != "200 hello" || err != nil {
					t.Fatalf("%s: round %d: %q, %v", what, round, got, err)
				}
			}
			if got := w.issuer.renewals(); got != round {
				t.Errorf("%s: round %d: %d renewals", what, round, got)
			}
			c.add(time.Hour - renewEarly)
		}
		if form := w.issuer.last(); form.Get("resource") != serverURL || form.Get("client_id") != "dynamic" {
			t.Errorf("%s: the renewal asked with %v", what, form)
		}
	}
}

// However many callers, Sources and processes need a new token, only one renewal is made. A
// second renewal would use the refresh token again, which would end the login.
func TestOneRenewal(t *testing.T) {
	for what, refused := range map[string]bool{"near its end": false, "refused": true} {
		dir, c := t.TempDir(), newClock()
		w, one := loggedIn(t, openBook(t, dir, c), nil)
		two := w.source(t, openBook(t, dir, c)) // opens the book like another process
		if refused {
			w.issuer.revoke()
		} else {
			c.add(time.Hour)
		}
		var all sync.WaitGroup
		for n := range 24 {
			all.Go(func() {
				if got, err := call(t.Context(), []*Source{one, two}[n%2]); got != "200 hello" || err != nil {
					t.Errorf("%s: %q, %v", what, got, err)
				}
			})
		}
		all.Wait()
		if got := w.issuer.renewals(); got != 1 {
			t.Errorf("%s: %d renewals, want 1", what, got)
		}
	}
}

// If a token that is still valid for some time is being renewed, callers do not wait for
// the new token.
func TestNobodyWaitsForARenewal(t *testing.T) {
	c := newClock()
	w, s := loggedIn(t, openBook(t, "", c), func(w *world) {
		w.issuer.hold, w.issuer.holding = make(chan struct{}), make(chan struct{}, 1)
	})
	c.add(time.Hour - renewEarly)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		if got, err := call(t.Context(), s); got != "200 hello" || err != nil {
			t.Errorf("the call that renews: %q, %v", got, err)
		}
	})
	<-w.issuer.holding
	if got, err := call(t.Context(), s); got != "200 hello" || err != nil {
		t.Errorf("meanwhile: %q, %v", got, err)
	}
	close(w.issuer.hold)
	renewing.Wait()
}

// A renewal is completed even if its caller has gone: the old refresh token cannot be used
// again.
func TestRenewalOutlivesItsCaller(t *testing.T) {
	c := newClock()
	w, s := loggedIn(t, openBook(t, "", c), func(w *world) {
		w.issuer.hold, w.issuer.holding = make(chan struct{}), make(chan struct{}, 1)
	})
	c.add(time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	var renewing sync.WaitGroup
	renewing.Go(func() { _, _ = call(ctx, s) })
	<-w.issuer.holding
	stop()
	close(w.issuer.hold)
	renewing.Wait()
	if got, err := call(t.Context(), s); got != "200 hello" || err != nil || w.issuer.renewals() != 1 {
		t.Errorf("afterwards: %q, %v, %d renewals", got, err, w.issuer.renewals())
	}
}

// A token that is refused in the middle of a session is renewed, and the call is made again
// once, with the same body.
func TestRefusedInTheMiddle(t *testing.T) {
	w, s := loggedIn(t, openBook(t, "", newClock()), nil)
	if got, err := call(t.Context(), s); got != "200 hello" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	w.issuer.revoke()
	before := len(w.server.tokens())
	if got, err := call(t.Context(), s); got != "200 hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	seen := w.server.tokens()[before:]
	if len(seen) != 2 || seen[0] == seen[1] || w.server.body[before] != "CALL" || w.server.body[before+1] != "CALL" {
		t.Errorf("the server saw %q with %q", seen, w.server.body[before:])
	}
}

// A server that refuses every token causes neither an endless loop nor a renewal for each
// call.
func TestServerThatRefusesAll(t *testing.T) {
	w, s := loggedIn(t, openBook(t, "", newClock()), nil)
	w.server.never = true
	for range 3 {
		_, err := call(t.Context(), s)
		wantsLogin(t, err)
		if needed, ok := errors.AsType[*NeededError](err); !ok || !slices.Equal(needed.Challenge, []string{w.challenge}) {
			t.Errorf("the error has not the challenge: %+v", needed)
		}
	}
	if got := w.issuer.renewals(); got != 1 {
		t.Errorf("%d renewals, want 1", got)
	}
}

// TestEnds checks the ways in which a login ends, and that it is removed then.
func TestEnds(t *testing.T) {
	for what, end := range map[string]func(*world, *clock){
		"the server refuses its token, and it cannot be renewed": func(w *world, _ *clock) {
			clear(w.issuer.refresh)
			w.issuer.revoke()
		},
		"the refresh token is worthless": func(w *world, c *clock) {
			clear(w.issuer.refresh)
			c.add(time.Hour)
		},
		"somebody else has used the refresh token": func(w *world, c *clock) {
			for token, family := range w.issuer.refresh {
				w.issuer.refresh[token] = -family
			}
			c.add(time.Hour)
		},
		"the client was removed": func(w *world, c *clock) {
			clear(w.issuer.clients)
			w.issuer.revoke()
		},
	} {
		c := newClock()
		b := openBook(t, "", c)
		w, s := loggedIn(t, b, nil)
		end(w, c)
		sent := len(w.server.tokens())
		_, err := call(t.Context(), s)
		wantsLogin(t, err)
		if needed, ok := errors.AsType[*NeededError](err); ok && len(w.server.tokens()) > sent && !slices.Equal(needed.Challenge, []string{w.challenge}) {
			t.Errorf("%s: the error has the challenge %q", what, needed.Challenge)
		}
		if _, err := b.find(t.Context(), github); !errors.Is(err, ErrNone) {
			t.Errorf("%s: the book has %v", what, err)
		}
		if err := Login(t.Context(), w.config(t, b)); err != nil {
			t.Errorf("%s: again: %v", what, err)
		}
		if got, err := call(t.Context(), s); got != "200 hello" || err != nil {
			t.Errorf("%s: after another login: %q, %v", what, got, err)
		}
	}
}

// Without a refresh token, a login ends with its access token.
func TestWithoutRefreshToken(t *testing.T) {
	c := newClock()
	b := openBook(t, "", c)
	w, s := loggedIn(t, b, nil)
	r, err := b.find(t.Context(), github)
	if err != nil {
		t.Fatal(err)
	}
	bare := *r.grant
	bare.refresh = Token{}
	if err := b.keep(t.Context(), github, &bare); err != nil {
		t.Fatal(err)
	}
	c.add(time.Hour - time.Second)
	if got, err := call(t.Context(), s); got != "200 hello" || err != nil {
		t.Errorf("at its end: %q, %v", got, err)
	}
	c.add(time.Second)
	_, err = call(t.Context(), s)
	wantsLogin(t, err)

	bare.expires, bare.renew = time.Time{}, time.Time{}
	if err := b.keep(t.Context(), github, &bare); err != nil {
		t.Fatal(err)
	}
	c.add(1000 * time.Hour)
	if got, err := call(t.Context(), s); got != "200 hello" || err != nil {
		t.Errorf("with no end that is known: %q, %v", got, err)
	}
	w.issuer.revoke()
	_, err = call(t.Context(), s)
	wantsLogin(t, err)
	if _, err := b.find(t.Context(), github); !errors.Is(err, ErrNone) {
		t.Errorf("it was not forgotten: %v", err)
	}
}

// A temporary failure of an authorization server does not end a login.
func TestRenewalFails(t *testing.T) {
	c := newClock()
	w, s := loggedIn(t, openBook(t, "", c), nil)
	w.issuer.status = http.StatusBadGateway
	c.add(time.Hour - time.Second)
	if got, err := call(t.Context(), s); got != "200 hello" || err != nil {
		t.Errorf("while the token is good: %q, %v", got, err)
	}
	c.add(time.Second)
	_, err := call(t.Context(), s)
	if _, needed := errors.AsType[*NeededError](err); err == nil || needed || !strings.Contains(err.Error(), "HTTP status 502") {
		t.Errorf("at its end: %v", err)
	}
	w.issuer.status = 0
	if got, err := call(t.Context(), s); got != "200 hello" || err != nil {
		t.Errorf("when it works again: %q, %v", got, err)
	}
}

// A process that was killed while it renewed a login does not block others for long.
func TestClaimOfAKilledProcess(t *testing.T) {
	c := newClock()
	b := openBook(t, "", c)
	w, s := loggedIn(t, b, nil)
	c.add(time.Hour)
	if _, ours, err := b.claim(t.Context(), github, func(row) bool { return false }); !ours || err != nil {
		t.Fatal(ours, err)
	}
	if _, ours, err := b.claim(t.Context(), github, func(row) bool { return false }); ours || err != nil {
		t.Fatal("it was claimed twice", err)
	}
	if _, ours, err := b.claim(t.Context(), github, func(row) bool { return true }); ours || err != nil {
		t.Fatal("a good one was claimed", err)
	}
	c.add(claimFor)
	if _, ours, err := b.claim(t.Context(), github, func(row) bool { return true }); ours || err != nil {
		t.Fatal("a good one was claimed", err)
	}
	if got, err := call(t.Context(), s); got != "200 hello" || err != nil || w.issuer.renewals() != 1 {
		t.Errorf("%q, %v", got, err)
	}
}

// A renewal that ends after a logout, or after another login, does not change their result.
func TestLogoutWhileRenewing(t *testing.T) {
	c := newClock()
	b := openBook(t, "", c)
	w, _ := loggedIn(t, b, nil)
	claim := func() row {
		r, ours, err := b.claim(t.Context(), github, func(row) bool { return false })
		if !ours || err != nil {
			t.Fatal(ours, err)
		}
		return r
	}
	r := claim()
	old := *r.grant
	if err := b.Forget(t.Context(), github); err != nil {
		t.Fatal(err)
	}
	if err := b.settle(t.Context(), github, r, &old); err != nil {
		t.Error(err)
	}
	if _, err := b.find(t.Context(), github); !errors.Is(err, ErrNone) {
		t.Errorf("after a logout: %v", err)
	}
	if err := b.keep(t.Context(), github, &old); err != nil {
		t.Fatal(err)
	}
	r = claim()
	if err := Login(t.Context(), w.config(t, b)); err != nil {
		t.Fatal(err)
	}
	if err := b.settle(t.Context(), github, r, &old); err != nil {
		t.Error(err)
	}
	if now, err := b.find(t.Context(), github); err != nil || now.access.is(old.access) {
		t.Errorf("after another login: %v", err)
	}
}

// Without a login, calls are made without a token: a server may need none. A server that
// needs a login refuses them.
func TestWithoutLogin(t *testing.T) {
	w := newWorld()
	s := w.source(t, openBook(t, "", newClock()))
	_, err := call(t.Context(), s)
	wantsLogin(t, err)
	w.server.open = true
	if got, err := call(t.Context(), s); got != "200 hello" || err != nil {
		t.Errorf("an open server: %q, %v", got, err)
	}
	if seen := w.server.tokens(); !slices.Equal(seen, []string{"", ""}) {
		t.Errorf("the server saw %q", seen)
	}
	if _, err := s.Token(t.Context()); !errors.Is(err, ErrNone) {
		t.Errorf("Token: %v", err)
	}
}

// The token is sent only to the server's origin, and not to the target of a redirect. An
// Authorization header of the operator takes precedence.
func TestTokenStaysAtItsServer(t *testing.T) {
	w, s := loggedIn(t, openBook(t, "", newClock()), nil)
	seen := make(map[string]string)
	for _, host := range []string{"https://evil.example", "http://mcp.example", "https://mcp.example:8443", "https://mcp.example.evil.example"} {
		w.network[host] = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen[host] = r.Header.Get("Authorization") })
		w.documents[serverURL] = func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, host+"/x", http.StatusTemporaryRedirect)
		}
		if _, err := call(t.Context(), s); err != nil {
			t.Error(err)
		}
		if got, reached := seen[host]; !reached || got != "" {
			t.Errorf("%s: reached %t, with %q", host, reached, got)
		}
	}
	delete(w.documents, serverURL)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, serverURL, nil)
	r.RequestURI = ""
	r.Header.Set("Authorization", "Bearer OPERATOR")
	resp, err := s.HTTPClient().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if all := w.server.tokens(); all[len(all)-1] != "Bearer OPERATOR" {
		t.Errorf("the server saw %q", all[len(all)-1])
	}
}

// A request whose body cannot be read twice is not sent twice; the token is renewed for the
// next call.
func TestBodyThatIsReadOnce(t *testing.T) {
	w, s := loggedIn(t, openBook(t, "", newClock()), nil)
	w.issuer.revoke()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, serverURL, io.MultiReader(strings.NewReader("CALL")))
	if err != nil {
		t.Fatal(err)
	}
	before := len(w.server.tokens())
	if _, err := s.HTTPClient().Do(r); err == nil || !strings.Contains(err.Error(), "make the call again") {
		t.Errorf("got %v", err)
	}
	if got := len(w.server.tokens()) - before; got != 1 {
		t.Errorf("the server saw %d calls, want 1", got)
	}
	if got, err := call(t.Context(), s); got != "200 hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// If a shell could read a server's name as more than one word, the error does not put the
// name into the command.
func TestCommandInErrors(t *testing.T) {
	err := &NeededError{Name: "a;rm -rf ~\x1b[2J", cause: ErrNone}
	if got := err.Error(); !strings.Contains(got, "run `belljar upstream login NAME`") || strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
}

// No function that prints or encodes values shows a token.
func TestTokenIsNotPrinted(t *testing.T) {
	const secret = "SECRET-TOKEN"
	tok := NewToken(secret)
	type within struct {
		Public  Token
		private Token
		deep    struct{ pointer *Token }
	}
	v := within{Public: tok, private: tok}
	v.deep.pointer = &tok
	g := grant{access: tok, refresh: tok, client: identity{secret: tok}}
	for _, value := range []any{tok, &tok, v, &v, g, &g, []Token{tok}, map[string]Token{"x": tok}, row{grant: &g}, Registered{Secret: tok}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if got := fmt.Sprintf(verb, value); strings.Contains(got, secret) || strings.Contains(got, fmt.Sprintf("%x", secret)) {
				t.Errorf("%s of %T: %s", verb, value, got)
			}
		}
		if text := encoded(t, value); strings.Contains(text, secret) {
			t.Errorf("%T encoded: %s", value, text)
		}
	}
}
