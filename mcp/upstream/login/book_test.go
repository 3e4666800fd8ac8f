package login

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar.dev/internal/testenv"
)

// encoded returns a value as JSON and as log lines.
func encoded(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "value", value)
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "value", value)
	return string(text) + b.String()
}

// someGrant returns a login.
func someGrant() *grant {
	return &grant{
		issuer: issuerURL, token: issuerURL + "/token", resource: serverURL, client: identity{"id", NewToken("SECRET-x"), true},
		access: NewToken("ACCESS-x"), refresh: NewToken("REFRESH-x"), expires: time.Date(2026, 11, 23, 13, 0, 0, 0, time.UTC),
	}
}

// A login is found as it was stored, also by another process, and no file of the state
// directory contains a token.
func TestBook(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	b := openBook(t, dir, c)
	if err := b.keep(t.Context(), github, someGrant()); err != nil {
		t.Fatal(err)
	}
	got, err := openBook(t, dir, c).find(t.Context(), github)
	if err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]Token{
		"access": {got.access, NewToken("ACCESS-x")}, "refresh": {got.refresh, NewToken("REFRESH-x")}, "secret": {got.client.secret, NewToken("SECRET-x")},
	} {
		if !pair[0].is(pair[1]) {
			t.Errorf("the %s token is another one", what)
		}
	}
	if got.client.id != "id" || !got.client.basic || got.issuer != issuerURL || got.resource != serverURL || !got.expires.Equal(someGrant().expires) {
		t.Errorf("got %+v", got.grant)
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, secret := range []string{"ACCESS-x", "REFRESH-x", "SECRET-x"} {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s has %s", path, secret)
			}
		}
		if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v, %v", path, info.Mode(), err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Whatever logins are kept and forgotten, nobody gets the token of another tenant, server
// or URL: neither from the book, nor after somebody has moved rows of the database.
func TestNobodyGetsTheTokenOfAnother(t *testing.T) {
	cases, r := testenv.Cases(t, 30)
	b := openBook(t, t.TempDir(), newClock())
	names := []string{"a", "b", "ab", "", "a\"", `","`, "a,b"}
	urls := []string{"https://h.example", "https://h.example/a", "https://h.example/a/b", "https://i.example", "https://h.example:8443"}
	model := make(map[Server]string)
	pick := func() Server {
		return Server{names[r.IntN(len(names))], "n" + names[r.IntN(len(names))], urls[r.IntN(len(urls))]}
	}
	check := func(n int, s Server) {
		t.Helper()
		got, err := b.find(t.Context(), s)
		want, kept := model[s]
		switch {
		case kept && (err != nil || !got.access.is(NewToken(want))):
			t.Fatalf("case %d: %+v: %v", n, s, err)
		case !kept && !errors.Is(err, ErrNone):
			t.Fatalf("case %d: %+v gets a token of somebody, %v", n, s, err)
		}
	}
	for n := range cases {
		s := pick()
		switch r.IntN(4) {
		case 0:
			if err := b.Forget(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			delete(model, s)
		case 1: // copies a row, as somebody can who can write the database
			from := pick()
			if _, kept := model[from]; !kept {
				continue
			}
			if r.IntN(2) == 0 { // only the tenant differs
				s, from.Tenant = from, s.Tenant
			}
			if s == from || model[from] == "" {
				continue
			}
			err := b.kept.Write(t.Context(), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(t.Context(), `INSERT OR REPLACE INTO logins_all
					SELECT ?, ?, ?, sealed, 0, 0 FROM logins_all WHERE tenant = ? AND server = ? AND url = ?`, s.Tenant, s.Name, s.URL, from.Tenant, from.Name, from.URL)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := b.find(t.Context(), s); !errors.Is(err, errSealed) {
				t.Fatalf("case %d: the login of %+v can be moved to %+v: %+v, %v", n, from, s, got, err)
			}
			if err := b.Forget(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			delete(model, s)
		default:
			text := fmt.Sprintf("ACCESS%d", n)
			g := someGrant()
			g.access = NewToken(text)
			if err := b.keep(t.Context(), s, g); err != nil {
				t.Fatal(err)
			}
			model[s] = text
		}
		check(n, s)
		check(n, pick())
	}
}

// The URL of a server may be written in several forms. Another URL has no login.
func TestURLsOfABook(t *testing.T) {
	b := openBook(t, "", newClock())
	w := newWorld()
	cfg := w.config(t, b)
	cfg.Server.URL = "https://MCP.example:443/team/mcp"
	if err := Login(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{serverURL: true, "https://Mcp.Example/team/mcp": true, "https://mcp.example/team/mcp2": false, "https://mcp.example:8443/team/mcp": false} {
		s, err := NewSource(SourceConfig{Client: w.client(), Book: b, Server: Server{"a", "github", text}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Token(t.Context()); (err == nil) != want {
			t.Errorf("%s: %v, want a token: %t", text, err, want)
		}
	}
	for _, other := range []Server{{"b", "github", serverURL}, {"a", "gitlab", serverURL}} {
		s, err := NewSource(SourceConfig{Client: w.client(), Book: b, Server: other})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Token(t.Context()); !errors.Is(err, ErrNone) {
			t.Errorf("%+v: %v", other, err)
		}
	}
}

// A row in which any byte was changed cannot be opened.
func TestSealed(t *testing.T) {
	key := bytes.Repeat([]byte{1}, 32)
	text, err := seal(key, github, someGrant())
	if err != nil {
		t.Fatal(err)
	}
	again, err := seal(key, github, someGrant())
	if err != nil || bytes.Equal(text, again) {
		t.Errorf("the same login is sealed to the same bytes, %v", err)
	}
	for i := range text {
		text[i] ^= 1
		if _, err := open(key, github, text); !errors.Is(err, errSealed) {
			t.Errorf("byte %d: %v", i, err)
		}
		text[i] ^= 1
	}
	for n := range text {
		if _, err := open(key, github, text[:n]); !errors.Is(err, errSealed) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	for _, other := range []Server{{"b", github.Name, github.URL}, {github.Tenant, "gitlab", github.URL}, {github.Tenant, github.Name, "https://mcp.example"}} {
		if _, err := open(key, other, text); !errors.Is(err, errSealed) {
			t.Errorf("%+v: %v", other, err)
		}
	}
	if _, err := open(bytes.Repeat([]byte{2}, 32), github, text); !errors.Is(err, errSealed) {
		t.Errorf("another key: %v", err)
	}
	if _, err := open(key, github, text); err != nil {
		t.Error(err)
	}
}

// A login is dropped for the token that was refused, and not for an older token.
func TestDrop(t *testing.T) {
	b := openBook(t, "", newClock())
	if err := b.keep(t.Context(), github, someGrant()); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		token string
		want  error
	}{{"ACCESS-before", nil}, {"", nil}, {"ACCESS-x", ErrNone}, {"ACCESS-x", ErrNone}} {
		if err := b.drop(t.Context(), github, NewToken(row.token)); err != nil {
			t.Error(err)
		}
		if _, err := b.find(t.Context(), github); !errors.Is(err, row.want) {
			t.Errorf("%q was refused: the book has %v, want %v", row.token, err, row.want)
		}
	}
}

// If the key is lost, the person must log in again. A key that others could read is not
// used.
func TestKeyOfLogins(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	b := openBook(t, dir, c)
	w, s := loggedIn(t, b, nil)
	path := filepath.Join(dir, keyFile)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "other users could read it") {
		t.Errorf("a key that others can read: %v", err)
	}
	if err := b.keep(t.Context(), github, someGrant()); err == nil {
		t.Error("a login was sealed with a key that others can read")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err := s.Token(t.Context())
	wantsLogin(t, err)
	if err := Login(t.Context(), w.config(t, b)); err != nil {
		t.Fatal(err)
	}
	if got, err := call(t.Context(), s); got != "200 hello" || err != nil {
		t.Errorf("after another login: %q, %v", got, err)
	}
}

// A tenant has room for a number of logins, and other tenants cannot use that room.
func TestRoom(t *testing.T) {
	b := openBook(t, "", newClock())
	err := b.kept.Write(t.Context(), func(tx *sql.Tx) error {
		for n := range maxOfTenant {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO logins_all VALUES ('loud', ?, 'u', x'00', 0, 0)", fmt.Sprint(n)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	loud := github
	loud.Tenant = "loud"
	if err := b.keep(t.Context(), loud, someGrant()); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("one more than there is room for: %v", err)
	}
	if _, err := b.find(t.Context(), loud); !errors.Is(err, ErrNone) {
		t.Errorf("it was kept: %v", err)
	}
	if err := b.keep(t.Context(), github, someGrant()); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}
