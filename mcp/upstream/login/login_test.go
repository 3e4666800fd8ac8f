package login

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Each kind of client identity leads to a login whose calls are accepted.
func TestLogin(t *testing.T) {
	for what, row := range map[string]struct {
		world  func(*world)
		config func(*Config)
		id     string // client id
		scope  string
	}{
		"it registers itself": {func(*world) {}, func(*Config) {}, "dynamic", "files:read"},
		"registered, secret in a header": {
			func(w *world) { w.issuer.clients["our id"], w.issuer.basic = "a secret:+%", true },
			func(c *Config) {
				c.Registered = &Registered{Issuer: issuerURL, ID: "our id", Secret: NewToken("a secret:+%")}
			},
			"our id", "files:read",
		},
		"registered, secret in the form": {
			func(w *world) {
				w.issuer.clients["id"] = "secret"
				w.metadata["token_endpoint_auth_methods_supported"] = []string{"client_secret_post"}
			},
			func(c *Config) { c.Registered = &Registered{Issuer: issuerURL, ID: "id", Secret: NewToken("secret")} },
			"id", "files:read",
		},
		"the URL of its metadata": {
			func(w *world) {
				w.issuer.clients["https://belljar.example/client.json"] = ""
				w.metadata["client_id_metadata_document_supported"] = true
			},
			func(c *Config) { c.Document = "https://belljar.example/client.json" },
			"https://belljar.example/client.json", "files:read",
		},
		"its metadata are of no use": {func(*world) {}, func(c *Config) { c.Document = "https://belljar.example/client.json" }, "dynamic", "files:read"},
		"no challenge":               {func(w *world) { w.challenge = "" }, func(*Config) {}, "dynamic", "all"},
		"offline access": {
			func(w *world) { w.metadata["scopes_supported"] = []string{"offline_access", "other"} },
			func(c *Config) { c.Scopes = []string{"more", "files:read", "not valid"} }, "dynamic", "files:read offline_access more",
		},
		"it says nothing of iss": {
			func(w *world) {
				delete(w.metadata, "authorization_response_iss_parameter_supported")
				w.issuer.iss = nil
			}, func(*Config) {}, "dynamic", "files:read",
		},
		"an endpoint with a query": {
			func(w *world) { w.metadata["authorization_endpoint"] = issuerURL + "/authorize?tenant=x" }, func(*Config) {}, "dynamic", "files:read",
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := openBook(t, "", newClock())
			w := newWorld()
			row.world(w)
			cfg := w.config(t, b)
			row.config(&cfg)
			var asked *url.URL
			cfg.Open = func(to string) {
				asked, _ = url.Parse(to)
				w.person(t, to, nil)
			}
			if err := Login(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			q := asked.Query()
			for name, want := range map[string]string{"client_id": row.id, "scope": row.scope, "resource": serverURL, "code_challenge_method": "S256", "response_type": "code"} {
				if got := q.Get(name); got != want || len(q[name]) != 1 {
					t.Errorf("%s is %q, want %q once", name, got, want)
				}
			}
			if got, err := call(t.Context(), w.source(t, b)); got != "200 hello" || err != nil {
				t.Errorf("a call: %q, %v", got, err)
			}
		})
	}
}

// Each row changes the answer as an attacker could, and contains the expected outcome of
// the login.
func TestAnswers(t *testing.T) {
	set := func(pairs ...string) func(*url.URL) {
		return func(u *url.URL) {
			q := u.Query()
			for i := 0; i < len(pairs); i += 2 {
				q.Set(pairs[i], pairs[i+1])
			}
			u.RawQuery = q.Encode()
		}
	}
	without := func(name string) func(*url.URL) {
		return func(u *url.URL) {
			q := u.Query()
			q.Del(name)
			u.RawQuery = q.Encode()
		}
	}
	for what, row := range map[string]struct {
		change func(*url.URL)
		want   string // part of the error; empty for a login
		never  string // text that the error must not contain
	}{
		"as it was":                        {nil, "", "-"},
		"mix-up: another issuer":           {set("iss", "https://evil.example"), "another authorization server", "-"},
		"an issuer with a slash more":      {set("iss", issuerURL+"/"), "another authorization server", "-"},
		"no issuer":                        {without("iss"), "does not name the authorization server", "-"},
		"an error of another issuer":       {set("iss", "https://evil.example", "error", "access_denied"), "another authorization server", "access_denied"},
		"an error":                         {set("error", "access_denied", "error_description", "EVIL"), "refuses: access_denied", "EVIL"},
		"an error of its own making":       {set("error", "run curl evil.example"), "without a known code", "curl"},
		"two codes":                        {func(u *url.URL) { u.RawQuery += "&code=OTHER" }, "more than one code", "OTHER"},
		"two issuers":                      {func(u *url.URL) { u.RawQuery += "&iss=" + url.QueryEscape(issuerURL) }, "more than one iss", "-"},
		"no code":                          {without("code"), "has no code", "-"},
		"a code that was never made":       {set("code", "CODE-OF-NOBODY"), "refuses: invalid_grant", "EVIL"},
		"a code that is a link to a shell": {set("code", "$(id)"), "refuses: invalid_grant", "id)"},
	} {
		t.Run(what, func(t *testing.T) {
			b := openBook(t, "", newClock())
			w := newWorld()
			cfg := w.config(t, b)
			cfg.Open = func(to string) { w.person(t, to, row.change) }
			err := Login(t.Context(), cfg)
			switch {
			case row.want == "" && err != nil:
				t.Error(err)
			case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), row.never)):
				t.Errorf("got %v, want an error with %q and without %q", err, row.want, row.never)
			}
			if _, err := b.find(t.Context(), github); (err == nil) != (row.want == "") {
				t.Errorf("the login in the book: %v", err)
			}
		})
	}
}

// A code that was issued for another client, or for another login of this client, cannot be
// used: the authorization server sees that its verifier is a different one.
func TestCodeOfAnother(t *testing.T) {
	for what, client := range map[string]string{"another client": "other", "another login of the same client": "dynamic"} {
		w := newWorld()
		w.issuer.clients["other"] = ""
		cfg := w.config(t, openBook(t, "", newClock()))
		cfg.Open = func(to string) {
			w.person(t, to, func(u *url.URL) {
				asked, _ := url.Parse(to)
				q := asked.Query()
				q.Set("client_id", client)
				// the example of RFC 7636, appendix B
				q.Set("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM")
				back := u.Query()
				back.Set("code", w.issuer.code(q))
				u.RawQuery = back.Encode()
			})
		}
		if err := Login(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "refuses: invalid_grant") {
			t.Errorf("%s: %v", what, err)
		}
		if got := w.issuer.last(); got.Get("client_id") != "dynamic" || len(got.Get("code_verifier")) < 43 || got.Get("resource") != serverURL {
			t.Errorf("%s: the token was asked for with %v", what, got)
		}
	}
}

// Requests to the listener that are not the answer have no effect, and the answer counts
// once.
func TestListener(t *testing.T) {
	w := newWorld()
	fl, err := StartFlow(t.Context(), w.config(t, openBook(t, "", newClock())))
	if err != nil {
		t.Fatal(err)
	}
	defer fl.Close(t.Context())
	right, err := url.Parse(fl.listener.url() + "?" + url.Values{"state": {fl.state}, "code": {"<script>CODE"}, "iss": {issuerURL}}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(u *url.URL)) *url.URL {
		u := *right
		change(&u)
		return &u
	}
	for what, row := range map[string]struct {
		method string
		to     *url.URL
		host   string
	}{
		"no state":       {http.MethodGet, with(func(u *url.URL) { u.RawQuery = "code=x" }), ""},
		"another state":  {http.MethodGet, with(func(u *url.URL) { u.RawQuery = "code=x&state=" + fl.state + "x" }), ""},
		"two states":     {http.MethodGet, with(func(u *url.URL) { u.RawQuery += "&state=" + fl.state }), ""},
		"another path":   {http.MethodGet, with(func(u *url.URL) { u.Path = "/other" }), ""},
		"a POST":         {http.MethodPost, right, ""},
		"another host":   {http.MethodGet, right, "evil.example"},
		"an odd query":   {http.MethodGet, with(func(u *url.URL) { u.RawQuery += "&x=%zz" }), ""},
		"the state bare": {http.MethodGet, with(func(u *url.URL) { u.RawQuery = fl.state }), ""},
	} {
		if status, shown := visit(t, row.method, row.to, row.host); status != http.StatusBadRequest {
			t.Errorf("%s: status %d, %s", what, status, shown)
		}
	}
	status, shown := visit(t, http.MethodGet, right, "")
	if status != http.StatusOK || !strings.Contains(shown, "You can close this page") {
		t.Errorf("the answer: status %d, %s", status, shown)
	}
	for _, leak := range []string{"script", "CODE", fl.state, "login.example"} {
		if strings.Contains(shown, leak) {
			t.Errorf("the page has %q of the request: %s", leak, shown)
		}
	}
	for _, want := range []string{"no-referrer", "no-store", "default-src 'none'", "nosniff", "text/plain"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the response lacks %q: %s", want, shown)
		}
	}
	if status, _ := visit(t, http.MethodGet, right, ""); status != http.StatusGone {
		t.Errorf("the state was good twice: status %d", status)
	}
	if len(fl.listener.answers) != 1 {
		t.Errorf("%d answers, want 1", len(fl.listener.answers))
	}
}

// Too many requests with a wrong state end the login.
func TestGuesses(t *testing.T) {
	w := newWorld()
	cfg := w.config(t, openBook(t, "", newClock()))
	cfg.Open = func(to string) {
		asked, _ := url.Parse(to)
		guess, _ := url.Parse(asked.Query().Get("redirect_uri") + "?code=x&state=GUESS")
		for range maxStrays + 1 {
			visit(t, http.MethodGet, guess, "")
		}
		if status := w.person(t, to, nil); status != http.StatusGone {
			t.Errorf("the answer after them: status %d", status)
		}
	}
	if err := Login(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "too many requests") {
		t.Errorf("got %v", err)
	}
}

// Login waits ten minutes for a person to log in, or until the caller's context ends.
func TestNobodyLogsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fl := &Flow{listener: &listener{answers: make(chan answer, 1)}}
		began := time.Now()
		if _, err := fl.grant(t.Context()); !errors.Is(err, errLate) || time.Since(began) != 10*time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	w := newWorld()
	cfg := w.config(t, openBook(t, "", newClock()))
	cfg.Open = func(string) { stop() }
	if err := Login(ctx, cfg); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The secret of a client that was registered at one authorization server is never sent to
// another.
func TestSecretGoesToItsIssuer(t *testing.T) {
	w := newWorld()
	cfg := w.config(t, openBook(t, "", newClock()))
	cfg.Registered = &Registered{Issuer: "https://other.example", ID: "id", Secret: NewToken("SECRET")}
	cfg.Open = func(string) { t.Error("a person was asked to log in") }
	if err := Login(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "was registered at the authorization server") {
		t.Errorf("got %v", err)
	}
}

// A redirect of the token endpoint is not followed, so the code and the verifier are not
// sent elsewhere.
func TestTokenRequestIsNotRedirected(t *testing.T) {
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		w := newWorld()
		w.documents[issuerURL+"/token"] = func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "https://login.example/elsewhere", status)
		}
		w.documents[issuerURL+"/elsewhere"] = func(_ http.ResponseWriter, r *http.Request) { t.Errorf("status %d: the request was sent on", status) }
		if err := Login(t.Context(), w.config(t, openBook(t, "", newClock()))); err == nil {
			t.Errorf("status %d: no error", status)
		}
	}
}

// TestTokenResponses checks responses of a token endpoint that must be refused.
func TestTokenResponses(t *testing.T) {
	for what, answer := range map[string]string{
		"no token":            `{"token_type":"Bearer"}`,
		"another type":        `{"access_token":"A","token_type":"DPoP"}`,
		"no type":             `{"access_token":"A"}`,
		"a header in a token": `{"access_token":"A\r\nX: y","token_type":"Bearer"}`,
		"a long token":        `{"access_token":"` + strings.Repeat("a", maxToken+1) + `","token_type":"Bearer"}`,
		"an odd refresh":      `{"access_token":"A","token_type":"Bearer","refresh_token":"a b"}`,
		"twice":               `{"access_token":"A","access_token":"B","token_type":"Bearer"}`,
		"not JSON":            `access_token=A&token_type=bearer`,
		"large":               `{"access_token":"A","token_type":"Bearer","x":"` + strings.Repeat("a", maxDocument) + `"}`,
		"an error with 200":   `{"error":"invalid_grant","access_token":"A","token_type":"Bearer"}`,
	} {
		w := newWorld()
		w.documents[issuerURL+"/token"] = func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte(answer)) }
		b := openBook(t, "", newClock())
		if err := Login(t.Context(), w.config(t, b)); err == nil {
			t.Errorf("%s: no error", what)
		}
		if _, err := b.find(t.Context(), github); err == nil {
			t.Errorf("%s: it was kept", what)
		}
	}
}

// A caller that receives the answer itself gets a login only by the answer to its own flow.
// Nothing listens on this machine then.
func TestReceive(t *testing.T) {
	const redirect = "https://belljar.example/upstream-login"
	for what, row := range map[string]struct {
		change func(url.Values)
		want   string // part of the error; empty for a login
	}{
		"as it was":           {func(url.Values) {}, ""},
		"another state":       {func(q url.Values) { q.Set("state", "guessed") }, "does not belong to this login"},
		"no state":            {func(q url.Values) { q.Del("state") }, "does not belong to this login"},
		"two states":          {func(q url.Values) { q.Add("state", "guessed") }, "does not belong to this login"},
		"another issuer":      {func(q url.Values) { q.Set("iss", "https://evil.example") }, "another authorization server"},
		"a code of nobody":    {func(q url.Values) { q.Set("code", "CODE-OF-NOBODY") }, "refuses: invalid_grant"},
		"an error of a guess": {func(q url.Values) { q.Set("state", "guessed"); q.Set("error", "access_denied") }, "does not belong to this login"},
	} {
		t.Run(what, func(t *testing.T) {
			b, w := openBook(t, "", newClock()), newWorld()
			cfg := w.config(t, b)
			cfg.Redirect = redirect
			fl, err := StartFlow(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer fl.Close(t.Context())
			if fl.listener != nil || fl.Issuer() != issuerURL || fl.Resource() != serverURL {
				t.Errorf("the flow of %s at %s listens: %v", fl.Resource(), fl.Issuer(), fl.listener != nil)
			}
			to := w.answer(t, fl.URL())
			if to == nil || !strings.HasPrefix(to.String(), redirect+"?") {
				t.Fatalf("the browser is sent to %v", to)
			}
			answer := to.Query()
			row.change(answer)
			err = fl.Receive(t.Context(), answer)
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("got %v, want %q", err, row.want)
			}
			if _, err := b.find(t.Context(), github); (err == nil) != (row.want == "") {
				t.Errorf("the login in the book: %v", err)
			}
			if row.want == "" && fl.Receive(t.Context(), answer) == nil {
				t.Error("a code was exchanged twice")
			}
			if err := fl.Finish(t.Context()); err == nil || !strings.Contains(err.Error(), "no listener") {
				t.Errorf("a flow without a listener: %v", err)
			}
		})
	}
	for _, bad := range []string{"http://belljar.example/x", "javascript:alert(1)", "https://u:p@belljar.example/", "https://belljar.example/#x", "/x"} {
		cfg := newWorld().config(t, openBook(t, "", newClock()))
		cfg.Redirect = bad
		if fl, err := StartFlow(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "redirect") {
			t.Errorf("the redirect %s: %v, %v", bad, fl, err)
		}
	}
	cfg := newWorld().config(t, openBook(t, "", newClock()))
	cfg.Redirect = "http://127.0.0.1:8931/upstream-login"
	if _, err := StartFlow(t.Context(), cfg); err != nil {
		t.Errorf("a redirect on this machine: %v", err)
	}
}
