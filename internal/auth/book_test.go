package auth

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/store"
	"belljar.dev/mcp"
)

// clock is a clock that a test sets.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func newClock() *clock { return &clock{time.UnixMilli(1_800_000_000_000)} }

func openBook(t testing.TB, state string, now func() time.Time) *Book {
	t.Helper()
	s := store.New(state)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return NewBook(state, s, now)
}

func mustCreate(t testing.TB, b *Book, want Token) (Token, string) {
	t.Helper()
	made, token, err := b.Create(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	return made, token
}

// authenticator returns an Authenticator for a book, with a policy that names the tenants a
// and b.
func authenticator(t testing.TB, b *Book, now func() time.Time) *Authenticator {
	t.Helper()
	a := New(Config{Book: b, Known: func(tenant string) bool { return tenant == "a" || tenant == "b" }, Log: slog.New(slog.DiscardHandler), Now: now})
	if err := a.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestBook(t *testing.T) {
	c := newClock()
	state := t.TempDir()
	b := openBook(t, state, c.Now)
	one, _ := mustCreate(t, b, Token{Tenant: "a", Scopes: []string{"write", "read", "read"}, Note: "the first", Expires: c.now.Add(time.Hour)})
	c.now = c.now.Add(time.Second)
	two, _ := mustCreate(t, b, Token{Tenant: "b"})
	three, _ := mustCreate(t, b, Token{Tenant: "b", Scopes: []string{}})
	if want := []string{"read", "write"}; !reflect.DeepEqual(one.Scopes, want) {
		t.Errorf("scopes %v, want %v", one.Scopes, want)
	}
	list := func() []Token {
		t.Helper()
		all, err := openBook(t, state, c.Now).List(t.Context()) // list opens the book again, as another process does
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := list()
	if len(all) != 3 || !reflect.DeepEqual(all[0], one) {
		t.Fatalf("got %+v, want %+v and others", all, one)
	}
	// A token without any scopes stays different from a token for everything, whose scopes
	// are nil.
	for _, got := range all[1:] {
		if want := map[string]bool{two.ID: true, three.ID: false}[got.ID]; (got.Scopes == nil) != want {
			t.Errorf("the scopes of %s came back as %#v", got.ID, got.Scopes)
		}
	}
	if _, err := b.Revoke(t.Context(), []string{two.ID, "nosuch"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("revoke of an unknown one: %v", err)
	}
	if all := list(); all[1].State(c.now) != "" || all[2].State(c.now) != "" {
		t.Errorf("then %+v, want none revoked", all)
	}
	for i, want := range []int{1, 0} {
		if revoked, err := b.Revoke(t.Context(), []string{two.ID}); err != nil || len(revoked) != want {
			t.Errorf("revoke %d: %v, %v; want %d", i, revoked, err, want)
		}
	}
	c.now = c.now.Add(time.Hour)
	states := map[string]Reason{}
	for _, got := range list() {
		states[got.ID] = got.State(c.now)
	}
	if want := (map[string]Reason{one.ID: Expired, two.ID: Revoked, three.ID: ""}); !reflect.DeepEqual(states, want) {
		t.Errorf("states %v, want %v", states, want)
	}
}

func TestBookRefuses(t *testing.T) {
	c := newClock()
	b := openBook(t, t.TempDir(), c.Now)
	for what, bad := range map[string]Token{
		"no tenant":        {},
		"a long note":      {Tenant: "a", Note: strings.Repeat("x", maxNote+1)},
		"a note of lines":  {Tenant: "a", Note: "x\ny"},
		"many scopes":      {Tenant: "a", Scopes: make([]string, maxScopes+1)},
		"an empty scope":   {Tenant: "a", Scopes: []string{""}},
		"a scope of two":   {Tenant: "a", Scopes: []string{"a b"}},
		"a quoted scope":   {Tenant: "a", Scopes: []string{`a"b`}},
		"a scope with \\":  {Tenant: "a", Scopes: []string{`a\b`}},
		"an old expiry":    {Tenant: "a", Expires: c.now},
		"a very late one":  {Tenant: "a", Expires: c.now.Add(maxLife + time.Hour)},
		"a scope with é":   {Tenant: "a", Scopes: []string{"é"}},
		"a very long name": {Tenant: "a", Scopes: []string{strings.Repeat("s", maxScope+1)}},
	} {
		if _, token, err := b.Create(t.Context(), bad); !errors.Is(err, ErrToken) || token != "" {
			t.Errorf("%s: got %q, %v", what, token, err)
		}
	}
}

// Only the HMAC of a token is stored, and not the token.
func TestNothingKeepsAToken(t *testing.T) {
	state := t.TempDir()
	b := openBook(t, state, nil)
	made, token := mustCreate(t, b, Token{Tenant: "a"})
	_, secret, _ := parseToken(token)
	a := authenticator(t, b, nil)
	if _, err := a.Authenticate(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	a.writeUses(t.Context())
	files, sawID := 0, false
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		sawID = sawID || bytes.Contains(text, []byte(made.ID))
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s has the secret", path)
		}
		if info, _ := d.Info(); info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil || files < 2 || !sawID {
		t.Errorf("%d files, %v; the id was found: %t", files, err, sawID)
	}
}

func TestKey(t *testing.T) {
	state := t.TempDir()
	b := openBook(t, state, nil)
	one, _ := mustCreate(t, b, Token{Tenant: "a"})
	path := filepath.Join(state, keyFile)
	key, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	remake := func(text []byte, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.Remove(path), os.WriteFile(path, text, mode)); err != nil {
			t.Fatal(err)
		}
	}
	// A file that is not a key is neither used nor replaced.
	for what, make := range map[string]func(){
		"others can read it": func() { remake(key, 0o644) },
		"too short":          func() { remake(key[1:], 0o600) },
		"too long":           func() { remake(append(key, 0), 0o600) },
		"empty":              func() { remake(nil, 0o600) },
		"a link": func() {
			if err := errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		make()
		before, _ := os.Lstat(path)
		if _, _, err := b.Create(t.Context(), Token{Tenant: "a"}); err == nil {
			t.Errorf("%s: a token was made", what)
		}
		if _, err := b.since(t.Context(), nil); err == nil {
			t.Errorf("%s: the tokens were read", what)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: the file was replaced, %v", what, err)
		}
		remake(key, 0o600)
	}
	// A lost key is not replaced while there are valid tokens that need it.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Create(t.Context(), Token{Tenant: "a"}); !errors.Is(err, ErrToken) {
		t.Errorf("without its key: %v", err)
	}
	if _, err := b.Revoke(t.Context(), []string{one.ID}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Create(t.Context(), Token{Tenant: "a"}); err != nil {
		t.Errorf("with no token that needs it: %v", err)
	}
}

// Revoked tokens make room for others, and valid ones do not.
func TestBookIsBounded(t *testing.T) {
	c := newClock()
	b := openBook(t, t.TempDir(), c.Now)
	first, _ := mustCreate(t, b, Token{Tenant: "a"})
	err := b.change(t.Context(), func(tx *sql.Tx) error {
		for i := range maxTokens - 1 {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO tokens_all VALUES (?, 'a', NULL, '', x'00', 1, 0, 0, ?)", fmt.Sprintf("id%08d", i), i*10); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		mustCreate(t, b, Token{Tenant: "a"})
	}
	all, err := b.List(t.Context())
	if err != nil || len(all) != maxTokens {
		t.Fatalf("%d tokens, %v; want %d", len(all), err, maxTokens)
	}
	ids := make(map[string]bool)
	for _, token := range all {
		ids[token.ID] = true
	}
	if !ids[first.ID] || !ids["id00000000"] || ids["id00000001"] || ids["id00000005"] || !ids["id00000006"] {
		t.Error("others than the oldest of those that were revoked made room")
	}
	err = b.change(t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE tokens_all SET revoked = 0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Create(t.Context(), Token{Tenant: "a"}); !errors.Is(err, ErrToken) {
		t.Errorf("one too many: %v", err)
	}
}

func TestAuthenticateTokens(t *testing.T) {
	c := newClock()
	b := openBook(t, t.TempDir(), c.Now)
	good, goodToken := mustCreate(t, b, Token{Tenant: "a", Scopes: []string{"read"}, Expires: c.now.Add(2 * time.Hour)})
	others, forever := mustCreate(t, b, Token{Tenant: "b"})
	short, shortToken := mustCreate(t, b, Token{Tenant: "a", Expires: c.now.Add(time.Hour)})
	revoked, revokedToken := mustCreate(t, b, Token{Tenant: "a"})
	_, gone := mustCreate(t, b, Token{Tenant: "gone"})
	if _, err := b.Revoke(t.Context(), []string{revoked.ID}); err != nil {
		t.Fatal(err)
	}
	a := authenticator(t, b, c.Now)
	c.now = c.now.Add(time.Hour)

	id, err := a.Authenticate(t.Context(), goodToken)
	want := mcp.Identity{Tenant: "a", Principal: "token:" + good.ID, Scopes: []string{"read"}, Expires: good.Expires, Credential: "token:" + good.ID}
	if err != nil || !reflect.DeepEqual(id, want) {
		t.Errorf("got %+v, %v; want %+v", id, err, want)
	}
	if id, err := a.Authenticate(t.Context(), forever); err != nil || id.Tenant != "b" || id.Scopes != nil || !id.Expires.IsZero() {
		t.Errorf("one without limits: %+v, %v", id, err)
	}
	_, secret, _ := parseToken(goodToken)
	_, wrong, foreign := newToken()
	of := func(id, secret string) string { return tokenPrefix + id + "_" + secret + "_" + check(id, secret) }
	for what, tt := range map[string]struct {
		token string
		why   Reason
		whose string
	}{
		"expired":        {shortToken, Expired, "token:" + short.ID},
		"revoked":        {revokedToken, Revoked, "token:" + revoked.ID},
		"a wrong secret": {of(good.ID, wrong), Unknown, ""},
		// a caller that guesses secrets does not find out the state of an id
		"a wrong secret, expired":      {of(short.ID, wrong), Unknown, ""},
		"a wrong secret, revoked":      {of(revoked.ID, wrong), Unknown, ""},
		"the secret of another tenant": {of(others.ID, secret), Unknown, ""},
		"made elsewhere":               {foreign, Unknown, ""},
		"not copied whole":             {goodToken[:len(goodToken)-1], Malformed, ""},
		"of a tenant that is not here": {gone, NoTenant, ""},
	} {
		id, err := a.Authenticate(t.Context(), tt.token)
		var r *Refusal
		if !errors.As(err, &r) || r.Reason != tt.why || tt.whose != "" && r.Whose != tt.whose || !reflect.DeepEqual(id, mcp.Identity{}) {
			t.Errorf("%s: got %+v, %v; want %s of %s", what, id, err, tt.why, tt.whose)
		} else if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), tt.token) {
			t.Errorf("%s: the error repeats the token: %v", what, err)
		}
	}
}

// An id that does not exist costs as much as a wrong secret, so the time of an answer does
// not show which ids exist. The test counts allocations, because measured times vary too
// much.
func TestUnknownIDsCostTheSame(t *testing.T) {
	c := newClock()
	b := openBook(t, t.TempDir(), c.Now)
	good, _ := mustCreate(t, b, Token{Tenant: "a"})
	_, wrong, foreign := newToken()
	a := authenticator(t, b, c.Now)
	cost := func(token string) float64 {
		return testing.AllocsPerRun(1000, func() {
			if _, err := a.Authenticate(t.Context(), token); reasonOf(err) != Unknown {
				t.Errorf("got %v", err)
			}
		})
	}
	known := cost(tokenPrefix + good.ID + "_" + wrong + "_" + check(good.ID, wrong))
	if unknown := cost(foreign); unknown != known {
		t.Errorf("an unknown id costs %v allocations, and a known one %v", unknown, known)
	}
}

// A change by another process is noticed, and the last use is written.
func TestFollow(t *testing.T) {
	state := t.TempDir()
	b := openBook(t, state, nil)
	made, token := mustCreate(t, b, Token{Tenant: "a"})
	a := authenticator(t, b, nil)
	if _, err := a.Authenticate(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	type change struct {
		added []Token
		over  []Ended
	}
	changes := make(chan change, 10)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		a.Follow(ctx, func(added []Token, over []Ended) { changes <- change{added, over} })
	}()
	elsewhere := openBook(t, state, nil)
	other, otherToken := mustCreate(t, elsewhere, Token{Tenant: "b"})
	if got := <-changes; len(got.added) != 1 || got.added[0].ID != other.ID || len(got.over) != 0 {
		t.Errorf("a token was made: %+v", got)
	}
	if _, err := a.Authenticate(t.Context(), otherToken); err != nil {
		t.Errorf("a new token: %v", err)
	}
	began := time.Now()
	if _, err := elsewhere.Revoke(t.Context(), []string{made.ID}); err != nil {
		t.Fatal(err)
	}
	if got := <-changes; len(got.over) != 1 || got.over[0].ID != made.ID || got.over[0].Why != Revoked || len(got.added) != 0 {
		t.Errorf("a token was revoked: %+v", got)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("after %v, want within a second", took)
	}
	if _, err := a.Authenticate(t.Context(), token); err == nil {
		t.Error("a revoked token is accepted")
	}
	cancel()
	<-over
	all, err := b.List(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	for _, got := range all {
		if got.Used.IsZero() || got.Used.Second() != 0 || time.Since(got.Used) > 2*time.Minute {
			t.Errorf("%s was last used at %v", got.ID, got.Used)
		}
	}
}

// The sessions of a revoked token may take long to end. A token that is revoked meanwhile
// is refused nevertheless.
func TestFollowDoesNotWait(t *testing.T) {
	b := openBook(t, t.TempDir(), nil)
	one, _ := mustCreate(t, b, Token{Tenant: "a"})
	two, token := mustCreate(t, b, Token{Tenant: "a"})
	a := authenticator(t, b, nil)
	revoked, ended := make(chan string), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		a.Follow(ctx, func(_ []Token, over []Ended) {
			revoked <- over[0].ID
			<-ended // not before the second one was seen
		})
	}()
	for _, want := range []string{one.ID, two.ID} {
		if _, err := b.Revoke(t.Context(), []string{want}); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-revoked:
			if got != want {
				t.Errorf("%s was revoked, want %s", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("nobody learned that %s was revoked", want)
		}
	}
	if _, err := a.Authenticate(t.Context(), token); reasonOf(err) != Revoked {
		t.Errorf("a revoked token: %v", err)
	}
	cancel()
	close(ended)
	<-over
}

// While the book cannot be read, a revoked token could be accepted. Therefore no token is
// accepted, and the error does not say that the token is bad.
func TestBookUnreadable(t *testing.T) {
	b := openBook(t, t.TempDir(), nil)
	_, token := mustCreate(t, b, Token{Tenant: "a"})
	a := New(Config{Book: b, Known: func(string) bool { return true }, Log: slog.New(slog.DiscardHandler)})
	if _, err := a.Authenticate(t.Context(), token); !errors.Is(err, mcp.ErrUnavailable) {
		t.Errorf("before it was read: %v", err)
	}
	if err := a.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(t.Context(), token); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	long := time.Now().Add(-2 * trustFor)
	a.read.Store(&long)
	if _, err := a.Authenticate(t.Context(), token); !errors.Is(err, mcp.ErrUnavailable) {
		t.Errorf("long after: %v", err)
	}
}
