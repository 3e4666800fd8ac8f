package console

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A code can be used for one login within a minute, and after ten wrong codes nobody can
// log in by a code for a minute: WC3, WC-A14.
func TestCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a access
		try := func(text string) error {
			_, _, err := a.login(text)
			return err
		}
		text, _ := a.code(Person{Name: "ann", Role: Viewer})
		if err := try(text); err != nil {
			t.Error(err)
		}
		if err := try(text); !errors.Is(err, errCode) {
			t.Errorf("used twice: %v", err)
		}
		text, _ = a.code(Person{Name: "ann", Role: Viewer})
		time.Sleep(codeLife)
		if err := try(text); !errors.Is(err, errCode) {
			t.Errorf("after a minute: %v", err)
		}
		text, _ = a.code(Person{Name: "ann", Role: Viewer})
		time.Sleep(codeLife - 1)
		if err := try(text); err != nil {
			t.Errorf("within a minute: %v", err)
		}
		for i := range maxWrong {
			if err := try("guess"); !errors.Is(err, errCode) {
				t.Errorf("guess %d: %v", i, err)
			}
		}
		text, _ = a.code(Person{Name: "ann", Role: Viewer})
		for range 10_000 {
			if err := try("guess"); !errors.Is(err, errLocked) {
				t.Fatal(err)
			}
		}
		if err := try(text); !errors.Is(err, errLocked) {
			t.Errorf("a right code while it is locked: %v", err)
		}
		time.Sleep(lockedFor)
		text, _ = a.code(Person{Name: "ann", Role: Viewer})
		if err := try(text); err != nil {
			t.Errorf("after that: %v", err)
		}
		if err := try(""); !errors.Is(err, errCode) {
			t.Errorf("no code: %v", err)
		}
	})
}

// Over HTTP, each wrong code is refused, and after ten of them a right code is refused too,
// with the time to wait: WC-A14.
func TestGuesses(t *testing.T) {
	g := start(t)
	_, code, _ := strings.Cut(first(g.Link("ann", Viewer)), "#")
	try := func(code string) answered {
		return g.send("POST", "api/v1/login", "", map[string]string{"code": code})
	}
	for i := range maxWrong {
		if got := try("guess"); got.status != http.StatusUnauthorized {
			t.Fatalf("guess %d: %d %s", i, got.status, got.body)
		}
	}
	for _, text := range []string{"guess", code} {
		got := try(text)
		var is refusal
		if err := json.Unmarshal(got.body, &is); err != nil || got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "60" || is.After != 60 {
			t.Errorf("after %d guesses: %d, Retry-After %q, %s", maxWrong, got.status, got.header.Get("Retry-After"), got.body)
		}
	}
}

// A token is valid for twelve hours, or until its person logs out. The numbers of codes and
// tokens are bounded.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a access
		enter := func(name string, role Role) string {
			text, _ := a.code(Person{Name: name, Role: role})
			token, who, err := a.login(text)
			if err != nil || who.Name != name || who.Role != role {
				t.Fatal(who, err)
			}
			return token
		}
		ann, bob := enter("ann", Viewer), enter("bob", Operator)
		if who, ok := a.holder(ann); !ok || who.Name != "ann" || who.Role != Viewer {
			t.Errorf("got %+v, %v", who, ok)
		}
		who, _ := a.holder(bob)
		a.logout(who)
		if _, ok := a.holder(bob); ok {
			t.Error("a token outlives its logout")
		}
		time.Sleep(tokenLife)
		if _, ok := a.holder(ann); ok {
			t.Error("a token outlives its time")
		}
		oldest := enter("ann", Viewer)
		for range maxTokens {
			enter("bob", Viewer)
		}
		if _, ok := a.holder(oldest); ok || len(a.people) != maxTokens {
			t.Errorf("%d tokens hold", len(a.people))
		}
		for range 2 * maxCodes {
			a.code(Person{Name: "ann", Role: Viewer})
		}
		if len(a.codes) != maxCodes {
			t.Errorf("%d codes wait", len(a.codes))
		}
		var other access // as after a restart of the server
		if _, ok := other.holder(enter("ann", Viewer)); ok {
			t.Error("a token is good for another process")
		}
	})
}

// A person who logs in many times ends only their own logins.
func TestLoginsOfOnePerson(t *testing.T) {
	var a access
	list := []Known{{Name: "ann", Role: Operator, Sum: sha256.Sum256([]byte("a"))}, {Name: "bob", Role: Viewer, Sum: sha256.Sum256([]byte("b"))}}
	ann, _, ok := a.loginKnown("a", list)
	if !ok {
		t.Fatal("ann is not let in")
	}
	var last string
	for range 2 * maxTokens {
		last, _, _ = a.loginKnown("b", list)
	}
	if _, ok := a.holder(ann); !ok {
		t.Error("the logins of bob have ended that of ann")
	}
	if _, ok := a.holder(last); !ok || len(a.people) != maxOwn+1 {
		t.Errorf("the last login of bob holds: %t, of %d", ok, len(a.people))
	}
}
